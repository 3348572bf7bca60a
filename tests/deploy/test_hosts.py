"""Machines that ssh reaches, by a stand-in for ssh that is a shell; systemd's units; `again.sh`."""

import configparser
import re
import shlex
import signal
import subprocess

import pytest

from tests.deploy.places import DEPLOY, refusal
from tests.deploy.processes import (
    PATIENCE,
    TRAIN,
    Group,
    bin_folder,
    environment,
    free_port,
    run,
    wait_until,
    write_data,
)

UNITS = ["dask-scheduler.service", "dask-worker.service", "dkernel-train.service"]
CHECKED = ["again.sh", "hosts/cluster.sh", "hosts/hosts.txt", *(f"hosts/{unit}" for unit in UNITS)]

# The machine named by the first argument is this one, in a home of its own.
SSH = """#!/bin/sh
host="$1"; shift
echo "$host" >>"{folder}/reached"
mkdir -p "{folder}/home-$host" && cd "{folder}/home-$host" && exec sh -c "$*"
"""


@pytest.mark.cluster
@pytest.mark.slow
def test_a_cluster_by_ssh_starts_trains_and_stops(tmp_path):
    bin = bin_folder(tmp_path / "bin", {"reach": SSH.format(folder=tmp_path)})
    write_data(tmp_path / "train", files=2)
    (tmp_path / "hosts").write_text("# ours\n127.0.0.1\n\n127.0.0.2\n")
    port = free_port()
    env = environment(bin, DKERNEL_SSH="reach", DKERNEL_PORT=port, DKERNEL_NWORKERS=1, DKERNEL_MEMORY=0)
    script = [DEPLOY / "hosts/cluster.sh"]
    with Group(tmp_path, env) as group:
        try:
            group.run("start", [*script, "start", "hosts"])
            address = group.log("start").strip()
            assert address == f"tcp://127.0.0.1:{port}"
            again = [DEPLOY / "again.sh", *TRAIN, "--out", "m", "--scheduler", address]
            group.run("train", [*again, "--checkpoint", "run", "--resume"])
            assert (tmp_path / "m").read_bytes() == group.alone()
            pids = [int(path.read_text()) for path in tmp_path.glob("home-*/.dkernel-cluster-*/*.pid")]
            assert len(pids) == 3
        finally:
            group.run("stop", [*script, "stop", "hosts"])
        wait_until(lambda: not any(alive(pid) for pid in pids), "the end of what was started")
        group.run("stop", [*script, "stop", "hosts"])
    assert set((tmp_path / "reached").read_text().split()) == {"127.0.0.1", "127.0.0.2"}


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["start"], 2), (["begin", "hosts"], 2), (["start", "none"], 1)]
)
def test_the_script_refuses_what_it_does_not_know(arguments, code, tmp_path):
    (tmp_path / "hosts").write_text("node\n")
    (tmp_path / "none").write_text("# nobody\n")
    done = run("bash", DEPLOY / "hosts/cluster.sh", *arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr


def test_the_list_of_hosts_is_one_name_a_line():
    lines = (DEPLOY / "hosts/hosts.txt").read_text().splitlines()
    assert len(lines) >= 2
    assert all(re.fullmatch(r"[a-z0-9.-]+", line) for line in lines)


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str
    parser.read(DEPLOY / "hosts" / name)
    return parser


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_runs_a_command_and_starts_it_again(name):
    service = unit(name)["Service"]
    assert refusal(shlex.split(service["ExecStart"])) == ""
    assert service["Restart"] in ("always", "on-failure")
    assert service["User"] != "root"


def test_the_training_is_begun_again_but_not_after_a_mistake():
    service = unit("dkernel-train.service")["Service"]
    assert {"--checkpoint", "--resume"} <= set(shlex.split(service["ExecStart"]))
    assert service["RestartPreventExitStatus"].split() == ["2", "65"]
    assert int(service["TimeoutStopSec"]) > 10


def again(tmp_path, script, **env):
    command = ["bash", DEPLOY / "again.sh", "bash", "-c", script]
    return subprocess.Popen(command, cwd=tmp_path, env=environment(DKERNEL_PAUSE="0", **env), stderr=subprocess.DEVNULL)


@pytest.mark.parametrize(("script", "code", "runs"), [
    ("echo >>n; exit 0", 0, 1),
    ("echo >>n; exit 65", 65, 1),
    ("echo >>n; test $(wc -l <n) -ge 3 || exit 75", 0, 3),
    ("echo >>n; exit 75", 75, 4),
])  # fmt: skip
def test_again_runs_for_as_long_as_it_can_go_on(script, code, runs, tmp_path):
    assert again(tmp_path, script, DKERNEL_TRIES="4").wait(timeout=PATIENCE) == code
    assert len((tmp_path / "n").read_text().splitlines()) == runs


def test_again_passes_a_stop_on_and_ends_with_it(tmp_path):
    process = again(tmp_path, "trap 'echo stopped >>n; exit 75' TERM; echo begun >>n; while :; do sleep 0.05; done")
    wait_until(lambda: (tmp_path / "n").exists(), "the command", alive=[process])
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 75
    assert (tmp_path / "n").read_text().split() == ["begun", "stopped"]


def test_again_passes_on_a_stop_that_comes_while_the_command_starts(tmp_path):
    # The child is the quicker of the two, now and then: its parent does not know it yet.
    for _ in range(20):
        assert again(tmp_path, "kill -TERM $PPID; exec sleep 1000").wait(timeout=PATIENCE) == 128 + signal.SIGTERM
