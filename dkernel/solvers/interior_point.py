"""An interior-point method for losses with kinks: the exact solver for few rows.

    minimize over a, b:  Σ w_i ℓ(y_i, s_i) + α/2 a^T K a,   s = K a + b,   Σ w_i = 1

Hinge, epsilon-insensitive and quantile losses are lines with corners, so the dual is a quadratic program in a box. With
β = α a, each row has one side or two, β = β⁰ + Σ_k σ_k x_k, and

    minimize over x:  β^T K β / 2α + Σ_k c_k^T x_k,   0 <= x_k <= u_k,   Σ β_i = 0,

where b is the multiplier of the equation. Mehrotra's predictor and corrector share one Cholesky factor of K + α E a
step, E the diagonal of the barriers, and some twenty steps end at a gap of 1e-9: K is never inverted. Sources: Mehrotra
1992; Fine and Scheinberg 2001 for support vector machines.
"""

import numpy as np
import scipy.linalg as sl

from dkernel.losses.losses import Loss
from dkernel.numerics.array_types import F64
from dkernel.solvers.newton import MOST_STEPS, Reached, raised_cholesky

STEP_SHARE = 0.995  # a step goes this share of the way to the nearest bound


def minimize_boxed(K: F64, Y: F64, w: F64, loss: Loss, alpha: float, tolerance: float = 1e-9) -> Reached:
    """Return a and b for one α; `moved` is then the gap of primal and dual a row, in the units of the loss.

    Parameters
    ----------
    K : Gram matrix of the rows, float64 (n, n);  Y : targets (n, outputs);  w : weights (n,) of sum 1
    tolerance : of the gap, as a share of the primal

    Examples
    --------
    >>> from dkernel.losses.losses import Hinge
    >>> K, Y = np.eye(2), np.array([[1.0], [-1.0]])
    >>> minimize_boxed(K, Y, np.array([0.5, 0.5]), Hinge(), 0.1).v[:, 0].round(6).tolist()
    [1.0, -1.0, 0.0]
    """
    v = np.zeros((len(K) + 1, Y.shape[1]))
    steps, worst = 0, 0.0
    used = w > 0
    K = K if used.all() else K[np.ix_(used, used)]
    for j in range(Y.shape[1]):
        n, (gap, a, b) = _BoxedProgram(K, Y[used, j], w[used], loss, max(alpha, 1e-14)).run(tolerance)
        v[:-1][used, j], v[-1, j] = a, b
        steps, worst = max(steps, n), max(worst, gap)
    return Reached(v, steps, worst)


