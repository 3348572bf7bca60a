"""The cluster executor on real processes: the same values as the loop, whatever dies, and never a wait without end.

Faults come at an event (a file that a task wrote), never at a time.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client, Future

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import ClusterError, DataError, DKernelWarning, RecipeError
from dkernel.model.recipe import Recipe
from dkernel.numerics import resource_limits
from dkernel.numerics.allocator import ONE_HEAP
from dkernel.streaming.execution import cluster
from dkernel.streaming.execution import connect as doors
from dkernel.streaming.execution.base import Call, Item
from dkernel.streaming.execution.connect import SHORT_LOGS, ClusterExecutor, connect, default_executor
from dkernel.streaming.execution.connection import Connection
from dkernel.streaming.execution.in_task import task_modules
from dkernel.streaming.execution.process import import_modules_of_tasks
from dkernel.streaming.execution.values import Remote
from dkernel.streaming.execution.versions import versions
from dkernel.streaming.execution.workers import WorkerPool
from dkernel.training.fit import train
from tests.faults.harness import wait_until
from tests.faults.processes import start_cluster
from tests.faults.test_killed_client import plugins
from tests.processes import environment
from tests.streaming.execution import jobs

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def executor():
    """Two processes; the tests that kill one wait until its nanny has begun another."""
    allowed = {"distributed.scheduler.allowed-failures": 3}
    with dask.config.set(allowed), connect(workers=2, memory_limit=0, patience=60) as executor:
        yield executor


@contextmanager
def at(event, act):
    """Do `act` from another thread as soon as `event` is true."""
    thread = threading.Thread(target=lambda: (wait_until(event), act()))
    thread.start()
    yield
    thread.join()


def first_environment():
    """What this process was started with; what its first lines have set is not in it."""
    with open("/proc/self/environ") as file:
        return dict(line.split("=", 1) for line in file.read().split("\0") if "=" in line)


def ignores_interrupts():
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone reads it")
def test_own_workers_are_forked_with_one_heap_and_keep_their_calls(executor):
    (server,) = set(executor.client.run(os.getppid).values())
    assert server != os.getpid()
    for found in executor.client.run(first_environment).values():
        assert ONE_HEAP.items() <= found.items()
        assert found["MALLOC_TRIM_THRESHOLD_"]  # Dask's own settings stand
    assert "stealing" not in executor.client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.extensions))


@pytest.mark.usefixtures("executor")  # its workers have started the process that all are forked from
def test_workers_have_the_environment_of_their_start(monkeypatch):
    monkeypatch.setenv("WORD_OF_NOW", "yes")
    with connect(workers=1) as later:
        assert set(later.client.run(os.getenv, "WORD_OF_NOW").values()) == {"yes"}


def process_of(executor, handle):
    """The process number of the only worker that has the value."""
    handle.ensure().result(timeout=30)
    (holders,) = executor.client.who_has([handle.ensure()]).values()
    (pid,) = executor.client.run(os.getpid, workers=list(holders)[:1]).values()
    return pid


def kill(executor, pid):
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in executor.client.run(os.getpid, on_error="return").values())


def name(key, executor):
    """Of a task of this run."""
    return f"{key}-{executor._connection.token}"


def settled(executor):
    wait_until(lambda: len(executor.client.nthreads()) == 2 and executor.processes() == executor.client.nthreads(), 60)


def test_a_worker_without_a_limit_has_its_share_of_its_container(executor):
    found = executor.client.run(resource_limits.memory_limit)
    assert executor.describe().memory_limit == min(found.values()) // 2
    executor._workers.memory.update(dict.fromkeys(found, (2**31, 1.0)))
    assert executor.describe().memory_limit == 2**30
    executor._workers.memory.update(found)


def test_a_part_of_the_workers_does_all_until_it_is_gone(executor, tmp_path):
    settled(executor)
    with executor.using(1):
        (worker,) = executor.processes()
        state = executor.keep(np.ones(200_000), "of-one")
        calls = [Call(f"one-{i}", jobs.noted_square, (str(tmp_path), i, 0.0)) for i in range(4)]
        left = executor.leave([Call("left", np.sum, (state,))])
        assert executor.compute([*calls, Call("right", np.sum, (state,))])[0] == [0, 1, 4, 9, 200_000]
        assert sorted(executor.as_they_come(calls)) == [0, 1, 4, 9]
        (process,) = set(jobs.ran(tmp_path))
        assert executor.find_workers(left) == [worker]
        assert process == process_of(executor, state)
        os.kill(process, signal.SIGKILL)
        again = [Call(f"two-{i}", jobs.noted_square, (str(tmp_path), i, 0.0)) for i in range(4)]
        assert executor.compute([*again, Call("again", np.sum, (state,))])[0] == [0, 1, 4, 9, 200_000]
        wait_until(lambda: worker not in executor.processes())
        assert len(executor.processes()) == 1
        executor.release([state, *left])
    settled(executor)


def test_each_run_has_an_order_of_its_own_of_the_workers():
    there = {f"tcp://10.0.0.{i}:1": 1 for i in range(64)}
    pools = [WorkerPool(SimpleNamespace(token=f"run-{i}"), None, [], print) for i in range(8)]
    used = []
    for pool in pools:
        pool.known = lambda: there
        pool.most = 8
        used += pool.used()
        assert list(pool.used()) == used[-8:]
        pool.known = lambda gone=used[-8]: {worker: 1 for worker in there if worker != gone}
        assert len(set(pool.used()) & set(used[-8:])) == 7
    assert len(set(used)) > 32


def test_workers_that_are_used_stay_in_use_when_a_small_cluster_grows():
    there = {f"tcp://10.0.0.{i}:1": 1 for i in range(64)}
    pool = WorkerPool(SimpleNamespace(token="run"), None, [], print)
    pool.most, few = 8, dict.fromkeys([*there][-6:], 1)
    pool.known = lambda: few
    assert pool.used().keys() == few.keys()
    pool.known = lambda: there
    assert pool.used().keys() > few.keys()
    assert len(pool.used()) == 8


def no_task(executor):
    """Nothing lingers on the scheduler."""
    wait_until(lambda: executor.client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0)


def test_results_are_gone_when_they_are_read(executor):
    assert executor.compute([Call(f"square-{i}", pow, (i, 2)) for i in range(20)])[0] == [i * i for i in range(20)]
    no_task(executor)


def test_a_large_state_can_be_made_again_and_dask_says_nothing(executor):
    state = executor.keep(np.ones(2_000_000), "large")  # warnings are errors here
    assert executor.compute([Call("sum", np.sum, (state,))])[0] == [2_000_000]
    assert executor.client.run_on_scheduler(jobs.spec(name("dkernel-state-large", executor)))
    executor.release([state])


def test_small_values_travel_inside_the_calls_and_large_ones_are_tasks(executor):
    small, others = executor.keep((np.ones(3), np.ones(2)), "short"), executor.keep({"w": 2}, "mapping")
    large = executor.keep(np.ones(200_000), "long")
    calls = [Call(f"inside-{i}", jobs.weighed, (i, small, others)) for i in range(3)]
    results = executor.compute([*calls, Call("sum-long", np.sum, (large,))])[0]
    assert results == [0.0, 10.0, 20.0, 200_000]
    assert not executor.client.run_on_scheduler(jobs.knows(name("dkernel-state-short", executor)))
    assert not executor.client.run_on_scheduler(jobs.knows(name("dkernel-state-mapping", executor)))
    assert executor.client.run_on_scheduler(jobs.spec(name("dkernel-state-long", executor)))
    executor.release([small, others, large])


def test_own_workers_read_equal_shares_and_sum_them_in_place(executor, tmp_path):
    _, first = executor.compute([], [jobs.unit(tmp_path, i) for i in range(3)])
    _, second = executor.compute([], [jobs.unit(tmp_path, i) for i in range(3, 8)])
    units = [*first, *second]
    asked = executor.find_workers(units)  # known before they are there
    assert sorted(asked.count(worker) for worker in executor.processes()) == [4, 4]
    for unit, worker in zip(units, asked, strict=True):
        unit.ensure().result(timeout=30)
        assert [*executor.client.who_has([unit.ensure()]).values()] == [(worker,)]
    assert executor.find_workers(units) == asked
    executor.release(units)


def test_workers_of_our_own_never_get_the_interrupt_of_a_terminal(executor):
    settled(executor)
    address, pid = min(executor.client.run(os.getpid).items())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: address not in executor.client.nthreads())
    settled(executor)
    assert list(executor.client.run(ignores_interrupts).values()) == [True, True]  # the one that came in its place too
    assert not ignores_interrupts()


@pytest.mark.parametrize("gone", [1, 2])
def test_units_whose_readers_die_are_read_by_others(executor, tmp_path, gone):
    settled(executor)
    (tmp_path / "hold").touch()
    _, units = executor.compute([], [jobs.unit(tmp_path, i) for i in range(4)])
    pids, asked = executor.client.run(os.getpid), executor.find_workers(units)
    wait_until(lambda: len(jobs.ran(tmp_path, "read*")) >= 2)  # each has one in hand
    dead = {*[*dict.fromkeys(asked)][:gone]}
    for worker in dead:
        os.kill(pids[worker], signal.SIGKILL)
    wait_until(lambda: not dead & {*executor.processes()})
    if gone == 2:  # nobody could have a unit
        settled(executor)
    (tmp_path / "hold").unlink()
    blocks = [Item(unit, (1,)) for unit in units]
    sums = executor.compute([Call(f"sum-{i}", np.sum, (block,)) for i, block in enumerate(blocks)])[0]
    assert sums == [float(jobs.read(tmp_path, i)[1].sum()) for i in range(4)]
    executor.release([*units, *blocks])
    settled(executor)


def test_chunks_held_by_workers_that_all_go_are_made_by_those_that_come(executor, tmp_path):
    settled(executor)
    _, units = executor.compute([], [jobs.chunk(tmp_path, i) for i in range(4)])
    blocks = [Item(unit, (1,)) for unit in units]
    expected = [float(jobs.read(tmp_path, i)[1].sum()) for i in range(4)]
    there = executor.find_workers(units)
    sums = [Call(f"held-{i}", np.sum, (block,), there[i]) for i, block in enumerate(blocks)]
    assert executor.compute(sums)[0] == expected
    held = executor.leave([Call(f"kept-{i}", np.sum, (block,)) for i, block in enumerate(blocks)])
    for pid in executor.client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    again = [Call(f"once-more-{i}", np.add, (value, 0)) for i, value in enumerate(held)]
    assert executor.compute([*sums, *again])[0] == expected * 2
    assert executor.compute(sums)[0] == expected
    executor.release([*units, *blocks, *held])
    settled(executor)


def sums_of(executor, chunks):
    return executor.compute([Call(f"sum-{i}", np.sum, (Item(chunk, (0,)),)) for i, chunk in enumerate(chunks)])[0]


@pytest.mark.score("threads")
def test_runs_in_threads_with_one_collection_outlive_all_workers(executor, tmp_path):
    settled(executor)
    (tmp_path / "hold").touch()
    expected = [float(jobs.blocks(i)[0].sum()) for i in range(4)]
    with ClusterExecutor(executor.client, patience=60) as other, ThreadPoolExecutor(2) as pool:
        runs = (executor, other)
        chunks = [run.compute([], [jobs.chunk(tmp_path, i) for i in range(4)])[1] for run in runs]
        wait_until(lambda: len(jobs.ran(tmp_path, "read*")) >= 2)
        for pid in executor.client.run(os.getpid).values():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not executor.processes())
        (tmp_path / "hold").unlink()
        assert list(pool.map(sums_of, runs, chunks)) == [expected] * 2
        executor.release(chunks[0])
    settled(executor)


def test_a_lost_value_is_stuck_although_the_worker_that_had_it_is_there():
    """Its task may have been sent to another, by an earlier fit that holds it still."""
    unit = Remote("unit", lambda *_: SimpleNamespace(status="lost", done=lambda: False), "a")
    assert not unit.is_stuck(["a", "b"])
    unit.ensure()
    assert unit.is_stuck(["a", "b"])


@pytest.mark.parametrize("end", ["running", "closed"])
def test_a_scheduler_that_is_missed_is_named_once(end, monkeypatch):
    monkeypatch.setattr("dkernel.streaming.execution.connection.MISSED", -1.0)
    left, said = iter(["connecting"] * 3), []

    class Client:
        scheduler = SimpleNamespace(address="tcp://host:8786")
        status = property(lambda _: next(left, end))

    connection = Connection(Client(), 300.0, said.append)
    with nullcontext() if end == "running" else pytest.raises(ClusterError, match=r"is gone\. Run the same command"):
        connection.reach()
    assert said[0] == "the scheduler at tcp://host:8786 is gone; it is waited for up to 300 s"
    assert said[1:] == ["the scheduler at tcp://host:8786 is there again"] * (end == "running")


def test_a_sign_of_life_that_no_worker_takes_is_given_up(executor):
    connection = Connection(executor.client, patience=60)
    connection.stay_alive(lambda: {"workers": ["tcp://127.0.0.1:1"]})

    def signs():
        keys = executor.client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
        return [key for key in keys if connection.token in key]

    wait_until(lambda: signs() == [f"dkernel-alive-{connection.token}-2"])
    connection.close()
    wait_until(lambda: not signs())


@pytest.mark.parametrize("read", jobs.READINGS)
def test_an_error_of_the_data_ends_the_other_calls_and_leaves_nothing(executor, tmp_path, read):
    many = 400  # they take 20 s, many times what the news of an error takes on a busy machine
    slow = [Call(f"{tmp_path.name}-{i}", jobs.noted_square, (str(tmp_path), i, 0.1)) for i in range(many)]
    with pytest.raises(DataError, match=r"^train.csv, row 17: the value nan is not finite.$"):
        read(executor, [*slow[:3], Call("refuse", jobs.refuse, (str(tmp_path),)), *slow[3:]])
    no_task(executor)
    assert len(jobs.ran(tmp_path, "refuse")) == 1
    assert len(jobs.ran(tmp_path, "square*")) < many


def test_units_read_ahead_of_a_call_that_fails_are_released(executor, tmp_path):
    with pytest.raises(DataError) as caught:
        executor.compute([Call("refuse", jobs.refuse, (str(tmp_path),))], [jobs.unit(tmp_path, i) for i in range(3)])
    no_task(executor)
    assert caught.tb is not None  # what its frames hold does not hold the units


def test_what_was_said_is_soon_forgotten(executor):
    calls = [Call(f"said-{i}", pow, (2, i)) for i in range(100)]
    assert executor.compute(calls)[0] == [2**i for i in range(100)]
    kept = executor.client.run_on_scheduler(
        lambda dask_scheduler: [len(comm.recent_message_log) for comm in dask_scheduler.stream_comms.values()]
    )
    kept += executor.client.run(lambda dask_worker: len(dask_worker.batched_stream.recent_message_log)).values()
    kept.append(len(executor.client.scheduler_comm.recent_message_log))
    assert max(kept) <= SHORT_LOGS["distributed.admin.low-level-log-length"]


@pytest.mark.parametrize("read", jobs.READINGS)
def test_a_worker_that_is_killed_in_the_middle_changes_nothing(executor, tmp_path, read):
    calls = [Call(f"{tmp_path.name}-{i}", jobs.noted_square, (str(tmp_path), i, 0.1)) for i in range(12)]
    with at(lambda: len(jobs.ran(tmp_path)) >= 4, lambda: os.kill(jobs.ran(tmp_path)[-1], signal.SIGKILL)):
        assert read(executor, calls) == [i * i for i in range(12)]
    assert len(jobs.ran(tmp_path)) > 12
    settled(executor)


@pytest.mark.parametrize("read", jobs.READINGS)
def test_what_somebody_cancelled_is_asked_for_again(executor, tmp_path, read):
    state = executor.keep(2, "two")
    executor.client.cancel([state.ensure()])
    last = Future(f"{tmp_path.name}-3", executor.client)
    calls = [Call(f"{tmp_path.name}-{i}", jobs.noted_square, (str(tmp_path), i, 0.2)) for i in range(4)]
    with at(lambda: jobs.ran(tmp_path), lambda: executor.client.cancel([last])):
        assert read(executor, [*calls, Call("pow", pow, (state, 4))]) == [0, 1, 4, 9, 16]


def test_a_unit_and_its_blocks_lost_with_their_worker_are_read_again(executor, tmp_path):
    _, (unit,) = executor.compute([], [jobs.unit(tmp_path, 5)])
    block = Item(unit, (1,))
    kill(executor, process_of(executor, unit))
    ones = np.ones(3, "float32")
    (result,), _ = executor.compute([Call("dot", jobs.dot, (block, ones))])
    assert 2 <= len(jobs.ran(tmp_path, "read5")) <= 3  # a pure task may run once too often
    assert result.tobytes() == (jobs.read(tmp_path, 5)[1] @ ones).tobytes()
    settled(executor)


def test_a_worker_that_joins_later_is_used_too(executor):
    executor.client.cluster.scale(3)
    executor.client.wait_for_workers(3, timeout=30)
    wait_until(lambda: executor.slots == 3)
    executor.client.cluster.scale(2)
    wait_until(lambda: executor.slots == 2)


def test_the_callers_client_stays_open_and_gets_no_plugin(executor):
    before = executor.client.run_on_scheduler(plugins)
    with connect(scheduler=executor.client.scheduler.address) as second:
        assert second.compute([Call("pow", pow, (2, 5))])[0] == [32]
        with default_executor() as third:
            assert third.client is second.client
            assert executor.client.run_on_scheduler(plugins) == before
        assert second.client.status == "running"
    assert not any("dkernel" in name for name in before)
    assert executor.compute([Call("pow", pow, (2, 5))])[0] == [32]


def test_other_versions_are_refused_with_a_table(executor, monkeypatch):
    here = os.getpid()
    monkeypatch.setattr(cluster, "versions", lambda: versions() | ({"numpy": "0.9"} if os.getpid() == here else {}))
    with pytest.raises(ClusterError, match=r"numpy +0.9 +\d") as refusal:
        ClusterExecutor(executor.client)
    assert str(refusal.value).count("tcp://127.0.0.1") == 2


def test_no_workers_is_an_error_in_time():
    with connect(workers=1, patience=60) as first, ClusterExecutor(first.client, patience=5) as executor:
        executor.client.cluster.scale(0)
        wait_until(lambda: not executor.client.nthreads())
        began = time.monotonic()
        with pytest.raises(ClusterError, match=r"no workers for [56] seconds; 1 call.*'pow'.*tcp://") as error:
            executor.compute([Call("pow", pow, (2, 5))])
        assert time.monotonic() - began < 60
        assert "run the same command again" in str(error.value)


@contextmanager
def asleep(pids):
    """Processes that are stopped inside the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_no_progress_is_an_error_in_time(executor):
    settled(executor)
    pids = list(executor.client.run(os.getpid).values())
    with ClusterExecutor(executor.client, patience=2) as hasty:
        began = time.monotonic()
        with asleep(pids), pytest.raises(ClusterError, match=r"None of the 2 workers has finished anything"):
            hasty.compute([Call("pow", pow, (2, 5))])
        assert time.monotonic() - began < 60
        assert hasty.compute([Call("pow", pow, (2, 5))])[0] == [32]


