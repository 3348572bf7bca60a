"""The covariance preconditioner of P-SGD: its ridge by effective dimension, its step by out-of-sample leverage.

Everything here lives in a solver's coordinates v (see `features.base.Coordinates`): with S the mean of the outer
products of the features and M the metric, P = (S + ρ M)^{-1} is applied to reduced gradients by two triangular solves.
The intercept is one more coordinate, the last, with metric 1. Source: Ma and Belkin 2017; leverage as in
Rudi, Carratino and Rosasco 2017.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl

from dkernel.errors import DataError, RecipeError
from dkernel.losses.losses import Loss
from dkernel.model.serialization import stored
from dkernel.numerics import linalg, thin_linalg
from dkernel.numerics.array_types import F64

# A step of 2 / (largest eigenvalue) diverges; the noise of a round leaves less room than that.
STABLE = 1.6

# A factor is tried with these shares of the trace, one by one: the first is the rounding of float64, the last that of
# float32 products.
JITTERS = tuple(10.0**k for k in range(-15, -6))

COLUMN_STRIP = 512  # columns that are added at one time
# The stochastic trace is wrong by a few percent divided by the root of the number of columns, so many columns need one
# probe alone. A step reads three squares. Many columns take as many steps as still move the ridge, and at least one
# for STEP_COORDINATES coordinates: fewer leave the ridge too large where the spectrum ends slowly. With 24
# steps it is 5.3e-6 of covtype's 2,000 landmarks in place of 2.6e-6, and the errors are the same; with 5,000 they cost
# 0.1 points.
PROBES, FEWEST, LANCZOS_STEPS, PROBES_TOGETHER = 2, 24, 48, 8
STEP_COORDINATES = 80  # coordinates that one step is for, as said above
RIDGE_MOVED = 0.1  # the ridge is found when it moves by a smaller share: the error is flat over a factor of two
ONE_PROBE_COORDINATES = 1024  # coordinates above which one probe is taken

Metric = float | F64


@stored("Preconditioner")
@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P = (S + ρ M)^{-1} as a Cholesky factor L L^T = S + ρ M, and the step that goes with it.

    With directions U and their values θ: P = L^{-T} (I - U diag(1 - 1/θ) U^T) L^{-1}. In the sample the largest
    eigenvalue of P S is 1. On other rows single rows of high leverage make some several times as large, and one
    step size for all directions would have to be that much smaller: those few are taken down to 1 instead.

    Parameters
    ----------
    rho : ρ
    factor : L, float64 (n + 1, n + 1)
    leverage, peak : the 95th percentile and the largest of φ^T P φ over rows that S has not seen
    largest : of the eigenvalues of P S on rows that S has not seen, at least 1
    directions, values : U with orthonormal columns, (n + 1, q), and θ, (q,); None for none
    """

    rho: float
    factor: F64
    leverage: float
    peak: float
    largest: float = 1.0
    directions: F64 | None = None
    values: F64 | None = None

    @property
    def n(self) -> int:
        """Coordinates, that of the intercept among them."""
        return len(self.factor)

    def solve(self, gradient: F64) -> F64:
        """P g for g of shape (n + 1, heads)."""
        half = self.half(gradient)
        if self.directions is not None and self.values is not None:
            shrink = (1 - 1 / self.values)[:, None]
            half = half - self.directions @ (shrink * (self.directions.T @ half))
        return self.half_transposed(half)

    def half(self, v: F64) -> F64:
        """L^{-1} v."""
        return thin_linalg.solve_triangular(self.factor, v)

    def half_transposed(self, v: F64) -> F64:
        """L^{-T} v."""
        return thin_linalg.solve_triangular(self.factor, v, transposed=True)

    def step(self, batch: float, loss: Loss) -> float:
        """η = min(1, b / R^2, STABLE / (largest + peak / b)) / L for the mean gradient of b rows.

        The last is what keeps a step stable in a round that holds a row of the highest leverage (Ma, Bassily and Belkin
        2018, with the peak in place of a bound); a margin loss does without, its rows fall silent when they overshoot.
        """
        room = self.largest + (self.peak / max(batch, 1.0) if loss.constant_curvature else 0.0)
        return min(1.0, batch / self.leverage, STABLE / room) / loss.curvature


