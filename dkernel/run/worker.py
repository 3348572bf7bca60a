"""What every worker process does once, at the start of a run or when it joins: versions, logs, BLAS, memory."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from distributed import WorkerPlugin

from dkernel.allocator import keep_pages
from dkernel.blas import limit_this_process
from dkernel.errors import ClusterError
from dkernel.execution.process import import_ahead, quiet_logs
from dkernel.execution.user_modules import carried, install
from dkernel.execution.versions import require_equal, versions
from dkernel.run.direct import answers, forgets

__all__ = ["WorkerSetup"]

_LOG = logging.getLogger("dkernel.worker")


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
        self._quiet = quiet_logs()
        self._quiet.__enter__()
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
