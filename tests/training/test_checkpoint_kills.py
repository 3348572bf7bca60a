"""The client killed (SIGKILL) at every step of a fit, and run again: the same bytes, and little work twice."""

import json
import subprocess
import sys

import pytest

from dkernel.training.checkpoint import EVERY
from tests.processes import ROOT, environment
from tests.training.fits import ROUNDS

SOME = ["prepare-1", "fsync-6", "piece-10", "reading-4", "unlink-6"]


def killed(folder, *steps):
    command = [sys.executable, "-m", "tests.training.train_kills", str(folder), *steps]
    kept = {"cwd": ROOT, "env": environment(), "capture_output": True, "text": True, "timeout": 1800}
    done = subprocess.run(command, **kept, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def hold(found, kills):
    for step, came in found["kills"].items():
        assert came["status"] == -9, step
        assert came["again"] == 0, step
        assert came["same"], step
        assert came["left"] == [".lock", "checkpoint-result.safetensors"], step
        # Every piece once, and those of the rounds that no checkpoint held yet twice: counted on disk.
        assert came["exact"], step
        assert came["pieces"] == found["pieces"], step
        assert came["rounds_again"] <= EVERY, step
    assert len(found["kills"]) == kills


def test_killed_at_some_steps_and_run_again(tmp_path):
    hold(killed(tmp_path, *SOME), len(SOME))


@pytest.mark.slow
@pytest.mark.score("resume")
def test_killed_at_every_step_and_run_again(tmp_path, record_property):
    found = killed(tmp_path)
    record_property("score", f"{sum(came['same'] for came in found['kills'].values())}/{len(found['steps'])}")
    hold(found, len(found["steps"]))
    assert sum(step.startswith("round-") for step in found["steps"]) == ROUNDS
    assert max(came["rounds_again"] for came in found["kills"].values()) == EVERY
