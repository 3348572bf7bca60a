"""What every worker process does once, at the start of a run or when it joins: versions, logs, one BLAS thread."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from distributed import WorkerPlugin

from dkernel.blas import limit_this_process
from dkernel.run.versions import require_equal, versions

__all__ = ["WorkerSetup", "quiet_logs", "silence"]

# These write tracebacks of failed and lost tasks, which dkernel reports itself, once.
_LOUD = (
    "distributed.batched",
    "distributed.client",
    "distributed.comm",
    "distributed.core",
    "distributed.nanny",
    "distributed.scheduler",
    "distributed.utils",
    "distributed.worker",
    "distributed.worker.memory",
    "distributed.worker.state_machine",
)


def silence() -> dict[str, int]:
    """Only what ends the process is logged from now; returns the levels of before."""
    before = {name: logging.getLogger(name).level for name in _LOUD}
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return before


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Dask's own logs of failures stay off stderr inside this block."""
    before = silence()
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


class WorkerSetup(WorkerPlugin):
    """Refuses a worker of other versions; limits BLAS to one thread for as long as the process lives."""

    idempotent = False

    def __init__(self, expected: Mapping[str, str]) -> None:
        self.expected = dict(expected)

    def setup(self, worker: Any) -> None:
        silence()
        require_equal(self.expected, {worker.address: versions()})
        limit_this_process()
