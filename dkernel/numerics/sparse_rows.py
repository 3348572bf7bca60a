"""Sparse rows: a block that stores only the numbers other than 0, and the products that kernels need.

What dense blocks are to numpy, `SparseRows` are to everything from the readers to the columns of a map: slices, rows by
number, a length, a dtype. They never become a table: numpy's `asarray` of them is an error. Products of rows with rows
are sums in float64, over the columns in their order: a row's do not depend on the rows beside it, those of a block with
itself are symmetric to the bit, and equal rows have a distance of exactly 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dkernel.errors import DataError
from dkernel.numerics.loops import compile_loop
from dkernel.numerics.validation import RowDescriber, explain_number

WIDE_COLUMNS = 4096
"""Rows of a sparse matrix of more columns than this stay sparse; of fewer they become dense a chunk at a time."""
DENSE_SHARE = 0.1
"""Of all numbers: where more are stored than this share, and that is known, rows are taken as dense."""
FOLDED_COLUMNS = 64
"""Columns that the columns are folded to, where only likeness is asked for."""


@dataclass(frozen=True)
class RangeNames(Sequence[str]):
    """The names "first", "first + 1", ... of n columns, none of them held.

    Examples
    --------
    >>> names = RangeNames(1, 2**20)
    >>> names[2], len(names), "7" in names, list(RangeNames(0, 3))
    ('3', 1048576, True, ['0', '1', '2'])
    """

    first: int
    n: int

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        numbers = range(self.first, self.first + self.n)[at]
        return tuple(map(str, numbers)) if isinstance(numbers, range) else str(numbers)

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self.first, self.first + self.n))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.isdecimal() and int(name) - self.first in range(self.n)


def named(columns: Sequence[str]) -> tuple[str, ...]:
    """The names, for a record; numbered ones in one word."""
    return (repr(columns),) if isinstance(columns, RangeNames) else tuple(columns)


def is_wide(p: int, stored: float | None = None) -> bool:
    """True if rows of p columns stay sparse: of more than WIDE_COLUMNS, no more than DENSE_SHARE of which are stored.

    Parameters
    ----------
    stored : share of the numbers that are, None where it is not known before reading

    Examples
    --------
    >>> is_wide(2**18), is_wide(300), is_wide(2**18, 0.5)
    (True, False, False)
    """
    return p > WIDE_COLUMNS and (stored is None or stored <= DENSE_SHARE)


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows (n, width) by their stored numbers: those of row i are data[starts[i] : starts[i + 1]].

    Parameters
    ----------
    data : float32 or float64;  indices : int32, their columns, increasing in each row
    starts : int64 (n + 1,)

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rows = SparseRows.of(sp.csr_array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0]]))
    >>> len(rows), (rows @ rows.T).tolist(), rows[1:].tocsr().toarray().tolist()
    (2, [[5.0, 0.0], [0.0, 9.0]], [[3.0, 0.0, 0.0]])
    """

    data: NDArray[Any]
    indices: NDArray[np.int32]
    starts: NDArray[np.int64]
    width: int

    @classmethod
    def of(cls, matrix: Any) -> "SparseRows":
        """Rows of a real scipy matrix in any format: equal entries are added, zeros omitted, columns sorted."""
        csr = matrix.tocsr().copy()
        if csr.dtype not in (np.float32, np.float64):
            csr = csr.astype(np.float64)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return cls._of_sorted(csr)

    @classmethod
    def _of_sorted(cls, csr: Any) -> "SparseRows":
        return cls(csr.data, csr.indices.astype(np.int32, copy=False), csr.indptr.astype(np.int64), int(csr.shape[1]))

    def tocsr(self) -> Any:
        """The rows as a scipy csr_array, on the same numbers."""
        return sp.csr_array((self.data, self.indices, self.starts), shape=self.shape)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self), self.width

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def dtype(self) -> Any:
        """Type of the stored numbers."""
        return self.data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        return int(self.data.nbytes + self.indices.nbytes + self.starts.nbytes)

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{len(self):,} sparse rows of {self.width:,} columns do not become an array.")

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("data", "indices", "starts", "width")}

    def __getitem__(self, rows: slice | NDArray[Any]) -> "SparseRows":
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, stop, _ = rows.indices(len(self))
            stop = max(first, stop)
            at = slice(int(self.starts[first]), int(self.starts[stop]))
            return SparseRows(self.data[at], self.indices[at], self.starts[first : stop + 1] - at.start, self.width)
        return self._of_sorted(self.tocsr()[rows])

    def take(self, rows: NDArray[Any], axis: int = 0) -> "SparseRows":  # noqa: ARG002 - NumPy's signature
        """The rows of these numbers, as NumPy's `take` along axis 0."""
        return self[rows]

    def pad(self, first: int, rows: int) -> "SparseRows":
        """`rows` rows from `first` on, empty ones behind the last."""
        part = self[first : first + rows]
        missing = rows - len(part)
        if not missing:
            return part
        starts = np.concatenate([part.starts, np.full(missing, part.starts[-1])])
        return SparseRows(part.data, part.indices, starts, self.width)

    def astype(self, dtype: Any, copy: bool = False) -> "SparseRows":  # noqa: ARG002 - as numpy has it
        """The rows with their numbers in another dtype."""
        if np.dtype(dtype) == self.data.dtype:
            return self
        return self._wide if np.dtype(dtype) == np.float64 else self.with_data(self.data.astype(dtype))

    @cached_property
    def _wide(self) -> "SparseRows":
        # Kept: what is prepared of landmarks is prepared of their float64 form.
        return self.with_data(self.data.astype(np.float64))

    def with_data(self, data: NDArray[Any]) -> "SparseRows":
        """Other numbers in the same places."""
        return SparseRows(data, self.indices, self.starts, self.width)

    def times(self, factors: NDArray[np.float64]) -> "SparseRows":
        """Multiply each row by its number, float64."""
        return self.with_data(self.data * np.repeat(factors, np.diff(self.starts)))

    def __neg__(self) -> "SparseRows":
        return self.with_data(-self.data)

    def copy(self) -> "SparseRows":
        """The rows themselves: nothing changes them."""
        return self

    @property
    def row_numbers(self) -> NDArray[np.int32]:
        """The row of each stored number."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """|x|^2 of every row, (n,)."""
        out = np.empty(len(self))
        _squares(self.starts, np.ascontiguousarray(self.data, np.float64), out)
        return out

    @property
    def T(self) -> "Transposed":  # noqa: N802 - as numpy has it
        """The right side of X @ Z.T."""
        return Transposed(self)

    def __matmul__(self, other: "Transposed") -> NDArray[np.float64]:
        """X Z^T, float64 (n, m)."""
        if self.width != other.rows.width:
            raise DataError(f"Rows of {self.width} and of {other.rows.width} columns have no products.")
        out = np.zeros((len(self), len(other.rows)))
        data = np.ascontiguousarray(self.data, np.float64)
        _products(self.starts, np.ascontiguousarray(self.indices), data, *other.rows._by_column, out)
        return out

    @cached_property
    def _by_column(self) -> tuple[NDArray[Any], ...]:
        """Position of each column among those that are used, -1 for the others; starts, rows and numbers of these."""
        order = np.argsort(self.indices, kind="stable")
        used, first = np.unique(self.indices[order], return_index=True)
        position = np.full(self.width, -1, np.int32)
        position[used] = np.arange(len(used), dtype=np.int32)
        rows = self.row_numbers[order]
        return position, np.append(first, len(order)).astype(np.int64), rows, self.data[order].astype(np.float64)

    def fold(self) -> NDArray[np.float64]:
        """Sums of the columns j, j + FOLDED_COLUMNS, ... with signs of their own, float64 (n, FOLDED_COLUMNS)."""
        out = np.zeros((len(self), FOLDED_COLUMNS))
        sign = 1.0 - 2.0 * ((self.indices.astype(np.uint32) * np.uint32(2654435761)) >> np.uint32(31))
        np.add.at(out, (self.row_numbers, self.indices % FOLDED_COLUMNS), sign * self.data)
        return out

    def largest(self) -> NDArray[np.float32]:
        """The largest absolute value in each column, 0 for none."""
        out = np.zeros(self.width, np.float32)
        np.maximum.at(out, self.indices, np.abs(self.data).astype(np.float32))
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays, for a file."""
        return {"values": self.data, "indices": self.indices, "starts": self.starts}

    @classmethod
    def build(cls, arrays: Any, width: int) -> "SparseRows":
        """The rows of `arrays`, or a ValueError where these are none."""
        data, indices, starts = arrays["values"], arrays["indices"], arrays["starts"]
        shaped = data.ndim == indices.ndim == starts.ndim == 1 and len(data) == len(indices) and len(starts) > 0
        kinds = data.dtype.kind == "f" and indices.dtype == np.int32 and starts.dtype == np.int64
        if not shaped or not kinds or starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
            raise ValueError("the tensors are not those of sparse rows")
        row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        ordered = (np.diff(row) > 0) | (np.diff(indices) > 0)
        if len(indices) and (indices.min() < 0 or indices.max() >= width or not ordered.all()):
            raise ValueError("the columns of sparse rows are not in their order")
        return cls(data, indices, starts, width)


