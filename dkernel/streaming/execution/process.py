"""Tasks prepare their worker process, under a lease that ends when no task has come for a while.

A run leaves nothing on a cluster that others use, such as a plugin that stays after its client was killed. Each task
prepares its process, which costs nothing if that was done before. LEASE seconds after the last task of any run the
process is restored.
"""

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from dkernel.data.failures import RefusedWorkerError
from dkernel.errors import ClusterError
from dkernel.numerics.allocator import keep_freed_pages
from dkernel.numerics.resource_limits import memory_limit
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.execution import process_cache
from dkernel.streaming.execution.in_task import worker_of_task
from dkernel.streaming.execution.user_modules import UserModule, install, remove_installed
from dkernel.streaming.execution.versions import require_equal, versions

T = TypeVar("T")

LEASE = 60.0  # seconds: longer than the pauses of a run between its tasks, and short for the next user of the worker

# These loggers write tracebacks of failed and lost tasks, which dkernel reports itself, once.
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


@dataclass(frozen=True)
class Settings:
    """Settings that the tasks of a run need in their process.

    Parameters
    ----------
    versions : name and version of each package that decides a result
    modules : modules of the user, imported before a task is unpickled
    lease : seconds without a task after which the process is restored
    quiet : whether Dask's logs of failures are hidden, in processes that the run has started
    """

    versions: tuple[tuple[str, str], ...]
    modules: tuple[UserModule, ...] = ()
    lease: float = LEASE
    quiet: bool = False


class _Process:
    """Changes that tasks have made to this process, and the thread that restores it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._met: Settings | None = None
        self._changes: ExitStack | None = None
        self._active = 0
        self._end = 0.0

    def require(self, settings: Settings) -> None:
        """Check the versions and install the modules of the settings; raise RefusedWorkerError where that fails."""
        with self._lock:
            if settings == self._met:
                return
            worker = str(worker_of_task().address)
            try:
                require_equal(dict(settings.versions), worker, versions())
                install(settings.modules)
            except ClusterError as error:
                raise RefusedWorkerError(worker, str(error)) from None
            self._met = settings

    @contextmanager
    def lease(self, settings: Settings) -> Iterator[None]:
        """Set one BLAS thread and kept pages inside this block and for the seconds of the lease after it."""
        with self._lock:
            if self._changes is None:
                self._changes = ExitStack()
                # The logs stay on a worker that others use too: their tasks would fail without a message.
                for change in (one_blas_thread(), keep_freed_pages(), *([quiet_logs()] if settings.quiet else [])):
                    self._changes.enter_context(change)
                threading.Thread(target=self._restore, name="dkernel-lease", daemon=True).start()
            self._active += 1
        try:
            yield
        finally:
            with self._lock:
                self._active -= 1
                self._end = max(self._end, time.monotonic() + settings.lease)
                self._lock.notify()

    def _restore(self) -> None:
        with self._lock:
            while self._active or time.monotonic() < self._end:
                self._lock.wait(None if self._active else self._end - time.monotonic())
            if self._changes is not None:
                self._changes.close()
                self._changes = None
                process_cache.drop_all()
                self._met = None
                remove_installed()


_process = _Process()


def call_prepared(settings: Settings, function: Callable[[], T]) -> T:
    """Call function() in this process under these settings; raise a RefusedWorkerError if it cannot meet them."""
    _process.require(settings)
    with _process.lease(settings):
        return function()


def check_process(settings: Settings, modules: Sequence[str]) -> tuple[int, float]:
    """The first task of a worker: import the modules of later tasks, and return the memory that it may use.

    That is the limit of the machine, and the share of the worker's own limit above which Dask begins no task on it.
    Of a limit that was given for this run it is all. It raises a RefusedWorkerError if the worker cannot run the tasks.
    """
    call_prepared(settings, partial(import_modules_of_tasks, modules))
    manager = worker_of_task().memory_manager
    return memory_limit(), settings.quiet or manager.memory_pause_fraction or 1.0


_quiet = threading.Lock()
_levels: dict[str, int] = {}
_quiet_blocks = 0


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep Dask's own logs of failures off stderr while at least one such block is open."""
    global _quiet_blocks
    with _quiet:
        if not _quiet_blocks:
            _levels.update((name, logging.getLogger(name).level) for name in _LOUD)
        _quiet_blocks += 1
        for name in _LOUD:
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _quiet:
            _quiet_blocks -= 1
            if not _quiet_blocks:
                for name, level in _levels.items():
                    logging.getLogger(name).setLevel(level)


def import_modules_of_tasks(modules: Sequence[str]) -> None:
    """Import these modules on all workers at the same time, so that the first calls do not wait for them."""
    for name in modules:
        importlib.import_module(name)
    importlib.import_module("dkernel.numerics.tiling").exp2_inplace(np.zeros(1, np.float32))


def warn(message: str, category: type[Warning], stacklevel: int = 1) -> None:
    """Warn here, and on a worker of a cluster also in its clients."""
    importlib.import_module("distributed").warn(message, category, stacklevel=stacklevel + 1)
