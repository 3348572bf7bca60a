"""Measures of scores, from sums over rows of constant size."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TIE = 1.0  # standard errors of a paired difference up to which two fits are equal, and the simpler one is taken
MOST_BINS = 2**16  # a megabyte, whatever the rows
NO_SHARES = ("rmse", "mae", "loss", "log_loss", "width", "size")  # figures that may be below 1 and are no share


def class_of_scores(S: NDArray[np.floating]) -> NDArray[np.intp]:
    """The number of the class that scores (n, C) decide for, (n,): the largest; of one column 1 where it is above 0.

    Examples
    --------
    >>> class_of_scores(np.array([[-1.0], [2.0]])).tolist(), class_of_scores(np.array([[0.1, 0.2, 0.7]])).tolist()
    ([0, 1], [2])
    """
    return np.asarray((S[:, 0] > 0).astype(np.intp) if S.shape[1] == 1 else S.argmax(axis=1))


def paired_difference(
    one: NDArray[np.float64], other: NDArray[np.float64], weight: NDArray[np.float64] | None
) -> tuple[float, float]:
    """The mean difference of two losses of the same rows, and its standard error.

    Examples
    --------
    >>> paired_difference(np.array([3.0, 5.0]), np.array([1.0, 1.0]), None)
    (3.0, 0.7071067811865476)
    """
    difference = one - other
    share = np.ones(len(difference)) if weight is None else weight
    share = share / share.sum()
    mean = float(share @ difference)
    deviation = difference - mean
    # In a unit near the largest, a power of 2, since squares of squared errors of far labels overflow.
    exponent = np.frexp(np.abs(deviation).max(initial=0.0))[1]
    error = np.sqrt(np.square(share) @ np.square(np.ldexp(deviation, -exponent)))
    return mean, float(np.ldexp(error, exponent))


def is_better(one: NDArray[np.float64], other: NDArray[np.float64], weight: NDArray[np.float64] | None) -> bool:
    """True if the first of two losses of the same rows is smaller by more than TIE standard errors.

    Examples
    --------
    >>> is_better(np.ones(4), np.array([2.0, 2.0, 2.0, 1.0]), None), is_better(np.ones(2), np.array([3.0, 0.0]), None)
    (True, False)
    """
    gain, error = paired_difference(other, one, weight)
    return gain > TIE * error


def clearly_more(one: NDArray[np.float64], other: NDArray[np.float64], weight: NDArray[np.float64] | None) -> bool:
    """True if more rows of `one` are wrong, 1 or 0 each (n,), by a row and more than TIE standard errors.

    A single row that differs is above its own standard error whatever n is, so McNemar's correction for continuity
    takes one row from the difference, the heaviest of those that differ.

    Examples
    --------
    >>> right = np.zeros(100)
    >>> [clearly_more((np.arange(100) < wrong) * 1.0, right, None) for wrong in (1, 2, 3)]
    [False, False, True]
    """
    share = np.ones(len(one)) if weight is None else weight
    difference, error = paired_difference(one, other, weight)
    return bool(difference - (share * np.abs(one - other)).max(initial=0.0) / share.sum() > TIE * error)


def error_of_share(share: float, n: float) -> float:
    """The standard error of a share of n rows, by Agresti and Coull: above 0 where all rows are alike too.

    Examples
    --------
    >>> round(error_of_share(0.0, 20), 2), round(error_of_share(0.5, 96), 2)
    (0.06, 0.05)
    """
    near = (share * n + 2) / (n + 4)
    return float(np.sqrt(near * (1 - near) / (n + 4)))


def usual_error(figure: str, value: float, n: float) -> float:
    """About the standard error of a figure of n rows, which says how many digits of it count; 0 of no rows.

    Examples
    --------
    >>> round(usual_error("auc", 1.0, 20), 2), round(usual_error("rmse", 0.5, 100), 2)
    (0.06, 0.05)
    """
    if not n > 0 or figure in NO_SHARES or not 0 <= value <= 1:
        return abs(value) / max(n, 1) ** 0.5 * (n > 0)
    return error_of_share(value, n)


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Weight of the negative and of the positive rows at each score; scores that share a bin count as ties.

    A bin is a float32 score's bits as a whole number of the same order, its last `shift` bits cut off. Few different
    scores keep all their bits, so the figure is exact; when there are more than MOST_BINS bins, one bit more is cut.

    Parameters
    ----------
    bins : int64 (k,), increasing
    weight : float64 (k, 2), of the negative and of the positive rows

    Examples
    --------
    >>> seen = ScoreHistogram.of(np.float32([-1, 0, 2, 3]), np.array([False, True, False, True]), np.ones(4))
    >>> area_under_curve(seen)
    0.75
    """

    bins: NDArray[np.int64]
    weight: NDArray[np.float64]
    shift: int = 0

    @classmethod
    def of(cls, scores: NDArray[np.float32], positive: NDArray[np.bool_], weight: NDArray) -> "ScoreHistogram":
        """The histogram of some rows, (n,) each."""
        # Adding 0 makes -0.0 the equal 0.0; the bits of a negative number grow as it falls, so they are turned round.
        bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)
        keys = np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
        sides = np.zeros((len(keys), 2))
        sides[np.arange(len(keys)), positive.astype(np.intp)] = weight
        return cls(*_gather(keys, sides))._narrow()

    def merge(self, other: "ScoreHistogram") -> "ScoreHistogram":
        """The histogram of the rows of both."""
        shift = max(self.shift, other.shift)
        keys = np.concatenate([self.bins >> (shift - self.shift), other.bins >> (shift - other.shift)])
        return ScoreHistogram(*_gather(keys, np.concatenate([self.weight, other.weight])), shift)._narrow()

    def _narrow(self) -> "ScoreHistogram":
        bins, weight, shift = self.bins, self.weight, self.shift
        while len(bins) > MOST_BINS:
            bins, weight = _gather(bins >> 1, weight)
            shift += 1
        return ScoreHistogram(bins, weight, shift)


def _gather(keys: NDArray[np.int64], weight: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Different keys in order, and the sums of the rows of weight that share one."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    return keys[first], np.add.reduceat(weight[order], first, axis=0) if len(keys) else weight


def area_under_curve(histogram: ScoreHistogram) -> float | None:
    """P(score of a positive row > score of a negative one) + P(equal) / 2; None without rows of both kinds."""
    negative, positive = histogram.weight.T
    total = float(negative.sum()) * float(positive.sum())
    if total == 0:
        return None
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below) / total


def average_precision(histogram: ScoreHistogram) -> float | None:
    """The sum over scores, from the largest, of precision * growth of recall; None without positive rows.

    Examples
    --------
    >>> seen = ScoreHistogram.of(np.float32([-1, 0, 2, 3]), np.array([False, True, False, True]), np.ones(4))
    >>> round(average_precision(seen), 4)
    0.8333
    """
    negative, positive = histogram.weight[::-1].T
    if not positive.sum() > 0:
        return None
    found = np.cumsum(positive)
    return float(positive @ (found / np.maximum(found + np.cumsum(negative), 1e-300)) / found[-1])