@dataclass(frozen=True, eq=False)
class Transposed:
    """The right side of X @ Z.T."""

    rows: SparseRows


def as_sparse(X: Any, columns: Sequence[str], dtype: str, describe: RowDescriber = "row {}".format) -> SparseRows:
    """The gate for sparse rows, as `validation.as_features` is for dense ones: real, finite, of the right width.

    Parameters
    ----------
    X : sparse rows, a scipy matrix, or a dense block (n, p) whose zeros are then left out
    """
    if X.ndim != 2 or X.shape[1] != len(columns):
        raise DataError(
            f"A block of sparse rows has the shape {X.shape} at {describe(0)}; {len(columns)} columns are needed."
        )
    if X.dtype.kind not in "fiub":
        raise DataError(f"The features at {describe(0)} are of type {X.dtype}; numbers are needed.")
    if not isinstance(X, SparseRows):
        X = SparseRows.of(X if hasattr(X, "tocsr") else sp.csr_array(np.asarray(X)))
    with np.errstate(over="ignore", invalid="ignore"):
        rows: SparseRows = X.with_data(np.ascontiguousarray(X.data, dtype=dtype))
    bad = np.flatnonzero(~np.isfinite(rows.data))
    if len(bad):
        row, column = int(np.searchsorted(rows.starts, bad[0], side="right")) - 1, int(rows.indices[bad[0]])
        where = f"{describe(row)}, column {columns[column]!r}"
        advice = " SimpleImputer of scikit-learn fills sparse rows." if np.isnan(X.data[bad[0]]) else ""
        raise DataError(explain_number(where, X.data[bad[0]], dtype, len(bad) - 1) + advice)
    return rows


# Without `contract`: a sum of products is the same number whichever of two rows comes first, and so are squares.
@compile_loop(
    "void(int64[::1], int32[::1], float64[::1], int32[::1], int64[::1], int32[::1], float64[::1], float64[:, ::1])",
    flags=set(),
)
def _products(
    starts: Any, indices: Any, data: Any, position: Any, of_column: Any, rows: Any, values: Any, out: Any
) -> None:
    for i in range(out.shape[0]):
        line = out[i]
        for k in range(starts[i], starts[i + 1]):
            j = position[indices[k]]
            if j >= 0:
                x = data[k]
                for m in range(of_column[j], of_column[j + 1]):
                    line[rows[m]] += x * values[m]


@compile_loop("void(int64[::1], float64[::1], float64[::1])", flags=set())
def _squares(starts: Any, data: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += data[k] * data[k]
        out[i] = total
