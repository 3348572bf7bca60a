"""Blocks of rows of any storage: numbers, sparse rows, or objects such as strings and sets."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.object_values import encoded
from dkernel.numerics.sparse_rows import SparseRows


def wide(X: Any) -> Any:
    """Numbers in float64; objects as they are."""
    return X if X.dtype.kind == "O" else X.astype(np.float64, copy=False)


def result_dtype(X: Any) -> Any:
    """The type of numbers that are computed of rows: their own, float64 of objects."""
    return np.float64 if X.dtype.kind == "O" else X.dtype


def contiguous(X: Any) -> Any:
    """The rows without gaps in memory."""
    return X if isinstance(X, SparseRows) else np.ascontiguousarray(X)


def squares(X: Any) -> NDArray[np.float64]:
    """|x|^2 of every row: a new array (n,)."""
    return X.squares.copy() if isinstance(X, SparseRows) else np.einsum("ij,ij->i", X, X)


def stacked(parts: Sequence[Any]) -> Any:
    """Blocks of one storage, one under the other."""
    if not isinstance(parts[0], SparseRows):
        return np.concatenate(parts)
    ends = np.cumsum([0, *(len(part.data) for part in parts)])
    starts = np.concatenate([[0], *(part.starts[1:] + end for part, end in zip(parts, ends, strict=False))])
    data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
    return SparseRows(data, indices, starts.astype(np.int64), parts[0].width)


def array_digest(X: Any) -> str:
    """sha256 of an array or a block, in hexadecimal; one after the other of the arrays that sparse rows are."""
    if isinstance(X, SparseRows):
        return "".join(map(array_digest, X.arrays().values()))
    return hashlib.sha256((encoded(X)[0] if X.dtype.kind == "O" else X).tobytes()).hexdigest()
