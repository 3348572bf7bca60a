"""A table in memory, a data frame or an array: its names, rows and columns, as numbers and as Arrow has them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import as_native, text_of_bytes
from dkernel.data.arrow_streams import is_stream
from dkernel.data.collections.dask_arrays import dense, is_dask, refuse_parts
from dkernel.data.column_types import (
    COLUMN_TYPES,
    DURATION,
    EMPTY,
    FLOAT,
    NUMBERS,
    OTHER,
    TEXT,
    TIMES,
    are_numbers,
    arrow_type,
    column_type,
    is_bytes,
    name_type,
)
from dkernel.data.encoding.tables import code_column, column_numbers
from dkernel.data.readers.array_file import fill_block
from dkernel.data.readers.text_dates import is_number_format, values_of_texts
from dkernel.errors import DataError
from dkernel.numerics.rows import stored_arrays
from dkernel.numerics.sparse_rows import RangeNames, SparseRows, is_wide

_LOOKED_AT = 1000  # values of a column whose types a message names


FITTING = {
    "number": (*NUMBERS, EMPTY),
    **{kind: (kind, EMPTY) for kind in TIMES},
    "category": COLUMN_TYPES,
}
"""Kind of a column of an encoding -> the kinds of data (column_types.COLUMN_TYPES) that it takes."""


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a frame; None of an array."""
    return tuple(map(str, X.columns)) if hasattr(X, "columns") else None


def check_names(names: Sequence[str] | None, p: int) -> Sequence[str]:
    """A name for each of p columns, the given ones or numbers; a DataError unless they are p different ones."""
    if isinstance(names, RangeNames) and len(names) == p:
        return names
    columns = tuple(map(str, names or range(p)))
    if len(columns) != p:
        raise DataError(f"X has {p} columns, but {len(columns)} names were given.")
    if len(set(columns)) < p:
        twice = next(n for n in columns if columns.count(n) > 1)
        raise DataError(f"X has the column {twice!r} twice; every column needs a name of its own.")
    if not p:
        raise DataError("X has no columns.")
    return columns


def as_table(X: Any) -> Any:
    """Lists and the like as an array; a frame, an array, sparse rows and what is in Dask, as they are."""
    return X if is_dask(X) or hasattr(X, "iloc") or hasattr(X, "tocsr") else np.asarray(X)


def stays_sparse(X: Any, asked: bool | None = None) -> bool:
    """True if the rows are taken as sparse: as asked, else by width, and in memory by what is stored.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> stays_sparse(sp.csr_array((3, 10_000))), stays_sparse(sp.csr_array((3, 100))), stays_sparse(np.ones((3, 9)))
    (True, False, False)
    """
    if asked is not None:
        return asked
    if isinstance(X, SparseRows):
        return True
    if is_dask(X):
        meta = getattr(X, "_meta", None)
        return hasattr(meta, "tocsr") and X.ndim == 2 and is_wide(int(X.shape[1]))
    if not hasattr(X, "tocsr"):
        return False
    rows, p = X.shape
    return is_wide(p, X.nnz / max(1, rows * p))


