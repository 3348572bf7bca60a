"""A table in memory, a data frame or an array: its names, rows and columns, as numbers and as Arrow has them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from dask.delayed import delayed
from numpy.typing import NDArray

from dkernel.data.arrow import as_native, column_numbers, text_of_bytes
from dkernel.data.arrow_streams import is_stream
from dkernel.data.collections.dask_arrays import dense, is_dask, refuse_parts, unwrap
from dkernel.data.column_types import (
    COLUMN_TYPES,
    EMPTY,
    FLOAT,
    NUMBERS,
    OTHER,
    TEXT,
    TIMES,
    UNTYPED,
    are_numbers,
    arrow_type,
    column_type,
    is_bytes,
    join_types,
    name_type,
    type_of_dtype,
)
from dkernel.data.compute import LOG
from dkernel.data.encoding.text_values import is_number_format, values_of_texts
from dkernel.data.encoding.words import code_column
from dkernel.data.object_columns import object_columns
from dkernel.errors import DataError
from dkernel.kernels import Kernel
from dkernel.numerics.rows import fill_masked, stored_arrays
from dkernel.numerics.sparse_rows import RangeNames, SparseRows, is_wide

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


def as_rows(X: Any, names: Sequence[str] = (), *, objects: bool = False) -> Any:
    """Rows as one of four: a frame of pandas, an array of numpy, sparse rows, or what is in Dask.

    Polars and Arrow give a frame, and so do lists and arrays of objects that hold text or times. Masked values are
    missing. What holds no rows is refused, with the call that makes rows of it.

    Parameters
    ----------
    names : of the columns of a frame that is made here of all lists and arrays, if they are as many
    objects : whether rows may be objects: then a list, a series and an array (n,) are one column

    Examples
    --------
    >>> as_rows([["Bern", 1.5]]).dtypes.tolist(), as_rows(np.ma.masked_equal([[1, -9]], -9)).tolist()
    ([<StringDtype(na_value=nan)>, dtype('float64')], [[1.0, nan]])
    >>> as_rows([{"a"}, {"b", "c"}], objects=True).shape
    (2, 1)
    """
    if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # a sparse matrix may be a mapping
        raise DataError(f"X is a {type(X).__name__}, and a table is needed: pandas.DataFrame(X) if it holds columns.")
    refuse_parts(X)
    if is_stream(X):
        raise DataError(
            f"X is a {type(X).__name__}, whose rows come in batches: fit, predict and score take it, this call "
            "needs a frame or an array in memory, such as X.collect() of Polars or X.df() of DuckDB."
        )
    X = fill_masked(unwrap(X))
    if objects:
        return _as_objects(X)
    if hasattr(X, "to_frame") and getattr(X, "ndim", 2) == 1:
        raise DataError(
            "X is a Series, and a table is needed: of one row X.to_frame().T, or frame.iloc[[i]] of its frame; of one "
            "column X.to_frame()."
        )
    if is_dask(X) or hasattr(X, "iloc") or hasattr(X, "tocsr"):
        return X
    try:
        values = X if isinstance(X, np.ndarray) else np.asarray(X)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"X is a {type(X).__name__}, of which numpy makes no array ({error}).") from None
    # Numbers of an array of text are no numbers any more.
    plain = values.ndim != 2 or not (names or values.dtype.kind in ("OU" if isinstance(X, list | tuple) else "O"))
    if plain and not values.dtype.names:
        return values
    import pandas as pd

    if values.dtype.names:
        return pd.DataFrame(values)
    frame = pd.DataFrame(X if isinstance(X, list | tuple) else values).infer_objects()
    if names:
        return frame.set_axis(list(names), axis=1) if frame.shape[1] == len(names) else frame
    kinds, _ = column_kinds(frame, list(map(str, frame.columns)))
    # Of 1 and "1" numpy would make numbers.
    mixed = OTHER in kinds.values() and any(isinstance(value, str) for value in values.flat)
    return frame if mixed or {TEXT, *TIMES} & set(kinds.values()) else values


def _as_objects(X: Any) -> Any:
    """Rows of objects as a table of two dimensions."""
    if hasattr(X, "to_frame") and X.ndim == 1:
        return X.to_frame()
    if isinstance(X, list | tuple):
        column = np.empty(len(X), dtype=object)
        for i, value in enumerate(X):
            column[i] = value
        X = column
    X = X if is_dask(X) or hasattr(X, "iloc") or hasattr(X, "tocsr") else np.asarray(X)
    if X.ndim not in (1, 2):
        raise DataError(
            f"X has {X.ndim} dimension(s); a column of objects, or a table of 2 (rows, columns), is needed."
        )
    return X if X.ndim == 2 else X[:, None]


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


def holds_objects(kernel: Kernel, X: Any) -> bool:
    """True if X is to be read as objects for this kernel.

    Examples
    --------
    >>> from dkernel.kernels import parse
    >>> holds_objects(parse("SpectrumKernel(3)"), ["ab", "c"]), holds_objects(parse("gaussian"), ["ab", "c"])
    (True, False)
    """
    if kernel.domain != "any" or hasattr(X, "tocsr"):
        return kernel.domain == "objects"
    if getattr(X, "ndim", 1) == 2:
        names = map(str, X.columns if hasattr(X, "columns") else range(X.shape[1]))
        if "objects" in kernel.wants(tuple(names)).values():
            return True
    if hasattr(X, "dtype") or hasattr(X, "dtypes"):
        dtypes = X.dtypes if hasattr(X, "columns") else [X.dtype]
        return any(not are_numbers(dtype) or hasattr(dtype, "categories") for dtype in dtypes)
    first = X[0] if isinstance(X, list | tuple) and X else 0
    parts = first if isinstance(first, list | tuple) else [first]
    return not all(isinstance(part, int | float | np.number | np.ndarray) for part in parts)


def take_rows(X: Any, rows: slice) -> Any:
    """Some rows of a frame or an array, or of one column of either."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def matrix(table: Any, dtype: str) -> Any:
    """The columns of a frame as an array (n, p), of numbers or, of dtype "object", of what they hold.

    An array and sparse rows are as they are. Where a number is too large for the dtype it is float64, so that the gate
    can show it.
    """
    if not hasattr(table, "iloc"):
        return table
    if dtype == "object":
        X = np.empty(table.shape, dtype=object)
        for j, (_, column) in enumerate(table.items()):
            X[:, j] = column.to_numpy(dtype=object)
        return X
    try:
        with np.errstate(over="raise"):
            return _fill(table, dtype)
    except FloatingPointError:
        return _fill(table, "float64")


