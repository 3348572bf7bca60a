"""The files, the bytes that every run must end with, and two workers that follow a plan."""

import time

import dask
import pytest

from dkernel.streaming.execution.connect import connect
from dkernel.streaming.execution.local import SerialExecutor
from tests.faults import harness
from tests.faults.preload import FOLDER

PATIENCE = 300
CONFIG = {"distributed.worker.preload": ["tests.faults.preload"], "distributed.scheduler.allowed-failures": 3}


@pytest.fixture(scope="package")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    harness.write_files(folder)
    return folder


@pytest.fixture(scope="package")
def serial(data, tmp_path_factory):
    """The bytes of the plain loop."""
    place = tmp_path_factory.mktemp("serial")
    return {name: harness.digest(name, data, SerialExecutor(), place) for name in harness.LEARNERS}


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    """A plan and two workers that follow it; a nanny begins another worker for each that ends."""
    plan = harness.Plan(tmp_path_factory.mktemp("faults"))
    with pytest.MonkeyPatch.context() as patch, dask.config.set(CONFIG):
        patch.setenv(FOLDER, str(plan.folder))
        began = time.monotonic()
        with connect(workers=2, memory_limit="1GiB", patience=PATIENCE) as executor:
            plan.seconds_to_start = time.monotonic() - began
            yield plan, executor


@pytest.fixture(scope="package")
def undisturbed(cluster, data, serial, tmp_path_factory):
    """Seconds of a run without a fault, from the start of its workers; its bytes are already those of the loop."""
    plan, executor = cluster
    plan.clear()
    place = tmp_path_factory.mktemp("undisturbed")
    began = time.monotonic()
    digest = harness.within(PATIENCE, lambda: harness.digest("nystrom-hinge", data, executor, place))
    assert digest == serial["nystrom-hinge"]
    assert plan.fired == 0
    return plan.seconds_to_start + time.monotonic() - began


@pytest.fixture
def settled(cluster):
    """The plan and the executor, with two workers again: a new one also for a worker that retired with its nanny."""
    plan, executor = cluster
    harness.settle(executor, PATIENCE)
    plan.clear()
    yield plan, executor
    plan.clear()  # workers of the tests in other files follow it too
