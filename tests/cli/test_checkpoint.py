"""`dkernel train --checkpoint`: stopped by a signal or a fault, and the same command again."""

import errno
import json
import signal
import subprocess
import sys
import time
from functools import cache

import pytest

from dkernel.errors import ClusterError, DataError
from dkernel.leaves.cells import stage as cell_stage
from dkernel.model import model_file
from dkernel.solvers import sgd
from dkernel.streaming.survey import Survey
from dkernel.training import checkpoint as checkpoints
from dkernel.training.grids import stage as grid_stage
from tests.cli.conftest import FEATURES
from tests.processes import environment

# The command, waiting for a signal in the middle of its eighth round.
WAITING = """
import pathlib, sys, time
from dkernel.cli import main; from dkernel.cli import exit_codes as exits
from dkernel.solvers import sgd as passes
a_round = passes.PSGDSolver._round
def wait(self, state):
    if state.done == 7:
        try:
            pathlib.Path("ready").touch()
            time.sleep(300)
        finally:
            {ending}
    return a_round(self, state)
passes.PSGDSolver._round = wait
{before}
main()
"""


def stopped(folder, number, *args, ending="pass", before=""):
    """Exit code, stderr and seconds from the signal to the end, of a command that gets it in its eighth round."""
    (folder / "waiting.py").write_text(WAITING.format(ending=ending, before=before))
    (folder / "ready").unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "waiting.py", *map(str, args)],
        cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while not (folder / "ready").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(number)
        sent = time.monotonic()
        _, stderr = process.communicate(timeout=100)
    finally:
        process.kill()
    assert "Traceback" not in stderr
    return process.returncode, stderr, time.monotonic() - sent


@pytest.mark.parametrize("limit", [100, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGTERM, 75, id="SIGTERM"),
        pytest.param(signal.SIGINT, 130, id="SIGINT", marks=pytest.mark.slow),
    ],
)
def test_a_signal_and_the_same_command_again(number, code, limit, data, model, run_to, tmp_path):
    args = ["train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", *FEATURES, "--checkpoint", "c"]
    found, stderr, seconds = stopped(tmp_path, number, *args)
    assert found == code
    assert seconds < limit
    said = " ".join(stderr.split())
    assert f"stopped by {number.name}; the checkpoint in c holds the progress. To continue: " in said
    assert "--out" in stderr
    assert stderr.rstrip().endswith("--checkpoint c --resume")
    assert not (tmp_path / "m").exists()
    assert json.loads((tmp_path / "m.run.json").read_text())["exit_code"] == code
    assert sorted(path.name for path in (tmp_path / "c").glob("*rounds*")) == [
        "checkpoint-rounds-00000004.safetensors",
        "checkpoint-rounds-00000007.safetensors",
    ]
    # A preempted job's command says --resume from the beginning.
    args[-1] = tmp_path / "c"
    result = run_to(*args, "--resume", "--progress", "log")
    assert "resumed from pass 1 round 7/30" in result.stderr
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    assert json.loads((tmp_path / "m.run.json").read_text())["resumed_from"] == "pass 1 round 7/30"


def test_a_process_that_does_not_end_is_ended(data, tmp_path):
    args = ["train", data / "train.parquet", "--label", "y", "--out", "m", *FEATURES, "--checkpoint", "c"]
    code, stderr, _ = stopped(tmp_path, signal.SIGTERM, *args, ending="time.sleep(300)", before="exits.GRACE = 0.5")
    assert code == 75
    assert "Continue with --resume" in stderr
    assert (tmp_path / "c" / "checkpoint-rounds-00000004.safetensors").exists()


def full(*_):
    raise OSError(28, "No space left on device", "m")


# What fails -> the module or class, its function, and the words before what to do.
FULL_OR_LOST = {
    "scheduler": (sgd.PSGDSolver, "_round", "The scheduler at tcp://host:8786 is gone. The checkpoint in"),
    "checkpoint": (checkpoints, "write_tensors", "no room to write"),
    "model": (model_file, "write_tensors", "no room to write"),
}


