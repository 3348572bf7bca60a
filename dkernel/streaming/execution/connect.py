"""Makes the executor that a run asks for, and closes it at the end of the run.

Nothing here imports `distributed` until a cluster is asked for: a run on threads does not need it.
"""

import importlib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import forkserver as server
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask

from dkernel.data.compute import LOG, leave_pool
from dkernel.data.failures import PATIENCE
from dkernel.errors import ClusterError, RecipeError
from dkernel.numerics.allocator import ONE_HEAP
from dkernel.streaming.execution import tasks
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.cluster import ClusterExecutor
from dkernel.streaming.execution.in_task import task_modules, worker_of_task
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.execution.process import quiet_logs

# The plan limits the blocks in memory. Spilling would write blocks to disk that are read faster from their source, and
# it begins at 60 % of a limit, which a worker reaches that only reads ahead.
MEMORY_SETTINGS = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": 0.9,
    "distributed.worker.memory.terminate": 0.98,
}
# By default Dask's own profiling and monitoring take a twentieth of the cores that the tasks run on.
BESIDE = {
    "distributed.worker.profile.interval": "200ms",
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
}
# A stolen call copies its blocks: a pass over 20 million rows was a tenth longer. Shares are even beforehand
# (streaming/shares.py).
PLACED = {"distributed.scheduler.work-stealing": False}
# A process that is begun by `python -c`, as multiprocessing begins its own, would first look for each module in the
# folder of the call, where a file beside the data may have its name.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
# Arrow's own allocators keep what a read has freed; the system's gives it back.
ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", **SAFE_PATH}
# The C library reads this before a worker's first line runs.
BEFORE = {f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in ONE_HEAP.items()}
# Dask's local cluster gives up a dead worker for good if another one does not start in 15 seconds. On a busy machine a
# start takes longer. The executor's patience decides when to give up.
KEEP_PLACES = {"distributed.deploy.lost-worker-timeout": "1 hour"}
# Each end of a connection keeps its last thousand messages, with the pieces of their calls: 40 MiB of the client in a
# long reading.
SHORT_LOGS = {"distributed.admin.low-level-log-length": 32}
# Workers are forked from one process that has imported their modules; each import takes a second of CPU.
FORKED = {"distributed.worker.multiprocessing-method": "forkserver"} if sys.platform == "linux" else {}
OWN = {**MEMORY_SETTINGS, **BESIDE, **PLACED, **SHORT_LOGS, **BEFORE, **FORKED}
CONNECT_TIMEOUT = 10.0  # seconds for a scheduler that is there
_WITH_TLS = "If it is there it refused: Dask's settings distributed.comm.tls must be certificates of its authority."
_WITHOUT_TLS = "If it demands TLS, its address begins with tls://, and Dask's settings distributed.comm.tls are needed."
CLOSE_TIMEOUT = 10.0  # seconds that a closing cluster may take before it is left to itself


@contextmanager
def connect(
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    workers: int | None = None,
    memory_limit: str | int | None = None,
    patience: float = PATIENCE,
    tell: Callable[[str], None] = LOG.warning,
) -> Iterator[Executor]:
    """Make the executor that the run options ask for; it is closed at the end of the block.

    Parameters
    ----------
    scheduler : address of a Dask scheduler that runs already
    scheduler_file : the file that it wrote (`dask scheduler --scheduler-file`)
    workers : that many single-threaded processes on this machine, started here
    memory_limit : of each of these processes, as in Dask ("2GiB", bytes, or 0 for none); of this one without them
    patience : seconds without workers or progress before a ClusterError
    tell : called with the message for a longer wait for workers

    Without any of these the threads of this process do the work.

    Examples
    --------
    >>> with connect() as executor:
    ...     executor.name
    'threads'
    """
    asked = {"scheduler": scheduler, "scheduler_file": scheduler_file, "workers": workers}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise RecipeError(f"{' and '.join(given)} are different ways to run: give one of them.")
    with client_at(scheduler, scheduler_file, workers, memory_limit, patience) as client:
        executor: Executor
        if client is None:
            executor = ThreadsExecutor(memory_limit=parse_memory_limit(memory_limit))
        else:
            executor = ClusterExecutor(client, patience, workers or 1, workers is not None, tell)
        with executor:
            yield executor


@contextmanager
def client_at(
    scheduler: str | None = None,
    scheduler_file: str | None = None,
    workers: int | None = None,
    memory_limit: str | int | None = None,
    patience: float = 0.0,
) -> Iterator[Any]:
    """Make the Dask client that `connect` would use, without a check of its workers; None for threads.

    A scheduler that does not answer is refused after CONNECT_TIMEOUT; one that is lost later is waited for during
    `patience`. A client has one timeout for both, so the first connection is made by another client.
    """
    if workers is not None:
        with _local_cluster(workers, memory_limit) as cluster, _client(cluster, CONNECT_TIMEOUT) as client:
            yield client
    elif scheduler or scheduler_file:
        address = scheduler or _address_in(str(scheduler_file))
        if patience > CONNECT_TIMEOUT:
            with _client(address, CONNECT_TIMEOUT):
                pass
        with _client(address, max(patience, CONNECT_TIMEOUT)) as client:
            yield client
    else:
        yield None


