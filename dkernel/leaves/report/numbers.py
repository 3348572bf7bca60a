"""Numbers of a report: curves, tables and figures of merit from a fit's history and the rows that it left out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, r2_score, roc_auc_score

from dkernel.leaves.report.effects import Parts
from dkernel.losses.metrics import class_of_scores
from dkernel.model.model import Model
from dkernel.numerics.array_types import F64
from dkernel.solvers.targets import Targets


def learning_curve(history: Sequence[Mapping[str, Any]]) -> tuple[F64, F64]:
    """Rows seen and loss: of each round before its step, and of the holdout after each pass, (n, 2) each.

    Examples
    --------
    >>> rounds = [{"pass": 1, "rows": 10, "loss": 0.5, "accuracy": 0.75}]
    >>> [curve.tolist() for curve in learning_curve([*rounds, {"holdout": "pass-0", "loss": 0.25, "rows": 5}])]
    [[[10.0, 0.5]], [[10.0, 0.25]]]
    """
    seen, rounds, holdout = 0, [], []
    for line in history:
        if "holdout" in line:
            holdout.append((seen, line["loss"]))
        elif "pass" in line and line["rows"]:  # the rows of grids and cells have been learned from before
            seen += line["rows"]
            rounds.append((seen, line["loss"]))
    return np.array(rounds, float).reshape(-1, 2), np.array(holdout, float).reshape(-1, 2)


@dataclass(frozen=True, eq=False)
class Quality:
    """A model on rows that it has not learned from.

    Parameters
    ----------
    truth : codes of the classes, or targets, (n,)
    predicted : codes or predictions, (n,)
    scores : (n, C)
    classes : names, None for a regression
    """

    truth: NDArray[Any]
    predicted: NDArray[Any]
    scores: NDArray[np.float32]
    weight: F64
    classes: list[str] | None

    @property
    def confusion(self) -> F64:
        """(C, C): weight of the rows of a class (row) that are called another (column)."""
        assert self.classes is not None
        names = range(len(self.classes))
        counts = confusion_matrix(self.truth, self.predicted, labels=names, sample_weight=self.weight)
        return np.asarray(counts, np.float64)

    @property
    def merits(self) -> dict[str, float]:
        """AUC of two classes, else balanced accuracy; or R²; nothing where one class or one label is all there is."""
        there = self.weight > 0
        if len(np.unique(self.truth[there])) < 2:
            return {}
        if self.classes is None:
            return {"R²": float(r2_score(self.truth, self.predicted, sample_weight=self.weight))}
        if len(self.classes) == 2:
            return {"AUC": float(roc_auc_score(self.truth == 1, self.scores[:, 0], sample_weight=self.weight))}
        return {"balanced accuracy": float(np.mean([recall for *_, recall in self.per_class if recall is not None]))}

    @property
    def per_class(self) -> list[tuple[str, float, float | None, float | None]]:
        """Class, weight of its rows, and its precision and recall, None of no rows; nothing of a number."""
        if self.classes is None:
            return []
        counts, names = self.confusion, self.classes
        right, there, called = counts.diagonal(), counts.sum(axis=1), counts.sum(axis=0)
        shares = ((float(r / n) if n else None for r, n in zip(right, of, strict=True)) for of in (called, there))
        return list(zip(names, there.tolist(), *shares, strict=True))

    def one_against_rest(self) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.float32]]]:
        """Class, which rows are of it, their scores for it, where it has some rows and not all: one of two classes."""
        assert self.classes is not None
        there = set(self.truth[self.weight > 0].tolist())
        for i, name in enumerate(self.classes):
            if len(there) > 1 and i in there and (i == 1 or len(self.classes) > 2):
                yield name, self.truth == i, self.scores[:, 0 if len(self.classes) == 2 else i]


def judge(parts: Parts) -> Quality | None:
    """Models on rows that they have not learned from, as if they were one; None without such rows."""
    if not parts or parts[0][1].y is None:
        return None
    model, S = parts[0][0], np.concatenate([fitted.scores(rows.X) for fitted, rows in parts])
    y = np.concatenate([rows.y for _, rows in parts])
    weight = np.concatenate([np.ones(len(rows.X)) if rows.weight is None else rows.weight for _, rows in parts])
    weight = weight.astype(np.float64)
    if not weight.sum() > 0 or y.ndim > 1:
        return None
    if model.classes is None:
        return Quality(y.astype(np.float64), S[:, 0].astype(np.float64), S, weight, None)
    truth = Targets(model.classes).codes(y)
    return Quality(truth, class_of_scores(S), S, weight, [str(name) for name in model.classes.tolist()])


def calibration(model: Model, quality: Quality) -> tuple[F64, str] | None:
    """Stated probability, observed share and rows of up to 10 bins of as many rows each, (bins, 3), and whose it is.

    The probability is the model's own for the logistic and the softmax loss. The minimizer of the squared and the
    squared hinge loss is 2 p - 1, so (s + 1) / 2 stands in; hinge and perceptron say nothing of probabilities.
    """
    if quality.classes is None or not model.loss.smooth:
        return None
    two = len(quality.classes) == 2
    if model.has_probabilities:
        probabilities = model.probabilities(quality.scores)
        stated = probabilities[:, 1] if two else probabilities.max(axis=1)
    else:
        stated = np.clip((quality.scores.max(axis=1).astype(np.float64) + 1) / 2, 0, 1)
    observed = quality.truth == 1 if two else quality.truth == quality.predicted
    order = np.argsort(stated, kind="stable")
    rows = [
        (float(stated[part].mean()), float(observed[part].mean()), len(part))
        for part in np.array_split(order, min(10, len(order)))  # groups of as many rows each
    ]
    return np.array(rows), f"P({quality.classes[1]})" if two else "P(predicted class)"
