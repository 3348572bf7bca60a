"""Blocks of rows of any storage: numbers, sparse rows, or objects such as strings and sets."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError
from dkernel.numerics.object_values import cell_bytes, decode_cells, encode_cells, number_columns, to_numbers
from dkernel.numerics.sparse_rows import SparseRows


def in_dtype(X: Any, dtype: Any) -> Any:
    """Numbers in this dtype; objects as they are."""
    return X if X.dtype.kind == "O" else X.astype(dtype, copy=False)


def wide(X: Any) -> Any:
    """Numbers in float64; objects as they are."""
    return in_dtype(X, np.float64)


def result_dtype(X: Any) -> Any:
    """The type of numbers that are computed of rows: their own, float64 of objects."""
    return np.float64 if X.dtype.kind == "O" else X.dtype


def fill_masked(X: Any) -> Any:
    """An array without a mask: what was below it is missing. Anything else as it is.

    Examples
    --------
    >>> fill_masked(np.ma.masked_equal([3, -9999], -9999)).tolist(), fill_masked(np.ma.array([3, 4])).dtype.kind
    ([3.0, nan], 'i')
    """
    if not isinstance(X, np.ma.MaskedArray):
        return X
    hidden, values = np.ma.getmaskarray(X), np.asarray(X.data)
    if values.dtype.kind != "V" and not hidden.any():
        return values
    if values.dtype.kind not in "biufO":
        raise DataError(f"A masked array of {X.dtype} has no missing value for what is masked: give X as objects.")
    values = values.astype(np.float64 if values.dtype.kind in "biu" else values.dtype)
    values[hidden] = None if values.dtype.kind == "O" else np.nan
    return values


def for_kernels(X: Any) -> Any:
    """The rows as a kernel takes them: those of one object each as an array (n,)."""
    return X[:, 0] if X.dtype.kind == "O" and X.shape[1] == 1 else X


def contiguous(X: Any) -> Any:
    """The rows without gaps in memory."""
    return X if isinstance(X, SparseRows) else np.ascontiguousarray(X)


def bytes_of_rows(X: Any) -> int:
    """Bytes of the rows; of objects with about what their cells hold."""
    return int(X.nbytes) + (cell_bytes(X) if X.dtype.kind == "O" else 0)


def stored_size(X: Any) -> int:
    """What decides the bytes of rows: the numbers that sparse ones store, about the bytes of the cells of objects."""
    return len(X.data) if isinstance(X, SparseRows) else cell_bytes(X)


def stored_arrays(X: Any) -> list[Any]:
    """The arrays that a block is, or that a table is already."""
    return [np.array(X.shape), *X.arrays().values()] if isinstance(X, SparseRows) else [X]


def byte_views(X: Any) -> Iterator[memoryview]:
    """The bytes of an array or a block, in order, of objects as they are written down: for a hash."""
    arrays = encode_cells(X) if X.dtype.kind == "O" else [X]
    return (np.ascontiguousarray(array).reshape(-1).view(np.uint8).data for array in arrays)


def pad(X: Any, first: int, n: int) -> Any:
    """n rows from `first` on; behind the last one rows without values, or of objects its copies."""
    if isinstance(X, SparseRows):
        return X.pad(first, n)
    rows = X[first : first + n]
    if len(rows) == n:
        return rows
    more = (n - len(rows), X.shape[1])
    none = np.broadcast_to(rows[-1:], more) if X.dtype.kind == "O" else np.zeros(more, X.dtype)
    return np.concatenate([rows, none])


def n_terms(X: Any) -> int:
    """Numbers that a product with a row goes through: its columns, of a sparse one about those that are stored."""
    return len(X.data) // max(1, len(X)) if isinstance(X, SparseRows) else int(X.shape[1])


def object_places(X: Any) -> tuple[int, ...]:
    """The columns that hold objects: none of numbers and of sparse rows."""
    if X.dtype.kind != "O":
        return ()
    numbers = number_columns(X)
    return tuple(j for j in range(X.shape[1]) if j not in numbers)


def squares(X: Any) -> NDArray[np.float64]:
    """|x|^2 of every row: a new array (n,)."""
    return X.squares.copy() if isinstance(X, SparseRows) else np.einsum("ij,ij->i", X, X)


def divide_rows(X: Any, lengths: NDArray[np.float64]) -> Any:
    """Divide each row by its number."""
    return X.times(1.0 / lengths) if isinstance(X, SparseRows) else X / lengths[:, None]


def largest(X: Any, weight: NDArray[np.float64] | None = None) -> NDArray[np.float32] | None:
    """The largest absolute value in each column of sparse rows that have a weight; None of other rows."""
    return (X if weight is None else X[weight > 0]).largest() if isinstance(X, SparseRows) else None


def like_numbers(X: Any) -> NDArray[Any]:
    """Columns of numbers by which rows are compared: the sparse ones folded, 0 in place of objects."""
    return X.fold() if isinstance(X, SparseRows) else to_numbers(X)


def numbers_in(X: Any) -> Any:
    """The rows with 0 in place of objects; rows of numbers and sparse rows as they are."""
    return X if isinstance(X, SparseRows) else to_numbers(X)


def stack(parts: Sequence[Any]) -> Any:
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
    return hashlib.sha256((encode_cells(X)[0] if X.dtype.kind == "O" else X).tobytes()).hexdigest()


def contents(X: Any) -> Iterator[bytes]:
    """The bytes of each row: equal ones of equal rows, -0.0 being 0.0."""
    if isinstance(X, SparseRows):  # sparse rows hold no 0
        for a, b in pairwise(X.starts.tolist()):
            yield X.indices[a:b].tobytes() + X.data[a:b].tobytes()
    elif X.dtype.kind == "O":
        yield from (encode_cells(row[None])[0].tobytes() for row in X)
    else:
        yield from (row.tobytes() for row in np.ascontiguousarray(X + 0.0))


def first_not_finite(X: Any, dtype: Any, missing: bool = False) -> Iterator[tuple[int, int, Any]]:
    """Row, column and value of the first number of each row that is not finite in `dtype`.

    Parameters
    ----------
    missing : whether NaN may be there
    """
    if isinstance(X, SparseRows):
        with np.errstate(over="ignore"):
            odd = np.flatnonzero(~np.isfinite(X.data.astype(dtype, copy=False)))
        rows, first = np.unique(np.searchsorted(X.starts, odd, side="right") - 1, return_index=True)
        yield from ((row, int(X.indices[at]), X.data[at]) for row, at in zip(rows.tolist(), odd[first], strict=True))
    elif X.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            bad = ~np.isfinite(X.astype(dtype, copy=False))
        if missing:
            bad &= ~np.isnan(X)
        for row in np.flatnonzero(bad.any(axis=1)).tolist():
            column = int(bad[row].argmax())
            yield row, column, X[row, column]


def split_into_arrays(X: Any) -> dict[str, NDArray[Any]]:
    """The rows as named arrays, for files."""
    if isinstance(X, SparseRows):
        return {**X.arrays(), "": np.array([X.width])}
    return dict(zip(("", "ends"), encode_cells(X), strict=True)) if X.dtype.kind == "O" else {"": X}


def pack_rows(X: Any, name: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The rows as parameters of a model: JSON, and arrays.

    Rows of numbers are an array of this name, objects JSON in it and the positions at which their cells end, sparse
    rows what they hold.
    """
    if isinstance(X, SparseRows):
        return {"width": X.width}, X.arrays()
    return {}, dict(zip((name, "ends"), encode_cells(X), strict=True)) if X.dtype.kind == "O" else {name: X}


def unpack_rows(spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], name: str) -> Any:
    """The rows that `pack_rows` wrote, or a ValueError where these are none."""
    if "width" in spec:
        return SparseRows.build(arrays, spec["width"])
    return decode_cells(arrays[name], arrays["ends"]) if "ends" in arrays else arrays[name]


def load_rows(load: Callable[[str], Any], start: int, stop: int) -> Any:
    """Rows start .. stop - 1 of what `split_into_arrays` made; `load` gives an array by its name, None for none."""
    if (starts := load("starts")) is not None:
        ends = np.array(starts[start : stop + 1])
        at = slice(int(ends[0]), int(ends[-1]))
        data, indices = (np.array(load(name)[at]) for name in ("values", "indices"))
        return SparseRows(data, indices, ends - at.start, int(load("")[:1][0]))
    values = load("")
    if (cells := load("ends")) is not None:
        first, some = int(cells[start - 1 : start][0, -1]) if start else 0, np.array(cells[start:stop])
        return decode_cells(np.array(values[first : int(some[-1, -1])]), some - first)
    return None if values is None else np.array(values[start:stop])