def factorize(covariance: F64, metric: Metric, rho: float, unseen: F64, consumed: bool = False) -> Preconditioner:
    """The preconditioner at a given ρ.

    Parameters
    ----------
    covariance : S with the intercept last, float64 (n + 1, n + 1), C-ordered
    metric : M (n, n), or a number
    unseen : features of rows outside the sample with their 1 last, float64 (rows, n + 1)
    consumed : whether nobody needs the covariance any more: the factor then comes in its place, where no page is fresh
    """
    factor = _factor(covariance if consumed else np.array(covariance, order="C"), metric, rho)
    half = linalg.forward(factor, unseen)
    leverage = np.einsum("ij,ij->i", half, half)
    return Preconditioner(rho, factor, float(np.quantile(leverage, 0.95)), float(leverage.max()))


def _factor(A: F64, metric: Metric, rho: float) -> F64:
    """Lower factor of A = S + ρ M, or of A + ε I with the smallest of a few ε that does: landmarks that say the same
    (rows that are equal, a linear kernel, one column) leave directions in which S and M are both 0 up to rounding, and
    sums in float32 leave rounding of their own.

    It comes in the place of S.
    """
    _add_metric(A, metric, rho)
    diagonal = A.diagonal().copy()
    for ridge in (0.0, *JITTERS):
        if ridge:
            linalg.mirror(A, diagonal + ridge * float(diagonal.sum()))
        try:
            return linalg.cholesky(A)
        except sl.LinAlgError:
            continue
    raise DataError(
        "The preconditioner has no Cholesky factor: the features of the sample hardly differ. Use fewer n_components, "
        "a larger alpha, or another gamma."
    )


def _add_metric(A: F64, metric: Metric, rho: float) -> None:
    n = len(A) - 1
    if isinstance(metric, float):
        A[np.diag_indices(n)] += rho * metric
    else:
        for first in range(0, n, COLUMN_STRIP):
            part = slice(first, min(first + COLUMN_STRIP, n))
            A[part, :n] += rho * metric[part]
    A[n, n] += rho


def ridge_for(
    covariance: F64,
    metric: Metric,
    target: float,
    floor: float,
    rng: np.random.Generator,
    root: F64 | None = None,
) -> float:
    """The ρ at which the effective dimension tr S (S + ρ M)^{-1} equals `target`, at least `floor` times the largest
    eigenvalue of S M^{-1}: below what is rounding in S there is nothing to tell directions apart by.

    Bisection over ρ on a spectrum that a few Lanczos runs have measured once. The rule that uses it is flat over a
    factor of two either way, so a stochastic trace is exact enough. `root` is the `metric_factor`, where
    the metric is a matrix and somebody has it.
    """
    if root is None and not isinstance(metric, float):
        root = metric_factor(metric)
    rho = largest = 0.0
    for nodes, weights in _spectral_measures(covariance, metric, root, rng):
        before, rho, largest = rho, find_ridge(nodes, weights, target, float(nodes.max())), float(nodes.max())
        if abs(rho - before) <= RIDGE_MOVED * rho:
            break
    return max(rho, floor * largest)


def find_ridge(nodes: F64, weights: F64, target: float, high: float) -> float:
    """The ρ of up to `high` at which `effective_dimension` equals `target`, by bisection."""
    low = 1e-14 * float(nodes.max())
    for _ in range(60):
        rho = float(np.sqrt(low * high))
        dimension = effective_dimension(nodes, weights, rho)
        low, high = (rho, high) if dimension > target else (low, rho)
    return rho


