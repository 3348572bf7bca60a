"""Scorers by the names of scikit-learn: values of the rows that were left out, whose mean a fit makes small.

A mean of losses compares two fits by the paired differences of its rows. A measure of a ranking has no loss of a row:
in its place a row has its influence on the measure. The mean of these is the measure, and their spread its standard
error (DeLong, DeLong and Clarke-Pearson 1988). Each row counts as one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.losses.metrics import class_of_scores
from dkernel.numerics.array_types import F64

BY_LOSS = "loss"  # the word that asks for no scorer
Probabilities = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Scorer:
    """A scorer.

    Parameters
    ----------
    rows : targets (n, outputs), scores (n, outputs), probabilities of classes -> values (n,), the smaller the better
    classes : whether it is for classes, else for numbers
    best : the largest score; it less the mean value is the score
    root : whether the score has the root of the mean
    probable : whether it asks for probabilities
    """

    rows: Callable[[F64, F64, Probabilities], F64]
    classes: bool = True
    best: float = 1.0
    root: bool = False
    probable: bool = False

    def score(self, mean: float, unit: float = 1.0) -> float:
        """The score of a mean value, in a unit of the label."""
        return self.best - unit * (float(np.sqrt(mean)) if self.root else mean)


def _wrong(y: F64, s: F64, _: Probabilities) -> F64:
    return np.asarray(class_of_scores(s) != class_of_scores(y), np.float64)


def _wrong_by_class(y: F64, s: F64, _: Probabilities) -> F64:
    wrong, codes = _wrong(y, s, _), class_of_scores(y)
    there = np.unique(codes)
    parts = [_influence(codes == code, wrong, float(wrong[codes == code].mean())) for code in there]
    return np.asarray(np.mean(parts, axis=0))


def _influence(of: NDArray[np.bool_], values: F64, mean: float) -> F64:
    """The mean, and for these rows what each adds to it."""
    return np.asarray(mean + np.where(of, (values - mean) * (len(of) / max(of.sum(), 1)), 0.0))


def _against_rest(one: Callable[[NDArray[np.bool_], F64], F64]) -> Callable[[F64, F64, Probabilities], F64]:
    """A scorer of two classes for each class against the rest, and their mean."""

    def rows(y: F64, s: F64, _: Probabilities) -> F64:
        positive = y > 0
        columns = [j for j in range(s.shape[1]) if 0 < positive[:, j].sum() < len(y)]
        parts = [one(positive[:, j], s[:, j]) for j in columns]
        return np.asarray(np.mean(parts, axis=0) if parts else np.zeros(len(y)))

    return rows


def _below_roc(positive: NDArray[np.bool_], s: F64) -> F64:
    up, down = np.sort(s[positive]), np.sort(s[~positive])
    lost = np.where(positive, 1.0 - _share_below(down, s), _share_below(up, s))
    mean = float(lost[positive].mean())
    return _influence(positive, lost, mean) + _influence(~positive, lost, mean) - mean


def _share_below(ordered: F64, s: F64) -> F64:
    """The share of some scores below each of others, equal ones half."""
    places = np.searchsorted(ordered, s, "left") + np.searchsorted(ordered, s, "right")
    return np.asarray(places / (2.0 * len(ordered)))


def _below_precision(positive: NDArray[np.bool_], s: F64) -> F64:
    above, found = (len(each) - np.searchsorted(np.sort(each), s, "left") for each in (s, s[positive]))
    lost = 1.0 - found / above
    # A row is also among those above each positive row of a score up to its own, whose precision it changes.
    order = np.argsort(s[positive], kind="stable")
    gained = np.stack([above - found, found], axis=1)[positive][order]
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(gained / above[positive][order][:, None] ** 2, axis=0)])
    right, wrong = sums[np.searchsorted(s[positive][order], s, "right")].T * (len(s) / positive.sum())
    influence = _influence(positive, lost, float(lost[positive].mean()))
    return np.asarray(influence - np.where(positive, right, -wrong))


def _surprise(y: F64, s: F64, probabilities: Probabilities) -> F64:
    P = np.asarray(probabilities(s), np.float64)
    return np.asarray(-np.log(np.maximum(P[np.arange(len(P)), class_of_scores(y)], np.finfo(np.float64).eps)))


SCORERS: Mapping[str, Scorer] = {
    "accuracy": Scorer(_wrong),
    "balanced_accuracy": Scorer(_wrong_by_class),
    "roc_auc": Scorer(_against_rest(_below_roc)),
    "average_precision": Scorer(_against_rest(_below_precision)),
    "neg_log_loss": Scorer(_surprise, best=0.0, probable=True),
    "neg_root_mean_squared_error": Scorer(lambda y, s, _: ((y - s) ** 2).mean(axis=1), False, 0.0, root=True),
    "neg_mean_absolute_error": Scorer(lambda y, s, _: np.abs(y - s).mean(axis=1), False, 0.0),
}
"""Name of scikit-learn -> scorer; of several classes the mean over the classes, each against the rest."""


def judging_rows(scoring: str, y: NDArray[Any], s: NDArray[Any], probabilities: Probabilities) -> F64:
    """The values of rows by a scorer, in the shape of the scores (n, outputs), whose sum over the outputs they are.

    Examples
    --------
    >>> y, s = np.array([[1.0], [-1.0], [1.0], [-1.0]]), np.array([[3.0], [2.0], [1.0], [0.0]])
    >>> float(1 - judging_rows("roc_auc", y, s, np.abs).mean())
    0.75
    """
    values = SCORERS[scoring].rows(y.astype(np.float64), s.astype(np.float64), probabilities)
    return np.asarray(np.broadcast_to(values[:, None] / s.shape[1], s.shape))


def check_scoring(scoring: str, classes: bool, probable: bool) -> None:
    """Refuse a scorer of another task, or one of probabilities that the loss has not."""
    if scoring == BY_LOSS:
        return
    scorer = SCORERS[scoring]
    if scorer.classes != classes:
        possible = ", ".join(name for name, each in SCORERS.items() if each.classes == classes)
        raise RecipeError(
            f"scoring={scoring!r} is for {'classes' if scorer.classes else 'numbers'}, and these labels are "
            f"{'classes' if classes else 'numbers'}. Possible: {possible}."
        )
    if scorer.probable and not probable:
        raise RecipeError(f"scoring={scoring!r} needs probabilities while it fits. Use loss='logistic' or 'softmax'.")
