"""The layout of a block of rows: its columns, how they are stored, and the gate that makes a block of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkernel.errors import UnsupportedError
from dkernel.numerics.object_values import OBJECT_OVERHEAD, as_cells
from dkernel.numerics.rows import fill_masked, object_places
from dkernel.numerics.sparse_rows import RangeNames, SparseRows, as_sparse
from dkernel.numerics.validation import RowDescriber, as_features

SUPPOSED = 128
"""Stored numbers of a sparse row, where nothing says how many there are before the rows are read."""


@dataclass(frozen=True)
class Layout:
    """The columns of a block, and how its rows are stored: as numbers, as sparse rows, or as objects.

    Parameters
    ----------
    columns : their names; numbered ones (`RangeNames`) are of sparse rows
    dtype : of the numbers
    objects : the columns that hold texts, lists or sets; with such a block is of dtype object

    Examples
    --------
    >>> Layout(("a", "b")).block(np.array([[1, 2]]), str)
    array([[1., 2.]], dtype=float32)
    """

    columns: Sequence[str]
    dtype: str = "float32"
    objects: tuple[str, ...] = ()

    @classmethod
    def of(cls, X: Any) -> "Layout":
        """The layout of a block, whose columns then have numbers for names."""
        p = X.shape[1]
        names = RangeNames(0, p) if isinstance(X, SparseRows) else tuple(map(str, range(p)))
        return cls(names, str(X.dtype), tuple(str(j) for j in object_places(X)))

    @property
    def sparse(self) -> bool:
        """True if the rows are sparse."""
        return isinstance(self.columns, RangeNames)

    @property
    def numeric(self) -> bool:
        """True if all columns are numbers that are stored one beside the other."""
        return not (self.sparse or self.objects)

    @property
    def array_dtype(self) -> str:
        """The dtype of a block."""
        return "object" if self.objects else self.dtype

    def row_bytes(self, stored: int | None = None) -> int:
        """Bytes of a row.

        Parameters
        ----------
        stored : of a sparse row the numbers that it stores, of objects the bytes that their cells take where they are
            written; None where that is not known

        Examples
        --------
        >>> Layout(("a", "b")).row_bytes(), Layout("s", objects=("s",)).row_bytes(100)
        (8, 164)
        >>> Layout(RangeNames(0, 10_000)).row_bytes(100)
        808
        """
        p, itemsize = len(self.columns), np.dtype(self.dtype).itemsize
        if self.sparse:  # the numbers, their columns, and where the row ends
            return (SUPPOSED if stored is None else stored) * (4 + itemsize) + 8
        if self.objects:
            return stored + OBJECT_OVERHEAD * p if stored else 256 * p
        return p * itemsize

    def block(self, X: Any, describe: RowDescriber) -> Any:
        """X, an array or a matrix of scipy, as a block; else a DataError that names row and column.

        Parameters
        ----------
        describe : says where a row of the block stands, for the message
        """
        if self.sparse:
            return as_sparse(X if hasattr(X, "tocsr") else np.asarray(X), self.columns, self.dtype, describe)
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else fill_masked(X))
        if self.objects:
            return as_cells(X, self.columns, self.objects, describe)
        return as_features(X, self.columns, self.dtype, describe)

    def require_numbers(self, what: str, advice: str) -> None:
        """Refuse sparse rows and objects for what takes columns of numbers alone.

        Raises
        ------
        UnsupportedError
            If the rows are sparse, or a column holds objects.
        """
        if not self.numeric:
            stored = (
                f"sparse rows of {len(self.columns):,} columns" if self.sparse else "columns of texts, lists or sets"
            )
            raise UnsupportedError(f"{what} takes columns of numbers, and these are {stored}. {advice}")
