"""Probabilities of scores that are margins, by rows that were left out.

    P(class k | s) ∝ exp(-a_k (f(max s) - f(s_k)))
    f(s) = asinh(b + |b| s), or s where b is 0

Two classes have the scores -s and s. Every a_k is above 0 and f rises: a class is the more probable the larger its
score is, and the class of the largest score, which is the label, is the most probable one.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F64

# Values of b and of p that are tried. With every second b log losses of 22 sets are .3 % larger in the geometric mean.
BENDS = (0.0, *(sign * 2.0**k for sign in (1, -1) for k in range(-2, 6)))
POWERS = np.arange(1, 5) / 8  # of the 18 classes of krkopt 3 / 8 is chosen
ENOUGH = 3.0  # log-likelihood that a power gains: by chance once in 70 times (the chi-square law of twice as much)
NEWTON_STEPS = 60  # some five are needed


@dataclass(frozen=True, eq=False)
class Calibration(ArrayRecord):
    """P(class | s), (n, n_classes), of scores (n, C).

    The slope a, the bend b and a power p are those of the largest likelihood; a_k = a (most rows of a class / rows of
    class k)^p. Where b and p are 0 this is a softmax with a temperature. The squared hinge and the squared loss have
    scores near 2 P - 1, whose logarithm of (1 + s) / 2 is that of P: a large b. Margins of a rare class have not room
    enough below -1: p above 0, if the likelihood gains clearly. Targets are 1 - e and e / (n_classes - 1) instead of 1
    and 0, with e = 1 / (rows + 2), so scores without errors have a finite slope, and no probability says more than the
    rows could tell.

    Source: Platt 1999 (targets); Guo, Pleiss, Sun and Weinberger 2017 (one slope).

    Parameters
    ----------
    slope : a_k, float64 (n_classes,)
    bend : b, float64 (1,)

    Examples
    --------
    >>> S, codes = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    >>> Calibration.fit(S, codes, np.ones(4))(np.array([[-2.0], [0.0], [2.0]])).round(2).tolist()
    [[0.88, 0.12], [0.5, 0.5], [0.12, 0.88]]
    """

    slope: F64
    bend: F64

    @classmethod
    def fit(cls, S: NDArray[np.floating], codes: NDArray[Any], weight: NDArray[np.floating]) -> "Calibration":
        """The calibration of rows with scores (n, C), numbers of their classes (n,) and weights (n,)."""
        some = slice(None, None, max(1, -(-S.size // 2**20)))  # more rows tell three numbers no better
        S, codes, w = S[some], codes[some], np.asarray(weight[some], np.float64)
        rows, counts = float(w.sum()), np.bincount(codes, w, max(2, S.shape[1]))
        scarcity = (counts.max() + 1) / (counts + 1)

        def likeliest(bend: float, power: float) -> tuple[float, F64, float]:
            loss, slope = _fit_slope(_behind(S, bend) * scarcity**power, codes, w)
            return loss, slope * scarcity**power, bend

        best = min((likeliest(bend, 0.0) for bend in BENDS), key=lambda fit: fit[0])
        other = min((likeliest(best[2], power) for power in POWERS), key=lambda fit: fit[0])
        _, slope, bend = other if best[0] - other[0] > ENOUGH / max(rows, 1e-300) else best
        return cls(slope, np.array([bend]))

    def __call__(self, S: NDArray[np.floating]) -> F64:
        """Probabilities of scores."""
        return _shares(self.slope * _behind(S, float(self.bend[0])))

    def fits(self, outputs: int) -> bool:
        """True if these are probabilities of so many columns of scores that rise with them."""
        shapes = self.slope.shape == (max(2, outputs),) and self.bend.shape == (1,)
        return bool(shapes and self.slope.dtype == self.bend.dtype == np.float64 and (self.slope > 0).all())


def _behind(S: NDArray[np.floating], bend: float) -> F64:
    """f(s_k) - f(max s), (n, n_classes)."""
    F = np.asarray(np.concatenate([-S, S], axis=1) if S.shape[1] == 1 else S, np.float64)
    F = np.arcsinh(bend + abs(bend) * F) if bend else F
    return np.asarray(F - F.max(axis=1, keepdims=True))


def _shares(logits: F64) -> F64:
    """The softmax of logits up to 0, the largest of each row."""
    P = np.exp(logits)
    P /= P.sum(axis=1, keepdims=True)
    return P


def _fit_slope(F: F64, codes: NDArray[Any], weight: F64) -> tuple[float, float]:
    """The smallest mean loss of the softmax of a F, and a > 0: Newton's method between bounds of a."""
    total, others = max(float(weight.sum()), 1e-300), F.shape[1] - 1
    unit = float(weight @ -F.sum(axis=1)) / total or 1.0
    F, missed = F / unit, 1 / (total + 2)
    own = F[np.arange(len(F)), codes]
    aim = float(weight @ ((1 - missed) * own + missed / others * (F.sum(axis=1) - own))) / total
    low, high, a = 1e-6, np.inf, 1.0
    for _ in range(NEWTON_STEPS):
        P = _shares(a * F)
        mean = (P * F).sum(axis=1)
        gradient = float(weight @ mean) / total - aim
        curvature = float(weight @ ((P * F * F).sum(axis=1) - mean**2)) / total
        low, high = (a, high) if gradient < 0 else (low, a)
        step = a - gradient / curvature if curvature > 0 else low
        step = step if low < step < high else min(2 * a, (low + high) / 2)
        a, moved = step, abs(step - a)
        if moved <= 1e-12 * a:
            break
    loss = float(weight @ np.log(np.exp(a * F).sum(axis=1))) / total - a * aim
    return loss, a / unit