@pytest.mark.parametrize("what", FULL_OR_LOST)
def test_what_comes_to_its_end_can_be_resumed(what, run_to, data, model, tmp_path, monkeypatch):
    place, name, words = FULL_OR_LOST[what]
    a_round = sgd.PSGDSolver._round

    def lost(self, state):
        if state.done == 7:
            raise ClusterError("The scheduler at tcp://host:8786 is gone.")
        return a_round(self, state)

    args = ["train", data / "train.parquet", "--label", "y", "--out", tmp_path / "m", *FEATURES]
    args += ["--checkpoint", tmp_path / "c", "--resume"]
    monkeypatch.setattr(sys, "argv", ["dkernel", *map(str, args)])
    with monkeypatch.context() as patch:
        patch.setattr(place, name, lost if what == "scheduler" else full)
        told = run_to(*args, code=75).stderr
    assert f"nothing in {tmp_path / 'c'} yet, starting from scratch" in told
    assert words in told
    assert told.rstrip().endswith(f"--checkpoint {tmp_path / 'c'} --resume")
    assert not (tmp_path / "m").exists()
    resumed = json.loads(run_to(*args, "--json").stdout).get("resumed_from")
    assert resumed == "pass 1 round 7/30" or what != "scheduler"
    assert (tmp_path / "m").read_bytes() == model.read_bytes()


def test_dry_run_states_the_disk_and_leaves_no_trace(run_to, data, tmp_path):
    args = ["train", data / "train.parquet", "--label", "y", *FEATURES, "--checkpoint", tmp_path / "c"]
    assert json.loads(run_to(*args, "--dry-run", "--json").stdout)["checkpoint_bytes"] > 100_000
    assert "with --checkpoint" in run_to(*args, "--dry-run").stdout
    assert list(tmp_path.iterdir()) == []


FULL, ALONE = OSError(errno.ENOSPC, "No space left on device", "rows"), ClusterError("There was no worker.")
FAULTS = [
    pytest.param(cell_stage, FULL, 75, marks=pytest.mark.slow, id="full disk"),
    pytest.param(cell_stage, ALONE, 75, marks=pytest.mark.slow, id="no workers"),
    pytest.param(cell_stage, DataError("the file changed"), 65, id="other data"),
    pytest.param(grid_stage, MemoryError(), 75, id="memory"),
]


@pytest.fixture(scope="module")
def undisturbed(run_to, stripes, tmp_path_factory):
    """The command of a fit with a local stage, and the bytes of its model when nothing fails."""
    folder = tmp_path_factory.mktemp("undisturbed")

    @cache
    def of(local):
        job = ["train", stripes, "--label", "y", "--kernel", "gaussian", "--gamma", "1", "--metric", "identity"]
        job += ["--n-components", "32", "--alpha", "1e-4", "--solver", "psgd", "--local", local, "--baselines", "off"]
        run_to(*job, "--out", folder / local)
        return job, (folder / local).read_bytes()

    return of


@pytest.mark.parametrize(("module", "error", "code"), FAULTS)
def test_a_local_stage_that_fails_keeps_the_stages_before_it(
    module, error, code, run_to, undisturbed, tmp_path, monkeypatch
):
    local = "cells" if module is cell_stage else "grids"
    job, whole = undisturbed(local)
    job = [*job, "--out", tmp_path / "m", "--checkpoint", tmp_path / "kept", "--resume"]

    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, f"fit_{local}", fail)
        told = run_to(*job, code=code).stderr
    assert ("To continue: " in told) == (code == 75)
    assert (f"The checkpoint in {tmp_path / 'kept'} holds the progress." in told) == (code == 75)
    monkeypatch.setattr(Survey, "step", fail)
    monkeypatch.setattr(sgd.PSGDSolver, "_round", fail)
    run_to(*job)
    assert (tmp_path / "m").read_bytes() == whole


def test_a_run_that_ends_before_anything_is_saved_says_so(run_to, stripes, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error", "rows")

    monkeypatch.setattr(Survey, "step", fail)
    told = run_to(
        *("train", stripes, "--label", "y", "--out", tmp_path / "m", "--checkpoint", tmp_path / "kept"), code=75
    ).stderr
    assert f"Nothing is saved in {tmp_path / 'kept'} yet. To continue: " in told
