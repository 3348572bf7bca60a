"""Data frames and arrays, in memory or in Dask, whose columns an encoding turns into inputs."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from dask.delayed import Delayed, delayed

from dkernel.data.block import chunk_limit, cut, kind_of_dtype
from dkernel.data.collections.dask_arrays import is_dask
from dkernel.data.encoded_columns import encoded_kinds, learned
from dkernel.data.file_schema import ReadOptions
from dkernel.data.readers.arrow_tables import kind_of_type
from dkernel.encoding import Encoding, TableCounts
from dkernel.encoding.tables import coded, numbers
from dkernel.errors import DataError

if TYPE_CHECKING:
    import dask.array as da

# The type that pandas infers for a column of objects -> one of block.KINDS.
_INFERRED = {
    "string": "text", "boolean": "bool", "integer": "int", "floating": "float", "mixed-integer-float": "float",
    "decimal": "float", "datetime": "date", "datetime64": "date", "date": "date", "time": "date", "timedelta": "date",
    "timedelta64": "date", "empty": "empty",
}  # fmt: skip


def encoding_of(
    X: Any, columns: Sequence[str], beside: tuple[Any, Any], request: ReadOptions, compute: Callable[..., Any]
) -> tuple[Encoding | None, dict[str, str]]:
    """Encoding of X, with notes about it; None where its columns are the inputs.

    Parameters
    ----------
    X : a data frame or an array (n, p) of numbers, in memory or in Dask
    beside : the label and the weight, each None where there is none
    """
    if request.encoding is not None:
        return request.encoding, {}
    if request.categorical == "none" and request.missing == "error":
        return None, {}
    kinds, stored = _kinds(X, columns)
    encoded = encoded_kinds(columns, [kinds], stored, request, "X")
    if encoded is None:
        return None, {}
    for name, kind in kinds.items():
        if kind == "other" or (kind == "text" and encoded[name] != "category"):
            raise DataError(
                f"Column {name!r} of X is text, or holds values of several types, lists or bytes, and no category: "
                "leave it out, or make text or numbers of it."
            )
    encoding, notes = learned(_tasks(X, columns, encoded, beside), encoded, request, compute, stored, "X")
    if not encoding.names:
        raise DataError("No column of X holds a value that came twice: nothing can be learned from it.")
    return encoding, notes


def _kinds(X: Any, columns: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Kind of each column, one of block.KINDS, and the columns that are stored as categories."""
    if not hasattr(X, "dtypes"):
        return dict.fromkeys(columns, kind_of_dtype(X.dtype)), frozenset()
    found, stored = {}, set()
    for j, (name, dtype) in enumerate(zip(columns, X.dtypes, strict=True)):
        arrow = getattr(dtype, "pyarrow_dtype", None)
        if hasattr(dtype, "categories") or (arrow is not None and pa.types.is_dictionary(arrow)):
            stored.add(name)
            found[name] = "text"
        elif arrow is not None:
            found[name] = kind_of_type(arrow)
        elif getattr(dtype, "kind", "O") in "biuf":
            found[name] = kind_of_dtype(dtype)
        elif getattr(dtype, "kind", "O") in "Mm":
            found[name] = "date"
        else:
            found[name] = "text" if is_dask(X) else _inferred(X.iloc[:, j])
    return found, frozenset(stored)


def _inferred(column: Any) -> str:
    from pandas.api.types import infer_dtype

    return _INFERRED.get(infer_dtype(column, skipna=True), "other")


def _tasks(
    X: Any, columns: Sequence[str], kinds: Mapping[str, str], beside: tuple[Any, Any] = (None, None)
) -> list[Delayed]:
    """The counts of each partition or chunk, or of parts of data in memory."""
    count = partial(count_rows, tuple(columns), dict(kinds))
    if is_dask(X):
        parts = _parts(X)
        labels, weights = (_parts_beside(each, len(parts)) for each in beside)
        call = delayed(count, pure=True)
        return [call(*each) for each in zip(map(first_of, range(len(parts))), parts, labels, weights, strict=True)]
    tasks, first = [], 0
    token = uuid4().hex  # a worker that has a result under a key does not compute it again
    label, weight = (None if each is None or is_dask(each) else np.asarray(each) for each in beside)
    for n in cut(len(X), chunk_limit(len(columns), 8)):
        rows = slice(first, first + n)
        part = X.iloc[rows] if hasattr(X, "iloc") else X[rows]
        others = [None if each is None else each[rows] for each in (label, weight)]
        key = f"dkernel-count-{token}-{first}"
        tasks.append(Delayed(key, {key: (count, first, part, *others)}))
        first += n
    return tasks


def _parts(X: Any) -> list[Any]:
    """The partitions of a frame or series, or the chunks of rows of an array, as tasks."""
    return list(X.to_delayed() if hasattr(X, "dtypes") or X.ndim == 1 else X.to_delayed()[:, 0])


