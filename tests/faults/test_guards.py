"""What the promises lean on: rework that is counted, tasks that can be made again, joiners that are refused, blame."""

from collections import Counter

import pytest

from dkernel.errors import ClusterError, DKernelWarning
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.cluster import ClusterExecutor
from tests.faults import harness
from tests.faults.conftest import PATIENCE

pytestmark = pytest.mark.cluster


def known_tasks(dask_scheduler):
    """How many there are, and those that the scheduler could not make again."""
    tasks = dask_scheduler.tasks
    return len(tasks), [key for key, task in tasks.items() if task.run_spec is None]


def test_only_what_was_lost_runs_again_and_every_task_could(settled, data, serial, tmp_path, monkeypatch):
    plan, executor = settled
    before = plan.workers
    compute, seen = ClusterExecutor.compute, []

    def compute_and_look(self, calls, ahead=()):
        found = compute(self, calls, ahead)
        seen.append(executor.client.run_on_scheduler(known_tasks))
        return found

    monkeypatch.setattr(ClusterExecutor, "compute", compute_and_look)
    plan.set("kill", harness.POINTS["round"])
    digest = harness.within(PATIENCE, lambda: harness.digest("nystrom-hinge", data, executor, tmp_path))
    harness.wait_until(lambda: plan.workers > before, PATIENCE)  # the tests after this one begin with two
    assert (digest, plan.fired) == (serial["nystrom-hinge"], 1)
    assert max(n for n, _ in seen) >= 2  # the reads at least
    assert [key for _, keys in seen for key in keys] == []

    calls, reads, states = (plan.lines(kind) for kind in ("call", "read", "state"))
    calls = [line for line in calls if "-read-" not in line[0]]
    ended = {(key, pid) for key, pid in plan.lines("call", "end")}
    ((killed, victim),) = [line for line in calls if line not in ended]
    in_the_round = killed[: killed.index("-fit-pass-0-0-2-") + len("-fit-pass-0-0-2-")]
    # Calls: those of this round that the dead worker had run, once more; nobody else's, and of no other round.
    lost = {key for key, pid in calls if pid == victim and key.startswith(in_the_round)}
    assert Counter(key for key, _ in calls) == Counter({key: 1 + (key in lost) for key, _ in calls})
    # Reads and states: those that the dead worker held and nobody else, where they are needed again, once more.
    # Of the states those of the passes: what the preparation keeps is made afresh each time that it is wanted.
    for lines in (reads, [line for line in states if "-fit-pass-" in line[0]]):
        its_own = {key for key, pid in lines if pid == victim}
        again = {key: n for key, n in Counter(key for key, _ in lines).items() if n > 1}
        # Where the other worker was quick enough to read everything, the dead one held copies: Dask drops one of two.
        assert set(again) <= its_own or not its_own
        assert set(again.values()) <= {2}


def test_a_late_joiner_of_other_versions_is_refused_and_the_run_goes_on(settled, data, serial, tmp_path):
    plan, executor = settled
    (plan.folder / "old-numpy").touch()
    before = plan.workers
    executor.client.cluster.scale(3)
    executor.client.wait_for_workers(3, timeout=PATIENCE)
    (plan.folder / "old-numpy").unlink()
    with pytest.warns(DKernelWarning, match=r"(?s)not used.*numpy +\S+ +0\.9"):
        harness.wait_until(
            lambda: (
                executor.compute([Call("pow", pow, (2, 5))])[0] == [32]
                and any("0.9" in fault for fault in executor.faults)
            ),
            PATIENCE,
        )
    harness.wait_until(lambda: len(executor.processes()) == 2, PATIENCE)
    assert harness.digest("fourier-squared", data, executor, tmp_path) == serial["fourier-squared"]
    (refused,) = plan.workers - before
    assert refused not in {pid for kind in ("call", "read", "state") for _, pid in plan.lines(kind)}
    assert any("0.9" in fault for fault in executor.faults)
    executor.client.cluster.scale(2)


@pytest.mark.slow
def test_a_block_that_ends_every_worker_is_named_with_its_rows(settled, data, tmp_path):
    plan, executor = settled
    plan.set("kill", r"1\.npy", kind="read", times=100)
    with pytest.raises(ClusterError) as error:
        harness.within(PATIENCE, lambda: harness.digest("fourier-hinge", data, executor, tmp_path))
    first, last = harness.ROWS[0] + 1, harness.ROWS[0] + harness.ROWS[1]
    assert f"{data / '1.npy'}, rows {first:,} to {last:,} of the source (about " in str(error.value)
    assert "ended 4 worker(s)" in str(error.value)
    assert 4 < plan.fired <= 10  # some for the small files that one task reads together, then 4 for this one alone
