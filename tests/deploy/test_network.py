"""Machines of one's own: a scheduler, two workers and the client in four network namespaces, one cut off meanwhile.

Each namespace is a host with an address of its own; a fifth holds the switch between them. Nothing leaves them.
"""

import os
import shutil
from types import SimpleNamespace

import pytest

from tests.deploy.places import DEPLOY
from tests.deploy.processes import TRAIN, Group, bin_folder, environment, run, wait_until, write_data

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
PASSES = ["--passes", "6"]
HOSTS = {"scheduler": 1, "one": 2, "two": 3, "client": 4}


def ip(*arguments):
    return run("ip", *arguments)


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
        done = run(*self.inside(one), "python3", "-c", script)
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
def lan(network, tmp_path, request):
    """The cluster in its namespaces, with the settings that deploy/ recommends but for the patience of a test."""
    secure = request.param == "tls"
    config = tmp_path / "config"
    config.mkdir()
    shutil.copy(DEPLOY / "dask.yaml", config)
    certs = tmp_path / "certs"
    made = run("bash", DEPLOY / "tls/make-certs.sh", certs, *map(network.address, HOSTS))
    assert made.returncode == 0, made.stderr
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
        mine = ["--tls-ca-file", certs / "ca.pem", "--tls-cert", certs / "client.pem"] if secure else []
        yield SimpleNamespace(group=group, network=network, address=address, tls=mine)


@pytest.mark.parametrize("lan", ["tcp", "tls"], indirect=True)
def test_a_worker_cut_off_in_a_round_changes_no_byte(lan):
    group, network = lan.group, lan.network
    assert network.reaches("client", "two")
    command = [*TRAIN, *PASSES, "--out", "job.model", "--scheduler", lan.address, "--progress", "json", *lan.tls]
    job = group.start("job", command, prefix=network.inside("client"))
    wait_until(lambda: '"phase": "pass 1/' in group.log("job"), "the first pass", alive=[job])
    network.cut("two")
    assert not network.reaches("client", "two")
    wait_until(lambda: "Remove worker" in group.log("scheduler"), "the scheduler to notice")
    assert job.wait(timeout=300) == 0, group.log("job")
    network.mend("two")
    assert (group.folder / "job.model").read_bytes() == group.alone(*PASSES)
