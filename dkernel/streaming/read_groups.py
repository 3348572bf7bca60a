"""Small units of a source are read, scored or written in groups by one task, or joined to one unit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any

from dask.delayed import Delayed
from dask.local import get_sync

from dkernel.data.block import Block, concatenate_blocks
from dkernel.data.source import Source, Unit
from dkernel.numerics.packed_rows import OneHotGroups, PackedRows
from dkernel.numerics.tiling import PIECE_ROWS, TILE_ROWS

# A group stays small beside other blocks, and many small files still make tasks for many workers.
MOST_BYTES, MOST_UNITS = 2**20, 64

JOINED = TILE_ROWS  # units with fewer rows are joined, since each would be padded to a tile in every pass

Task = tuple[Mapping[Any, Any], Any]
"""A graph of one task, and its key."""


def group_units(units: Sequence[Unit], row_bytes: int) -> list[range]:
    """Group neighbouring units, by their numbers, for one task each; a unit that needs other tasks is alone.

    Examples
    --------
    >>> units = [Unit((n,), Delayed(f"k{n}", {f"k{n}": n}), "a.npy") for n in (1, 2, 3, 10**6, 4)]
    >>> group_units(units, 8)
    [range(0, 3), range(3, 4), range(4, 5)]
    """
    groups: list[range] = []
    bytes_in_group = 0
    for number, unit in enumerate(units):
        size = unit.n_rows * row_bytes
        small = size <= MOST_BYTES and len(unit.task.__dask_graph__()) == 1
        if small and bytes_in_group and bytes_in_group + size <= MOST_BYTES and len(groups[-1]) < MOST_UNITS:
            groups[-1] = range(groups[-1].start, number + 1)
            bytes_in_group += size
        else:
            groups.append(range(number, number + 1))
            bytes_in_group = max(1, size) if small else 0
    return groups


def make_read_task(units: Sequence[Unit], read: Callable[[Sequence[Task]], Any] | None = None) -> Delayed:
    """Make the task that reads these units, by default to a tuple of their values; a single unit has its own task."""
    if len(units) == 1:
        return units[0].task
    tasks: list[Task] = [(dict(unit.task.__dask_graph__()), unit.task.key) for unit in units]
    name = sha256(repr([key for _, key in tasks]).encode()).hexdigest()[:16]
    key = f"{units[0].task.key}-to-{name}"
    graph: dict[Any, Any] = {key: (partial(read or read_together, tasks),)}
    return Delayed(key, graph)  # type: ignore[no-untyped-call]


def make_packed_task(task: Delayed, groups: OneHotGroups) -> Delayed:
    """Make the task of these blocks with the groups of their inputs as codes; a task alone stays one."""
    graph, key = dict(task.__dask_graph__()), f"{task.key}-packed"
    if len(graph) == 1:
        packed: dict[Any, Any] = {key: (partial(_read_and_pack, groups, graph, task.key),)}
    else:
        packed = {**graph, key: (partial(_pack, groups), task.key)}
    return Delayed(key, packed)  # type: ignore[no-untyped-call]


def _read_and_pack(groups: OneHotGroups, graph: Mapping[Any, Any], key: Any) -> Any:
    return _pack(groups, get_sync(dict(graph), key))


def _pack(groups: OneHotGroups, blocks: Any) -> Any:
    """Pack blocks, or tuples of them; a block that does not pack stays as it is."""
    if isinstance(blocks, Block):
        packed: Any = PackedRows.pack(blocks.X, groups)
        return blocks if packed is None else replace(blocks, X=packed)
    return tuple(_pack(groups, each) for each in blocks)


def read_together(tasks: Sequence[Task]) -> tuple[Any, ...]:
    """The values of these tasks; runs on a worker."""
    return tuple(get_sync(dict(graph), key) for graph, key in tasks)


def join_units(source: Source) -> Source:
    """Join each run of units with fewer than JOINED rows to one unit of up to PIECE_ROWS rows, which is one piece.

    Units that need other tasks are not joined, since these may be on many workers; neither are sparse rows.

    Examples
    --------
    >>> units = tuple(Unit((n,), Delayed(f"k{n}", {f"k{n}": n}), f"{n}.npy") for n in (20, 30, 4000, 40))
    >>> [unit.rows for unit in join_units(Source(units, ("x",))).units]
    [(50,), (4000,), (40,)]
    """
    runs: list[list[Unit]] = []
    room = 0
    for unit in source.units:
        if not unit.n_rows:
            continue  # a unit without rows changes no byte
        small = sum(n > 0 for n in unit.rows) == 1 and unit.n_rows < JOINED and len(unit.task.__dask_graph__()) == 1
        if small and unit.n_rows <= room:
            runs[-1].append(unit)
            room -= unit.n_rows
        else:
            runs.append([unit])
            room = PIECE_ROWS - unit.n_rows if small else 0
    if source.sparse or not runs or len(runs) == len(source.units):
        return source
    return replace(source, units=tuple(run[0] if len(run) == 1 else _join_run(run) for run in runs))


def _join_run(units: Sequence[Unit]) -> Unit:
    task = make_read_task(units, read_and_join)
    name = f"{units[0].name} to {units[-1].name}"
    return Unit((sum(unit.n_rows for unit in units),), task, name, tuple(units))


def read_and_join(tasks: Sequence[Task]) -> tuple[Block, ...]:
    """Read these tasks into one block; runs on a worker."""
    return (concatenate_blocks([block for blocks in read_together(tasks) for block in blocks]),)


def call_each(function: Callable[..., Any], items: Sequence[Sequence[Any]]) -> list[Any]:
    """Call the function on each of these tuples of arguments, in order; runs on a worker."""
    return [function(*item) for item in items]
