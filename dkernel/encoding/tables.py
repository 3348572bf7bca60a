"""Columns of Arrow tables as numbers and as codes of different values, without pandas."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MICRO = 1e-6  # seconds of a unit of time


def numbers(column: Any) -> NDArray[Any]:
    """A column of numbers, truth values or times as an array (n,): NaN where a value is missing, times in seconds.

    Examples
    --------
    >>> numbers(pa.array([1, None])), numbers(pa.array([0, 60], pa.timestamp("s")))
    (array([ 1., nan]), array([ 0., 60.]))
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    unit = 1.0
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        column, unit = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64()), MICRO
    elif pa.types.is_time(kind):
        column, unit = column.cast(pa.time64("us"), safe=False).cast(pa.int64()), MICRO
    elif pa.types.is_duration(kind):
        column, unit = column.cast(pa.duration("us"), safe=False).cast(pa.int64()), MICRO
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
    found: NDArray[Any] = values * unit if unit != 1.0 else values
    return found


def coded(column: Any) -> tuple[list[str | None], NDArray[np.int64]]:
    """The different values of a column as texts, None for a missing one, and for each row which of them it has.

    Whole numbers have the text without a point, in whatever type they come. An empty text is a missing value.

    Examples
    --------
    >>> words, codes = coded(pa.array(["b", None, "a", "b"]))
    >>> words, codes.tolist()
    (['b', 'a', None], [0, 2, 1, 0])
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found = found.dictionary_encode()
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    values = [word_of(value) for value in _listed(found.dictionary)]
    codes = found.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    return [*values, None] if found.indices.null_count else values, codes


def _listed(values: Any) -> list[Any]:
    found: list[Any] = (values.cast(pa.string()) if pa.types.is_temporal(values.type) else values).to_pylist()
    return found


def word_of(value: Any) -> str | None:
    """A value of a category as text, None for a missing one.

    Examples
    --------
    >>> word_of(3.0), word_of("3"), word_of(2.5), word_of(float("nan")), word_of(True)
    ('3', '3', '2.5', None, 'True')
    """
    if isinstance(value, float):
        if value != value:
            return None
        return str(int(value)) if value.is_integer() else repr(value)
    return None if value is None or value == "" else str(value)