def _parts_beside(values: Any, n: int) -> list[Any]:
    """Parts of a label or weight in Dask that has the chunks of X; None for each part of X otherwise."""
    parts = _parts(values) if values is not None and is_dask(values) else []
    return parts if len(parts) == n else [None] * n


def first_of(part: int) -> int:
    """The number that stands for the first row of a partition, whose rows nobody has counted."""
    return part << 32


def count_rows(
    columns: Sequence[str], kinds: Mapping[str, str], first: int, X: Any, label: Any = None, weight: Any = None
) -> TableCounts:
    """The counts of some rows; runs on a worker."""
    table = table_of(X, columns, kinds)
    label, weight = (None if each is None or len(each) != len(table) else each for each in (label, weight))
    return TableCounts.of(table, kinds, label, weight, first)


def of_other_kind(name: Any, value: Any) -> DataError:
    """The error that some rows have text where the others, or those of the training, have numbers or dates."""
    return DataError(
        f"Column {name!r} of X holds {value!r}, where other rows or the training have numbers or dates: give all its "
        "values one type."
    )


def table_of(X: Any, columns: Sequence[str], kinds: Mapping[str, str] | None = None) -> Any:
    """Rows as an Arrow table with these names, or an array of numbers as it is.

    Columns that are no category in `kinds` may be text only where they hold nothing.
    """
    if not hasattr(X, "iloc"):
        return X
    from pandas import IntervalIndex

    arrays = []
    for j, name in enumerate(columns):
        column = X.iloc[:, j]
        if isinstance(getattr(column.dtype, "categories", None), IntervalIndex):  # Arrow has no texts of these
            column = column.cat.rename_categories(str)
        try:
            arrays.append(pa.array(column, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"Column {name!r} of X cannot be read ({error}): make text, numbers or dates of all its values."
            ) from None
        if kinds is not None and kinds[name] != "category" and kind_of_type(arrays[-1].type) == "text":
            if arrays[-1].null_count < len(column):
                raise of_other_kind(name, column.dropna().iloc[0])
            arrays[-1] = pa.nulls(len(column))
    return pa.table(arrays, names=list(columns))


def table_token(X: Any, columns: Sequence[str]) -> bytes:
    """sha256 of the content of the columns."""
    digest = hashlib.sha256()
    table = table_of(X, columns)
    for name in columns:
        column = table.column(name)
        if (
            pa.types.is_dictionary(column.type)
            or pa.types.is_string(column.type)
            or pa.types.is_large_string(column.type)
        ):
            words, codes = coded(column)
            digest.update(repr(words).encode() + codes.tobytes())
        else:
            values = numbers(column)
            digest.update(values.dtype.str.encode() + np.ascontiguousarray(values).tobytes())
    return digest.digest()


def has_missing(X: Any) -> bool:
    """True if a value of a frame or an array in memory is missing."""
    if hasattr(X, "isna"):
        return bool(X.isna().to_numpy().any())
    if X.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum(dtype=np.float64))) and bool(np.isnan(X).any())


def encoded_array(X: Any, encoding: Encoding, columns: Sequence[str], dtype: str, learned: bool) -> "da.Array":
    """A Dask collection as an array of its inputs, a chunk for each partition or chunk.

    Parameters
    ----------
    learned : whether the rows are to learn from
    """
    import dask.array as da

    make = delayed(partial(encode_rows, encoding, tuple(columns), dtype), pure=True)
    meta, width = np.empty((0, 0), dtype), len(encoding.names)
    if not hasattr(X, "dtypes"):
        X = X.rechunk({1: -1})
    rows = (np.nan,) * X.npartitions if hasattr(X, "dtypes") else X.chunks[0]
    arrays = [
        da.from_delayed(make(part, first_of(i) if learned else None), (n, width), meta=meta)
        for i, (n, part) in enumerate(zip(rows, _parts(X), strict=True))
    ]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def encode_rows(encoding: Encoding, columns: Sequence[str], dtype: str, X: Any, first: int | None) -> Any:
    """The inputs of some rows; runs on a worker."""
    return encoding.encode(table_of(X, columns, encoding.kinds), dtype, first)[0]


def refuse_no_table(X: Any) -> None:
    """Refuse what could become a table, with the call that makes it one."""
    if isinstance(X, Mapping):
        raise DataError("X is a dict, and a table is needed: pandas.DataFrame(X) if it holds columns.")
    if type(X).__name__ == "LazyFrame":
        raise DataError("X is a LazyFrame, which has no rows yet. Give X.collect().")


def as_frame(X: Any, columns: Sequence[str]) -> Any:
    """Rows of several types as a data frame, in memory; a frame, and what is in Dask, as it is."""
    refuse_no_table(X)
    if is_dask(X) or hasattr(X, "iloc"):
        return X
    import pandas as pd

    if hasattr(X, "to_pandas"):  # Polars, Arrow
        return X.to_pandas()
    rows = X if isinstance(X, list | tuple) else np.asarray(X)
    return pd.DataFrame(rows, columns=list(columns))