def test_a_worker_that_does_not_answer_at_the_start_is_done_without(executor):
    settled(executor)
    pids = executor.client.run(os.getpid)
    with asleep(list(pids.values())[:1]), ClusterExecutor(executor.client, patience=2) as hasty:
        assert len(hasty.processes()) == 1
        assert hasty.compute([Call("pow", pow, (2, 5))])[0] == [32]
    with (
        asleep(list(pids.values())),
        pytest.raises(ClusterError, match=rf"(?s){min(pids)}.*{max(pids)}.*not run a first task; waited for 2 seconds"),
    ):
        ClusterExecutor(executor.client, patience=2)


def test_a_lost_connection_is_made_again_and_the_calls_with_it(executor, tmp_path):
    settled(executor)
    state, client = executor.keep(np.arange(3.0), "three"), executor.client
    calls = [Call(f"square-{i}", jobs.noted_square, (str(tmp_path), i, 0.1)) for i in range(8)]
    left = executor.leave([Call("left-there", pow, (2, 5))])

    def abort():
        client.loop.add_callback(client.scheduler_comm.comm.abort)

    with at(lambda: len(jobs.ran(tmp_path)) >= 3, abort):
        assert executor.compute([*calls, Call("sum", np.sum, (state,))])[0] == [*(i * i for i in range(8)), 3.0]
    assert any("connection" in fault for fault in executor.faults)
    assert executor.find_workers(left) == [None]
    assert executor.compute([Call("sum", np.sum, (state,)), Call("sum-left", np.sum, (left[0],))])[0] == [3.0, 32]
    executor.release([state, *left])


