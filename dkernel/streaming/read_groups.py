"""Groups of small units of a source that one task reads, scores or writes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any

from dask.delayed import Delayed
from dask.local import get_sync

from dkernel.data.source import Unit

# A group stays small beside any other block, and many small files are still tasks for many workers.
MOST_BYTES, MOST_UNITS = 2**20, 64

Task = tuple[Mapping[Any, Any], Any]
"""A graph of one task, and its key."""


def grouped(units: Sequence[Unit], row_bytes: int) -> list[range]:
    """The numbers of the units in runs of neighbours, each for one task; a unit that other tasks make is one alone.

    Examples
    --------
    >>> units = [Unit((n,), Delayed(f"k{n}", {f"k{n}": n}), "a.npy") for n in (1, 2, 3, 10**6, 4)]
    >>> grouped(units, 8)
    [range(0, 3), range(3, 4), range(4, 5)]
    """
    found: list[range] = []
    held = 0
    for number, unit in enumerate(units):
        size = unit.n_rows * row_bytes
        small = size <= MOST_BYTES and len(unit.task.__dask_graph__()) == 1
        if small and held and held + size <= MOST_BYTES and len(found[-1]) < MOST_UNITS:
            found[-1] = range(found[-1].start, number + 1)
            held += size
        else:
            found.append(range(number, number + 1))
            held = max(1, size) if small else 0
    return found


def task_of(units: Sequence[Unit]) -> Delayed:
    """The task whose value is the tuple of the values of these units; a unit alone has its own task."""
    if len(units) == 1:
        return units[0].task
    tasks: list[Task] = [(dict(unit.task.__dask_graph__()), unit.task.key) for unit in units]
    name = sha256(repr([key for _, key in tasks]).encode()).hexdigest()[:16]
    key = f"{units[0].task.key}-to-{name}"
    graph: dict[Any, Any] = {key: (partial(read_together, tasks),)}
    return Delayed(key, graph)  # type: ignore[no-untyped-call]


def read_together(tasks: Sequence[Task]) -> tuple[Any, ...]:
    """The values of these tasks; runs on a worker."""
    return tuple(get_sync(dict(graph), key) for graph, key in tasks)


def call_each(function: Callable[..., Any], items: Sequence[Sequence[Any]]) -> list[Any]:
    """The function of each of these arguments, in order; runs on a worker."""
    return [function(*item) for item in items]