def find_dashboard(client: Any) -> str | None:
    """Address of the dashboard of a cluster, None if there is none."""
    with suppress(KeyError, AttributeError, ValueError):
        link: str | None = client.dashboard_link
        return link
    return None


def parse_memory_limit(limit: str | int | None) -> int | None:
    """Parse an amount of memory to bytes; None for no limit."""
    from dask.utils import parse_bytes

    if limit is None or limit in (0, "0"):
        return None
    try:
        return int(parse_bytes(limit))
    except ValueError:
        raise RecipeError(f"memory_limit={limit!r} is not an amount of memory; write 2GiB, 512MiB or bytes.") from None


def default_executor() -> Executor:
    """Make an executor of the caller's `Client` if this process has one, else of threads.

    In a task of a cluster the threads are those of its worker, also if joblib's "dask" backend leaves a client: tasks
    that fit and wait for tasks of their own would hold every thread that these need, and wait for ever. A task that
    makes a client its current one (`with get_client().as_current():`) uses the cluster, and gives its thread back
    meanwhile.
    """
    worker = worker_of_task()
    if "distributed" in sys.modules:
        with suppress(ValueError):
            client = _distributed().Client.current(allow_global=worker is None)
            if worker is not None:
                leave_pool()
            return ClusterExecutor(client)
    return ThreadsExecutor(None if worker is None else worker.state.nthreads)


@contextmanager
def _local_cluster(workers: int, memory_limit: str | int | None) -> Iterator[Any]:
    if workers < 1:
        raise RecipeError(f"workers={workers}: at least one process is needed.")
    _distributed()  # sets the defaults of Dask's configuration
    with dask.config.set(OWN), _variables(SAFE_PATH):  # also for workers that are begun later
        try:
            cluster = _start_workers(workers, memory_limit)
        except (OSError, RuntimeError) as error:
            raise ClusterError(
                f"The {workers} worker processes did not start: {error}. In a script of your own, call this below "
                'if __name__ == "__main__": since every worker imports the script.'
            ) from error
        try:
            with dask.config.set(KEEP_PLACES):
                yield cluster
        finally:
            with suppress(TimeoutError):
                cluster.close(timeout=CLOSE_TIMEOUT)


def _start_workers(workers: int, memory_limit: str | int | None) -> Any:
    with _without_interrupts():
        start_fork_server()
        # The process that workers are forked from keeps the environment of its start.
        fixed = dask.config.get("distributed.nanny.pre-spawn-environ")
        now = {name: value for name, value in os.environ.items() if name not in fixed}
        return _distributed().LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit="auto" if memory_limit is None else memory_limit,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            env={**now, **ENVIRONMENT},
        )


def start_fork_server() -> None:
    """Start the process that workers are forked from, unless it runs; it imports their modules meanwhile."""
    if not FORKED:
        return
    _distributed()  # sets the defaults of Dask's configuration
    server.set_forkserver_preload(["distributed", tasks.__name__, *task_modules()])
    asked = dask.config.get("distributed.nanny.pre-spawn-environ")
    with _variables({**asked, **ONE_HEAP, **ENVIRONMENT}), _without_interrupts():
        server.ensure_running()


@contextmanager
def _variables(values: Mapping[str, Any]) -> Iterator[None]:
    """Set variables of the environment for processes that are begun in this block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: str(value) for name, value in values.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block SIGINT in threads that begin in this block, and in the processes that these start.

    Ctrl-C reaches every process of a terminal. This process ends its workers, which would otherwise print tracebacks.
    """
    resource_tracker.ensure_running()  # started later, it would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _client(address: Any, timeout: float) -> Iterator[Any]:
    """A client that waits `timeout` seconds for its scheduler, at the start and whenever the connection breaks."""
    try:
        client = _distributed().Client(address, timeout=timeout)
    except (OSError, ValueError, RuntimeError, TypeError) as error:
        encrypted = str(address).startswith("tls://")
        if isinstance(error, (RuntimeError, TypeError)) and not encrypted:
            raise
        raise ClusterError(
            f"No Dask scheduler answers at {address} ({type(error).__name__}: {error}). "
            "Check the address and that `dask scheduler` runs there and can be reached from here. "
            + (_WITH_TLS if encrypted else _WITHOUT_TLS)
        ) from None
    try:
        yield client
    finally:
        with suppress(TimeoutError), quiet_logs():  # of messages that its end interrupts
            client.close(timeout=CLOSE_TIMEOUT)


def _distributed() -> Any:
    return importlib.import_module("distributed")


def _address_in(scheduler_file: str) -> str:
    """The address in a scheduler file; waits for a file that is not written yet."""
    deadline = time.monotonic() + CONNECT_TIMEOUT
    while True:
        try:
            return str(json.loads(Path(scheduler_file).read_text())["address"])
        except (OSError, ValueError, KeyError) as error:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"No scheduler address in {scheduler_file} ({type(error).__name__}). "
                    f"Start one with: dask scheduler --scheduler-file {scheduler_file}"
                ) from None
        time.sleep(0.1)
