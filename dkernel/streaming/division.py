"""A rule by a column of a source, whole groups or the last rows, and the source without the rows that it takes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from dask.delayed import Delayed
from dask.local import get_sync
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.source import Source, Unit
from dkernel.errors import DataError
from dkernel.streaming.schedule import RowSlice


@dataclass(frozen=True)
class Division:
    """A rule that says of each row, by one column, whether it is left out.

    Parameters
    ----------
    kind : "group" or "time"
    limit : the largest hash of a group that is left out; the last moment that is learned from
    """

    kind: str
    column: str
    limit: float | int

    def held(self, kept: pa.Table) -> NDArray[np.bool_]:
        """Which rows are left out."""
        if self.kind == "time":
            return times_in(kept, self.column) > self.limit
        hashes, place = hashes_in(kept, self.column)
        return np.asarray(hashes <= np.uint64(self.limit))[place]


def without(source: Source, rule: Division, kept: Mapping[int, int]) -> Source:
    """The source without the rows that a rule leaves out, and without the column of this."""
    units, chunk = [], 0
    name = hashlib.sha256(repr(rule).encode()).hexdigest()[:16]
    for unit in source.units:
        rows = [kept[chunk + i] for i in range(len(unit.rows))]
        chunk += len(unit.rows)
        if not sum(rows):
            continue
        graph, key = dict(unit.task.__dask_graph__()), f"{unit.task.key}-without-{name}"
        read = partial(read_without, graph, unit.task.key, rule)
        task = Delayed(key, {key: (read,)})  # type: ignore[no-untyped-call]
        units.append(Unit(tuple(n for n in rows if n), task, unit.place))
    fingerprint = hashlib.sha256(f"{source.fingerprint}/{rule!r}".encode()).hexdigest()
    kept_columns = tuple(each for each in source.kept if each != rule.column)
    return replace(source, units=tuple(units), fingerprint=fingerprint, kept=kept_columns, counted=None)


def read_without(graph: Mapping[Any, Any], key: Any, rule: Division) -> tuple[Block, ...]:
    """The blocks of a unit without rows that are left out; runs on a worker."""
    blocks = []
    for block in get_sync(dict(graph), key):
        assert block.kept is not None
        rows = np.flatnonzero(~rule.held(block.kept))
        if len(rows):
            y, weight, marks = (None if a is None else a[rows] for a in (block.y, block.weight, block.marks))
            blocks.append(Block(block.X[rows], y, weight, marks=marks))
    return tuple(blocks)


def hashes_in(kept: pa.Table, column: str) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Hashes of the different groups, 63 bits, and of each row the place of its group among them."""
    return hashes_of(values_in(kept, column))


def hashes_of(values: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    names, place = np.unique(values.astype(str), return_inverse=True)
    hashes = [int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 1 for name in names.tolist()]
    return np.array(hashes, np.uint64), place


def times_in(kept: pa.Table, column: str) -> NDArray[np.float64]:
    """Numbers that rise with time: of dates, of text that holds them, and of numbers."""
    values = values_in(kept, column)
    if values.dtype.kind in "OU":
        import pandas as pd

        try:
            values = pd.to_datetime(pd.Series(values), format="ISO8601").to_numpy()
        except ValueError:
            first = values[0]
            raise DataError(
                f"holdout_by: the column {column!r} holds {first!r}. Dates as 2026-01-31, or numbers, are needed."
            ) from None
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.int64)
    return values.astype(np.float64)


def kept_of(block: Block, piece: RowSlice) -> pa.Table:
    """The kept columns of the rows of a piece."""
    assert block.kept is not None
    at = piece.place.rows
    return block.kept.take(np.arange(at.start, min(at.stop, len(block.kept)), at.step)[: piece.n])


def values_in(kept: pa.Table, column: str) -> NDArray[Any]:
    """The values of a column by which rows are divided; every row needs one."""
    cells = kept.column(column)
    values: NDArray[Any] = cells.to_pandas().to_numpy()
    empty = values.dtype.kind in "OU" and bool((values == "").any())  # an empty field of a CSV
    if cells.null_count or empty or (values.dtype.kind == "f" and np.isnan(values).any()):
        raise DataError(f"The column {column!r} divides the rows and has a missing value: every row needs one.")
    return values
