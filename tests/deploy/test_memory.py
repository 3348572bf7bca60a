"""The files ask for the memory that `--dry-run` states for the job that they name, and for no more than twice that."""

import dask.array as da
import pytest
from dask.utils import parse_bytes

from dkernel.data.collections.arrays import from_arrays
from dkernel.model.recipe import Recipe
from dkernel.training.planning.memory_plan import Plan
from tests.deploy.places import documents
from tests.streaming.execution.stand_ins import apart

ROWS, COLUMNS = 10_000_000, 28


def of_kubernetes(container):
    asked = container["resources"]
    assert asked["requests"]["memory"] == asked["limits"]["memory"]
    return asked["limits"]["memory"]


def train_with_a_cluster():
    (cluster,), (train,) = documents("kubernetes/cluster.yaml"), documents("kubernetes/train.yaml")
    worker, client = cluster["spec"]["worker"], train["spec"]["template"]["spec"]["containers"][0]
    return worker["replicas"], worker["spec"]["containers"][0], client, of_kubernetes


def dask_job():
    spec = documents("kubernetes/job.yaml")[0]["spec"]
    worker, client = spec["cluster"]["spec"]["worker"], spec["job"]["spec"]["containers"][0]
    return worker["replicas"], worker["spec"]["containers"][0], client, of_kubernetes


def compose():
    (services,) = (document["services"] for document in documents("compose.yaml"))
    worker, client = services["worker"], services["train"]
    return worker["deploy"]["replicas"], worker, client, lambda it: it["deploy"]["resources"]["limits"]["memory"]


def size(text):
    """Bytes of an amount as Kubernetes, Compose (whose units are powers of two) or Dask writes it."""
    unit = text.lstrip("0123456789")
    return parse_bytes(text[: len(text) - len(unit)] + {"K": "KiB", "M": "MiB", "G": "GiB"}.get(unit[0], unit))


@pytest.mark.parametrize("files", [train_with_a_cluster, dask_job, compose])
def test_the_files_ask_for_what_the_plan_states(files):
    replicas, worker, client, container = files()
    words = worker.get("args") or worker["command"]
    limit = size(words[words.index("--memory-limit") + 1])
    X = da.zeros((ROWS, COLUMNS), chunks=(2**18, COLUMNS), dtype="float32")
    source = from_arrays(X, da.zeros(ROWS, chunks=2**18, dtype="int64"))
    recipe = Recipe(solver="psgd").for_columns(source.columns)
    plan = Plan.of(source, recipe, apart(limit, workers=replicas))
    plan.check_memory()
    assert plan.peaks.client <= size(container(client)) <= 2 * plan.peaks.client
    assert plan.worker_bytes <= limit < size(container(worker)) <= 1.5 * limit
