"""What every worker process does once, at the start of a run or when it joins: versions, logs, BLAS, memory."""

import asyncio
import importlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from distributed import WorkerPlugin

from dkernel.allocator import keep_pages
from dkernel.blas import limit_this_process
from dkernel.errors import ClusterError
from dkernel.run.direct import answers, forgets
from dkernel.run.imports import carried, install
from dkernel.run.versions import require_equal, versions
from dkernel.tiles import exp2_inplace

__all__ = ["WorkerSetup", "quiet_logs", "silence"]

AHEAD = ("dkernel.data.npy", "dkernel.data.parquet", "dkernel.run.gradient", "dkernel.run.score", "dkernel.run.survey")

_LOG = logging.getLogger("dkernel.worker")

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


def import_ahead() -> None:
    """Import what tasks are made of, all workers at the same time: else each waits for it in its first tasks."""
    for name in AHEAD:
        importlib.import_module(name)
    exp2_inplace(np.zeros(1, np.float32))  # the first loop has numba load its compiler


class WorkerSetup(WorkerPlugin):
    """Refuses a worker of other versions; one BLAS thread, and pages that stay, for as long as the process lives.

    A worker that joins is set up before it is given a task. One of other versions would give other bits, and a run
    cannot keep the scheduler from using it: so it is closed, with its nanny, and the run goes on without it.
    """

    idempotent = False

    def __init__(self, expected: Mapping[str, str], topic: str) -> None:
        self.expected, self.topic = dict(expected), topic
        self._closing: asyncio.Future[Any] | None = None
        self.modules = carried()

    async def setup(self, worker: Any) -> None:
        silence()
        try:
            require_equal(self.expected, {worker.address: versions()})
            install(self.modules)
        except ClusterError as error:
            _LOG.error("%s", error)  # on the worker's own stderr, where its owner looks
            worker.log_event(self.topic, {"refused": str(error)})
            # Not waited for: it waits itself until this worker has joined. Once it has begun, no task is taken.
            self._closing = asyncio.ensure_future(worker.close(reason="dkernel refuses it"))
            await asyncio.sleep(0)
            raise
        limit_this_process()
        keep_pages()
        await asyncio.to_thread(import_ahead)
        answers(worker)

    async def teardown(self, worker: Any) -> None:  # noqa: ARG002
        forgets(self.topic)
