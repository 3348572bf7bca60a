"""Newton's method on the coefficients of a kernel expansion: the exact solver for few rows.

    minimize over a, b:  Σ w_i ℓ(y_i, s_i) + α/2 a^T K a,   s = K a + b,   Σ w_i = 1

At the optimum α a_i = -w_i ℓ'(y_i, s_i): rows with ℓ' = 0 have no coefficient. With H the second
derivatives of the loss, a row's from its outputs to its outputs, the step (d, β) of a and b solves

    w H (K d + β) + α d = r,    Σ w H (K d + β) = -Σ w ℓ',    r = -(w ℓ' + α a)

Rows without curvature have d = r / α at once. For the others all outputs share one Cholesky factor, of
K + diag(α / (w h)) with h the mean curvature of the row's outputs, which is as well conditioned as α allows: K is never
squared, nor inverted. It is the preconditioner of conjugate gradients; of one output it is the system itself, and one
iteration ends it. Of one output the factor is in float32, which takes half the time, and a few iterations with K in
float64 make up for its rounding; where they do not, it is made again in float64. Source: Chapelle 2007 (squared hinge);
Rasmussen and Williams 2006, section 3.4 (logistic); Nocedal and Wright 2006, section 7.1 (how well a step is to be
solved).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.losses.losses import Loss
from dkernel.numerics import linalg
from dkernel.numerics.array_types import F64

Outputs = slice | NDArray[np.intp]

MOST_STEPS = 100  # a fit takes some ten or twenty
MOST_ITERATIONS = 40  # conjugate gradients take some ten in a step
ROUGHLY = 0.1  # a step may miss the minimum of its model by this share of its length, and by less near the optimum


def raised_cholesky(K: F64, diagonal: F64) -> tuple[F64, bool]:
    """SciPy's Cholesky factor of K + diag(diagonal), K the Gram matrix of some rows (n, n).

    Examples
    --------
    >>> float(raised_cholesky(np.ones((2, 2)), np.array([3.0, 3.0]))[0][0, 0])
    2.0
    """
    n = len(K)
    # rounding may leave K no Cholesky factor: shares of the mean of its diagonal are added
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        A = K.copy()
        A.flat[:: n + 1] += diagonal + ridge * float(np.trace(K)) / n
        try:
            factor: tuple[F64, bool] = sl.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            continue
        return factor
    raise UnsupportedError("The Gram matrix of the rows has negative eigenvalues; use a kernel that is one.")


@dataclass(frozen=True, eq=False)
class Reached:
    """Result of a solver on the Gram matrix.

    Parameters
    ----------
    v : a and b, float64 (n + 1, outputs)
    steps : of the output that took the most
    moved : weighted root mean square by which the last step moved the scores, the largest of the outputs; where it was
        to move them by more than 1, this
    """

    v: F64
    steps: int
    moved: float


@dataclass(frozen=True, eq=False)
class Newton:
    """The problem, of a smooth loss.

    Parameters
    ----------
    K : Gram matrix of the rows, float64 (n, n);  Y : targets (n, outputs);  w : weights (n,) of sum 1
    last : system of the step before, for any outputs

    Examples
    --------
    >>> from dkernel.losses.losses import Squared
    >>> K, Y = np.eye(2), np.array([[1.0], [-1.0]])
    >>> Newton(K, Y, np.array([0.5, 0.5]), Squared()).optimum(0.5).v[:, 0].tolist()
    [0.5, -0.5, 0.0]
    """

    K: F64
    Y: F64
    w: F64
    loss: Loss
    last: list["_NewtonSystem"] = field(default_factory=list, repr=False)

    def optimum(self, alpha: float, tolerance: float = 1e-9, start: F64 | None = None) -> Reached:
        """The minimizer for one α.

        Parameters
        ----------
        tolerance : of the scores, as `Reached.moved`
        start : v to begin at; None for zeros
        """
        alpha = max(alpha, 1e-14)
        v = np.zeros((len(self.K) + 1, self.Y.shape[1])) if start is None else start.copy()
        Ka, steps = self.K @ v[:-1], 0
        moved, alone = np.full(v.shape[1], np.inf), np.full(v.shape[1], v.shape[1] == 1)
        while (moving := moved > tolerance).any() and steps < MOST_STEPS:
            steps += 1
            some = replace(self, Y=self.Y[:, moving])  # outputs that are at their optima stay there
            moved[moving], alone[moving], v[:, moving], Ka[:, moving] = some._move(
                moved[moving], alone[moving], v[:, moving], Ka[:, moving], alpha
            )
        return Reached(v, steps, float(moved.max()))

    def _move(
        self, moved: F64, alone: NDArray[np.bool_], v: F64, Ka: F64, alpha: float
    ) -> tuple[F64, NDArray[np.bool_], F64, F64]:
        """One step: by how much it moved the scores of each output, the outputs that are alone then, v, and K a."""
        d, beta = self._step(v[:-1], Ka + v[-1], alpha, np.minimum(ROUGHLY, np.sqrt(moved)), alone)
        Kd, step = self.K @ d, np.vstack([d, beta])
        t = self._length(v, Ka, step, Kd, alpha)
        full = np.sqrt(self._sums(self.w[:, None] * np.square(Kd + beta)))
        far = np.where(full > 1, full, t * full)  # a small share of more than a deviation, or a margin, is no arrival
        if not self.loss.joint:
            far, alone = np.where((t > 0) | alone, far, np.inf), alone | (t < 1)
        return far, alone, v + t * step, Ka + t * Kd

    def _sums(self, each: F64) -> F64:
        """Sums over the rows of each output; over all outputs where the loss sees them together."""
        sums = each.sum(axis=0)
        return sums.sum(keepdims=True) if self.loss.joint else sums

    def _step(self, a: F64, s: F64, alpha: float, enough: F64, alone: NDArray[np.bool_]) -> tuple[F64, F64]:
        """The way to the minimum of the quadratic model at s, of each output up to `enough` of its length.

        Parameters
        ----------
        alone : outputs whose curvatures are not like those of the others, so that each has factors of its own
        """
        d, beta, alone = np.empty_like(a), np.empty(a.shape[1]), alone.copy()
        if not alone.all():
            some = ~alone
            d[:, some], beta[some], alone[some] = self._step_together(some, a, s, alpha, enough[some])
        for j in np.flatnonzero(alone):
            one = np.arange(len(alone)) == j
            d[:, one], beta[one], _ = self._step_together(one, a, s, alpha, enough[one])
        return d, beta

    def _step_together(
        self, some: NDArray[np.bool_], a: F64, s: F64, alpha: float, enough: F64
    ) -> tuple[F64, F64, NDArray[np.bool_]]:
        """Compute the step of some outputs with one factor, and tell the outputs that have not reached its end."""
        a, s, Y = a[:, some], s[:, some], self.Y[:, some]
        w, slope = self.w[:, None], self.loss.derivative(Y, s)
        r, rest, beta = -(w * slope + alpha * a), -self.w @ slope, np.zeros(a.shape[1])
        mean = self.loss.hessian(Y, s)[0].mean(axis=1)
        curved = (mean > 1e-12) & (self.w > 0)  # smaller curvatures are rounding
        d = np.where(curved[:, None], 0.0, r / alpha)
        if not curved.any():
            return d, beta, np.zeros(len(beta), dtype=bool)
        Y, s, mean, w = Y[curved], s[curved], mean[curved], w[curved]

        def bent(at: Outputs) -> Callable[[F64], F64]:
            change = self.loss.hessian(Y[:, at], s[:, at])[1]
            return lambda moved: w * change(moved)

        moved = bent(slice(None))((self.K @ d)[curved])
        # A quadratic loss has one factor in all; of several outputs the products with K cost what float32 saves.
        exact = self.loss.quadratic or len(beta) > 1
        system = self._system(np.flatnonzero(curved), alpha / (w[:, 0] * mean), alpha, exact)
        given = bent, r[curved] - moved, rest - moved.sum(axis=0), enough
        d[curved], beta, late = self._solve(system, *given)
        if late.any() and not system.exact:
            system = self._system(system.curved, system.ridge, alpha, True)
            d[curved], beta, late = self._solve(system, *given)
        return d, beta, late & (not self.loss.joint)

    def _system(self, curved: NDArray[np.intp], ridge: F64, alpha: float, exact: bool) -> "_NewtonSystem":
        """The system of the step before, if it is the same, as near the optimum of a quadratic loss; or a new one."""
        for known in self.last:
            same = known.exact >= exact and np.array_equal(known.curved, curved) and np.array_equal(known.ridge, ridge)
            if same:
                return known
        self.last.clear()  # its pages serve the next
        self.last.append(_NewtonSystem.of(self.K, curved, ridge, alpha, exact))
        return self.last[0]

    def _solve(
        self,
        system: "_NewtonSystem",
        bent: Callable[[Outputs], Callable[[F64], F64]],
        r: F64,
        rest: F64,
        enough: F64,
    ) -> tuple[F64, F64, NDArray[np.bool_]]:
        """Conjugate gradients in the space of the kernel, whose inner products are a^T K a.

        Parameters
        ----------
        bent : outputs -> the function from changes of their scores to those of the weighted derivatives
        """
        solution, late = np.zeros((len(r) + 1, len(rest))), np.zeros(len(rest), dtype=bool)
        at = np.arange(len(rest))  # the outputs that are not there yet: the others leave
        d, beta, curve = np.zeros_like(r), np.zeros_like(rest), bent(slice(None))
        z, zeta, Kz = system.solve(r, rest)
        p, pb, Kp, now = z, zeta, Kz, self._inner(r, Kz, rest, zeta)
        least = enough**2 * now
        for _ in range(MOST_ITERATIONS):
            q = curve(Kp + pb)
            q, qb = q + system.alpha * p, q.sum(axis=0)
            t = _ratio(now, self._inner(q, Kp, qb, pb))
            d, beta = d + t * p, beta + t * pb
            r, rest = r - t * q, rest - t * qb
            z, zeta, Kz = system.solve(r, rest)
            then = self._inner(r, Kz, rest, zeta)
            share, now = _ratio(then, now), then
            p, pb, Kp = z + share * p, zeta + share * pb, Kz + share * Kp
            late[at] = stays = now > least
            if stays.all():
                continue
            solution[:-1, at], solution[-1, at] = d, beta
            if not stays.any():
                break
            at, curve = at[stays], bent(at[stays])
            d, p, Kp, r = (each[:, stays] for each in (d, p, Kp, r))
            beta, pb, rest, now, least = (each[stays] for each in (beta, pb, rest, now, least))
        if late.any():
            solution[:-1, at], solution[-1, at] = d, beta
        return solution[:-1], solution[-1], late

    def _inner(self, r: F64, Kz: F64, rest: F64, zeta: F64) -> F64:
        return self._sums(np.vstack([r * Kz, rest * zeta]))

    def _length(self, v: F64, Ka: F64, step: F64, Kd: F64, alpha: float) -> F64:
        """Share of the way for each output: the first of 1, 1/2, ... with which the objective falls; 0 for none."""

        def objective(t: F64) -> F64:
            at, inner = v + t * step, Ka + t * Kd
            value = self.w[:, None] * self.loss.value(self.Y, inner + at[-1])
            return self._sums(value + 0.5 * alpha * at[:-1] * inner)

        now = objective(np.zeros(1))
        t, falls = np.ones(len(now)), np.zeros(len(now), dtype=bool)
        for _ in range(60):  # the last of these steps is 1e-18
            falls = objective(t) <= now + 1e-14 * abs(now)  # one that falls by less does not fall
            if falls.all():
                return t
            t = np.where(falls, t, t / 2)
        return np.where(falls, t, 0.0)


@dataclass(frozen=True, eq=False)
class _NewtonSystem:
    """K + diag(ridge) of the rows with curvature, and an intercept, factored.

    Parameters
    ----------
    curved : numbers of the rows, ascending;  K : their Gram matrix
    ridge : α / (w h) of these
    inverse : of K + diag(ridge), about
    ones : the inverse times a vector of ones
    exact : whether the inverse is that of float64
    """

    curved: NDArray[np.intp]
    K: F64
    ridge: F64
    alpha: float
    inverse: Callable[[F64], F64]
    ones: F64
    exact: bool

    @classmethod
    def of(cls, K: F64, curved: NDArray[np.intp], ridge: F64, alpha: float, exact: bool) -> "_NewtonSystem":
        """The system, in float32 unless it is to be `exact` or has no factor there."""
        part = K if len(curved) == len(K) else K.take(curved, 0).take(curved, 1)
        inverse = None if exact else _single(part, ridge)
        if inverse is None:
            exact, inverse = True, partial(sl.cho_solve, raised_cholesky(part, ridge), check_finite=False)
        return cls(curved, part, ridge, alpha, inverse, inverse(np.ones(len(part))), exact)

    def solve(self, r: F64, rest: F64) -> tuple[F64, F64, F64]:
        """z and ζ with w h (K z + ζ) + α z = r and Σ w h (K z + ζ) = rest, about; and K z."""
        scale = (self.ridge / self.alpha)[:, None]
        z = self.inverse(scale * r)
        zeta = (z.sum(axis=0) - (r.sum(axis=0) - rest) / self.alpha) / self.ones.sum()
        z -= self.ones[:, None] * zeta
        return z, zeta, scale * (r - self.alpha * z) - zeta if self.exact else self.K @ z


def _single(K: F64, ridge: F64) -> Callable[[F64], F64] | None:
    """The inverse of K + diag(ridge) in float32, in half the time; None where that is not positive definite."""
    A = K.astype(np.float32)
    A.flat[:: len(A) + 1] += ridge
    try:
        solve = linalg.factor_matrix(A)
    except sl.LinAlgError:
        return None

    def inverse(B: F64) -> F64:
        size = np.abs(B).max(initial=np.finfo(np.float64).tiny)
        columns = (B / size).reshape(len(B), -1).astype(np.float32)
        return solve(columns).astype(np.float64).reshape(B.shape) * size

    return inverse


def _ratio(a: F64, b: F64) -> F64:
    """a / b, and 0 where b is 0, as at the end of an output."""
    return np.asarray(np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0))
