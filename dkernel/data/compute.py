"""Dask's `compute` for what a source asks at once: counts of rows, heads of files, sizes of chunks."""

import importlib
import sys
from typing import Any

import dask.base
from dask import config
from dask.threaded import get as get_threaded


def dask_compute(*collections: Any) -> tuple[Any, ...]:
    """`dask.compute`, by threads where there is no client; Dask itself imports distributed to look for one."""
    values: tuple[Any, ...] = dask.base.compute(*collections, scheduler=get_threaded if _alone() else None)
    return values


def _alone() -> bool:
    """Whether there is no client, and no other scheduler in Dask's configuration.

    The configuration keeps naming distributed when two clients are closed in the order in which they were opened, as
    those of two threads may be; Dask then refuses to compute.
    """
    chosen = config.get("scheduler", None)
    if "distributed" not in sys.modules:
        return not chosen
    if chosen != "dask.distributed":
        return False
    try:
        importlib.import_module("distributed").Client.current()
    except ValueError:
        return True
    return False
