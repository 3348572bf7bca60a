"""Kernel values of kernels made of one kernel: its tile, transformed in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels.landmark_columns.base import LandmarkColumns
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.rows import in_dtype, wide


class InnerColumns(LandmarkColumns):
    """The columns of a kernel inside another, as they are."""

    def __init__(self, part: LandmarkColumns) -> None:
        self.n, self._part = part.n, part

    def rows(self, X: F32) -> Any:
        return self._part.rows(X)

    def fill(self, rows: Any, first: int, out: F32) -> None:
        self._part.fill(rows, first, out)


class ChangedColumns(InnerColumns):
    """A function of every value, in place."""

    def __init__(self, part: LandmarkColumns, change: Callable[[F32], Any], quick: bool = False) -> None:
        super().__init__(part)
        self.quick, self._change = quick, change

    def fill(self, rows: Any, first: int, out: F32) -> None:
        super().fill(rows, first, out)
        self._change(out)


class WeightedColumns(InnerColumns):
    """f(x) f(z) k(x, z), the weights in float64 until they are rounded."""

    def __init__(self, part: LandmarkColumns, weights: Callable[[F64], F64], Z: F64) -> None:
        super().__init__(part)
        self._weights, self._of_landmarks = weights, weights(Z).astype(np.float32)

    def rows(self, X: F32) -> tuple[Any, F32]:
        return super().rows(X), self._weights(wide(X)).astype(np.float32)[:, None]

    def fill(self, rows: tuple[Any, F32], first: int, out: F32) -> None:
        super().fill(rows[0], first, out)
        out *= rows[1]
        out *= self._of_landmarks[first : first + out.shape[1]]


class SelectedColumns(InnerColumns):
    """The columns of a kernel of some columns of the data."""

    def __init__(self, part: LandmarkColumns, select: Callable[[Any], NDArray[Any]]) -> None:
        super().__init__(part)
        self._select = select

    def rows(self, X: F32) -> Any:
        return super().rows(in_dtype(self._select(X), np.float32))
