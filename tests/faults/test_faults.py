"""Twelve faults at three points of three learners: the model has the bytes of the undisturbed one, and nothing hangs.

Here are those of workers and disks. The ends of a scheduler and of a client are in test_ends.py.
"""

import threading

import pytest

from tests.faults import harness
from tests.faults.conftest import PATIENCE

pytestmark = pytest.mark.cluster

FAULTS = {
    "F1-kill": "kill",
    "F2-only-copy": None,
    "F3-kill-all": "kill_all",
    "F4-retire": "retire",
    "F5-memory": "memory",
    "F6-late-joiner": "wait_for_another",
    "F7-stop": "stop",
    "F8-abort": "abort",
    "F11-no-space": "no_space",
    "F12-read-error": "no_read",
}


def _grid():
    """All of them; those that always run have each fault once, at changing points of changing learners.

    At the end nothing is read: so few rows are judged where the client is.
    """
    for i, fault in enumerate(FAULTS):
        for j, point in enumerate(harness.POINTS):
            if (fault, point) == ("F12-read-error", "last"):
                continue
            for k, learner in enumerate(harness.LEARNERS):
                chosen = j == i % 3 and k == (i // 3 + i) % 3
                marks = () if chosen else (pytest.mark.slow,)
                yield pytest.param(fault, point, learner, marks=marks, id=f"{fault}-{point}-{learner}")


def while_it_runs(event, act):
    """`act` in another thread as soon as the event is there; a test that ends without it has failed elsewhere."""
    threading.Thread(target=lambda: (harness.wait_until(event, PATIENCE), act()), daemon=True).start()


def let_another_join(plan, executor):
    executor.client.cluster.scale(3)
    executor.client.wait_for_workers(3, timeout=PATIENCE)
    (plan.folder / "joined").touch()


def _with_bad_reads(plan, point, fit, monkeypatch):
    """The third file's first reading fails twice, or its second, in the pass."""
    plan.set("no_read", r"2\.npy", kind="read", times=2, first=1 if point == "survey" else 2)
    with harness.read_again(monkeypatch):
        return fit()


@pytest.mark.score("faults")
@pytest.mark.parametrize(("fault", "point", "learner"), list(_grid()))
def test_the_model_has_the_same_bytes(
    fault, point, learner, settled, data, serial, undisturbed, tmp_path, monkeypatch, record_property
):
    plan, executor = settled
    limit = max(3 * undisturbed, harness.LEAST_LIMIT)
    record_property("limit", limit)
    before = plan.workers

    def fit():
        return harness.digest(learner, data, executor, tmp_path)

    if fault == "F2-only-copy":
        with harness.only_copy_lost(point, monkeypatch) as killed:
            assert harness.within(limit, fit) == serial[learner]
        assert len(killed) == 1
        return
    if fault == "F12-read-error":
        assert harness.within(limit, lambda: _with_bad_reads(plan, point, fit, monkeypatch)) == serial[learner]
        assert plan.fired == 2
        return
    times = 2 if fault == "F11-no-space" else 1
    plan.set(FAULTS[fault], harness.POINTS[point], times=times)
    if fault == "F6-late-joiner":
        while_it_runs((plan.folder / "begun").exists, lambda: let_another_join(plan, executor))
    if fault == "F7-stop":
        scheduler = executor.client.cluster.scheduler
        while_it_runs((plan.folder / "fired-0").exists, lambda: harness.declare_dead(scheduler))
    assert harness.within(limit, fit) == serial[learner]
    assert plan.fired == times
    if fault in ("F1-kill", "F3-kill-all", "F5-memory", "F6-late-joiner", "F7-stop"):
        harness.wait_until(lambda: plan.workers > before, PATIENCE)
    if fault == "F4-retire":  # a fit may be done before the worker has left; it would leave during the next test
        harness.wait_until(lambda: harness.ended(executor.client.cluster), PATIENCE)
