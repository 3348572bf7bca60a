"""Kernel values at fixed landmarks, one cache tile at a time: the hot path of all landmark methods.

`kernel.columns(Z)` prepares the landmarks once per process. A driver then asks, for every tile of rows, `rows(X)` once
and `fill(rows, first, out)` for each block of columns, so what depends on the rows alone is not done again per block.

Centring comes first everywhere that the kernel allows it: an offset common to all rows would eat the float32 digits.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics import tiling
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import is_whole, product_walks
from dkernel.numerics.fused.shapes import LOG2_E
from dkernel.numerics.rows import wide

COLUMN_BLOCK = tiling.TILE_COMPONENTS
LARGEST_SQUARE = 1e36  # a squared norm; twice the product of two of these is still a float32 number
FARTHEST = 1e16  # a coordinate: squares of 10,000 of them are no more than that


class LandmarkColumns(ABC):
    """k(., Z) with Z prepared; `n` columns. Nothing in it is changed by use, so threads may share one.

    A tile of rows X is float32 (r, p) and C-contiguous; a tile of columns `out` is float32 (r, m), C-contiguous, with
    m <= COLUMN_BLOCK. `first` is a multiple of COLUMN_BLOCK and first + m <= n.
    """

    n: int
    quick: bool = False
    """True if `fill` is many times as quick as the kernel in float64, which rounds less."""

    @property
    def panels(self) -> PackedComponents | None:
        """All columns as products of `rows` with one block, where a compiled walk can make them; else None."""
        return None

    def rows(self, X: F32) -> Any:
        """Prepare a tile of rows for `fill`, once for all its blocks of columns."""
        return X

    @abstractmethod
    def fill(self, rows: Any, first: int, out: F32) -> None:
        """Write k(X, Z[first : first + m]) into `out`, where rows = self.rows(X)."""


def power_inplace(values: NDArray[np.floating], degree: int) -> None:
    """Raise an array to a positive integer power by squaring: `pow` on floats is some twenty times slower."""
    if degree == 1:
        return
    base = values.copy()
    for bit in bin(degree)[3:]:
        np.multiply(values, values, out=values)
        if bit == "1":
            np.multiply(values, base, out=values)


def column_blocks(wide: F64) -> list[F32]:
    """The columns of a (q, n) matrix in blocks of COLUMN_BLOCK, each contiguous: the right-hand sides of the sgemms."""
    starts = range(0, wide.shape[1], COLUMN_BLOCK)
    return [np.ascontiguousarray(wide[:, i : i + COLUMN_BLOCK], dtype=np.float32) for i in starts]


def augment(X: F32, center: F32, factor: NDArray[np.float32] | np.float32 | None) -> F32:
    """Rows without the center, times the factor, with a 1 and their squared norms behind, (r, p + 2).

    Those over LARGEST_SQUARE, whose products would be no float32 numbers, are nearer, as `within` has them.
    """
    r, p = X.shape
    wide = np.empty((r, p + 2), dtype=np.float32)
    with np.errstate(over="ignore"):
        centred = np.subtract(X, center, out=wide[:, :p])
        if factor is not None:
            centred *= factor
        norms = np.einsum("ij,ij->i", centred, centred, out=wide[:, p + 1])
    wide[:, p] = 1
    if not norms.max(initial=0.0) <= LARGEST_SQUARE:
        far = ~(norms <= LARGEST_SQUARE)
        rows = within((X[far].astype(np.float64) - center) * (1.0 if factor is None else factor))
        wide[far, :p], wide[far, p + 1] = rows, np.einsum("ij,ij->i", rows, rows)
    return wide


def choose_center(Z: F64) -> NDArray[np.float32]:
    """The mean of landmarks; where some are as far as `within` means it the median, which they do not move."""
    far = np.abs(Z).max(initial=0.0) > LARGEST_SQUARE**0.5 / 10
    return np.asarray(np.median(Z, axis=0) if far else Z.mean(axis=0)).astype(np.float32)


def within(rows: F64) -> F64:
    """Draw rows of a larger squared norm in to LARGEST_SQUARE: their distances to others stay as good as infinite.

    Examples
    --------
    >>> within(np.array([[3.0, 4.0], [0.0, 4e38]])).round(-3).tolist() == [[0.0, 0.0], [0.0, 1e18]]
    True
    """
    norms = np.einsum("ij,ij->i", rows, rows)
    far = norms > LARGEST_SQUARE
    if not far.any():
        return rows
    return np.where(far[:, None], rows * np.sqrt(LARGEST_SQUARE / np.maximum(norms, LARGEST_SQUARE))[:, None], rows)


class GaussianColumns(LandmarkColumns):
    """exp(-γ‖x - z‖²) as one sgemm of augmented rows and one exp2.

    With g = γ log₂e, the exponent 2g⟨x,z⟩ - g‖z‖² - g‖x‖² is the product of (x, 1, -g‖x‖²) and (2gz, -g‖z‖², 1).
    Its absolute error is about 2e-7 g‖z‖²: nothing for scaled data, but a landmark hundreds of standard deviations from
    the mean of the others is seen dimly (`kernel(X, Z)` sees it sharply).
    """

    quick = True

    def __init__(self, Z: F64, gamma: float | F64) -> None:
        self.n = Z.shape[0]
        # One gamma a column is one gamma for all, after a factor a column.
        self._factor = None if np.ndim(gamma) == 0 else np.sqrt(np.asarray(gamma) * LOG2_E).astype(np.float32)
        self._g = 1.0 if self._factor is not None else float(gamma) * LOG2_E
        # Rounded before it is subtracted, so that rows and landmarks lose the very same vector.
        self._center = choose_center(Z)
        centred = Z - self._center
        if self._factor is not None:
            centred = centred * self._factor
        centred = within(centred)
        ones = np.ones(self.n)
        norms = np.einsum("ij,ij->i", centred, centred)
        self._landmarks = column_blocks(np.vstack([2 * self._g * centred.T, -self._g * norms, ones]))

    @cached_property
    def panels(self) -> PackedComponents | None:
        return PackedComponents.of("exp2", np.concatenate(self._landmarks, axis=1))

    def rows(self, X: F32) -> F32:
        wide = augment(X, self._center, self._factor)
        wide[:, -1] *= np.float32(-self._g)
        return wide

    def fill(self, rows: F32, first: int, out: F32) -> None:
        """Products and exp2 in one walk, or one sgemm into the tile, then exp2 in place.

        Its clamp at 0 also keeps the rounded values at most 1.
        """
        panels = None if self.panels is None else self.panels.some(first, out.shape[1])
        if panels is not None and is_whole(panels, out):
            product_walks["exp2"](rows, panels, out[None])
            return
        np.matmul(rows, self._landmarks[first // COLUMN_BLOCK][:, : out.shape[1]], out=out)
        tiling.exp2_inplace(out)


# Share of the numbers of landmarks that are the usual one of their column: a number that is none costs what two do.
MOSTLY = 0.6


class ScaledColumns(LandmarkColumns):
    """Columns of the differences of single features: rows are centred and multiplied by a number beforehand."""

    def __init__(self, Z: F64, factor: float) -> None:
        self.n, self._factor, self._center = Z.shape[0], np.float32(factor), choose_center(Z)

    def rows(self, X: F32) -> F32:
        scaled = X - self._center
        scaled *= self._factor
        return scaled


class LaplacianColumns(ScaledColumns):
    """exp(-γ‖x - z‖₁): the L1 distances of rows and landmarks multiplied by γ log₂e beforehand, then exp2."""

    quick = True

    def __init__(self, Z: F64, gamma: float) -> None:
        super().__init__(Z, gamma * LOG2_E)
        self._landmarks = column_blocks(((Z - self._center) * self._factor).T)
        # The middle value of a column is its usual one where more than half of the landmarks have it.
        ordered = np.sort(self.rows(Z.astype(np.float32)), axis=0)
        usual = ordered[self.n // 2].copy()
        mostly = self.n > 0 and float(np.mean(ordered == usual)) > MOSTLY
        self._distances = [tiling.UsualDistances(usual, block) for block in self._landmarks] if mostly else None

    def fill(self, rows: F32, first: int, out: F32) -> None:
        block = first // COLUMN_BLOCK
        if self._distances is None:
            tiling.l1_distances(rows, self._landmarks[block], out)
        else:
            self._distances[block](rows, out)
        np.negative(out, out=out)
        tiling.exp2_inplace(out)


class DotColumns(LandmarkColumns):
    """(⟨x, z⟩ + c)^degree: one sgemm, with a column of ones where c is not zero, and a power by squaring."""

    def __init__(self, Z: F64, degree: int = 1, c: float = 0.0) -> None:
        self.n = Z.shape[0]
        self._degree = degree
        self._augmented = c != 0
        self._landmarks = column_blocks(np.vstack([Z.T, np.full(self.n, c)]) if self._augmented else Z.T)

    def rows(self, X: F32) -> F32:
        return np.hstack([X, np.ones((X.shape[0], 1), dtype=np.float32)]) if self._augmented else X

    def fill(self, rows: F32, first: int, out: F32) -> None:
        np.matmul(rows, self._landmarks[first // COLUMN_BLOCK][:, : out.shape[1]], out=out)
        power_inplace(out, self._degree)


class PlainColumns(LandmarkColumns):
    """The columns of any kernel that has no quicker way: its float64 values, rounded."""

    def __init__(self, Z: F64, values: Callable[[F64, F64], F64]) -> None:
        self.n = Z.shape[0]
        self._landmarks = Z
        self._values = values

    def fill(self, rows: F32, first: int, out: F32) -> None:
        out[...] = self._values(wide(rows), self._landmarks[first : first + out.shape[1]])


class SparseColumns(LandmarkColumns):
    """The columns of a kernel of products of rows at sparse landmarks: its float64 values of a tile of rows, rounded.

    All columns of the tile are made at once: a product with sparse landmarks goes through the rows' own numbers, which
    are few, and not through the columns.
    """

    def __init__(self, kernel: Any, Z: Any) -> None:
        self.n = len(Z)
        self._kernel, self._landmarks = kernel, Z.astype(np.float64)

    def rows(self, X: Any) -> F32:
        values: F64 = self._kernel(X.astype(np.float64), self._landmarks)
        return values.astype(np.float32)

    def fill(self, rows: F32, first: int, out: F32) -> None:
        out[...] = rows[:, first : first + out.shape[1]]


class FoldedColumns(LandmarkColumns):
    """Several columns of the same landmarks, folded into one tile by a ufunc, in their order."""

    def __init__(self, parts: Sequence[LandmarkColumns], fold: np.ufunc) -> None:
        self.n = parts[0].n
        self.quick = all(part.quick for part in parts)
        self._parts, self._fold = tuple(parts), fold

    def rows(self, X: F32) -> tuple[Any, ...]:
        return tuple(part.rows(X) for part in self._parts)

    def fill(self, rows: tuple[Any, ...], first: int, out: F32) -> None:
        """The first part into the tile itself, every other through a scratch tile."""
        self._parts[0].fill(rows[0], first, out)
        scratch = np.empty_like(out)
        for part, prepared in zip(self._parts[1:], rows[1:], strict=True):
            part.fill(prepared, first, scratch)
            self._fold(out, scratch, out=out)
