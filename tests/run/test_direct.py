"""Direct calls on real processes: the answer is that of the task, and without an answer the task is what is left."""

import os
from operator import getitem
from types import SimpleNamespace

import numpy as np
import pytest
from dask.delayed import delayed

from dkernel.errors import DataError
from dkernel.run import direct
from dkernel.run.cluster import connect
from dkernel.run.direct import Direct
from dkernel.run.executors import Call, SerialExecutor
from dkernel.run.shares import BORROWED
from tests.faults import harness
from tests.run import jobs

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def executor():
    with connect(workers=2, memory_limit=0, patience=60) as executor:
        yield executor


@pytest.fixture
def asked(executor, monkeypatch):
    """How many calls of each round went straight to a worker, and how many there were."""
    counts, ask = [], Direct.ask

    def counting(self, calls):
        found = ask(self, calls)
        counts.append((len(found), len(calls)))
        return found

    monkeypatch.setattr(Direct, "ask", counting)
    executor.direct.took(0.0)
    return counts


@pytest.fixture
def block(executor):
    """A value on one worker, and that worker's address."""
    _, [handle] = executor.compute([], [delayed(np.arange)(6, dask_key_name=f"block-{os.urandom(4).hex()}")])
    handle.live().result(timeout=30)
    [place] = executor.places([handle])
    return handle, place


def sent_once(run):
    return sorted(direct._known.get(run, {}))


def drop(dask_worker, key):
    return dask_worker.data.pop(key, None) is not None


def test_a_call_with_its_blocks_on_one_worker_goes_there(executor, block, asked):
    handle, place = block
    coefficients, held = executor.keep(np.float32(3.0) * np.ones(2), "c"), executor.keep({"name": 5}, "held")
    for turn in range(2):
        calls = [Call(f"direct-{turn}", jobs.together, ([handle], coefficients, held), place)]
        [(items, twos, five, pid)], _ = executor.compute(calls)
        assert items == [0, 1, 2, 3, 4, 5]
        assert (twos, five) == ([3.0, 3.0], 5)
        assert pid == executor.client.run(os.getpid, workers=[place])[place]
    assert asked == [(1, 1), (1, 1)]
    assert executor.moves == 0
    assert executor.client.run(sent_once, executor.direct.run, workers=[place])[place] == ["dkernel-state-held"]


def test_what_a_task_brought_to_the_worker_is_not_sent_again(executor, asked):
    held = executor.keep({"name": 7}, "brought")
    executor.compute([Call("brought-1", jobs.together, ([], np.ones(1), held))])
    [at] = executor.places([held])
    [found], _ = executor.compute([Call("brought-2", jobs.together, ([], np.ones(1), held), at)])
    assert found[2] == 7
    assert asked == [(0, 1), (1, 1)]
    assert "dkernel-state-brought" not in executor.client.run(sent_once, executor.direct.run, workers=[at])[at]


def test_without_the_block_without_a_way_and_with_an_error_the_task_says_what_is(executor, block, asked):
    handle, place = block
    moves = executor.moves
    away = Call("away-1", getitem, (handle, 4), "tcp://127.0.0.1:1")
    assert executor.compute([away])[0] == [4]
    executor.client.run(drop, key=handle.live().key, workers=[place])
    unknown = executor.keep({"of": 1}, "unknown")
    assert executor.compute([Call("away-2", jobs.together, ([], np.ones(1), unknown), place)])[0][0][2] is None
    with pytest.raises(IndexError, match="out of bounds"):
        executor.compute([Call("wrong-1", getitem, (np.arange(2), 7), place)])
    assert asked == [(1, 1)] * 3
    assert executor.moves == moves + 2


def test_a_worker_that_lacks_the_block_has_it_computed(executor, block, asked):
    handle, place = block
    [other] = [address for address in executor.client.nthreads() if address != place]
    assert executor.compute([Call("lacking-1", getitem, (handle, 2), other)])[0] == [2]
    assert asked == [(1, 1)]


@pytest.mark.parametrize("relayed", [False, True])
def test_rounds_go_straight_and_the_model_has_the_bytes_of_the_loop(executor, asked, tmp_path, monkeypatch, relayed):
    if relayed:
        monkeypatch.setattr(direct, "_by_one", lambda calls: max(1, calls))
    data = tmp_path / "data"
    data.mkdir()
    harness.write_files(data)
    found = harness.digest("fourier-hinge", data, executor, tmp_path)
    assert found == harness.digest("fourier-hinge", data, SerialExecutor(), tmp_path)
    assert sum(straight == calls > 0 for straight, calls in asked) >= harness.LEARNERS["fourier-hinge"].rounds - 1


def test_long_rounds_and_clusters_that_shrink_have_tasks_alone():
    call = Call("pow-1", pow, (2, 3), "tcp://127.0.0.1:1")
    fixed = SimpleNamespace(cluster=None)
    shrinking = SimpleNamespace(cluster=SimpleNamespace(_adaptive=object()))
    new, slow, adaptive = Direct(fixed, "run"), Direct(fixed, "run"), Direct(shrinking, "run")
    slow.took(direct.LONGEST + 1)
    adaptive.took(0.0)
    assert new.ask([call]) == slow.ask([call]) == adaptive.ask([call]) == {}