def test_persisted_rows_that_are_lost_are_an_error_with_what_to_do(executor):
    rows = executor.client.persist(da.ones((8, 2), chunks=(4, 2)))
    units = [unit.task for unit in from_arrays(rows, da.ones(8, chunks=4)).units]
    assert all(executor.holders(units))
    executor.client.cancel(rows)
    with pytest.raises(ClusterError, match=r"persisted on the cluster at tcp://.* are lost.*Persist them again"):
        executor.holders(units)
    with pytest.raises(ClusterError, match="Persist them again"):
        executor.compute([], units)


def test_a_call_that_ends_its_workers_is_named():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        connect(workers=1, patience=20) as executor,
        pytest.raises(ClusterError, match=r"'vanish' ended 1 worker.*tcp://127\S+\. .*memory"),
    ):
        executor.compute([Call("vanish", jobs.vanish)])


def test_a_scheduler_and_workers_started_by_hand_and_their_end(tmp_path):
    two = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    with start_cluster(tmp_path, 1, **two) as (file, (scheduler, _)):
        with Client(scheduler_file=file) as client:  # on a busy machine longer than the patience
            client.submit(import_modules_of_tasks, task_modules()).result(120)
        with connect(scheduler_file=file, patience=12) as executor:
            assert executor.address == json.loads(Path(file).read_text())["address"]
            calls = [Call(f"square-{i}", jobs.noted_square, (str(tmp_path), i, 0.2)) for i in range(4)]
            assert executor.compute(calls[:2])[0] == [0, 1]
            # A nanny would have set this; without one, and against its own environment, the tasks have.
            assert executor.client.run(jobs.blas_threads).popitem()[1] == [1]
            began = time.monotonic()
            with at(lambda: jobs.ran(tmp_path, "square2"), scheduler.kill), pytest.raises(ClusterError, match="tcp://"):
                executor.compute(calls)
            wait_until(lambda: executor.client.status == "closed")
            with pytest.raises(ClusterError, match="is gone"):
                executor.compute(calls)
        assert time.monotonic() - began < 60