def take_rows(X: Any, rows: slice) -> Any:
    """Some rows of a frame or an array, or of one column of either."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def matrix(table: Any, dtype: str) -> Any:
    """The columns of a frame as an array (n, p), of numbers or, of dtype "object", of what they hold.

    An array and sparse rows are as they are.
    """
    if not hasattr(table, "iloc"):
        return table
    columns = [table.iloc[:, j] for j in range(table.shape[1])]
    if dtype == "object":
        X = np.empty(table.shape, dtype=object)
        for j, column in enumerate(columns):
            X[:, j] = column.to_numpy(dtype=object)
        return X
    try:
        return fill_block(list(map(_numbers, columns)), len(table), dtype)
    except (TypeError, ValueError):
        odd = next(name for name, dtype_of in table.dtypes.items() if not are_numbers(dtype_of))
        raise explain_other_kind(odd, table[odd].dropna().iloc[0]) from None


def column_arrays(table: Any, columns: Sequence[str] | None) -> Iterator[NDArray[Any]]:
    """The arrays that a table consists of: of a frame those of its columns.

    Parameters
    ----------
    columns : names of those of a frame that may hold text, categories and times; None where all are numbers
    """
    if not hasattr(table, "iloc"):
        return iter(stored_arrays(table))
    if columns is None:
        return (_numbers(table.iloc[:, j]) for j in range(table.shape[1]))
    return chain.from_iterable(map(_arrays_of_column, to_table(table, columns).columns))


def _arrays_of_column(column: pa.ChunkedArray) -> Iterator[NDArray[Any]]:
    if column_type(column.type) != TEXT:
        yield column_numbers(column)
        return
    words, codes = code_column(column)
    yield from (np.frombuffer(repr(words).encode(), np.uint8), codes)


def _numbers(column: Any) -> NDArray[Any]:
    """A column of a frame; what is missing in a nullable one becomes NaN, which the gate refuses with its place."""
    if isinstance(column.dtype, np.dtype):
        values = column.to_numpy()
        try:
            return values.astype(np.float64) if values.dtype.kind == "O" else values  # decimals, say
        except OverflowError as error:
            raise DataError(f"Column {column.name!r} of X holds a number too large for float64 ({error}).") from None
    return column.to_numpy(dtype="float64", na_value=np.nan)


def has_missing(X: Any) -> bool:
    """True if a value of a frame or an array in memory is missing; of what is in Dask nobody has looked."""
    if is_dask(X):
        return False
    if hasattr(X, "isna"):
        return bool(X.isna().to_numpy().any())
    if X.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum(dtype=np.float64))) and bool(np.isnan(X).any())


def check_numbers(table: Any, columns: Sequence[str]) -> None:
    """A DataError that names the first column of a frame or array that holds no numbers."""
    if hasattr(table, "dtypes"):
        kinds, _ = column_kinds(table, columns)
        dtypes = zip(columns, table.dtypes, strict=True)
        odd = next(((f"column {name!r} of X", dtype) for name, dtype in dtypes if kinds[name] not in NUMBERS), None)
    else:
        odd = None if are_numbers(table.dtype) else ("X", table.dtype)
    if odd is not None:
        what, dtype = odd
        raise DataError(
            f"The {what} is of type {dtype}, not numbers: leave it out, or encode it as numbers. fit of "
            "KernelClassifier and KernelRegressor encodes text, categories and dates; for others sklearn.preprocessing "
            "has encoders."
        )


def column_dtypes(X: Any) -> list[Any]:
    """The dtype of each column of a frame, or of an array, all of whose columns have one."""
    return list(X.dtypes) if hasattr(X, "dtypes") else [X.dtype] * int(X.shape[1])


def holds_columns(X: Any) -> bool:
    """True of what an encoding can take: a frame, or an array (n, p) of numbers, in memory or in Dask."""
    return X.ndim == 2 and (hasattr(X, "dtypes") or are_numbers(X.dtype))


def column_kinds(X: Any, columns: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Kind of each column, one of column_types.COLUMN_TYPES, and the columns that are stored as categories."""
    kinds, stored = {}, set()
    for j, (name, dtype) in enumerate(zip(columns, column_dtypes(X), strict=True)):
        arrow = arrow_type(dtype)
        if arrow is not None and pa.types.is_dictionary(arrow):
            stored.add(name)
            kinds[name] = TEXT
        elif arrow is not None:
            kinds[name] = column_type(arrow)
        else:  # objects, of which those of Dask are on workers
            kinds[name] = TEXT if is_dask(X) else _type_of_objects(X.iloc[:, j])
    return kinds, frozenset(stored)


def _type_of_objects(column: Any) -> str:
    try:
        return column_type(pa.array(column, from_pandas=True).type)
    except OverflowError:  # whole numbers of more than 64 bits
        return FLOAT
    except (pa.ArrowException, TypeError, ValueError):
        return OTHER


def types_in(X: Any, j: int) -> str:
    """The types of the first values of a column, in words; what is in Dask is not looked at."""
    if is_dask(X) or not hasattr(X, "iloc"):
        return f"values of {column_dtypes(X)[j]}"
    column = X.iloc[:, j]
    types = sorted({type(value).__name__ for value in column[column.notna()].head(_LOOKED_AT)})
    return "text" if types == ["str"] else f"values of type {' and '.join(types)}"


def explain_other_kind(name: Any, value: Any, kind: str = "number") -> DataError:
    """The error that some rows have another type than the others, or those of the training, which have this kind."""
    there = "numbers" if kind == "number" else name_type(kind)
    return DataError(
        f"Column {name!r} of X holds {value!r}, where other rows or the training have {there}: give all its values one "
        "type."
    )


