"""Rows that hold categories as codes of one or two bytes, and give the one-hot inputs of rows that are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

OneHotGroups = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class PackedRows:
    """Rows of numbers, of which a row has at most one that is not 0 in each group of columns.

    Parameters
    ----------
    numbers : the other columns, (rows, n)
    places : their numbers, int64 (n,)
    codes : for each group the column that is not 0, counted from 1 within the group, and 0 for none, (rows, groups)
    columns : for each group the numbers of its columns, int64
    values : for each group the values of its columns where they are not 0

    Examples
    --------
    >>> X = np.array([[5.0, 1.0, 0.0], [6.0, 0.0, 0.5], [7.0, 0.0, 0.0]], np.float32)
    >>> rows = PackedRows.pack(X, [(1, 2)])
    >>> rows.codes.ravel().tolist(), rows.shape, rows[1:].tolist()
    ([1, 2, 0], (3, 3), [[6.0, 0.0, 0.5], [7.0, 0.0, 0.0]])
    """

    numbers: NDArray[Any]
    places: NDArray[np.int64]
    codes: NDArray[Any]
    columns: tuple[NDArray[np.int64], ...]
    values: tuple[NDArray[Any], ...]

    @classmethod
    def pack(cls, X: NDArray[Any], groups: OneHotGroups) -> Self | None:
        """Pack rows (rows, p); None if a row has several values in a group, or a column several values."""
        places = np.setdiff1d(np.arange(X.shape[1]), [j for group in groups for j in group])
        codes = np.empty((len(X), len(groups)), code_type(groups))
        values = []
        for k, group in enumerate(groups):
            part = X[:, group]
            there = part != 0
            of_columns = part.max(axis=0, initial=0.0)
            codes[:, k] = np.where(there.any(axis=1), there.argmax(axis=1) + 1, 0)
            values.append(of_columns)
            if np.count_nonzero(there) != np.count_nonzero(codes[:, k]) or not (part == there * of_columns).all():
                return None
        columns = tuple(np.array(group, np.int64) for group in groups)
        return cls(np.ascontiguousarray(X[:, places]), places, codes, columns, tuple(values))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of the rows and of their inputs."""
        return len(self), len(self.places) + sum(map(len, self.columns))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the inputs."""
        return self.numbers.dtype

    @property
    def nbytes(self) -> int:
        """Bytes as they are held."""
        return int(self.numbers.nbytes + self.codes.nbytes)

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        """The inputs of some rows, (rows, p): a slice, their numbers or a mask."""
        numbers, codes = self.numbers[rows], self.codes[rows]
        X = np.zeros((len(numbers), self.shape[1]), self.dtype)
        X[:, self.places] = numbers
        for k, (columns, values) in enumerate(zip(self.columns, self.values, strict=True)):
            some = np.flatnonzero(codes[:, k])
            at = codes[some, k].astype(np.int64) - 1
            X[some, columns[at]] = values[at]
        return X

    def take(self, rows: NDArray[np.integer], axis: int = 0) -> NDArray[Any]:  # noqa: ARG002 - as of arrays
        """The inputs of the rows of these numbers."""
        return self[rows]


def code_type(groups: OneHotGroups) -> Any:
    """The type of a code: one byte for up to 255 columns of a group, else two or four."""
    return np.min_scalar_type(max(map(len, groups), default=0))


def packed_bytes(p: int, itemsize: int, groups: OneHotGroups) -> int:
    """Bytes of a packed row of p columns.

    Examples
    --------
    >>> packed_bytes(110, 4, [range(10, 110)])
    41
    """
    return int((p - sum(map(len, groups))) * itemsize + len(groups) * np.dtype(code_type(groups)).itemsize)