def _fill(table: Any, dtype: str) -> NDArray[Any]:
    if all(map(are_numbers, {*table.dtypes.to_numpy()})):
        return np.array(table.to_numpy(dtype=dtype, na_value=np.nan), order="C")
    X = np.empty(table.shape, dtype)
    for j, (_, column) in enumerate(table.items()):
        X[:, j] = _numbers(column)
    return X


def column_arrays(table: Any, columns: Sequence[str] | None) -> Iterator[NDArray[Any]]:
    """The arrays that a table consists of: of a frame those of its columns.

    Parameters
    ----------
    columns : names of those of a frame that may hold text, categories and times; None where all are numbers
    """
    if not hasattr(table, "iloc"):
        return iter(stored_arrays(table))
    if columns is None:
        return (_numbers(column) for _, column in table.items())
    return chain.from_iterable(map(_arrays_of_column, to_table(table, columns).columns))


def _arrays_of_column(column: pa.ChunkedArray) -> Iterator[NDArray[Any]]:
    if column_type(column.type) != TEXT:
        yield column_numbers(column)
        return
    words, codes = code_column(column)
    yield from (np.frombuffer(repr(words).encode(), np.uint8), codes)


def _numbers(column: Any) -> NDArray[Any]:
    """A column of a frame; what is missing in a nullable one becomes NaN, which the gate refuses with its place."""
    if not are_numbers(column.dtype):  # decimals, or other objects
        return column_numbers(_in_kind(_to_arrow(column, column.name), column.name, "number"))
    missing = {} if isinstance(column.dtype, np.dtype) else {"dtype": "float64", "na_value": np.nan}
    values: NDArray[Any] = column.to_numpy(**missing)
    return values


def has_missing(X: Any) -> bool:
    """True if a value of a frame or an array in memory is missing; of what is in Dask nobody has looked."""
    if is_dask(X):
        return False
    if hasattr(X, "isna"):
        return bool(X.isna().to_numpy().any())
    if type_of_dtype(X.dtype) != FLOAT:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum(dtype=np.float64))) and bool(np.isnan(X).any())


def check_numbers(
    table: Any, columns: Sequence[str], compute: Callable[..., Any] | None = None, fitted: bool = False
) -> None:
    """A DataError that names all columns of a frame or array that hold no numbers.

    Parameters
    ----------
    compute : as of `column_kinds`
    fitted : whether the columns are those of a model
    """
    if hasattr(table, "dtypes"):
        object_columns(None, column_kinds(table, columns, compute)[0], "X", fitted=fitted)
    elif not are_numbers(table.dtype):
        raise DataError(f"X is of type {table.dtype}, not numbers: give a data frame, or encode it as numbers.")


def column_dtypes(X: Any) -> list[Any]:
    """The dtype of each column of a frame, or of an array, all of whose columns have one."""
    return list(X.dtypes.to_numpy()) if hasattr(X, "dtypes") else [X.dtype] * int(X.shape[1])


