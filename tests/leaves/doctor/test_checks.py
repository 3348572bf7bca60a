"""Every finding of the doctor, from facts of processes that are not real; a real broken cluster is in tests/cli."""

import copy
import os
import time
from dataclasses import replace
from pathlib import Path

import dask
import pytest
import yaml

from dkernel.leaves.doctor.checks import CHECKS, DoctorRequest, diagnose
from dkernel.leaves.doctor.host_facts import probe

WORKERS = ("tcp://10.0.0.1:1", "tcp://10.0.0.2:1")
SOUND = {
    "host": "one", "memory": 64 * 2**30, "memory_limit": 4 * 2**30, "spills": True,
    "local_directory": "/scratch", "local_free": 2**40,
}  # fmt: skip


class Cluster:
    """A client of two workers: what this process is, but for what `change` says of the second."""

    def __init__(self, change=None, workers=WORKERS):
        self.change, self.workers, self.ahead = change or {}, workers, 0.0
        self.scheduler = type("Scheduler", (), {"address": "tcp://10.0.0.1:8786"})

    def run_on_scheduler(self, function, *args):
        return function(*args)

    def run(self, function, *args, on_error):
        assert on_error == "return"
        if function is time.time:
            return {
                name: time.time() + (self.change.get("ahead", 0) if i else 0) for i, name in enumerate(self.workers)
            }
        found = {name: copy.deepcopy(function(*args) | SOUND) for name in self.workers}
        for name in self.workers[1:]:
            if "raises" in self.change:
                found[name] = self.change["raises"]
                continue
            for key, value in self.change.items():
                if key in found[name]:
                    found[name][key] = found[name][key] | value if isinstance(value, dict) else value
        return found


@pytest.fixture
def job(tmp_path):
    return DoctorRequest([__file__], str(tmp_path), shared=True)


def test_nothing_is_wrong_with_a_sound_cluster_and_nothing_stays_behind(job, tmp_path):
    found = diagnose(Cluster(), job)
    assert found.findings == []
    # Dask's defaults are shorter than the run waits, and are no fault.
    with dask.config.set({"distributed.comm.timeouts.connect": 30.0, "distributed.comm.timeouts.tcp": 30.0}):
        assert diagnose(Cluster(), job).findings == []
    assert list(found.processes) == ["client", "scheduler", *WORKERS]
    assert list(tmp_path.iterdir()) == []


FAULTS = {
    "versions": ({"versions": {"numpy": "1.0"}}, ["numpy 1.0 instead of", "Install the same versions"]),
    "write": (
        {"scratch": {"error": "PermissionError: no", "free": None}},
        ["--scratch", "PermissionError"],
    ),
    "shared": ({"missing": "/data/.dkernel-doctor-x"}, ["/data is another folder", "share"]),
    "data": ({"unreadable": ["/data/a.csv", "/data/b.csv"]}, ["/data/a.csv and 1 more", "Mount the data"]),
    "disk": ({"local_free": 1000}, ["free for spilling in /scratch", "--local-directory"]),
    "clock": ({"ahead": 3600}, ["3,600 s ahead", "chrony"]),
    "limits": (
        {"limits": {"distributed.comm.timeouts.tcp": 20.0, "distributed.scheduler.worker-ttl": None}},
        ["timeouts.tcp is 20 s, and a run waits 300 s", "distributed.comm.timeouts.tcp: 300s", "--cluster-timeout"],
    ),
    "workers": ({"raises": ModuleNotFoundError("No module named 'x'")}, ["did not answer", "No module named 'x'"]),
}


@pytest.mark.parametrize("check", FAULTS)
def test_every_fault_is_found_where_it_is(check, job):
    change, words = FAULTS[check]
    found = diagnose(Cluster(change), job).findings
    assert [(finding.check, finding.where) for finding in found] == [(check, WORKERS[1])]
    for word in words:
        assert word in found[0].found + " " + found[0].remedy


def test_there_is_a_fault_for_every_check():
    assert set(FAULTS) | {"memory"} == set(CHECKS)


def test_a_machine_that_promised_more_memory_than_it_has(job):
    change = {"memory": 6 * 2**30}

    class Small(Cluster):
        def run(self, function, *args, on_error):
            found = super().run(function, *args, on_error=on_error)
            return found if function is time.time else {name: facts | change for name, facts in found.items()}

    (finding,) = diagnose(Small(), job).findings
    assert (finding.check, finding.where) == ("memory", "one")
    assert "2 workers may use 8,192 MiB in all" in finding.found


class Elsewhere(Cluster):
    """A second worker that sees no folder of the client."""

    def run(self, function, *args, on_error):
        found = super().run(function, *args, on_error=on_error)
        return found if function is time.time else found | {WORKERS[1]: found[WORKERS[1]] | {"missing": args[2]}}


def test_workers_have_to_share_what_they_write_and_nothing_else(job, tmp_path):
    for place in (tmp_path, tmp_path / "new"):
        (finding,) = diagnose(Elsewhere(), replace(job, scratch=str(place))).findings
        assert (finding.check, finding.where) == ("shared", WORKERS[1])
        assert finding.found.startswith(f"{tmp_path} is another folder")
    assert diagnose(Elsewhere(), replace(job, shared=False)).findings == []


def test_limits_of_a_cluster_are_its_own_configuration(job):
    with dask.config.set({"distributed.scheduler.worker-ttl": "20 s", "distributed.comm.timeouts.tcp": "10s"}):
        found = diagnose(Cluster(), job)
        assert [finding.check for finding in found.findings] == ["limits"] * 6  # of the scheduler and two workers
        assert diagnose(Cluster(), job, patience=10).findings == []


def test_the_settings_that_are_recommended_are_no_fault(job):
    recommended = yaml.safe_load((Path(__file__).parents[3] / "deploy" / "dask.yaml").read_text())
    with dask.config.set(recommended):
        assert diagnose(Cluster(), job).findings == []


def test_no_workers():
    (finding,) = diagnose(Cluster(workers=()), DoctorRequest()).findings
    assert finding.check == "workers"
    assert "dask worker tcp://10.0.0.1:8786" in finding.remedy


def test_a_full_place_is_a_finding_of_the_disk(job):
    change = {"scratch": {"error": None, "free": 10}}
    (finding,) = diagnose(Cluster(change), job).findings
    assert (finding.check, finding.where) == ("disk", WORKERS[1])


def test_the_probe_tells_folders_apart(tmp_path):
    token = tmp_path / "token"
    token.touch()
    found = probe(["numpy", "no-such-package"], str(tmp_path / "made" / "later"), str(token), ["/no"], ["x"])
    assert found["limits"] == {"x": None}
    assert found["versions"]["no-such-package"] == "absent"
    assert found["scratch"] == {"error": None, "free": found["scratch"]["free"]}
    assert (found["missing"], found["unreadable"]) == (None, ["/no"])
    assert found["pid"] == os.getpid()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["token"]
    found = probe([], "/proc", "/no", [], [])
    assert found["scratch"]["error"] is not None
    assert found["missing"] == "/no"
