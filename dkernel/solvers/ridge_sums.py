"""Ridge regression from its normal equations: every alpha and its cross-validation from one eigendecomposition.

    minimize over w, b:  1/(2n) sum of (y_i - w . φ_i - b)^2 + α/2 |w|^2

With H, m and c the centred covariance of the features, their mean and their covariance with the targets, and M = L L^T
the metric: L^{-1} H L^{-T} = U Λ U^T, and w_α = L^{-T} U (Λ + α)^{-1} U^T L^{-1} c, b_α = mean y - m . w_α. Errors on
the training rows, degrees of freedom and generalized cross-validation need nothing else; leaving a row out needs its
features, and leaving a fold out that fold's sums. Source: Golub, Heath and Wahba 1979.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl

from dkernel.numerics.array_types import F64
from dkernel.solvers.preconditioner import Metric, metric_factor


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over weighted rows, in a solver's coordinates with the 1 of the intercept last.

    Parameters
    ----------
    gram : of the features with themselves, float64 (n + 1, n + 1)
    moment : with the targets, (n + 1, outputs)
    energy : of the squared targets, (outputs,)
    weight : of the rows
    """

    gram: F64
    moment: F64
    energy: F64
    weight: float

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.gram + other.gram, self.moment + other.moment, self.energy + other.energy, self.weight + other.weight
        )

    def error(self, v: F64) -> F64:
        """Mean squared error of coefficients v, (n + 1, outputs), on these rows, (outputs,)."""
        fitted = np.einsum("ic,ij,jc->c", v, self.gram, v, optimize=True)
        return np.asarray((self.energy - 2 * np.einsum("ic,ic->c", v, self.moment) + fitted) / self.weight)


@dataclass(frozen=True, eq=False)
class Ridge:
    """The ridge regressions of all alphas on the same rows.

    Parameters
    ----------
    basis : L^{-T} U, float64 (n, n): its columns are the directions
    values : Λ, (n,)
    along : U^T L^{-1} c, (n, outputs)
    mean, level : of the features, (n,), and of the targets, (outputs,)
    spread : variance of the targets, (outputs,)
    weight : of the rows; copies of a row are as many rows
    silent : L^{-T} U of the directions of which the rows say nothing, (n, rest)
    """

    basis: F64
    values: F64
    along: F64
    mean: F64
    level: F64
    spread: F64
    weight: float
    silent: F64

    def coefficients(self, alpha: float) -> F64:
        """v, (n + 1, outputs), the intercepts last."""
        w = self.basis @ (self.along / (self.values + alpha)[:, None])
        return np.concatenate([w, (self.level - self.mean @ w)[None]])

    def error(self, alpha: float) -> F64:
        """Mean squared error on the training rows, (outputs,)."""
        shrunk = (self.values + 2 * alpha) / (self.values + alpha) ** 2
        return np.asarray(np.maximum(self.spread - shrunk @ self.along**2, 0.0))

    def freedom(self, alpha: float) -> float:
        """Degrees of freedom: the trace of the matrix that makes the fitted values of the targets."""
        return 1.0 + float(np.sum(self.values / (self.values + alpha)))

    def generalized_error(self, alpha: float) -> F64:
        """Generalized cross-validation: error / (1 - freedom / n)^2, (outputs,)."""
        return self.error(alpha) / max(1.0 - self.freedom(alpha) / self.weight, 1e-12) ** 2

    def noise(self, alpha: float) -> F64:
        """Variance of the labels about their function, (outputs,): the squared errors / (n - freedom)."""
        return self.error(alpha) / max(1.0 - self.freedom(alpha) / self.weight, 1e-12)

    def uncertainty(self, alpha: float) -> tuple[F64, F64]:
        """T, (n, rank), with T T^T = (H + α M)^{-1}, and T^T m, m the mean of the features."""
        T = self.basis / np.sqrt(self.values + alpha)
        if alpha > 0:
            T = np.concatenate([T, self.silent / np.sqrt(alpha)], axis=1)
        return T, self.mean @ T

    def leave_one_out(self, features: F64, targets: F64, alphas: Sequence[float], weight: F64 | float) -> F64:
        """Weighted sum over rows of (y - ŷ without that row)^2 for each alpha, (alphas, outputs).

        Exact for each of the rows, which are among those of the training; the strength α n of the regularization is
        that of all of them. ŷ_i without i is y_i - e_i / (1 - h_i), h_i the leverage.

        Parameters
        ----------
        features : of the rows without the 1, (rows, n)
        targets : (rows, outputs)
        weight : of each row, (rows,), or 1
        """
        along = (features - self.mean) @ self.basis
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), len(features))
        sums = np.empty((len(alphas), targets.shape[1]))
        for i, alpha in enumerate(alphas):
            shrink = 1.0 / (self.values + alpha)
            off = targets - self.level - along @ (shrink[:, None] * self.along)
            leverage = weights * (1.0 + along**2 @ shrink) / self.weight
            sums[i] = weights @ (off / np.maximum(1.0 - leverage, 1e-12)[:, None]) ** 2
        return sums


def solve_ridge(total: Moments, metric: Metric) -> Ridge:
    """The ridge regressions of some rows, from their sums and the metric M, a matrix or a number.

    Examples
    --------
    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    >>> F = np.stack([x, np.ones(3)], axis=1)
    >>> ridge = solve_ridge(Moments(F.T @ F, F.T @ y[:, None], np.array([y @ y]), 3.0), 1.0)
    >>> ridge.coefficients(0.0).round(6)[:, 0].tolist()
    [2.0, 1.0]
    """
    gram, moment = total.gram / total.weight, total.moment / total.weight
    mean, level = gram[:-1, -1] / gram[-1, -1], moment[-1]
    centred, with_targets = gram[:-1, :-1] - np.outer(mean, mean), moment[:-1] - np.outer(mean, level)
    if isinstance(metric, float):
        white, along, root = centred / metric, with_targets / np.sqrt(metric), None
    else:
        root = metric_factor(metric)
        half = sl.solve_triangular(root, centred, lower=True, check_finite=False)
        white = sl.solve_triangular(root, half.T, lower=True, check_finite=False)
        along = sl.solve_triangular(root, with_targets, lower=True, check_finite=False)
    values, U = sl.eigh(0.5 * (white + white.T), check_finite=False)
    if root is None:
        basis = U / np.sqrt(metric)
    else:
        basis = np.asarray(sl.solve_triangular(root, U, lower=True, trans=1, check_finite=False))
    # Below the rounding of the largest, a value is noise, and so is what the targets have along its direction.
    real = values > 1e-15 * len(values) * max(float(values[-1]), 0.0)
    spread = np.maximum(total.energy / total.weight - level**2, 0.0)
    return Ridge(basis[:, real], values[real], U[:, real].T @ along, mean, level, spread, total.weight, basis[:, ~real])
