"""Numbers and rows between numpy and Arrow, by their bytes, and Parquet files under any name.

Arrow's own ways import pandas first, 0.3 s of every worker, and know names in UTF-8 only.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dkernel.data.column_types import BOOL, DATE, DECIMAL, EMPTY, TIMES, column_type, value_type

_PLAIN = {pa.from_numpy_dtype(np.dtype(code)): np.dtype(code) for code in np.typecodes["AllInteger"] + "efd"}

_MICRO = 1e-6  # seconds of a unit of time

_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def as_native(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers in the byte order of this machine, long doubles as float64: Arrow has no others.

    Examples
    --------
    >>> as_native(np.array([1.5], ">f4")).dtype, as_native(np.array([1.5], np.longdouble)).dtype
    (dtype('float32'), dtype('float64'))
    """
    if values.dtype == np.longdouble:
        with np.errstate(over="ignore"):
            return values.astype(np.float64)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def as_column(values: Any) -> Any:
    """An array (n,) as a column that shares its memory where it holds numbers; a column of Arrow as it is.

    Examples
    --------
    >>> as_column(np.array([1.5, 2.5])).to_pylist()
    [1.5, 2.5]
    """
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype not in _PLAIN.values():
        return pa.array(values)
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def column_array(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column without missing values as an array (n,), which shares its memory where it is one chunk of numbers.

    Examples
    --------
    >>> column_array(pa.array([1, 2, 3]).slice(1))
    array([2, 3])
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            chunks = [column_array(chunk) for chunk in column.chunks]
            return np.concatenate(chunks) if chunks else column.to_numpy()
        column = column.chunk(0)
    if column.type not in _PLAIN or column.null_count or not len(column):
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    dtype = _PLAIN[column.type]
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def column_numbers(column: Any) -> NDArray[Any]:
    """A column of numbers, truth values or times as an array (n,): NaN where a value is missing, times in seconds.

    Examples
    --------
    >>> column_numbers(pa.array([1, None])), column_numbers(pa.array([0, 60], pa.timestamp("s")))
    (array([ 1., nan]), array([ 0., 60.]))
    """
    if isinstance(column, np.ndarray):
        return column
    column, steps = look_up(column), None
    kind = column_type(column.type)
    if kind == EMPTY:
        return np.full(len(column), np.nan)
    if kind in TIMES:
        column, steps = _whole_steps(column)
    elif kind in (BOOL, DECIMAL):
        column = column.cast(pa.uint8() if kind == BOOL else pa.float64())
    if column.null_count:
        values = column_array(column.fill_null(0)).astype(np.float64)
        values[column_array(column.is_null())] = np.nan
    else:
        values = column_array(column)
    # Floats first where a step is longer than a microsecond: far from 1970 there are too many for 64 bits.
    in_seconds: NDArray[Any] = values if steps is None else (values if steps == 1 else values * float(steps)) * _MICRO
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


def _whole_steps(column: Any) -> tuple[Any, int]:
    """Times as whole numbers, and how many microseconds one of their steps has; nanoseconds are cut off."""
    kind = column.type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()), 86_400_000_000
    number = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    if unit == "ns":
        return pc.divide(number, 1000), 1
    return number, {"s": 1_000_000, "ms": 1000, "us": 1}[unit]


def get_column(table: Any, j: int, name: str) -> Any:
    """A column of a table of Arrow by its name, of an array (n, p) that in place j."""
    return table.column(name) if isinstance(table, pa.Table) else table[:, j]


def pick_rows(table: Any, rows: NDArray[Any]) -> Any:
    """Some rows of a table or an array, by their numbers or by a mask (n,); of views Arrow itself selects none.

    Examples
    --------
    >>> pick_rows(pa.table({"a": pa.array(["u", "v"]).cast(pa.string_view())}), np.array([1]))["a"].to_pylist()
    ['v']
    """
    if not isinstance(table, pa.Table):
        return table[rows]
    if any(kind in _VIEWS for kind in table.schema.types):
        plain = pa.schema([field.with_type(_VIEWS.get(field.type, field.type)) for field in table.schema])
        return pick_rows(table.cast(plain), rows).cast(table.schema)
    return table.filter(pa.array(rows)) if rows.dtype == bool else table.take(rows)


def cut_tables(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut the rows of tables into tables of `rows` rows each, but for the last.

    Examples
    --------
    >>> table = pa.table({"a": range(6)})
    >>> [len(each) for each in cut_tables([table[:1], table[1:5], table[5:]], 4)]
    [4, 2]
    """
    waiting, n = [], 0
    for table in tables:
        waiting.append(table)
        n += len(table)
        while n >= rows:
            joined = pa.concat_tables(waiting)
            yield joined[:rows]
            waiting, n = [joined[rows:]], n - rows
    if n:
        yield pa.concat_tables(waiting)


def look_up(column: Any) -> Any:
    """A column with its dictionary looked up, if it has one; it may then hold a null that the dictionary had."""
    kind = value_type(column.type)
    return column if kind == column.type else column.cast(kind)


def code_values(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """The different values of a column, and for each row which of them it has.

    Examples
    --------
    >>> coded = code_values(pa.chunked_array([["b", "a"], ["b"]]))
    >>> coded.dictionary.to_pylist(), coded.indices.to_pylist()
    (['b', 'a'], [0, 1, 0])
    """
    column = look_up(column)
    coded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    return coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded


def text_of_bytes(column: Any) -> Any:
    """A column of bytes as text; an ArrowInvalid where some are not UTF-8.

    Examples
    --------
    >>> text_of_bytes(pa.array([b"a", None])).to_pylist()
    ['a', None]
    """
    return look_up(column).cast(pa.large_binary()).cast(pa.large_string())


@contextmanager
def open_parquet(path: str | os.PathLike[str]) -> Iterator[pq.ParquetFile]:
    """A Parquet file that dkernel wrote. Its name may be any bytes; Arrow alone takes UTF-8 only."""
    with pa.OSFile(os.fsencode(path)) as stream, pq.ParquetFile(stream) as file:
        yield file
