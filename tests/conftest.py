"""What every test runs under: a worker that dies where no test killed it is a failure, and nobody spills."""

import os

import dask

# Of the clusters of this process, and of those of the commands that tests start. Tests of faults say otherwise.
_CALM = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
}


def pytest_configure() -> None:
    for name, value in _CALM.items():
        os.environ["DASK_" + name.upper().replace("-", "_").replace(".", "__")] = str(value)
    dask.config.set(_CALM)
