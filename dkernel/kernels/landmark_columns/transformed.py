"""Kernel values of kernels made of one kernel: its tile, transformed in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels.landmark_columns.base import LandmarkColumns
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.rows import in_dtype, wide


class ChangedColumns(LandmarkColumns):
    """A function of every value, in place."""

    def __init__(self, part: LandmarkColumns, change: Callable[[F32], Any], quick: bool = False) -> None:
        self.n, self.quick = part.n, quick
        self._part, self._change = part, change

    def rows(self, X: F32) -> Any:
        """The rows of the kernel inside."""
        return self._part.rows(X)

    def fill(self, rows: Any, first: int, out: F32) -> None:
        """Fill, then change in place."""
        self._part.fill(rows, first, out)
        self._change(out)


class WeightedColumns(LandmarkColumns):
    """f(x) f(z) k(x, z), the weights in float64 until they are rounded."""

    def __init__(self, part: LandmarkColumns, weights: Callable[[F64], F64], Z: F64) -> None:
        self.n = part.n
        self._part, self._weights = part, weights
        self._of_landmarks = weights(Z).astype(np.float32)

    def rows(self, X: F32) -> tuple[Any, F32]:
        """The rows of the kernel inside, and their weights (r, 1)."""
        return self._part.rows(X), self._weights(wide(X)).astype(np.float32)[:, None]

    def fill(self, rows: tuple[Any, F32], first: int, out: F32) -> None:
        """Fill, then multiply by both weights in place."""
        self._part.fill(rows[0], first, out)
        out *= rows[1]
        out *= self._of_landmarks[first : first + out.shape[1]]


class SelectedColumns(LandmarkColumns):
    """The columns of a kernel of some columns of the data."""

    def __init__(self, part: LandmarkColumns, select: Callable[[Any], NDArray[Any]]) -> None:
        self.n = part.n
        self._part, self._select = part, select

    def rows(self, X: F32) -> Any:
        """The rows of the kernel inside, of the selected columns."""
        return self._part.rows(in_dtype(self._select(X), np.float32))

    def fill(self, rows: Any, first: int, out: F32) -> None:
        """Fill by the kernel inside."""
        self._part.fill(rows, first, out)
