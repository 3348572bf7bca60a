"""Probabilities of scores that are margins: Platt's sigmoid, and isotonic regression, fitted on rows held out.

Each column of scores (one of two classes, else one for each class against the rest) has a curve of its own,
P(class | s), which rises with s.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.losses.loss import sigmoid
from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F64

Column = NDArray[np.floating]

NEWTON_STEPS, SMALLEST_STEP = 100, 1e-10  # Newton's method needs some ten; below it rounding decides


class Calibration(ArrayRecord, ABC):
    """P(class | s), (n, C), of scores (n, C)."""

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def fit(cls, S: NDArray[np.floating], Y: NDArray[np.floating], weight: NDArray[np.floating]) -> "Calibration":
        """The curves of scores S (n, C) of rows whose targets Y are -1, +1; of each row a weight, (n,)."""

    @abstractmethod
    def __call__(self, S: NDArray[np.floating]) -> F64:
        """Probabilities (n, C) of scores (n, C)."""

    @abstractmethod
    def fits(self, outputs: int) -> bool:
        """True if these are rising curves of `outputs` columns of scores, C."""


@dataclass(frozen=True, eq=False)
class Platt(Calibration):
    """P = 1 / (1 + exp(-(a s + b))), a and b by maximum likelihood.

    The targets are (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2) instead of 1 and 0, so scores without errors still have a
    finite slope, and a holdout without a row of a class still has an answer.

    Source: Platt 1999; Newton's method as in Lin, Lin and Weng 2007.

    Parameters
    ----------
    slope, offset : a and b, float64 (C,)

    Examples
    --------
    >>> S, Y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([[-1.0], [-1.0], [1.0], [1.0]])
    >>> Platt.fit(S, Y, np.ones(4))(np.array([[-2.0], [0.0], [2.0]])).round(2).tolist()
    [[0.21], [0.5], [0.79]]
    """

    slope: F64
    offset: F64
    kind: ClassVar[str] = "platt"

    @classmethod
    def fit(cls, S: NDArray[np.floating], Y: NDArray[np.floating], weight: NDArray[np.floating]) -> "Platt":
        sigmoids = np.array([_fit_sigmoid(*column, weight) for column in zip(S.T, Y.T, strict=True)], np.float64)
        return cls(np.ascontiguousarray(sigmoids[:, 0]), np.ascontiguousarray(sigmoids[:, 1]))

    def __call__(self, S: NDArray[np.floating]) -> F64:
        return np.asarray(sigmoid(S.astype(np.float64) * self.slope + self.offset), np.float64)

    def fits(self, outputs: int) -> bool:
        return all(a.shape == (outputs,) and a.dtype == np.float64 for a in (self.slope, self.offset))


@dataclass(frozen=True, eq=False)
class Isotonic(Calibration):
    """The rising step function nearest to the labels, straight between its steps and level beyond the last.

    No probability is nearer to 0 or 1 than 1 / (n + 2), n the rows that it was fitted on: n rows tell no more.

    Source: Zadrozny and Elkan 2002; pool adjacent violators of scipy.

    Parameters
    ----------
    scores, values : knots of all outputs one after the other, float64 (m,): rising scores, and their probabilities
    ends : where each output's knots end, int64 (C,)

    Examples
    --------
    >>> S, Y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([[-1.0], [1.0], [-1.0], [1.0]])
    >>> Isotonic.fit(S, Y, np.ones(4))(np.array([[0.5], [1.5], [9.0]])).round(2).tolist()
    [[0.33], [0.5], [0.83]]
    """

    scores: F64
    values: F64
    ends: NDArray[np.int64]
    kind: ClassVar[str] = "isotonic"

    @classmethod
    def fit(cls, S: NDArray[np.floating], Y: NDArray[np.floating], weight: NDArray[np.floating]) -> "Isotonic":
        knots = [_fit_steps(*column, weight) for column in zip(S.T, Y.T, strict=True)]
        ends = np.cumsum([len(scores) for scores, _ in knots]).astype(np.int64)
        return cls(np.concatenate([scores for scores, _ in knots]), np.concatenate([p for _, p in knots]), ends)

    def __call__(self, S: NDArray[np.floating]) -> F64:
        P, first = np.empty(S.shape), 0
        for j, end in enumerate(self.ends.tolist()):
            P[:, j] = np.interp(S[:, j].astype(np.float64), self.scores[first:end], self.values[first:end])
            first = end
        return P

    def fits(self, outputs: int) -> bool:
        s, p, ends = self.scores, self.values, self.ends
        if s.ndim != 1 or s.shape != p.shape or ends.shape != (outputs,) or ends.dtype != np.int64:
            return False
        if s.dtype != np.float64 or p.dtype != np.float64 or ends[-1] != len(s) or (np.diff(ends, prepend=0) < 1).any():
            return False
        within = np.setdiff1d(np.arange(1, len(s)), ends)  # a knot and the one before it, of one output
        rising = (s[within] > s[within - 1]).all() and (p[within] >= p[within - 1]).all()
        return bool(rising and (p > 0).all() and (p < 1).all())


CALIBRATIONS: dict[str, type[Calibration]] = {kind.kind: kind for kind in (Platt, Isotonic)}


def _fit_sigmoid(s: Column, y: Column, weight: Column) -> tuple[float, float]:
    """a and b of one column of scores."""
    s, weight = s.astype(np.float64), weight.astype(np.float64)
    ahead, behind = float(weight[y > 0].sum()), float(weight[y <= 0].sum())
    target = np.where(y > 0, (ahead + 1) / (ahead + 2), 1 / (behind + 2))
    total = max(ahead + behind, 1e-300)
    # In standard scores Newton's matrix has entries of one size, whatever unit the scores have.
    center = float(weight @ s) / total
    width = float(np.sqrt(weight @ (s - center) ** 2 / total)) or 1.0
    Z = np.stack([(s - center) / width, np.ones_like(s)], axis=1)
    v = np.array([0.0, np.log((ahead + 1) / (behind + 1))])

    def loss(v: F64) -> float:
        t = Z @ v
        return float(weight @ (np.logaddexp(0.0, t) - target * t)) / total

    now = loss(v)
    for _ in range(NEWTON_STEPS):
        p = sigmoid(Z @ v)
        gradient = Z.T @ (weight * (p - target)) / total
        if np.abs(gradient).max() < 1e-10:  # the gradient is a mean over rows
            break
        hessian = (Z * (weight * p * (1 - p))[:, None]).T @ Z / total + 1e-12 * np.eye(2)
        step, share = np.linalg.solve(hessian, gradient), 1.0
        while share > SMALLEST_STEP and loss(v - share * step) > now - 1e-4 * share * float(gradient @ step):
            share /= 2
        if share <= SMALLEST_STEP:
            break
        v = v - share * step
        now = loss(v)
    a = float(v[0]) / width
    return a, float(v[1]) - a * center


def _fit_steps(s: Column, y: Column, weight: Column) -> tuple[F64, F64]:
    """Knots of one column of scores: the first and the last score of every step."""
    scores, inverse = np.unique(s.astype(np.float64), return_inverse=True)
    weights = np.bincount(inverse, weight, len(scores))
    hits = np.bincount(inverse, weight * (y > 0), len(scores))
    seen = weights > 0
    scores, weights, hits = scores[seen], weights[seen], hits[seen]
    if not len(scores):
        return np.zeros(1), np.full(1, 0.5)
    from scipy.optimize import isotonic_regression  # a quarter of a second, which every command would pay

    values = isotonic_regression(hits / weights, weights=weights).x
    least = 1.0 / (float(weights.sum()) + 2)
    values = np.clip(values, least, 1 - least)
    edge = np.ones(len(values), dtype=bool)
    edge[1:-1] = (values[1:-1] != values[:-2]) | (values[1:-1] != values[2:])
    return scores[edge], values[edge]
