"""Calls that nothing ties to each other: straight to the workers of a cluster of one's own, and as tasks without."""

import os

import numpy as np
import pytest
from dask.delayed import delayed

from dkernel.run.cluster import connect
from dkernel.run.errands import errands
from dkernel.run.executors import Call
from dkernel.run.remote import ClusterExecutor
from tests.run import jobs

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def executor():
    with connect(workers=2, memory_limit=0, patience=60) as executor:
        yield executor


@pytest.fixture
def tasks(monkeypatch):
    """Keys of the calls that became tasks."""
    found, submit = [], ClusterExecutor.submit

    def noting(self, calls):
        found.extend(call.key for call in calls)
        return submit(self, calls)

    monkeypatch.setattr(ClusterExecutor, "submit", noting)
    return found


def test_every_worker_has_its_share_and_no_call_becomes_a_task(executor, tasks, tmp_path):
    calls = [Call(f"own-{i}", jobs.noted_square, (str(tmp_path), i, 0.02)) for i in range(20)]
    assert sorted(executor.as_they_come(calls)) == [i * i for i in range(20)]
    assert tasks == []
    assert len(set(jobs.ran(tmp_path))) == 2


def test_calls_are_taken_when_a_thread_has_room(executor):
    taken = []

    def calls():
        for i in range(12):
            taken.append(i)
            yield Call(f"room-{i}", pow, (i, 2))

    came = executor.as_they_come(calls())
    for done, _ in enumerate(came, 1):
        assert len(taken) <= done + 2 * executor.slots
    assert len(taken) == 12


def test_a_call_that_needs_a_block_and_all_after_it_are_tasks(executor, tasks):
    _, [block] = executor.compute([], [delayed(np.arange)(6, dask_key_name=f"errand-{os.urandom(4).hex()}")])
    state = executor.keep(np.ones(2), "errand-state")
    calls = [Call("kept", np.sum, (state,)), Call("block", np.sum, (block,)), Call("after", np.sum, (state,))]
    assert sorted(executor.as_they_come(calls)) == [2.0, 2.0, 15]
    assert [key for key in tasks if key in ("kept", "block", "after")] == ["block", "after"]


def test_without_an_answer_the_call_is_given_back_and_no_other_taken(executor):
    rest = iter([Call(f"nobody-{i}", pow, (i, 2)) for i in range(5)])
    with pytest.raises(StopIteration) as ended:
        next(errands(executor, {"tcp://127.0.0.1:1": 1}, rest))
    assert [call.key for call in ended.value.value] == ["nobody-0"]
    assert next(rest).key == "nobody-1"


def test_what_a_stopped_process_was_asked_is_given_back_when_nothing_comes_for_long(executor, monkeypatch, tmp_path):
    monkeypatch.setattr(executor, "patience", 1.0)
    calls = iter([Call("stopped-0", jobs.noted_square, (str(tmp_path), 3, 2.5)), Call("stopped-1", pow, (2, 5))])
    threads = dict(list(executor.client.nthreads().items())[:1])
    with pytest.raises(StopIteration) as ended:
        next(errands(executor, threads, calls))
    assert [call.key for call in ended.value.value] == ["stopped-0"]
    assert [call.key for call in calls] == ["stopped-1"]


def test_a_cluster_of_others_is_given_tasks(executor, tasks):
    with ClusterExecutor(executor.client, shared=True) as other:
        assert sorted(other.as_they_come(Call(f"shared-{i}", pow, (i, 2)) for i in range(3))) == [0, 1, 4]
    assert [key for key in tasks if key.startswith("shared")] == ["shared-0", "shared-1", "shared-2"]