def effective_dimension(nodes: F64, weights: F64, rho: float) -> float:
    """sum of weights * nodes / (nodes + ρ)."""
    return float(np.sum(weights * nodes / (nodes + rho)))


def _spectral_measures(
    covariance: F64, metric: Metric, root: F64 | None, rng: np.random.Generator
) -> Iterator[tuple[F64, F64]]:
    """Nodes and weights with tr f(S M^{-1}) ≈ sum of weights * f(nodes), by Lanczos quadrature from random signs; of
    many coordinates one after the other, each of some more steps.

    Source: Ubaru, Chen, Saad 2017, algorithm 1; full reorthogonalization, because the spectra here decay fast.
    """
    n = len(covariance)
    scale = np.ones(n)
    if isinstance(metric, float):
        scale[: n - 1] = 1.0 / np.sqrt(metric)

    def apply(v: F64) -> F64:
        if root is None:
            return scale * _times(covariance, scale * v)
        inner = np.concatenate([sl.solve_triangular(root, v[:-1], lower=True, trans=1, check_finite=False), v[-1:]])
        outer = _times(covariance, inner)
        return np.concatenate([sl.solve_triangular(root, outer[:-1], lower=True, check_finite=False), outer[-1:]])

    if n >= ONE_PROBE_COORDINATES:
        most = min(max(n // STEP_COORDINATES, FEWEST), LANCZOS_STEPS)
        for run in _lanczos(apply, rng.choice([-1.0, 1.0], n) / np.sqrt(n), most, PROBES_TOGETHER):
            nodes, weights = _quadrature(*run)
            yield nodes, n * weights
        return
    steps = min(LANCZOS_STEPS, n)
    starts = [rng.choice([-1.0, 1.0], n) / np.sqrt(n) for _ in range(PROBES)]
    parts = [_quadrature(*next(_lanczos(apply, start, steps, steps))) for start in starts]
    yield np.concatenate([nodes for nodes, _ in parts]), n / PROBES * np.concatenate([w for _, w in parts])


def _quadrature(diagonal: F64, off: F64) -> tuple[F64, F64]:
    values, vectors = sl.eigh_tridiagonal(diagonal, off)
    return np.maximum(values, 0.0), vectors[0] ** 2


def _times(covariance: F64, v: F64) -> F64:
    return thin_linalg.product(covariance, v[:, None])[:, 0]


def metric_factor(metric: F64) -> F64:
    """L with L L^T = M, lower triangular; a kernel that is not positive semi-definite is refused."""
    try:
        return linalg.cholesky(metric.copy())
    except sl.LinAlgError:
        smallest, largest = sl.eigvalsh(metric)[[0, -1]]
        raise RecipeError(
            f"This function is not a kernel: its Gram matrix at the landmarks has the eigenvalue {smallest:.3g} (the "
            f"largest is {largest:.3g}), and a kernel has none below 0. dkernel.is_psd(kernel, X) shows the rows."
        ) from None


def _lanczos(apply: Callable[[F64], F64], start: F64, steps: int, together: int) -> Iterator[tuple[F64, F64]]:
    """Diagonals of the tridiagonal matrix of a symmetric operator from a unit vector, after every few steps."""
    basis = np.empty((steps, len(start)))
    diagonal, off = np.zeros(steps), np.zeros(max(steps - 1, 0))
    basis[0] = start
    for j in range(steps):
        w = apply(basis[j])
        diagonal[j] = basis[j] @ w
        for _ in range(2):  # twice is enough
            w -= basis[: j + 1].T @ (basis[: j + 1] @ w)
        norm = float(np.linalg.norm(w))
        ended = j + 1 == steps or norm <= 1e-13 * abs(diagonal[0])
        if ended or (j + 1) % together == 0:
            yield diagonal[: j + 1], off[:j]
        if ended:
            return
        off[j], basis[j + 1] = norm, w / norm
