"""Dask's `compute` for what a source asks at once: counts of rows, heads of files, sizes of chunks."""

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask.base
from dask import config
from dask.threaded import get as get_threaded

from dkernel.numerics.threads import usable_cores


def dask_compute(*collections: Any) -> tuple[Any, ...]:
    """`dask.compute`, by threads where there is no client; Dask itself imports distributed to look for one."""
    if _alone():
        return compute_by_threads(*collections)
    values: tuple[Any, ...] = dask.base.compute(*collections)
    return values


def compute_by_threads(*collections: Any, threads: int | None = None, traverse: bool = True) -> tuple[Any, ...]:
    """`dask.compute` by threads that end with the call, unless Dask's configuration has a pool.

    Those that Dask keeps for the next call are not there in a forked process, which would wait for them for ever.
    """
    pool = config.get("pool", None)
    own = pool or ThreadPoolExecutor(threads or config.get("num_workers", None) or usable_cores())
    try:
        values: tuple[Any, ...] = dask.base.compute(*collections, scheduler=get_threaded, pool=own, traverse=traverse)
    finally:
        if pool is None:
            own.shutdown(wait=False, cancel_futures=True)  # all is done, or what is left is not wanted
    return values


def _alone() -> bool:
    """Whether there is no client, and no other scheduler in Dask's configuration.

    The configuration keeps naming distributed when two clients are closed in the order in which they were opened, as
    those of two threads may be; Dask then refuses to compute.
    """
    chosen = config.get("scheduler", None)
    if "distributed" not in sys.modules or chosen not in (None, "dask.distributed"):
        return not chosen
    try:
        importlib.import_module("distributed").get_client()
    except ValueError:
        return True
    return False
