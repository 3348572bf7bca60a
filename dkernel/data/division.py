"""A rule that leaves rows out by a column of a source, whole groups or the last rows, and the source without them."""

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

from dkernel.data.arrow import column_numbers, look_up, pick_rows
from dkernel.data.block import Block
from dkernel.data.column_types import NUMBERS, TEXT, column_type
from dkernel.data.encoding.text_values import find_wrong_texts, values_of_texts
from dkernel.data.group_words import group_words
from dkernel.data.source import Source, Unit
from dkernel.errors import DataError


@dataclass(frozen=True)
class HoldoutRule:
    """A rule that decides for each row, by one column, whether it is left out.

    Parameters
    ----------
    kind : "group" or "time"
    limit : the largest hash of a group that is left out, or the last time that is learned from
    form : the format of dates that are text, "" for ISO 8601
    """

    kind: str
    column: str
    limit: float | int
    form: str = ""

    def leaves_out(self, table: pa.Table) -> NDArray[np.bool_]:
        """True for each row that is left out."""
        if self.kind == "time":
            return times_in(table, self.column, self.form) > self.limit
        hashes, inverse = hash_groups(groups_in(table, self.column))
        return np.asarray(hashes <= np.uint64(self.limit))[inverse]


def without(source: Source, rule: HoldoutRule, remaining: Mapping[int, int]) -> Source:
    """The source without the rows that a rule leaves out, and without the column of the rule."""
    units, chunk = [], 0
    name = hashlib.sha256(repr(rule).encode()).hexdigest()[:16]
    for unit in source.units:
        rows = [remaining[chunk + i] for i in range(len(unit.rows))]
        chunk += len(unit.rows)
        if not sum(rows):
            continue
        graph, key = dict(unit.task.__dask_graph__()), f"{unit.task.key}-without-{name}"
        read = partial(read_without, graph, unit.task.key, rule)
        task = Delayed(key, {key: (read,)})
        units.append(Unit(tuple(n for n in rows if n), task, unit.name))
    fingerprint = hashlib.sha256(f"{source.fingerprint}/{rule!r}".encode()).hexdigest()
    kept_columns = tuple(each for each in source.kept if each != rule.column)
    return replace(source, units=tuple(units), fingerprint=fingerprint, kept=kept_columns, counted=None)


def read_without(graph: Mapping[Any, Any], key: Any, rule: HoldoutRule) -> tuple[Block, ...]:
    """The blocks of a unit without rows that are left out; runs on a worker."""
    blocks = []
    for block in get_sync(dict(graph), key):
        assert block.kept is not None
        rows = np.flatnonzero(~rule.leaves_out(block.kept))
        if len(rows):
            y, weight, marks = (None if a is None else a[rows] for a in (block.y, block.weight, block.marks))
            blocks.append(Block(block.X[rows], y, weight, marks=marks))
    return tuple(blocks)


def hash_groups(groups: NDArray[np.str_]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
    """Hashes of the different groups, 63 bits, and for each row the number of its group among them."""
    names, inverse = np.unique(groups, return_inverse=True)
    hashes = [int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 1 for name in names.tolist()]
    return np.array(hashes, np.uint64), inverse


def groups_in(table: pa.Table, column: str) -> NDArray[np.str_]:
    """The words of the groups of rows; every row needs one."""
    return group_words(table.column(column), f"The column {column!r}")


def times_in(table: pa.Table, column: str, form: str = "") -> NDArray[np.float64]:
    """Numbers that rise with time: seconds of dates, of times and of dates that are text; every row needs one."""
    values = look_up(table.column(column))
    kind = column_type(values.type)
    if kind == TEXT or (form and kind in NUMBERS):
        texts = values
        try:
            values = values_of_texts(texts, column, "the rows, row {} of a block".format, form)
        except DataError:
            if form:
                raise
            raise DataError(
                f"The column {column!r} divides the rows by time, and {min(find_wrong_texts(texts, form).items())[1]}: "
                "every row needs one. Change formats, or use another column."
            ) from None
    times = column_numbers(values).astype(np.float64)
    if np.isnan(times).any():
        raise DataError(f"The column {column!r} divides the rows and has a missing value: every row needs one.")
    return times


def read_kept(block: Block, at: slice, n: int) -> pa.Table:
    """The kept columns of the first n of some rows of a block, as those of a piece."""
    assert block.kept is not None
    return pick_rows(block.kept, np.arange(at.start, min(at.stop, len(block.kept)), at.step)[:n])