def lent_to(run):
    return sorted(direct._lent.get(run, {}))


@pytest.mark.usefixtures("asked")
def test_a_worker_borrows_what_another_has_and_keeps_the_last_few(executor):
    moves = executor.moves
    names = [f"lent-{os.urandom(4).hex()}" for _ in range(BORROWED + 2)]
    _, handles = executor.compute([], [delayed(np.arange)(6, dask_key_name=name) for name in names])
    for handle in handles:
        handle.live().result(timeout=30)
    places = executor.places(handles)
    held = executor.keep({"name": 9}, "held-too")
    for turn in range(2):
        for handle, place in zip(handles, places, strict=True):
            [other] = [worker for worker in executor.processes() if worker != place]
            call = Call(f"lent-{turn}-{place}", jobs.together, ([handle], np.ones(1), held), other, place)
            [(items, _, nine, pid)], _ = executor.compute([call])
            assert (items, nine) == ([0, 1, 2, 3, 4, 5], 9)
            assert pid == executor.client.run(os.getpid, workers=[other])[other]
            assert executor.places([handle]) == [place]  # Dask knows of no copy
    assert executor.moves == moves
    for worker in executor.processes():
        mine = [name for name, place in zip(names, places, strict=True) if place != worker]
        kept = executor.client.run(lent_to, executor.direct.run, workers=[worker])[worker]
        assert len(kept) <= BORROWED
        assert {name for name in kept if name in names} == set(mine[-BORROWED:])


@pytest.mark.parametrize("lender", ["the other", "tcp://127.0.0.1:1"])
def test_what_nobody_has_to_lend_is_a_task(executor, block, asked, lender):
    handle, place = block
    [other] = [worker for worker in executor.processes() if worker != place]
    moves = executor.moves
    call = Call("lent-by-nobody", getitem, (handle, 5), other, other if lender == "the other" else lender)
    assert executor.compute([call])[0] == [5]
    assert asked == [(1, 1)]
    assert executor.moves == moves + 1


def after(state, factor, values):
    return [state["name"], *(int(item) * factor for item in values)]


@pytest.mark.parametrize("helped", [True, False])
def test_a_worker_has_others_help_and_answers_for_all(executor, block, asked, monkeypatch, helped):
    handle, place = block
    [other] = [worker for worker in executor.processes() if worker != place]
    held, moves, sent, talked = executor.keep({"name": 13}, f"helped-{helped}"), executor.moves, direct._sent, []

    async def noted(pool, worker, operation, message, patience):
        talked.append((worker, operation))
        return await sent(pool, worker, operation, message, patience)

    monkeypatch.setattr(direct, "_sent", noted)
    helper = Call("helper", jobs.named, (held, handle, 4), other if helped else "tcp://127.0.0.1:1", place)
    for turn in range(2):
        then = after, (held, 10)
        call = Call(f"helped-{helped}-{turn}", getitem, (handle, 3), place, helpers=(helper,), then=then)
        assert executor.compute([call])[0] == [[13, 30, 40]]
    assert asked == [(1, 1)] * 2
    assert executor.moves == moves + (0 if helped else 2)
    if helped:
        # The client talks to one worker, once more where that lacks the state; the helper has it from there.
        assert talked == [(place, "dkernel_call")] * 3
        assert f"dkernel-state-helped-{helped}" in executor.client.run(sent_once, executor.direct.run)[other]


def test_many_calls_go_by_way_of_few_workers_and_come_back_in_their_order(executor, asked, monkeypatch):
    senders, sent = [], direct._sent

    async def noted(pool, worker, operation, message, patience):
        senders.append((worker, operation))
        return await sent(pool, worker, operation, message, patience)

    monkeypatch.setattr(direct, "_sent", noted)
    workers = sorted(executor.processes())
    held = executor.keep({"name": 11}, "relayed")
    for turn in range(2):
        senders.clear()
        places = [workers[i % 2] for i in range(20)]
        calls = [Call(f"many-{turn}-{i}", jobs.together, ([], np.full(1, i), held), at) for i, at in enumerate(places)]
        found = executor.compute(calls)[0]
        assert [row[1:3] for row in found] == [([float(i)], 11) for i in range(20)]
        assert [row[3] for row in found[:2]] == [executor.client.run(os.getpid)[at] for at in workers]
    assert sorted(senders) == sorted((at, "dkernel_relay") for at in [workers[0]] * 3 + [workers[1]] * 2)
    assert asked == [(20, 20)] * 2


def test_calls_by_way_of_a_worker_that_is_gone_go_straight_and_errors_are_the_functions(
    executor, asked, monkeypatch, tmp_path
):
    monkeypatch.setattr(direct, "_by_one", lambda calls: calls)
    [one, other] = sorted(executor.processes())
    moves = executor.moves
    gone = [Call("gone-1", pow, (2, 5), "tcp://127.0.0.1:1"), Call("gone-2", pow, (2, 6), other)]
    assert executor.compute(gone)[0] == [32, 64]
    assert executor.moves == moves + 1
    with pytest.raises(DataError, match="row 17"):
        executor.compute([Call("bad-1", pow, (2, 5), one), Call("bad-2", jobs.refuse, (str(tmp_path),), other)])
    assert asked == [(2, 2)] * 2
