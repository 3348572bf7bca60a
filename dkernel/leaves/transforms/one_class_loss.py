"""The one-class support vector machine of a linear model: smoothed, and solved by Newton's method.

    minimize over w, ρ:  ν/2 |w|² - ν ρ + mean of max(0, ρ - w . φ)

The kink is rounded over a width h, to (t + h)² / 4h for |t| < h, t = ρ - w . φ, which moves the objective by at most
h/4. Only rows in that zone have curvature, so their Gram matrix is all that a step costs beside the scores; wide zones
come first, then narrower ones, each from the solution before it. Source: Schölkopf et al. 2001 (the objective, times
ν); Chapelle 2007 (Newton's method for smoothed hinges).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl

from dkernel.numerics.array_types import F64

NARROW = 1e-3  # the last width is this share of the spread of the first scores
# A zone is done when a step would gain this share of the objective: in the last zone, and in those before it.
DONE, NEARLY_DONE = 1e-6, 1e-3
SHARES = 0.5 ** np.arange(1, 8)  # shares of a step that are tried beside the whole of it
TINY = 1e-12  # this share of the largest entry of Newton's matrix is added against rounding


@dataclass
class OneClassSum:
    """Sums over rows: the losses at some v = (w, ρ); and at the first of them gradient (m + 1,) and second derivatives
    (m + 1, m + 1), and how many rows have a score under ρ. Of n rows.
    """

    loss: F64
    gradient: F64
    curvature: F64
    below: int
    n: int

    def __add__(self, other: "OneClassSum") -> "OneClassSum":
        self.gradient += other.gradient
        self.curvature += other.curvature
        return OneClassSum(
            self.loss + other.loss, self.gradient, self.curvature, self.below + other.below, self.n + other.n
        )


def sum_losses(F: F64, points: F64, h: float) -> OneClassSum:
    """The sums of rows with the features F (n, m) at v, the columns of points (m + 1, k)."""
    T = points[-1] - F @ points[:-1]
    loss = np.where(np.abs(T) < h, (T + h) ** 2 / (4 * h), np.maximum(T, 0.0)).sum(axis=0)
    t = T[:, 0]
    near = np.abs(t) < h
    slope = np.where(near, (t + h) / (2 * h), (t > 0).astype(np.float64))
    inside = F[near]
    m = F.shape[1]
    curvature = np.empty((m + 1, m + 1))
    curvature[:m, :m] = inside.T @ inside
    curvature[:m, m] = curvature[m, :m] = -inside.sum(axis=0)
    curvature[m, m] = len(inside)
    curvature /= 2 * h
    return OneClassSum(loss, np.append(-(slope @ F), slope.sum()), curvature, int(np.count_nonzero(t > 0)), len(F))


def values(total: OneClassSum, points: F64, nu: float) -> F64:
    """The smoothed objective at the points, (k,)."""
    return np.asarray(0.5 * nu * np.square(points[:-1]).sum(axis=0) - nu * points[-1] + total.loss / total.n)


def decrement(total: OneClassSum, v: F64, nu: float, h: float) -> tuple[F64, float]:
    """Newton's step from v, to be taken away, and its slope: twice what a quadratic would gain by it."""
    gradient = total.gradient / total.n
    gradient[:-1] += nu * v[:-1]
    gradient[-1] -= nu
    H = total.curvature / total.n
    H[np.diag_indices(len(v) - 1)] += nu
    # Where no row is in the zone nothing bounds the step of ρ: it is h then.
    H[-1, -1] += max(abs(gradient[-1]) / h, TINY) if H[-1, -1] == 0 else TINY * float(H.diagonal().max())
    step = np.asarray(sl.cho_solve(sl.cho_factor(H, lower=True, check_finite=False), gradient, check_finite=False))
    return step, float(gradient @ step)


def begin(F: F64, nu: float) -> tuple[F64, float]:
    """v with w along the mean of some rows' features, and the spread of their scores, the first width."""
    mean = F.mean(axis=0)
    scores = F @ mean
    return np.append(mean, np.quantile(scores, nu)), float(scores.std()) or float(abs(scores.mean())) or 1.0


def widths(first: float) -> list[float]:
    """The widths of the zones, from the first to NARROW of it.

    Examples
    --------
    >>> [round(h, 5) for h in widths(1.0)]
    [1.0, 0.25, 0.0625, 0.01562, 0.00391, 0.001]
    """
    path = [first]
    while path[-1] > NARROW * first:
        # Newton's method follows in one or two steps when a width is a quarter of the one before.
        path.append(max(path[-1] / 4.0, NARROW * first))
    return path


class OneClassNewton:
    """Newton's method over the widths, one evaluation after the other: `points` and `width` say where the next is.

    Beside a whole step shares of it are evaluated, which cost a column of scores each: where the whole is too much, the
    next evaluation is at the best of them.

    Parameters
    ----------
    v, widths : where to begin; the widths of the zones to go through
    nu : of the objective

    Examples
    --------
    >>> F = np.linspace(1.0, 3.0, 101)[:, None]
    >>> v, first = begin(F, 0.1)
    >>> path = OneClassNewton(v, widths(first), 0.1)
    >>> while not path.over:
    ...     _ = path.update(sum_losses(F, path.points, path.width))
    >>> round(float((F @ path.v[:-1] < path.v[-1]).mean()), 2)
    0.1
    """

    def __init__(self, v: F64, widths: list[float], nu: float) -> None:
        self.v, self.zones, self.nu = v, list(widths), nu
        self.points = v[:, None]
        self._step, self._slope, self._best, self._share = np.zeros_like(v), 0.0, np.inf, 0.0

    @property
    def over(self) -> bool:
        """True if the last width is done."""
        return not self.zones

    @property
    def width(self) -> float:
        """Width of the zone in which the sums at `points` are needed."""
        return self.zones[0]

    def update(self, total: OneClassSum) -> bool:
        """Continue with the sums at `points`; return True if the first of these is `v` now."""
        objectives = values(total, self.points, self.nu)
        share = self._share
        if objectives[0] > self._best - 1e-4 * share * self._slope and share > 1e-9:  # share of a step
            self._try(share * float(SHARES[int(np.argmin(objectives[1:]))]))
            return False
        self.v, self._best = np.ascontiguousarray(self.points[:, 0]), float(objectives[0])
        self._step, self._slope = decrement(total, self.v, self.nu, self.width)
        enough = DONE if len(self.zones) == 1 else NEARLY_DONE
        if self._slope <= enough * max(abs(self._best), self.nu * abs(float(self.v[-1]))):
            del self.zones[0]
            self.points, self._best, self._share = self.v[:, None], np.inf, 0.0
        else:
            self._try(1.0)
        return True

    def _try(self, share: float) -> None:
        self._share = share
        self.points = self.v[:, None] - np.outer(self._step, share * np.append(1.0, SHARES))
