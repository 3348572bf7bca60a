"""A fit inside a user's own Dask task: on the threads of its worker, or on the cluster where the task asks for that."""

import pytest
from distributed import Client, LocalCluster, get_client, worker_client

from dkernel import KernelClassifier
from dkernel.model.model_file import compute_digest
from dkernel.streaming.execution.connect import default_executor
from tests.streaming.sources import rings

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", params=[1, 2])
def client(request):
    """A client of one worker with so many threads."""
    options = {"n_workers": 1, "threads_per_worker": request.param, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as made:
        yield made


def fitted():
    X, y = rings(600)
    with default_executor() as executor:
        place = executor.name, executor.slots
    machine = KernelClassifier("gaussian", gamma=0.5, alpha=1e-4, n_components=16, local="none", random_state=0)
    return place, compute_digest(machine.fit(X, y).model_)


def fitted_by_cluster():
    with get_client().as_current():
        return fitted()


def fitted_by_worker_client():
    with worker_client() as client, client.as_current():
        return fitted()


def fitted_with_a_client_of_others():
    get_client()  # joblib's "dask" backend leaves one like this
    return fitted()


@pytest.fixture(scope="module")
def alone():
    return fitted()[1]


@pytest.mark.parametrize("task", [fitted, fitted_with_a_client_of_others])
def test_a_task_has_the_threads_of_its_worker(task, client, alone):
    threads = sum(client.nthreads().values())
    assert client.submit(task, pure=False).result(timeout=120) == (("threads", threads), alone)


@pytest.mark.parametrize("task", [fitted_by_cluster, fitted_by_worker_client])
def test_a_task_may_use_the_cluster(task, client, alone):
    threads = sum(client.nthreads().values())
    assert client.submit(task, pure=False).result(timeout=120) == (("cluster", threads), alone)
