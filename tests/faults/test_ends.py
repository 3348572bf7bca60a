"""The scheduler or the client killed, at three points of three learners: a typed end, and the same bytes on resuming.

And the end of a run that went well: the process is gone although no worker answers any more.
"""

import time

import pytest

from tests.faults import harness
from tests.faults.processes import PATIENCE, Command, Hand, options_for

pytestmark = pytest.mark.cluster


def _grid(fault, turn):
    for j, point in enumerate(harness.POINTS):
        for k, learner in enumerate(harness.LEARNERS):
            marks = () if (j, k) == turn else (pytest.mark.slow,)
            yield pytest.param(point, learner, marks=marks, id=f"{fault}-{point}-{learner}")


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return harness.Plan(tmp_path_factory.mktemp("plan"))


@pytest.fixture(scope="module")
def reference(plan, data, tmp_path_factory):
    """learner -> bytes that the command writes in one go, on threads, and the seconds that it takes."""
    folder, known = tmp_path_factory.mktemp("reference"), {}

    def of(learner):
        if learner not in known:
            out, began = folder / f"{learner}.safetensors", time.monotonic()
            assert Command(plan, *options_for(learner, data), "--out", out).end(PATIENCE) == (0, "")
            known[learner] = harness.sha256(out), time.monotonic() - began
        return known[learner]

    return of


def begin(plan, hand, learner, data, place, *more, module="dkernel"):
    words = [*options_for(learner, data), "--scheduler-file", hand.file, "--out", place / "model.safetensors"]
    return Command(plan, *words, "--checkpoint", place / "kept", *more, module=module)


def name_victim(plan, process):
    (plan.folder / "victim.new").write_text(str(process.pid))
    (plan.folder / "victim.new").rename(plan.folder / "victim")


@pytest.mark.score("faults")
@pytest.mark.parametrize(("point", "learner"), list(_grid("F9-scheduler", (1, 0))))
def test_a_killed_scheduler(point, learner, plan, reference, data, tmp_path, record_property):
    digest, seconds = reference(learner)
    with Hand(tmp_path, plan) as hand:
        limit = max(3 * (hand.seconds + seconds), harness.LEAST_LIMIT)
        record_property("limit", 2 * limit)  # two runs
        plan.set("kill_other", harness.POINTS[point])
        name_victim(plan, hand.scheduler)
        status, errors = begin(plan, hand, learner, data, tmp_path, "--cluster-timeout", "6").end(limit)
    assert (status, plan.fired) == (75, 1), errors
    assert "tcp://127.0.0.1" in errors
    assert "run the same command again" in errors.lower()
    assert "Traceback" not in errors
    assert not (tmp_path / "model.safetensors").exists()
    plan.clear()
    with Hand(tmp_path, plan) as hand:
        status, errors = begin(plan, hand, learner, data, tmp_path, "--resume").end(limit)
    assert status == 0, errors
    assert "Traceback" not in errors
    assert harness.sha256(tmp_path / "model.safetensors") == digest


@pytest.mark.score("faults")
@pytest.mark.parametrize(("point", "learner"), list(_grid("F10-client", (2, 2))))
def test_a_killed_client(point, learner, plan, reference, data, tmp_path, record_property):
    digest, seconds = reference(learner)
    with Hand(tmp_path, plan) as hand:
        limit = max(3 * (hand.seconds + seconds), harness.LEAST_LIMIT)
        record_property("limit", 2 * limit)
        plan.set("kill_other", harness.POINTS[point])
        command = begin(plan, hand, learner, data, tmp_path)
        name_victim(plan, command.process)
        assert command.end(limit) == (-9, "")
        assert plan.fired == 1
        assert not (tmp_path / "model.safetensors").exists()
        plan.clear()
        status, errors = begin(plan, hand, learner, data, tmp_path, "--resume").end(limit)
        assert status == 0, errors
        assert harness.sha256(tmp_path / "model.safetensors") == digest


@pytest.mark.parametrize(
    "place", [pytest.param("--workers", id="own"), pytest.param("--scheduler-file", marks=pytest.mark.slow, id="hand")]
)
def test_a_run_that_is_done_ends_though_every_worker_is_asleep(place, plan, data, tmp_path, monkeypatch):
    plan.clear()
    for known in (plan.folder / "workers").iterdir():
        known.unlink()
    words = [*options_for("fourier-squared", data), "--out", tmp_path / "model.safetensors"]
    if place == "--workers":
        monkeypatch.setenv("DASK_DISTRIBUTED__WORKER__PRELOAD", '["tests.faults.preload"]')
        ended = Command(plan, *words, "--workers", "1", module="tests.faults.asleep").end(PATIENCE)
        gone = time.time()
    else:
        with Hand(tmp_path, plan) as hand:
            ended = Command(plan, *words, "--scheduler-file", hand.file, module="tests.faults.asleep").end(PATIENCE)
            gone = time.time()
    assert ended == (0, "")
    assert gone - float((plan.folder / "committed").read_text()) <= 60
    assert (tmp_path / "model.safetensors").exists()