def test_a_scheduler_that_comes_back_is_waited_for(tmp_path, monkeypatch):
    """The time that a client is given to find its scheduler is also that in which it finds it again."""
    monkeypatch.setattr(doors, "CONNECT_TIMEOUT", 1.0)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    quiet["env"] = environment()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    begin = [sys.executable, "-m", "dask"]
    scheduler = [*begin, "scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
    worker = [*begin, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    started = []

    def start():
        started.append(subprocess.Popen(scheduler, **quiet))
        started.append(subprocess.Popen(worker, **quiet))

    def restart():
        started[0].kill()
        time.sleep(1.5)  # longer than one try
        start()

    start()
    try:
        wait_until(lambda: _listens(address), 120)
        with connect(scheduler=address, patience=120) as executor:
            calls = [Call(f"square-{i}", jobs.noted_square, (str(tmp_path), i, 0.2)) for i in range(4)]
            with at(lambda: jobs.ran(tmp_path, "square1"), restart):
                assert executor.compute(calls)[0] == [0, 1, 4, 9]
            assert any("connection to the scheduler broke" in fault for fault in executor.faults)
    finally:
        for process in started:
            process.kill()
            process.wait(10)


def _listens(address):
    host, port = address.removeprefix("tcp://").split(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0


def test_a_wait_for_workers_is_told_and_ends(executor, monkeypatch):
    monkeypatch.setattr("dkernel.streaming.execution.workers.START", 0.2)
    said = []
    with (
        dask.annotate(resources={"TPU": 1}),
        pytest.raises(ClusterError, match=r"No worker of .* waited for 2 seconds\."),
    ):
        ClusterExecutor(executor.client, patience=2, tell=said.append)
    (told,) = said
    assert told == (
        f"No worker of {executor.address} has the resources {{'TPU': 1}} that dask.annotate asks for; "
        "waited for up to 2 seconds."
    )


def test_nobody_answers(monkeypatch, tmp_path):
    monkeypatch.setattr(doors, "CONNECT_TIMEOUT", 0.5)
    with pytest.raises(ClusterError, match=r"tcp://127\.0\.0\.1:9 "), connect(scheduler="tcp://127.0.0.1:9"):
        pass
    with pytest.raises(ClusterError, match=r"absent\.json"), connect(scheduler_file=str(tmp_path / "absent.json")):
        pass


def test_options_that_do_not_go_together():
    with pytest.raises(RecipeError, match="scheduler and workers"), connect(scheduler="tcp://a:1", workers=2):
        pass
    with pytest.raises(RecipeError, match="at least one"), connect(workers=0):
        pass


SCRIPT = """
import os, signal
from dkernel.errors import DataError
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.base import Call
from tests.streaming.execution import jobs

if __name__ == "__main__":
    with connect(workers=1) as executor:
        try:
            executor.compute([Call("refuse", jobs.refuse, ({folder!r},))])
        except DataError as error:
            print(error)
        for pid in executor.client.run(os.getpid).values():
            os.kill(pid, signal.SIGSTOP)
"""


def test_a_script_shows_only_its_own_error_and_ends_its_workers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, env=environment(), check=False
    )
    assert (done.returncode, done.stdout) == (0, "train.csv, row 17: the value nan is not finite.\n")
    assert done.stderr == ""


def test_a_worker_that_is_too_small_for_a_plan_is_left_out_by_name():
    from distributed import Scheduler, SpecCluster, Worker

    never = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause", "terminate")}
    specs = {
        name: {"cls": Worker, "options": {"nthreads": 1, "memory_limit": limit}}
        for name, limit in enumerate(("64GiB", "64GiB", "300MiB"))
    }
    X = np.random.default_rng(0).normal(size=(20_000, 6))
    with (
        dask.config.set(never),
        SpecCluster(specs, {"cls": Scheduler, "options": {"dashboard_address": ":0"}}) as cluster,
        Client(cluster) as client,
        ClusterExecutor(client, least=3) as executor,
    ):
        assert executor.describe().memory_limit == 300 * 2**20
        with pytest.warns(DKernelWarning, match=r"A worker is not used. The worker \S+ has a limit of 300 MiB"):
            train(from_arrays(X, X[:, 0] > 0), Recipe(n_components=64, local="none"), executor)
        assert executor.describe().memory_limit > 300 * 2**20
        assert (len(executor.processes()), len(executor.faults)) == (2, 1)
