"""Sparse matrices, and Dask arrays of such, as a Source whose blocks stay sparse."""

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from dkernel.data.block import (
    Block,
    UncheckedBlock,
    check_beside,
    chunk_limit,
    cut_blocks,
    cut_evenly,
    kind_of_dtype,
    one_a_row,
    targets_in,
)
from dkernel.data.collections.dask_arrays import (
    align,
    block_graphs,
    concrete,
    is_dask,
    name_of,
    place_in_memory,
    with_known_chunks,
)
from dkernel.data.source import Source, Unit
from dkernel.errors import DataError
from dkernel.numerics.layout import Layout
from dkernel.numerics.sparse_rows import RangeNames, SparseRows, as_sparse, is_wide

SUPPOSED = 128
"""Stored numbers of a row, where nothing says how many there are before the rows are read."""


def stays_sparse(X: Any, asked: bool | None = None) -> bool:
    """True if the rows are taken as sparse: as asked, else by width, and in memory by what is stored.

    Examples
    --------
    >>> import scipy.sparse as sp
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


def sparse_bytes(rows: int, stored: int, dtype: str) -> int:
    """Bytes of a row as a block holds it: numbers, the numbers of their columns, and where the row ends.

    Examples
    --------
    >>> sparse_bytes(10, 1000, "float32")
    808
    """
    return -(-stored // max(1, rows)) * (4 + np.dtype(dtype).itemsize) + 8


def sparse_source(
    X: Any, y: Any, weight: Any, dtype: str, compute: Callable[..., Any], columns: Sequence[str] | None = None
) -> Source:
    """The rows of a scipy matrix, of `SparseRows`, or of a Dask array whose chunks are such.

    Parameters
    ----------
    columns : numbered names; those from 0 on where there are none
    """
    names = columns if isinstance(columns, RangeNames) else RangeNames(0, int(X.shape[1]))
    if len(names) != X.shape[1]:
        raise DataError(f"X has {X.shape[1]} columns, but {len(names)} names were given.")
    make = _dask_units if is_dask(X) else _matrix_units
    units, token, kind, row_bytes = make(X, y, weight, dtype, names, compute)
    if not units:
        raise DataError("X has no rows.")
    return Source(
        tuple(units),
        names,
        None if y is None else name_of(y, "label"),
        None if weight is None else name_of(weight, "weight"),
        (),
        dtype,
        token,
        kind,
        row_bytes=row_bytes,
        targets=targets_in(y),
    )


Made = tuple[list[Unit], str, str | None, int]


def _matrix_units(X: Any, y: Any, weight: Any, dtype: str, names: RangeNames, compute: Callable[..., Any]) -> Made:
    y, weight = concrete((y, weight), compute)
    rows = as_sparse(X, names, dtype, place_in_memory)
    n = len(rows)
    label, w = check_beside(y, weight, n, place_in_memory)
    token = _hash(rows, label, w)
    row_bytes = sparse_bytes(n, len(rows.data), dtype)
    units, first = [], 0
    for i, size in enumerate(cut_evenly(n, chunk_limit(row_bytes, 1))):
        part = slice(first, first + size)
        key = f"dkernel-read-{hashlib.sha256(repr((token, names, dtype, i)).encode()).hexdigest()[:32]}"
        views = (rows[part], *(None if a is None else a[part] for a in (label, w)))
        units.append(Unit((size,), Delayed(key, {key: (partial(_blocks, names, dtype, (size,), first), *views)}), "X"))
        first += size
    return units, token, None if label is None else kind_of_dtype(label.dtype), row_bytes


def _dask_units(X: Any, y: Any, weight: Any, dtype: str, names: RangeNames, compute: Callable[..., Any]) -> Made:
    X, y, weight = align(*with_known_chunks(X, y, weight, np.asarray, compute))
    token = hashlib.sha256(repr([(a.name, a.chunks) if a is not None else None for a in (X, y, weight)]).encode())
    row_bytes = sparse_bytes(1, SUPPOSED, dtype)
    units, first = [], 0
    for keys, n, graph in block_graphs(X, y, weight):
        rows = cut_evenly(n, chunk_limit(row_bytes, 1))
        key = f"dkernel-read-{hashlib.sha256(repr((keys, names, dtype, rows)).encode()).hexdigest()[:32]}"
        graph[key] = (partial(_blocks, names, dtype, rows, first), *keys)
        units.append(Unit(rows, Delayed(key, graph), "X"))
        first += n
    kind = None if y is None else kind_of_dtype(y.dtype) if y.ndim == 1 else "float"
    return units, token.hexdigest(), kind, row_bytes


def _blocks(
    names: RangeNames, dtype: str, rows: tuple[int, ...], first: int, X: Any, y: Any = None, weight: Any = None
) -> tuple[Block, ...]:
    """The blocks of one unit; runs on a worker."""
    raw = UncheckedBlock(X, one_a_row(y, "y", several=True), one_a_row(weight, "weight"))
    return cut_blocks(raw, rows, Layout(names, dtype), partial(place_in_memory, first=first))


def _hash(rows: SparseRows, *others: NDArray[Any] | None) -> str:
    """sha256 of the content."""
    digest = hashlib.sha256(repr(rows.shape).encode())
    for values in (rows.data, rows.indices, rows.starts, *others):
        digest.update(repr(None if values is None else (values.shape, values.dtype.str)).encode())
        if values is not None:
            digest.update(np.ascontiguousarray(values).view(np.uint8).data)
    return digest.hexdigest()