def to_table(
    X: Any,
    columns: Sequence[str],
    kinds: Mapping[str, str] | None = None,
    formats: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Rows as an Arrow table with these names, or as an array of numbers; sparse rows become dense.

    A column of `kinds` may be of another type only where it holds nothing, times as text, or dates in one of `formats`.
    """
    if not hasattr(X, "iloc"):
        return dense(X)
    arrays = []
    for j, name in enumerate(columns):
        column = X.iloc[:, j]
        arrays.append(_to_arrow(column, name))
        if kinds is not None and (kind := column_type(arrays[-1].type)) not in FITTING[kinds[name]]:
            form = DURATION if kinds[name] == DURATION else formats.get(name, "")
            if (kind == TEXT and is_number_format(form)) or (
                kinds[name] in TIMES and (kind == TEXT or (form and kind in NUMBERS))
            ):
                arrays[-1] = values_of_texts(arrays[-1], name, "row {} of X".format, form)
            elif arrays[-1].null_count < len(column):
                raise explain_other_kind(name, arrays[-1].drop_null()[0].as_py(), kinds[name])
            else:
                arrays[-1] = pa.nulls(len(column))
    return pa.table(arrays, names=list(columns))


def _to_arrow(column: Any, name: str) -> pa.Array:
    """A column of a frame; a DataError where Arrow has no type for its values."""
    from pandas import IntervalIndex, SparseDtype

    if isinstance(column.dtype, SparseDtype):
        column = column.sparse.to_dense()
    if isinstance(getattr(column.dtype, "categories", None), IntervalIndex):  # Arrow has no texts of these
        column = column.cat.rename_categories(str)
    values = column if getattr(column.dtype, "kind", "O") not in "iuf" else as_native(column.to_numpy())
    try:
        array = _from_objects(column) if column.dtype == object else pa.array(values, from_pandas=True)
        if column_type(array.type) == OTHER:
            raise TypeError(f"its values are of type {array.type}")
        return text_of_bytes(array) if is_bytes(array.type) else array
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:  # a UnicodeError is a ValueError
        raise DataError(
            f"Column {name!r} of X cannot be read ({error}): make text, numbers or dates of all its values."
        ) from None


def _from_objects(column: Any) -> pa.Array:
    """Python's values; whole numbers of more than 64 bits as floats, and no date loses its time."""
    try:
        array = pa.array(column, from_pandas=True)
    except OverflowError:
        return pa.array([None if missing else float(v) for v, missing in zip(column, column.isna(), strict=True)])
    if pa.types.is_date32(array.type) and any(isinstance(value, datetime) for value in column):
        raise TypeError("dates, some with a time of day")
    return array


def refuse_no_table(X: Any) -> None:
    """Refuse what could become a table, with the call that makes it one."""
    if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # a sparse matrix may be a mapping
        raise DataError("X is a dict, and a table is needed: pandas.DataFrame(X) if it holds columns.")
    refuse_parts(X)
    if is_stream(X):
        raise DataError(
            f"X is a {type(X).__name__}, whose rows come in batches: fit, predict and score take it, this call "
            "needs a frame or an array in memory, such as X.collect() of Polars or X.df() of DuckDB."
        )


def as_frame(X: Any, columns: Sequence[str]) -> Any:
    """Rows of several types as a data frame, in memory; a frame, and what is in Dask, as it is."""
    refuse_no_table(X)
    if is_dask(X) or hasattr(X, "iloc"):
        return X
    import pandas as pd

    if hasattr(X, "to_pandas"):  # Polars, Arrow
        return X.to_pandas()
    frame = pd.DataFrame(X if isinstance(X, list | tuple) else np.asarray(X)).infer_objects()
    return frame.set_axis(list(columns), axis=1) if frame.shape[1] == len(columns) else frame


def with_types(X: Any) -> Any:
    """Rows of Polars or Arrow, of an array of objects or of a list as a data frame if they hold more than numbers."""
    if is_dask(X) or hasattr(X, "iloc") or hasattr(X, "tocsr"):
        return X
    if hasattr(X, "to_pandas"):
        numbers = hasattr(X, "dtypes") and all(dtype.is_numeric() for dtype in X.dtypes)
        return X if numbers else X.to_pandas()
    try:
        values = np.asarray(X)
    except ValueError:  # rows of several lengths, which the later checks refuse
        return X
    kinds_of_text = "OU" if isinstance(X, list | tuple) else "O"  # numbers of an array of text are no numbers any more
    if values.ndim != 2 or values.dtype.kind not in kinds_of_text:
        return X
    frame = as_frame(X, ())
    kinds, _ = column_kinds(frame, list(map(str, frame.columns)))
    return frame if {TEXT, *TIMES} & set(kinds.values()) else X
