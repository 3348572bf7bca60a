"""Kernel values at fixed landmarks in float64: for coefficients that cancel each other, and for lines that are smooth.

They are products of prepared rows with one block, and a function of each in one compiled walk. Kernels without such
functions have none.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels.landmark_columns.base import FARTHEST, LARGEST_SQUARE, choose_center
from dkernel.numerics.array_types import F64
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.wide_scores import FUNCTIONS, fused_wide_scores


@dataclass(frozen=True, eq=False)
class WideColumns:
    """weight k(., Z) in float64.

    Parameters
    ----------
    panels : of the landmarks
    prepared : makes the rows that are multiplied with them of rows, float64 (n, p)
    """

    panels: PackedComponents
    prepared: Callable[[F64], F64]
    weight: float = 1.0

    def behind(self, change: Callable[[F64], F64]) -> "WideColumns":
        """The columns of changed rows."""
        return replace(self, prepared=lambda X: self.prepared(change(X)))

    def scores(self, X: Any, coef: NDArray[Any], scaled: Callable[[Any], F64]) -> F64:
        """weight k(scaled(X), Z) @ coef, (n, heads): a row has the same alone and in any block."""
        return fused_wide_scores(self.panels, lambda rows: self.prepared(scaled(rows)), X, self.weight * coef)


def distance_columns(function: str, Z: F64, factor: float | F64) -> tuple[WideColumns, ...]:
    """A function of ‖(x - z) factor‖².

    Parameters
    ----------
    function : of `PackedComponents`; there are no columns of another word
    factor : of all columns or of each
    """
    center = choose_center(Z).astype(np.float64)

    def prepared(X: F64) -> F64:
        """The squares of centred rows, and these rows. Those that are as good as infinitely far are nearer."""
        rows = np.empty((len(X), 1 + X.shape[1]))
        near = np.subtract(X, center, out=rows[:, 1:])
        near *= factor
        np.einsum("ij,ij->i", near, near, out=rows[:, 0])
        if not rows[:, 0].max(initial=0.0) <= LARGEST_SQUARE:
            np.clip(near, -FARTHEST, FARTHEST, out=near)
            np.einsum("ij,ij->i", near, near, out=rows[:, 0])
        return rows

    block = prepared(Z).T
    block[1:] *= -2.0
    return _with(function, block, prepared)


def product_columns(
    function: str, Z: F64, c: float = 0.0, order: NDArray[np.intp] | None = None
) -> tuple[WideColumns, ...]:
    """A function of ⟨x, z⟩ + c.

    Parameters
    ----------
    function, order : of `PackedComponents`
    """
    return _with(function, np.insert(Z.T, 0, c, axis=0), lambda X: np.insert(X, 0, 0.0, axis=1), order)


def _with(
    function: str, block: F64, prepared: Callable[[F64], F64], order: NDArray[np.intp] | None = None
) -> tuple[WideColumns, ...]:
    panels = PackedComponents.of(function, block, order) if function in FUNCTIONS else None
    return () if panels is None else (WideColumns(panels, prepared),)
