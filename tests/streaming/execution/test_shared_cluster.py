"""Runs on a cluster that others use too: two clients or several fits at once, and what a run leaves of itself."""

import asyncio
import logging
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dask.array as da
import pytest
from distributed import Client
from distributed.comm import CommClosedError

from dkernel import KernelClassifier
from dkernel.errors import DKernelWarning, UnsupportedError
from dkernel.model.model_file import compute_digest
from dkernel.streaming.execution import user_modules
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.connect import ClusterExecutor, client_at
from tests.faults.harness import wait_until
from tests.streaming.execution import jobs
from tests.streaming.sources import rings

pytestmark = pytest.mark.cluster

NAME = "kernels_of_a_user"


@pytest.fixture
def client(shared_cluster):
    with Client(shared_cluster) as made:
        yield made


def levels():
    return {name: logging.getLogger(name).level for name in ("distributed", "distributed.worker", "distributed.core")}


def has_module():
    return NAME in sys.modules


def occupy(first, dask_worker):
    if dask_worker.address == first:
        sys.modules[NAME] = types.ModuleType(NAME)


def vacate():
    sys.modules.pop(NAME, None)


@pytest.fixture
def imported(tmp_path, monkeypatch):
    monkeypatch.setattr(user_modules, "_CARRIED", {})
    (tmp_path / f"{NAME}.py").write_text("VALUE = 42\n")
    user_modules.import_modules([str(tmp_path / f"{NAME}.py")])
    yield
    sys.modules.pop(NAME)


@pytest.mark.score("logs")
def test_logs_of_the_workers_are_theirs(client):
    before = client.run(levels)
    with ClusterExecutor(client) as executor:
        calls = [Call(f"levels-{i}", levels, (), at) for i, at in enumerate(sorted(before))]
        assert executor.compute(calls)[0] == [before[at] for at in sorted(before)]
    assert client.run(levels) == before


def test_a_client_that_closes_says_nothing_of_messages_that_are_lost(shared_cluster):
    said = []
    handler = logging.Handler()
    handler.emit = said.append

    async def lose(*_, **__):
        raise CommClosedError("by the test")

    logging.getLogger("distributed").addHandler(handler)
    try:
        with client_at(scheduler=shared_cluster.scheduler_address) as client:
            client.scheduler_comm.comm.write = lose
    finally:
        logging.getLogger("distributed").removeHandler(handler)
    assert [record.getMessage() for record in said if record.name == "distributed.batched"] == []


@pytest.mark.usefixtures("imported")
@pytest.mark.score("modules")
def test_modules_of_the_user_leave_the_workers(client):
    with ClusterExecutor(client) as executor:
        executor.settings = replace(executor.settings, lease=0.2)
        calls = [Call(f"module-{i}", has_module, (), at) for i, at in enumerate(sorted(client.nthreads()))]
        assert executor.compute(calls)[0] == [True, True]
    # The first tasks of the workers had the usual lease.
    assert not any(client.run(end_of_lease).values())


def end_of_lease():
    from dkernel.streaming.execution import process

    with process._process._lock:
        process._process._end = 0.0
        process._process._lock.notify()
    wait_until(lambda: process._process._changes is None)
    return has_module()


@pytest.mark.usefixtures("imported")
@pytest.mark.score("modules")
def test_a_module_of_others_with_that_name_stays(client):
    first = min(client.nthreads())
    client.run(occupy, first)
    try:
        with pytest.warns(DKernelWarning, match=f"another module '{NAME}' in use"):
            executor = ClusterExecutor(client)
        with executor:
            assert list(executor.processes()) == [max(client.nthreads())]
            assert executor.compute([Call("module", has_module)])[0] == [True]
        assert client.run(lambda: getattr(sys.modules[NAME], "VALUE", None), workers=[first]) == {first: None}
    finally:
        client.run(vacate)


def fitted(seed, client=None):
    X, y = rings(6000)
    model = KernelClassifier(n_components=48, gamma=0.3, alpha=1e-5, local="none", random_state=seed)
    rows = da.from_array(X, (1500, -1)), da.from_array(y, 1500)
    if client is None:
        return compute_digest(model.fit(*rows).model_)
    with client.as_current():
        return compute_digest(model.fit(*rows).model_)


@pytest.mark.score("clients")
def test_two_clients_at_one_time(shared_cluster):
    alone = [fitted(seed) for seed in (0, 1)]
    with (
        Client(shared_cluster, set_as_default=False) as one,
        Client(shared_cluster, set_as_default=False) as two,
        ThreadPoolExecutor(2) as pool,
    ):
        assert list(pool.map(fitted, (0, 1), (one, two))) == alone


@pytest.mark.score("threads")
def test_several_fits_in_threads_of_one_client(shared_cluster):
    seeds = (0, 0, 1)  # two of them are the same fit
    alone = [fitted(seed) for seed in seeds]
    with Client(shared_cluster, set_as_default=False) as client, ThreadPoolExecutor(3) as pool:
        assert list(pool.map(fitted, seeds, [client] * 3)) == alone


def test_each_run_of_a_client_has_its_units_where_it_wants_them(client, tmp_path):
    workers = sorted(client.nthreads())
    with ClusterExecutor(client) as one, ClusterExecutor(client) as two:
        for run, at in ((one, workers[0]), (two, workers[1])):
            (alone,) = run.compute([], [jobs.unit(tmp_path, 0)], [at])[1]
            alone.ensure().result(timeout=30)
            assert client.who_has([alone.ensure()]) == {alone.future.key: (at,)}
        # The tasks of a collection are the same for both: where the first had them made.
        for run, at in ((one, workers[0]), (two, workers[1])):
            chunks = run.compute([], [jobs.chunk(tmp_path, 1)], [at])[1]
            assert run.find_workers(chunks) == [workers[0]]


@pytest.mark.score("asyncio")
def test_an_asyncio_client_is_refused(shared_cluster):
    asyncio.run(refused(shared_cluster))


async def refused(shared_cluster):
    async with Client(shared_cluster.scheduler_address, asynchronous=True) as client:
        with pytest.raises(UnsupportedError, match="asynchronous=False"):
            ClusterExecutor(client)
