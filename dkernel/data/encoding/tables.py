"""Columns of tables as numbers and as codes of different values, without pandas.

A table is one of Arrow, or an array (n, p) of numbers, NaN where they are missing.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkernel.data.arrow import code_values, look_up, pick_rows
from dkernel.data.column_types import DATE, TEXT, column_type
from dkernel.data.encoding.words import to_words

MICRO = 1e-6  # seconds of a unit of time


def get_column(table: Any, j: int, name: str) -> Any:
    """A column of a table: the one with this name, of an array that in place j."""
    return table.column(name) if isinstance(table, pa.Table) else table[:, j]


def filter_rows(table: Any, rows: NDArray[Any]) -> Any:
    """Some rows of a table or an array, by a mask or by their numbers."""
    return pick_rows(table, rows) if isinstance(table, pa.Table) else table[rows]


def as_arrow(column: Any) -> Any:
    """A column as Arrow has it."""
    return pa.array(column) if isinstance(column, np.ndarray) else column


def column_numbers(column: Any) -> NDArray[Any]:
    """A column of numbers, truth values or times as an array (n,): NaN where a value is missing, times in seconds.

    Examples
    --------
    >>> column_numbers(pa.array([1, None])), column_numbers(pa.array([0, 60], pa.timestamp("s")))
    (array([ 1., nan]), array([ 0., 60.]))
    """
    if isinstance(column, np.ndarray):
        return column
    column = look_up(column)
    kind, steps = column.type, None
    if pa.types.is_temporal(kind):
        column, steps = _whole_steps(column, kind)
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
    if column.null_count:
        values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    else:
        values = column.to_numpy(zero_copy_only=False)
    # Floats first where a step is longer than a microsecond: far from 1970 there are too many for 64 bits.
    in_seconds: NDArray[Any] = values if steps is None else (values if steps == 1 else values * float(steps)) * MICRO
    return in_seconds


def find_zone(column: Any) -> bool | None:
    """Whether the times of a column have a zone; None where it holds no dates.

    Examples
    --------
    >>> find_zone(pa.array([0], pa.timestamp("s", "UTC"))), find_zone(pa.array([0], pa.date32())), find_zone(np.ones(1))
    (True, False, None)
    """
    kind = None if isinstance(column, np.ndarray) else look_up(column).type
    if kind is None or column_type(kind) != DATE:
        return None
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _whole_steps(column: Any, kind: pa.DataType) -> tuple[Any, int]:
    """Times as whole numbers, and how many microseconds one of their steps has; nanoseconds are cut off."""
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()), 86_400_000_000
    number = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    if unit == "ns":
        return pc.divide(number, 1000), 1
    return number, {"s": 1_000_000, "ms": 1000, "us": 1}[unit]


def code_column(column: Any, kind: str = TEXT) -> tuple[list[str | None], NDArray[np.int64]]:
    """The different values of a column as words, None for a missing one, and for each row which of them it has.

    Parameters
    ----------
    kind : of the values, as in `dkernel.data.encoding.words`

    Examples
    --------
    >>> words, codes = code_column(pa.array(["b", None, "a", "b"]))
    >>> words, codes.tolist()
    (['b', 'a', None], [0, 2, 1, 0])
    """
    encoded = code_values(as_arrow(column))
    values = to_words(encoded.dictionary, kind)
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    values += [None] * (encoded.indices.null_count > 0)
    words = list(dict.fromkeys(values))
    if len(words) < len(values):  # one value in several spellings
        number = {word: i for i, word in enumerate(words)}
        codes = np.array([number[value] for value in values], np.int64)[codes]
    return words, codes
