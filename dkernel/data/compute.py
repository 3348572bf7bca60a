"""Dask's `compute` for what a source asks at once: counts of rows, heads of files, sizes of chunks."""

import importlib
import logging
import sys
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any

import dask.base
from dask import config
from dask.threaded import get as get_threaded

from dkernel.data.failures import PATIENCE, START, KilledCallError, ask_in_thread, describe_idle
from dkernel.errors import ClusterError, UnsupportedError
from dkernel.numerics.threads import usable_cores

LOG = logging.getLogger("dkernel")  # by default on stderr


def dask_compute(*collections: Any) -> tuple[Any, ...]:
    """`dask.compute`, by threads where there is no client; Dask itself imports distributed to look for one."""
    if config.get("scheduler", None) not in (None, "dask.distributed"):
        values: tuple[Any, ...] = dask.base.compute(*collections)
        return values
    if (client := _client()) is None:
        return compute_by_threads(*collections)
    refuse_asynchronous(client)
    try:
        return tuple(dask.base.compute(*collections, scheduler=partial(_get, client)))
    except CancelledError:
        raise lost_rows(client.scheduler.address) from None


def leave_pool() -> None:
    """Give the thread of this task back to its worker, which can then run the tasks that this one waits for."""
    with suppress(ValueError, KeyError, AttributeError):  # this is no task, or one that has left the pool already
        importlib.import_module("distributed").secede()


def _get(client: Any, graph: Any, keys: Any, **options: Any) -> Any:
    """`Client.get`, with an error of dkernel where it would wait for ever for workers, or raise one of Dask."""
    futures = client.get(graph, keys, sync=False, **options)
    leave_pool()
    answer, worked, told = ask_in_thread(lambda: client.gather(futures)), time.monotonic(), False
    try:
        while not wait([answer], min(START, PATIENCE) / 2).done:
            if not (why := describe_idle(client)):
                worked = time.monotonic()
            elif (waited := time.monotonic() - worked) > PATIENCE:
                raise ClusterError(f"{why} It was waited for {PATIENCE:.0f} seconds.")
            elif waited > START and not told:
                LOG.warning(f"{why} It is waited for up to {PATIENCE:.0f} seconds.")
                told = True
        return answer.result()
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # a name: distributed is imported only where a cluster is used
            raise KilledCallError.of(error) from None
        raise
    finally:
        for future in futures:
            future.release()


def refuse_asynchronous(client: Any) -> None:
    """Refuse a client that answers with coroutines."""
    if client.asynchronous:
        raise UnsupportedError(
            "dkernel waits for its results, which an asynchronous Client cannot do: pass Client(..., "
            "asynchronous=False)."
        )


def lost_rows(address: str) -> ClusterError:
    """The error for rows that the caller has persisted on the cluster at this address, and which are there no more."""
    return ClusterError(
        f"Rows that were persisted on the cluster at {address} are lost: they were cancelled, or its scheduler ended. "
        "Persist them again, and run this again."
    )


def compute_by_threads(*collections: Any, threads: int | None = None, traverse: bool = True) -> tuple[Any, ...]:
    """`dask.compute` by threads that end with the call, unless Dask's configuration has a pool.

    Those that Dask keeps for the next call are not there in a forked process, which would wait for them for ever.
    """
    pool = config.get("pool", None)
    executor = pool or ThreadPoolExecutor(threads or config.get("num_workers", None) or usable_cores())
    try:
        values: tuple[Any, ...] = dask.base.compute(
            *collections, scheduler=get_threaded, pool=executor, traverse=traverse
        )
    finally:
        if pool is None:
            executor.shutdown(wait=False, cancel_futures=True)  # all is done, or nobody waits for the rest
    return values


def _client() -> Any:
    """The client of this thread, None without one.

    The configuration keeps naming distributed when two clients are closed in the order in which they were opened, as
    those of two threads may be; Dask then refuses to compute.
    """
    if "distributed" not in sys.modules:
        return None
    try:
        return importlib.import_module("distributed").get_client()
    except ValueError:
        return None