class _BoxedProgram:
    """One output, with weights of mean 1: α is multiplied by n."""

    def __init__(self, K: F64, y: F64, w: F64, loss: Loss, alpha: float) -> None:
        n = len(y)
        self.K, self.y, self.w, self.loss, self.alpha = K, y, n * w, loss, n * alpha
        self.origin, sides = loss.sides(y, self.w)
        self.sign, self.upper, self.cost = (np.stack(part) for part in zip(*sides, strict=True))
        # Both distances to the walls are kept: upper - x is nothing but rounding where x is near it.
        self.x, self.slack = self.upper / 2, self.upper / 2
        self.b = 0.0
        self._move()
        # The multipliers begin where z - t is the gradient. A misfit would fall no faster than the barriers, and at a
        # small alpha these would be at the end of their digits before it is gone.
        size = max(1.0, float(np.abs(self.cost).mean()))
        gradient = self.sign * self.Kb / self.alpha + self.cost
        self.z, self.t = size + np.maximum(gradient, 0.0), size + np.maximum(-gradient, 0.0)

    def _move(self) -> None:
        self.beta = self.origin + (self.sign * self.x).sum(axis=0)
        self.Kb = self.K @ self.beta

    def run(self, tolerance: float) -> tuple[int, tuple[float, F64, float]]:
        """Return the steps, and of the one with the smallest gap: the gap a row, a and b."""
        best = np.inf, self.beta / self.alpha, self.b
        for steps in range(MOST_STEPS + 1):
            gap, barriers, size = self._gap()
            best = min(best, (gap * size, self.beta / self.alpha, self.b), key=lambda each: each[0])
            # A gap that the barriers do not explain is rounding, which more steps multiply; tiny steps lead nowhere.
            if not gap > tolerance or barriers <= gap / 10 or steps == MOST_STEPS or self._step() < 1e-10:
                break
        return steps, best

    def _gap(self) -> tuple[float, float, float]:
        """Shares of the primal: its gap to the dual, and what that would be without rounding; the primal a row.

        Where nothing is to be paid, as for targets that all lie within epsilon of one number, the primal goes to 0 and
        no gap is a small share of it: it then is one of what half of the digits of targets of deviation 1 cost.

        The gap is an upper bound of what is still to be gained, but for a misfit of Σ β.
        """
        s = self.Kb / self.alpha + self.b
        norm = float(self.beta @ self.Kb) / self.alpha
        primal = float(self.w @ self.loss.value(self.y, s)) + norm / 2
        # The costs of the origin are those of a quantile's lower bound: β⁰ y.
        dual = -norm / 2 - float((self.cost * self.x).sum()) + float(self.origin @ self.y)
        barriers = float((self.x * self.z + self.slack * self.t).sum())
        n = len(self.y)
        size = max(abs(primal), n * float(np.sqrt(np.finfo(np.float64).eps)))
        return abs(primal - dual) / size + abs(float(self.beta.sum())) / n, barriers / size, size / n

    def _step(self) -> float:
        """One predictor and corrector; the share of the way that was gone."""
        x, slack, z, t = self.x, self.slack, self.z, self.t
        dual = self.sign * (self.Kb / self.alpha + self.b) + self.cost - z + t
        D = z / x + t / slack
        E = 1.0 / (1.0 / D).sum(axis=0)
        factor = raised_cholesky(self.K, self.alpha * E)
        ones = sl.cho_solve(factor, np.ones(len(self.y)), check_finite=False)

        def towards(of_z: F64, of_t: F64) -> tuple[F64, F64, F64, float]:
            r = -dual + of_z / x - of_t / slack
            right = E * (self.sign * r / D).sum(axis=0)
            inner = sl.cho_solve(factor, right, check_finite=False)
            db = (float(inner.sum()) + float(self.beta.sum()) / self.alpha) / float(ones.sum())
            dbeta = self.alpha * (inner - db * ones)
            dx = (r - self.sign * (right - E * dbeta)) / D
            return dx, (of_z - z * dx) / x, (of_t + t * dx) / slack, db

        dx, dz, dt, db = towards(-x * z, -slack * t)
        far = self._longest(dx, dz, dt)
        mu = float((x * z + slack * t).mean()) / 2
        ahead = float(((x + far * dx) * (z + far * dz) + (slack - far * dx) * (t + far * dt)).mean()) / 2
        aim = mu * (max(ahead, 0.0) / mu) ** 3
        dx, dz, dt, db = towards(aim - x * z - dx * dz, aim - slack * t + dx * dt)
        far = min(1.0, STEP_SHARE * self._longest(dx, dz, dt, 1.0 / STEP_SHARE))
        self.x, self.slack, self.z, self.t = x + far * dx, slack - far * dx, z + far * dz, t + far * dt
        self.b += far * db
        self._move()
        return far

    def _longest(self, dx: F64, dz: F64, dt: F64, most: float = 1.0) -> float:
        """The share of a step that ends at a wall."""
        far = most
        for at, by in ((self.x, dx), (self.slack, -dx), (self.z, dz), (self.t, dt)):
            inwards = by < 0
            if inwards.any():
                far = min(far, float((-at[inwards] / by[inwards]).min()))
        return far
