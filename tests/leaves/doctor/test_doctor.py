"""`dkernel doctor` as a person runs it: alone, and on a real cluster that somebody broke in six ways."""

import json
import sys

import click
import pytest

from dkernel.cli.train import train_command
from dkernel.leaves.doctor.doctor import doctor_command
from tests.deploy.processes import Group, wait_until
from tests.processes import environment

BROKEN = """
import time


def dask_setup(worker):
    import dkernel.version

    dkernel.version.__version__ = "0.0.1"
    right = time.time
    time.time = lambda: right() - 7200
"""


def test_a_sound_machine(run_to, data, tmp_path):
    result = run_to(
        "doctor", data / "train.parquet", "--label", "y", "--exclude", "price,id,note", "--out", tmp_path / "m"
    )
    assert "No problem found" in result.stdout
    assert "client" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_not_there(run_to, tmp_path):
    found = json.loads(run_to("doctor", tmp_path / "none.csv", "--label", "y", "--json", code=1).stdout)
    assert not found["ok"]
    assert [(finding["check"], finding["where"]) for finding in found["findings"]] == [("data", "client")]
    assert "none.csv" in found["findings"][0]["found"]


def test_no_scheduler_is_a_finding(run_to, monkeypatch):
    monkeypatch.setattr("dkernel.streaming.execution.connect.CONNECT_TIMEOUT", 0.2)
    result = run_to("doctor", "--scheduler", "tcp://127.0.0.1:1", code=1)
    assert "No Dask scheduler answers" in result.stdout
    assert "dask scheduler" in result.stdout


def test_it_takes_every_option_of_train(run_to):
    assert {p.name for p in doctor_command.params if isinstance(p, click.Option)} == {
        p.name for p in train_command.params if isinstance(p, click.Option)
    }
    text = run_to("train", "x", "--label", "y", "--seed", "4", "--print-config").stdout
    assert "seed = 4" in text


@pytest.mark.cluster
def test_a_broken_cluster_is_named_fault_by_fault(run, data, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    worker = ["worker", "--scheduler-file", "s.json", "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    sound = [*worker, "--memory-limit", "4GiB", "--local-directory", str(tmp_path), "--name", "sound"]
    broken = [*worker, "--memory-limit", "1GiB", "--preload", "broken.py"]
    scheduler = ["scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", "s.json"]
    with Group(tmp_path, environment()) as group:
        for name, words in (("scheduler", scheduler), ("sound", sound), ("broken", broken)):
            group.start(name, [sys.executable, "-m", "dask", *words])
        for name in ("sound", "broken"):
            wait_until(lambda name=name: "Starting established connection" in group.log(name), name)
        job = [data / "train.parquet", "--label", "y", "--exclude", "price,id,note"]
        job += ["--scratch", "/proc", "--scheduler-file", tmp_path / "s.json"]
        done, for_people = run("doctor", *job, "--json"), run("doctor", *job)
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)
    assert len(found["processes"]) == 4
    (bad,) = [name for name, facts in found["processes"].items() if facts["versions"]["dkernel"] == "0.0.1"]
    checks = {(finding["check"], finding["where"]) for finding in found["findings"]}
    assert {("versions", bad), ("write", bad), ("clock", bad)} <= checks
    # And nothing of the sound worker but the place that nobody can write to.
    assert {check for check, where in checks if where != bad} <= {"write", "memory"}
    assert for_people.exit_code == 1
    for words in ("0.0.1 !", "dkernel 0.0.1 instead of", "7,200 s behind", "--scratch /proc"):
        assert words in for_people.stdout
    assert for_people.stdout.count("   -> ") == len(found["findings"])