def column_kinds(
    X: Any, columns: Sequence[str], compute: Callable[..., Any] | None = None
) -> tuple[dict[str, str], frozenset[str]]:
    """Kind of each column, one of column_types.COLUMN_TYPES, and the columns that are stored as categories.

    Parameters
    ----------
    compute : reads what columns of objects in Dask hold, which only workers see; without it they are untyped
    """
    dtypes = column_dtypes(X)
    types = {dtype: arrow_type(dtype) for dtype in set(dtypes)}
    coded = {dtype for dtype, kind in types.items() if kind is not None and pa.types.is_dictionary(kind)}
    kind_of = {dtype: type_of_dtype(dtype) for dtype in types}
    kinds = dict(zip(columns, map(kind_of.__getitem__, dtypes), strict=True))
    stored = frozenset(name for name, dtype in zip(columns, dtypes, strict=True) if dtype in coded)
    objects = {name: j for j, (name, kind) in enumerate(kinds.items()) if kind == UNTYPED}
    if objects:
        kinds |= dict(zip(objects, _types_of_objects(X, list(objects.values()), compute), strict=True))
    return kinds, stored


def _types_of_objects(X: Any, at: Sequence[int], compute: Callable[..., Any] | None) -> list[str]:
    """The types of columns of objects by all of their values."""
    if not is_dask(X):
        return [_type_of_objects(_column_at(X, j)) for j in at]
    if compute is None or not hasattr(X, "columns"):
        return [UNTYPED] * len(at)
    names = [X.columns[j] for j in at]
    LOG.info("Columns of objects are read once to know their types: %s.", ", ".join(map(str, names[:12])))
    found = compute(*(delayed(_types_of_part)(part, names) for part in X[names].to_delayed()))
    return [join_types(types) or OTHER for types in zip(*found, strict=True)]


def _types_of_part(part: Any, names: Sequence[Any]) -> list[str]:
    return [_type_of_objects(part[name]) for name in names]


def _column_at(X: Any, j: int) -> Any:
    return X.take([j], axis=1).squeeze(axis=1)


def _type_of_objects(column: Any) -> str:
    try:
        return column_type(pa.array(column, from_pandas=True).type)
    except OverflowError:  # whole numbers of more than 64 bits
        return FLOAT
    except (pa.ArrowException, TypeError, ValueError):
        return OTHER


def to_table(
    X: Any,
    columns: Sequence[str],
    kinds: Mapping[str, str] | None = None,
    formats: Mapping[str, str] = MappingProxyType({}),
    typed: frozenset[str] = frozenset(),
) -> Any:
    """Rows as an Arrow table with these names, or as an array of numbers; sparse rows become dense.

    A column of `kinds` may be of another type only where it holds nothing, times as text, or dates in one of `formats`.

    Parameters
    ----------
    typed : columns whose kind their type told: no text is a time there, and only text is a category
    """
    if not hasattr(X, "iloc"):
        return dense(X)
    arrays = [_to_arrow(column, name) for name, (_, column) in zip(columns, X.items(), strict=True)]
    if kinds is not None:
        named = zip(columns, arrays, strict=True)
        arrays = [_in_kind(array, name, kinds[name], formats.get(name, ""), name in typed) for name, array in named]
    return pa.table(arrays, names=list(columns))


def _in_kind(array: pa.Array, name: str, kind: str, form: str = "", typed: bool = False) -> pa.Array:
    """A column as one of this kind of an encoding, or a DataError that shows a value of another kind."""
    found = column_type(array.type)
    if found in ((TEXT, EMPTY) if typed and kind == "category" else FITTING[kind]):
        return array
    as_times = kind in TIMES and ((found == TEXT and not typed) or (form and found in NUMBERS))
    if as_times or (found == TEXT and is_number_format(form)):
        return values_of_texts(array, name, "row {} of X".format, form or kind)
    if array.null_count < len(array):
        value = next(each.as_py() for each in array if each.is_valid)
        there = "numbers" if kind == "number" else name_type(kind)
        raise DataError(
            f"Column {name!r} of X holds {value!r}, where other rows or the training have {there}: give all its values "
            "one type."
        )
    return pa.nulls(len(array))


def _to_arrow(column: Any, name: str) -> pa.Array:
    """A column of a frame; a DataError where Arrow has no type for its values."""
    from pandas import IntervalIndex, SparseDtype

    if isinstance(column.dtype, SparseDtype):
        column = column.sparse.to_dense()
    if isinstance(getattr(column.dtype, "categories", None), IntervalIndex):  # Arrow has no texts of these
        column = column.cat.rename_categories(str)
    plain = isinstance(column.dtype, np.dtype) and are_numbers(column.dtype)
    values = as_native(column.to_numpy()) if plain else column
    try:
        untyped = arrow_type(column.dtype) is None
        array = _from_objects(column) if untyped else pa.array(values, from_pandas=True)
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
