"""Data frames and arrays in memory or in Dask that an encoding makes inputs of."""

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
from dkernel.encoding import Encoding, TableCounts
from dkernel.encoding.tables import coded, numbers
from dkernel.errors import DataError

if TYPE_CHECKING:
    import dask.array as da

# What pandas infers of a column of objects -> one of block.KINDS.
_INFERRED = {
    "string": "text", "boolean": "bool", "integer": "int", "floating": "float", "mixed-integer-float": "float",
    "decimal": "float", "datetime": "date", "datetime64": "date", "date": "date", "time": "date", "timedelta": "date",
    "timedelta64": "date", "empty": "empty",
}  # fmt: skip


def encoding_of(
    X: Any, columns: Sequence[str], request: ReadOptions, compute: Callable[..., Any]
) -> tuple[Encoding | None, dict[str, str]]:
    """How X becomes inputs, with what is worth saying of it; None where its columns are the inputs.

    Parameters
    ----------
    X : a data frame or an array (n, p) of numbers, in memory or in Dask
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
    encoding, told = learned(_tasks(X, columns, encoded), encoded, request, compute)
    if not encoding.names:
        raise DataError("No column of X holds a value that came twice: nothing can be learned from it.")
    return encoding, told


def _kinds(X: Any, columns: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Of each column one of block.KINDS, and which of them are stored as categories."""
    if not hasattr(X, "dtypes"):
        return dict.fromkeys(columns, kind_of_dtype(X.dtype)), frozenset()
    found, stored = {}, set()
    for j, (name, dtype) in enumerate(zip(columns, X.dtypes, strict=True)):
        if hasattr(dtype, "categories"):
            stored.add(name)
            found[name] = "text"
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


def _tasks(X: Any, columns: Sequence[str], kinds: Mapping[str, str]) -> list[Delayed]:
    """The counts of each partition or chunk, or of parts of what is in memory."""
    count = delayed(partial(count_rows, tuple(columns), dict(kinds)), pure=True)
    if is_dask(X):
        return [count(part) for part in (X.to_delayed() if hasattr(X, "dtypes") else X.to_delayed()[:, 0])]
    tasks, first = [], 0
    token = uuid4().hex  # a worker that has a result under a key does not compute it again
    for n in cut(len(X), chunk_limit(len(columns), 8)):
        part = X.iloc[first : first + n] if hasattr(X, "iloc") else X[first : first + n]
        key = f"dkernel-count-{token}-{first}"
        tasks.append(Delayed(key, {key: (partial(count_rows, tuple(columns), dict(kinds)), part)}))
        first += n
    return tasks


def count_rows(columns: Sequence[str], kinds: Mapping[str, str], X: Any) -> TableCounts:
    """The counts of some rows; runs on a worker."""
    return TableCounts.of(table_of(X, columns), kinds)


def table_of(X: Any, columns: Sequence[str]) -> Any:
    """Rows as an Arrow table with these names, or an array of numbers as it is."""
    if not hasattr(X, "iloc"):
        return X
    arrays = []
    for j, name in enumerate(columns):
        try:
            arrays.append(pa.array(X.iloc[:, j], from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"Column {name!r} of X cannot be read ({error}): make text, numbers or dates of all its values."
            ) from None
    return pa.table(arrays, names=list(columns))


def table_token(X: Any, columns: Sequence[str]) -> bytes:
    """sha256 of what the columns hold."""
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
    """Whether a value of a frame or an array in memory is missing."""
    if hasattr(X, "isna"):
        return bool(X.isna().to_numpy().any())
    if X.dtype.kind != "f":
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum(dtype=np.float64))) and bool(np.isnan(X).any())


def encoded_array(X: Any, encoding: Encoding, columns: Sequence[str], dtype: str) -> "da.Array":
    """A Dask collection as an array of its inputs, a chunk for each partition or chunk."""
    import dask.array as da

    make = partial(encode_rows, encoding, tuple(columns), dtype)
    meta, width = np.empty((0, 0), dtype), len(encoding.names)
    if hasattr(X, "dtypes"):
        call = delayed(make, pure=True)
        parts = [da.from_delayed(call(part), (np.nan, width), meta=meta) for part in X.to_delayed()]
        return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)
    X = X.rechunk({1: -1})
    return X.map_blocks(make, chunks=(X.chunks[0], (width,)), dtype=dtype, meta=meta)


def encode_rows(encoding: Encoding, columns: Sequence[str], dtype: str, X: Any) -> Any:
    """The inputs of some rows; runs on a worker."""
    return encoding.encode(table_of(X, columns), dtype)[0]


def as_frame(X: Any, columns: Sequence[str]) -> Any:
    """Rows of several types as a data frame, in memory; a frame, and what is in Dask, as it is."""
    if is_dask(X) or hasattr(X, "iloc"):
        return X
    import pandas as pd

    if hasattr(X, "to_pandas"):  # Polars, Arrow
        return X.to_pandas()
    rows = X if isinstance(X, list | tuple) else np.asarray(X)
    return pd.DataFrame(rows, columns=list(columns))
