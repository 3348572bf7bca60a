"""Data frames and arrays, in memory or in Dask, whose columns an encoding turns into inputs."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from dask.delayed import delayed

from dkernel.data.arrow_streams import is_stream
from dkernel.data.block import (
    COLUMN_KINDS,
    UncheckedBlock,
    chunk_limit,
    cut_evenly,
    is_of_numbers,
    kind_of_dtype,
    label_and_weight,
)
from dkernel.data.collections.dask_arrays import align, is_dask, with_known_chunks
from dkernel.data.encoded_columns import encoded_kinds, learn_encoding
from dkernel.data.file_schema import ReadOptions
from dkernel.data.object_columns import NUMBERS, TIMES, word_of
from dkernel.data.readers.arrow_tables import kind_of_type
from dkernel.encoding import Encoding, TableCounts
from dkernel.encoding.label_means import n_copies
from dkernel.encoding.tables import code_column, column_numbers
from dkernel.errors import DataError

if TYPE_CHECKING:
    import dask.array as da

# The type that pandas infers for a column of objects -> one of block.COLUMN_KINDS.
_INFERRED = {
    "string": "text",
    "boolean": "bool",
    "integer": "int",
    "floating": "float",
    "mixed-integer-float": "float",
    "decimal": "float",
    "datetime": "date",
    "datetime64": "date",
    "date": "date",
    "time": "date",
    "timedelta": "duration",
    "timedelta64": "duration",
    "empty": "empty",
}


FITTING = {
    "number": (*NUMBERS, "empty"),
    "date": ("date", "empty"),
    "duration": ("duration", "empty"),
    "category": COLUMN_KINDS,
}
"""Kind of a column of an encoding -> the kinds of data (block.COLUMN_KINDS) that it takes."""

Part = tuple[int, Any, Any, Any]
"""Number of the first copy of the first row; rows, labels and weights, of Dask as tasks."""


@dataclass(frozen=True)
class TableRows:
    """The rows of a table with label and weight, each None where there is none.

    Parameters
    ----------
    X : a data frame or an array (n, p), or in Dask an array of such chunks, of known sizes
    label, weight : one value a row, or some; in Dask with the chunks of X
    """

    X: Any
    label: Any
    weight: Any

    @classmethod
    def of(cls, X: Any, label: Any, weight: Any, compute: Callable[..., Any]) -> "TableRows":
        """The rows of collections in memory, or of one in Dask and what is beside it."""
        if is_dask(X):
            return cls(*align(*with_known_chunks(X, label, weight, partial(_as_it_is, dtype="float64"), compute)))
        return cls(X, *label_and_weight(label, weight, len(X)))

    def parts(self, compute: Callable[..., Any], weighed: bool = True) -> list[Part]:
        """The rows in parts; unless they are `weighed`, each row has one number."""
        weighed = weighed and self.label is not None and self.weight is not None
        if is_dask(self.X):
            columns = [None if each is None else each.to_delayed() for each in (self.X, self.label, self.weight)]
            chunks, labels, weights = (
                [None] * len(self.X.chunks[0]) if each is None else list(each.reshape(len(each), -1)[:, 0])
                for each in columns
            )
            counts = compute(*map(delayed(n_copies), weights)) if weighed else self.X.chunks[0]
        else:
            sizes = cut_evenly(len(self.X), chunk_limit(self.X.shape[1], 8))
            slices = [slice(stop - n, stop) for n, stop in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
            chunks = [self.X.iloc[part] if hasattr(self.X, "iloc") else self.X[part] for part in slices]
            labels, weights = (
                [None if each is None else each[part] for part in slices] for each in (self.label, self.weight)
            )
            counts = tuple(map(n_copies, weights)) if weighed else sizes
        firsts = np.cumsum([0, *counts[:-1]]).tolist()
        return list(zip(firsts, chunks, labels, weights, strict=True))


def _as_it_is(part: Any, dtype: str) -> Any:  # noqa: ARG001
    return part


def kinds_to_encode(
    X: Any, columns: Sequence[str], request: ReadOptions
) -> tuple[dict[str, str], frozenset[str]] | None:
    """The kind of each column of X, and the columns that are stored as categories; None where columns are the inputs.

    Parameters
    ----------
    X : a data frame or an array (n, p) of numbers, in memory or in Dask
    """
    if request.categorical == "none" and request.missing == "error":
        return None
    kinds, stored = column_kinds(X, columns)
    encoded = encoded_kinds(columns, [kinds], stored, request, "X")
    if encoded is None:
        return None
    for name, kind in kinds.items():
        if kind == "other" or (kind == "text" and encoded[name] != "category"):
            raise DataError(
                f"Column {name!r} of X is text, or holds values of several types, lists or bytes, and no category: "
                "leave it out, or make text or numbers of it."
            )
    return encoded, stored


def encoding_of(
    parts: Sequence[Part],
    kinds: Mapping[str, str],
    stored: frozenset[str],
    request: ReadOptions,
    compute: Callable[..., Any],
) -> tuple[Encoding, dict[str, str]]:
    """The encoding that all rows decide, with notes about it.

    Parameters
    ----------
    kinds, stored : of the columns, as of `kinds_to_encode`
    """
    count = partial(count_rows, tuple(kinds), dict(kinds))
    token = uuid4().hex  # a worker that has a result under a key does not compute it again
    tasks = [delayed(count)(*part, dask_key_name=f"dkernel-read-{token}-{i}") for i, part in enumerate(parts)]
    encoding, notes = learn_encoding(tasks, kinds, request, compute, stored, "X")
    if not encoding.names:
        raise DataError("No column of X holds a value that came twice: nothing can be learned from it.")
    return encoding, notes


def column_kinds(X: Any, columns: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """Kind of each column, one of block.COLUMN_KINDS, and the columns that are stored as categories."""
    if not hasattr(X, "dtypes"):
        return dict.fromkeys(columns, kind_of_dtype(X.dtype)), frozenset()
    kinds, stored = {}, set()
    for j, (name, dtype) in enumerate(zip(columns, X.dtypes, strict=True)):
        arrow = getattr(dtype, "pyarrow_dtype", None)
        if hasattr(dtype, "categories") or (arrow is not None and pa.types.is_dictionary(arrow)):
            stored.add(name)
            kinds[name] = "text"
        elif arrow is not None:
            kinds[name] = kind_of_type(arrow)
        elif is_of_numbers(dtype) or kind_of_dtype(dtype) in TIMES:
            kinds[name] = kind_of_dtype(dtype)
        else:
            kinds[name] = "text" if is_dask(X) else _infer_kind(X.iloc[:, j])
    return kinds, frozenset(stored)


def _infer_kind(column: Any) -> str:
    from pandas.api.types import infer_dtype

    return _INFERRED.get(infer_dtype(column, skipna=True), "other")


def count_rows(
    columns: Sequence[str], kinds: Mapping[str, str], first: int, X: Any, label: Any = None, weight: Any = None
) -> TableCounts:
    """The counts of some rows; runs on a worker."""
    return TableCounts.of(table_of(X, columns, kinds), kinds, label, weight, first)


def of_other_kind(name: Any, value: Any, kind: str = "number") -> DataError:
    """The error that some rows have another type than the others, or those of the training, which have this kind."""
    there = "numbers" if kind == "number" else word_of(kind)
    return DataError(
        f"Column {name!r} of X holds {value!r}, where other rows or the training have {there}: give all its values one "
        "type."
    )


def table_of(X: Any, columns: Sequence[str], kinds: Mapping[str, str] | None = None) -> Any:
    """Rows as an Arrow table with these names, or an array of numbers as it is.

    A column of `kinds` may be of another type only where it holds nothing.
    """
    if not hasattr(X, "iloc"):
        return X
    from pandas import IntervalIndex, SparseDtype

    arrays = []
    for j, name in enumerate(columns):
        column = X.iloc[:, j]
        if isinstance(column.dtype, SparseDtype):
            column = column.sparse.to_dense()
        if isinstance(getattr(column.dtype, "categories", None), IntervalIndex):  # Arrow has no texts of these
            column = column.cat.rename_categories(str)
        try:
            arrays.append(pa.array(column, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"Column {name!r} of X cannot be read ({error}): make text, numbers or dates of all its values."
            ) from None
        if kinds is not None and kind_of_type(arrays[-1].type) not in FITTING[kinds[name]]:
            if arrays[-1].null_count < len(column):
                raise of_other_kind(name, arrays[-1].drop_null()[0].as_py(), kinds[name])
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
            words, codes = code_column(column)
            digest.update(repr(words).encode() + codes.tobytes())
        else:
            values = column_numbers(column)
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


def encoded_array(
    X: Any, encoding: Encoding, columns: Sequence[str], dtype: str, learned: Sequence[Part] = ()
) -> "da.Array":
    """A Dask collection as an array of its inputs, a chunk for each partition or chunk.

    Parameters
    ----------
    X : a data frame, or an array of numbers or of data frames
    learned : the same rows, where they are to learn from
    """
    import dask.array as da

    make = delayed(partial(encode_rows, encoding, tuple(columns), dtype), pure=True)
    meta, width = np.empty((0, 0), dtype), len(encoding.names)
    if learned:
        sizes, tasks = X.chunks[0], [make(part, first, weight) for first, part, _, weight in learned]
    elif hasattr(X, "dtypes"):
        sizes, tasks = (np.nan,) * X.npartitions, [make(part) for part in X.to_delayed()]
    else:
        X = X.rechunk({1: -1})
        sizes, tasks = X.chunks[0], [make(part) for part in X.to_delayed()[:, 0]]
    arrays = [da.from_delayed(task, (n, width), meta=meta) for n, task in zip(sizes, tasks, strict=True)]
    return da.concatenate(arrays, axis=0, allow_unknown_chunksizes=True)


def encode_rows(
    encoding: Encoding, columns: Sequence[str], dtype: str, X: Any, first: int | None = None, weight: Any = None
) -> Any:
    """The inputs of some rows; runs on a worker."""
    table = table_of(X, columns, encoding.kinds)
    return UncheckedBlock(table, weight=weight).encode(encoding, dtype, first).X


def refuse_no_table(X: Any) -> None:
    """Refuse what could become a table, with the call that makes it one."""
    if isinstance(X, Mapping) and not hasattr(X, "tocsr"):  # a sparse matrix may be a mapping
        raise DataError("X is a dict, and a table is needed: pandas.DataFrame(X) if it holds columns.")
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
    rows = X if isinstance(X, list | tuple) else np.asarray(X)
    return pd.DataFrame(rows, columns=list(columns))
