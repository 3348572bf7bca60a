"""Machines of one's own: a scheduler, two workers and the client in four network namespaces, one cut off meanwhile.

Each namespace is a host with an address of its own; a fifth holds the switch between them. Nothing leaves them.
"""

import json
import os
import shutil
import subprocess
import time
from types import SimpleNamespace

import pytest

from tests.deploy.places import DEPLOY
from tests.deploy.processes import RECIPE, Group, bin_folder, environment, wait_until, write_data

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
HOSTS = {"scheduler": 1, "one": 2, "two": 3, "client": 4}


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False, timeout=120)


class Network:
    """A switch and its hosts; `cut` takes a host's cable out, `mend` puts it in again."""

    def __init__(self):
        self.prefix = f"dk{os.getpid()}"
        self.switch = f"{self.prefix}-switch"

    def name(self, host):
        return f"{self.prefix}-{host}"

    def address(self, host):
        return f"10.231.7.{HOSTS[host]}"

    def __enter__(self):
        self._must("netns", "add", self.switch)
        self._must("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        self._must("-n", self.switch, "link", "set", "bridge", "up")
        for host, number in HOSTS.items():
            name = self.name(host)
            self._must("netns", "add", name)
            self._must(
                "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", self.switch
            )
            self._must("-n", self.switch, "link", "set", f"port{number}", "master", "bridge", "up")
            self._must("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                self._must("-n", name, "link", "set", link, "up")
        return self

    def __exit__(self, *_):
        for host in (*HOSTS, "switch"):
            ip("netns", "del", self.name(host))

    def _must(self, *arguments):
        done = ip(*arguments)
        if done.returncode:
            self.__exit__()
            pytest.skip(f"no network namespaces here: ip {' '.join(arguments)}: {done.stderr.strip()}")

    def inside(self, host):
        """What runs a command there."""
        return ["ip", "netns", "exec", self.name(host)]

    def cut(self, host):
        assert ip("-n", self.switch, "link", "set", f"port{HOSTS[host]}", "down").returncode == 0

    def mend(self, host):
        assert ip("-n", self.switch, "link", "set", f"port{HOSTS[host]}", "up").returncode == 0

    def reaches(self, one, other):
        """Whether a packet comes through."""
        script = f"import socket; socket.create_connection(('{self.address(other)}', 9), timeout=3)"
        done = subprocess.run(
            [*self.inside(one), "python3", "-c", script], capture_output=True, text=True, check=False, timeout=120
        )
        return "Connection refused" in done.stderr  # a machine that answers, without such a service


@pytest.fixture
def network():
    if shutil.which("ip") is None:
        pytest.skip("no network namespaces here: iproute2 is not installed")
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    with Network() as network:
        yield network


@pytest.fixture
def story(tmp_path):
    """A log of what happened and when, printed at the end."""
    begin, lines = time.monotonic(), []

    def tell(text):
        lines.append(f"{time.monotonic() - begin:7.2f} s  {text}")

    yield tell
    (tmp_path / "story.log").write_text("\n".join(lines) + "\n")
    print("\n" + "\n".join(lines))


@pytest.fixture
def lan(network, tmp_path, request, story):
    """The cluster in its namespaces, with the settings that deploy/ recommends but for the patience of a test."""
    secure = request.param == "tls"
    config = tmp_path / "config"
    config.mkdir()
    shutil.copy(DEPLOY / "dask.yaml", config)
    certs = tmp_path / "certs"
    for name in ("certs", "foreign"):
        addresses = [network.address(host) for host in HOSTS]
        subprocess.run(
            ["bash", DEPLOY / "tls/make-certs.sh", tmp_path / name, *addresses], check=True, capture_output=True
        )
    tls = ["--tls-ca-file", certs / "ca.pem", "--tls-cert", certs / "cluster.pem", "--tls-key", certs / "cluster.pem"]
    tls = tls if secure else []
    quick = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s"}
    env = environment(bin_folder(tmp_path / "bin"), DASK_CONFIG=config, **quick)
    write_data(tmp_path / "train", files=8, rows=8192)
    address = f"{'tls' if secure else 'tcp'}://{network.address('scheduler')}:8786"
    with Group(tmp_path, env) as group:
        scheduler = ["dask", "scheduler", "--host", address.rsplit(":", 1)[0], "--no-dashboard", *tls]
        group.start("scheduler", scheduler, prefix=network.inside("scheduler"))
        for host in ("one", "two"):
            own = f"{address.split('/')[0]}//{network.address(host)}"
            options = ["--host", own, "--nthreads", 1, "--no-dashboard", "--memory-limit", 0]
            group.start(host, ["dask", "worker", address, *options, *tls], prefix=network.inside(host))
        wait_until(lambda: group.log("scheduler").count("Register worker") == 2, "two workers", alive=group.running)
        for host in HOSTS:
            story(f"{host:<9} is {network.address(host)} in the namespace {network.name(host)}")
        story(f"scheduler answers at {address}, two workers have come")
        mine = ["--tls-ca-file", certs / "ca.pem", "--tls-cert", certs / "client.pem"] if secure else []
        yield SimpleNamespace(group=group, network=network, address=address, tls=mine, folder=tmp_path, story=story)


def command(name, *options):
    recipe = [*RECIPE, "--passes", "6"]
    return ["dkernel", "train", "train", "--label", "label", "--out", f"{name}.model", *recipe, *options]


@pytest.mark.parametrize("lan", ["tcp", "tls"], indirect=True)
def test_a_worker_cut_off_in_a_round_changes_no_byte(lan):
    group, network = lan.group, lan.network
    assert network.reaches("client", "two")
    options = ["--scheduler", lan.address, "--progress", "json", *lan.tls]
    job = group.start("job", command("job", *options), prefix=network.inside("client"))
    wait_until(lambda: '"phase": "pass 1/' in group.log("job"), "the first pass", alive=[job])
    lan.story("the client trains: its first pass has begun")
    network.cut("two")
    lan.story("the cable of worker two is out")
    assert not network.reaches("client", "two")
    lan.story("worker two cannot be reached")
    wait_until(lambda: "Remove worker" in group.log("scheduler"), "the scheduler to notice")
    lan.story("the scheduler has given worker two up")
    assert job.wait(timeout=300) == 0, group.log("job")
    lan.story("the training has ended: exit code 0")
    network.mend("two")
    group.run("alone", command("alone"), timeout=300)
    assert (lan.folder / "job.model").read_bytes() == (lan.folder / "alone.model").read_bytes()
    lan.story("the model is that of one process on one machine, byte for byte")


@pytest.mark.parametrize("lan", ["tls"], indirect=True)
def test_three_of_three_strangers_are_refused_from_another_machine(lan):
    plain = lan.address.replace("tls://", "tcp://")
    ours, foreign = lan.folder / "certs", lan.folder / "foreign"
    strangers = {
        "without": [lan.address],
        "foreign": [lan.address, "--tls-ca-file", ours / "ca.pem", "--tls-cert", foreign / "client.pem"],
        "plain": [plain],
    }
    for name, options in strangers.items():
        wanted = command(name, "--scheduler", *options, "--json")
        lan.group.run(name, wanted, expect=75, prefix=lan.network.inside("client"))
        told = json.loads(lan.group.log(name).splitlines()[-1])["error"]["message"]
        assert not (lan.folder / f"{name}.model").exists()
        lan.story(f"refused, {name}: {told.split('. ')[0]}")
    lan.group.run("known", command("known", "--scheduler", lan.address, *lan.tls), prefix=lan.network.inside("client"))
    lan.story("taken: the client with a certificate of the cluster's authority")
