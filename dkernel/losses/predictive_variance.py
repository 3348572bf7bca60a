"""Variance of the prediction of a ridge regression at a row, as a Gaussian process."""

from dataclasses import dataclass

import numpy as np

from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F64


@dataclass(frozen=True, eq=False)
class Variance(ArrayRecord):
    """Var y(x) = σ² (1 + (1 + |columns(x) @ factor - offset|²) / n) + τ² r(x).

    Ridge regression with the strength α is the mean of w given the data, where w ~ N(0, τ² I), labels have independent
    noise of variance σ², and τ² = σ² / (α n); the intercept may be anything. With H and m the centred covariance of
    the features and their mean, the variance of the function at x is σ²/n (1 + (φ - m)^T (H + α I)^{-1} (φ - m)), to
    which a label adds its noise σ², and landmarks τ² r(x), r(x) = k(x, x) - |φ(x)|² what they do not reach: far from
    all data the function is as unknown as it was before.

    Source: Rasmussen and Williams 2006, 2.1 and 8.3.4 (projected process approximation).

    Parameters
    ----------
    factor : float64 (n_components, rank), factor factor^T is (H + α I)^{-1} in the columns
    offset : m in the same, (rank,)
    scale : float64 (3,): σ², in the square of the label's unit; τ², 0 where there is no prior; n. Of k targets (3, k):
        they share H and α, and each has its own noise
    """

    factor: F64
    offset: F64
    scale: F64

    def of(self, columns: F64, rest: F64 | None = None) -> F64:
        """Variance of a label at rows, (n,) or (n, k), of their columns (n, n_components) and r (n,), None for none.

        Examples
        --------
        >>> certain = Variance(np.eye(1), np.zeros(1), np.array([0.5, 0.0, 100.0]))
        >>> certain.of(np.array([[0.0], [10.0]])).round(4).tolist()
        [0.505, 1.005]
        """
        noise, prior, n = self.scale
        along = columns @ self.factor - self.offset
        size = np.einsum("ij,ij->i", along, along)
        if self.scale.ndim == 2:
            size, rest = size[:, None], None if rest is None else rest[:, None]
        variance = noise * (1.0 + (1.0 + size) / n)
        return np.asarray(variance if rest is None else variance + prior * np.maximum(rest, 0.0))

    def fits(self, n_components: int, targets: int = 1) -> bool:
        """True if it is one of a map with that number of columns, and of targets."""
        factor, offset, scale = self.factor, self.offset, self.scale
        shape = (3,) if targets == 1 else (3, targets)
        if any(array.dtype != np.float64 for array in (factor, offset, scale)) or scale.shape != shape:
            return False
        shaped = factor.ndim == 2 and len(factor) == n_components and offset.shape == (factor.shape[1],)
        return bool(shaped and (scale[:2] >= 0).all() and (scale[2] > 0).all())
