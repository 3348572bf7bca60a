"""The covariance preconditioner of P-SGD: its ridge by effective dimension, its step by out-of-sample leverage.

Everything here lives in a solver's coordinates v (see `features.base.Coordinates`): with S the mean of the outer
products of the features and M the metric, P = (S + ρ M)^{-1} is applied to reduced gradients by two triangular solves.
The intercept is one more coordinate, the last, with metric 1. Source: ALGORITHMS 3.2, steps C-F.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

__all__ = ["Preconditioner", "effective_dimension", "factorize", "ridge_for"]

Matrix = NDArray[np.float64]
Metric = float | Matrix


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P = (S + ρ M)^{-1} as a Cholesky factor, and the step that goes with it.

    Parameters
    ----------
    rho : ρ
    factor : lower Cholesky factor of S + ρ M, float64 (n + 1, n + 1)
    leverage : the 95th percentile of φ^T P φ over rows that S has not seen
    """

    rho: float
    factor: Matrix
    leverage: float

    def solve(self, gradient: Matrix) -> Matrix:
        """P g for g of shape (n + 1, heads)."""
        half = sl.solve_triangular(self.factor, gradient, lower=True, check_finite=False)
        return np.asarray(sl.solve_triangular(self.factor, half, lower=True, trans=1, check_finite=False))

    def step(self, batch: float, curvature: float) -> float:
        """η = min(1, b / R^2) / L for the mean gradient of b rows."""
        return min(1.0, batch / self.leverage) / curvature


def factorize(covariance: Matrix, metric: Metric, rho: float, held: Matrix) -> Preconditioner:
    """The preconditioner at a given ρ.

    Parameters
    ----------
    covariance : S with the intercept last, float64 (n + 1, n + 1)
    metric : M (n, n), or a number
    held : features of rows outside the sample with their 1 last, float64 (rows, n + 1)
    """
    A = covariance.copy()
    _add_metric(A, metric, rho)
    factor = sl.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
    leverage = _leverage(factor, held)
    return Preconditioner(rho, factor, leverage)


def _leverage(factor: Matrix, held: Matrix) -> float:
    half = sl.solve_triangular(factor, held.T, lower=True, check_finite=False)
    return float(np.quantile(np.einsum("ij,ij->j", half, half), 0.95))


def _add_metric(A: Matrix, metric: Metric, rho: float) -> None:
    n = len(A) - 1
    if isinstance(metric, float):
        A.flat[:: n + 2] += rho * metric
        A[n, n] += rho * (1.0 - metric)
    else:
        A[:n, :n] += rho * metric
        A[n, n] += rho


def ridge_for(covariance: Matrix, metric: Metric, target: float, floor: float, rng: np.random.Generator) -> float:
    """The ρ at which the effective dimension tr S (S + ρ M)^{-1} equals `target`, at least `floor`.

    Bisection over ρ on a spectrum that a few Lanczos runs have measured once. The rule that uses it is flat over a
    factor of two either way (ALGORITHMS 3.4), so a stochastic trace is exact enough.
    """
    nodes, weights = _spectral_measure(covariance, metric, rng)
    low, high = 1e-14 * nodes.max(), float(nodes.max())
    for _ in range(60):
        rho = float(np.sqrt(low * high))
        dimension = effective_dimension(nodes, weights, rho)
        low, high = (rho, high) if dimension > target else (low, rho)
    return max(rho, floor)


def effective_dimension(nodes: Matrix, weights: Matrix, rho: float) -> float:
    """sum of weights * nodes / (nodes + ρ)."""
    return float(np.sum(weights * nodes / (nodes + rho)))


def _spectral_measure(covariance: Matrix, metric: Metric, rng: np.random.Generator) -> tuple[Matrix, Matrix]:
    """Nodes and weights with tr f(S M^{-1}) ≈ sum of weights * f(nodes), by Lanczos quadrature from random signs.

    Source: Ubaru, Chen, Saad 2017, algorithm 1; full reorthogonalization, because the spectra here decay fast.
    """
    n, probes, steps = len(covariance), 3, 64
    root = None if isinstance(metric, float) else _metric_root(metric)
    scale = np.ones(n)
    if root is None:
        scale[: n - 1] = 1.0 / np.sqrt(metric)

    def apply(v: Matrix) -> Matrix:
        if root is None:
            return scale * (covariance @ (scale * v))
        inner = np.concatenate([sl.solve_triangular(root, v[:-1], lower=True, trans=1, check_finite=False), v[-1:]])
        outer = covariance @ inner
        return np.concatenate([sl.solve_triangular(root, outer[:-1], lower=True, check_finite=False), outer[-1:]])

    nodes, weights = [], []
    for _ in range(probes):
        start = rng.choice([-1.0, 1.0], n)
        diagonal, off = _lanczos(apply, start / np.sqrt(n), min(steps, n))
        values, vectors = sl.eigh_tridiagonal(diagonal, off)
        nodes.append(np.maximum(values, 0.0))
        weights.append(n / probes * vectors[0] ** 2)
    return np.concatenate(nodes), np.concatenate(weights)


def _metric_root(metric: Matrix) -> Matrix:
    return np.asarray(sl.cholesky(metric, lower=True, check_finite=False))


def _lanczos(apply, start: Matrix, steps: int) -> tuple[Matrix, Matrix]:  # type: ignore[no-untyped-def]
    """Diagonals of the tridiagonal matrix of a symmetric operator from a unit vector."""
    basis = np.empty((steps, len(start)))
    diagonal, off = np.zeros(steps), np.zeros(max(steps - 1, 0))
    basis[0] = start
    for j in range(steps):
        w = apply(basis[j])
        diagonal[j] = basis[j] @ w
        for _ in range(2):  # twice is enough
            w -= basis[: j + 1].T @ (basis[: j + 1] @ w)
        norm = float(np.linalg.norm(w))
        if j + 1 == steps:
            break
        if norm < 1e-13 * abs(diagonal[0]):
            return diagonal[: j + 1], off[:j]
        off[j], basis[j + 1] = norm, w / norm
    return diagonal, off
