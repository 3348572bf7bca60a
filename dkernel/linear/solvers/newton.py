"""Newton's method on the coefficients of a kernel expansion: the exact machine of few rows.

    minimize over a, b:  Σ w_i ℓ(y_i, s_i) + α/2 a^T K a,   s = K a + b,   Σ w_i = 1

At the optimum α a_i = -w_i ℓ'(y_i, s_i): rows that the loss is silent on have no coefficient. A step takes the rows A
where the loss is curved, h_i = ℓ'' > 0, and solves

    (K_AA + diag(α / (w_i h_i))) a_A + b = s_A - ℓ'_A / h_A - K_AB a_B,    Σ a_i = 0,    α a_B = -w_B ℓ'_B

whose matrix is as well conditioned as α allows: K is never squared, nor inverted. It costs |A|^3 / 3, and some ten
steps are enough. Source: Chapelle 2007 (squared hinge); Rasmussen and Williams 2006, section 3.4 (logistic).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.linear.losses import Loss

Array = NDArray[np.float64]

MOST_STEPS = 100  # a fit takes some ten or twenty
APART = 1e-5  # difference of the two scores whose slopes give the curvature


def raised(K: Array, diagonal: Array) -> tuple[Array, bool]:
    """SciPy's Cholesky factor of K + diag(diagonal), K the Gram matrix of some rows (n, n).

    Examples
    --------
    >>> float(raised(np.ones((2, 2)), np.array([3.0, 3.0]))[0][0, 0])
    2.0
    """
    n = len(K)
    # rounding may leave K no Cholesky factor: shares of the mean of its diagonal are added
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        A = K.copy()
        A.flat[:: n + 1] += diagonal + ridge * float(np.trace(K)) / n
        try:
            factor: tuple[Array, bool] = sl.cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            continue
        return factor
    raise UnsupportedError("The Gram matrix of the rows has negative eigenvalues; use a kernel that is one.")


@dataclass(frozen=True, eq=False)
class Reached:
    """Result of Newton's method.

    Parameters
    ----------
    v : a and b, float64 (n + 1, outputs)
    steps : of the output that took the most
    moved : weighted root mean square by which the last step moved the scores, the largest of the outputs
    """

    v: Array
    steps: int
    moved: float


@dataclass(frozen=True, eq=False)
class Newton:
    """The problem, of a smooth loss that sees one output at a time.

    Parameters
    ----------
    K : Gram matrix of the rows, float64 (n, n);  Y : targets (n, outputs);  w : weights (n,) of sum 1

    Examples
    --------
    >>> from dkernel.linear.losses import Squared
    >>> K, Y = np.eye(2), np.array([[1.0], [-1.0]])
    >>> Newton(K, Y, np.array([0.5, 0.5]), Squared()).optimum(0.5).v[:, 0].tolist()
    [0.5, -0.5, 0.0]
    """

    K: Array
    Y: Array
    w: Array
    loss: Loss

    def optimum(self, alpha: float, tolerance: float = 1e-9, start: Array | None = None) -> Reached:
        """The minimizer for one α.

        Parameters
        ----------
        tolerance : of the scores, as `Reached.moved`
        start : v to begin at; None for zeros
        """
        v = np.zeros((len(self.K) + 1, self.Y.shape[1])) if start is None else start.copy()
        steps, moved = 0, 0.0
        for j in range(self.Y.shape[1]):
            v[:, j], n, last = self._one(v[:, j], self.Y[:, j : j + 1], max(alpha, 1e-14), tolerance)
            steps, moved = max(steps, n), max(moved, last)
        return Reached(v, steps, moved)

    def _one(self, v: Array, y: Array, alpha: float, tolerance: float) -> tuple[Array, int, float]:
        a, b = v[:-1], float(v[-1])
        Ka = self.K @ a
        moved, steps = np.inf, 0
        while moved > tolerance and steps < MOST_STEPS:
            steps += 1
            s = Ka + b
            to_a, to_b = self._target(b, s, y, alpha)
            to_Ka = self.K @ to_a
            t = self._length(a, b, Ka, to_a, to_b, to_Ka, y, alpha)
            moved = t * float(np.sqrt(self.w @ np.square(to_Ka + to_b - s)))
            a, b, Ka = a + t * (to_a - a), b + t * (to_b - b), Ka + t * (to_Ka - Ka)
        return np.append(a, b), steps, moved

    def _target(self, b: float, s: Array, y: Array, alpha: float) -> tuple[Array, float]:
        """Minimum of the quadratic model at s."""
        slope = self.loss.derivative(y, s[:, None])[:, 0]
        ahead, behind = (self.loss.derivative(y, s[:, None] + e)[:, 0] for e in (APART, -APART))
        h = (ahead - behind) / (2 * APART)
        curved = (h > 1e-12) & (self.w > 0)  # smaller curvatures are rounding
        to = -self.w * slope / alpha
        if not curved.any():
            return to, b
        fixed = float(to[~curved].sum())
        z = s[curved] - slope[curved] / h[curved] - self.K[np.ix_(curved, ~curved)] @ to[~curved]
        factor = raised(self.K[np.ix_(curved, curved)], alpha / (self.w[curved] * h[curved]))
        solved = sl.cho_solve(factor, np.stack([np.ones_like(z), z], axis=1), check_finite=False)
        b = float((solved[:, 1].sum() + fixed) / solved[:, 0].sum())
        to[curved] = solved[:, 1] - b * solved[:, 0]
        return to, b

    def _length(
        self, a: Array, b: float, Ka: Array, to_a: Array, to_b: float, to_Ka: Array, y: Array, alpha: float
    ) -> float:
        """Share of the way to the target: the first of 1, 1/2, ... with which the objective falls; 0 for none."""

        def objective(t: float) -> float:
            at, inner = a + t * (to_a - a), Ka + t * (to_Ka - Ka)
            s = (inner + b + t * (to_b - b))[:, None]
            return float(self.w @ self.loss.value(y, s)[:, 0] + 0.5 * alpha * (at @ inner))

        now = objective(0.0)
        for i in range(30):  # the last of these steps is 1e-9
            if objective(0.5**i) <= now + 1e-14 * abs(now):  # an objective that falls by less does not fall
                return 0.5**i
        return 0.0
