"""What every test runs under: a worker that dies where no test killed it is a failure, and nobody spills.

No test that runs by default may depend on a clock, on free memory or on what an allocator keeps: beside other jobs such
a test fails and says nothing. So hypothesis has no deadline and always draws the same examples, a bound of time by
default only ends what hangs (a minute and more), and what asserts seconds or bytes of a process is marked slow.
"""

import os

import dask
from hypothesis import HealthCheck, settings

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
    settings.register_profile("dkernel", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("dkernel")
