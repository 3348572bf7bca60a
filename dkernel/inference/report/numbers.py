"""Numbers of a report: curves, tables and figures of merit from a fit's history and its holdout."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from dkernel.data.block import Block
from dkernel.losses.metrics import class_of_scores
from dkernel.model.model import Model
from dkernel.numerics.array_types import F64
from dkernel.numerics.rows import wide
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.targets import Targets

MOST_EIGEN = 1200  # their decomposition takes a second
PLANE_POINTS = 220  # points of a side of the plane


@dataclass(frozen=True, eq=False)
class Learning:
    """Loss and figure of merit over the rows seen: `rounds` before each step, `holdout` after each pass.

    rows, loss, merit of each; `name` is "accuracy" or "rmse".
    """

    rounds: F64
    holdout: F64
    name: str


def learning_curve(history: Sequence[Mapping[str, Any]]) -> Learning:
    """The learning curve of a fit's history.

    Examples
    --------
    >>> rounds = [{"pass": 1, "rows": 10, "loss": 0.5, "accuracy": 0.75}]
    >>> curve = learning_curve([*rounds, {"holdout": "pass-0", "loss": 0.25, "accuracy": 0.875, "rows": 5}])
    >>> curve.rounds.tolist(), curve.holdout.tolist(), curve.name
    ([[10.0, 0.5, 0.75]], [[10.0, 0.25, 0.875]], 'accuracy')
    """
    name = "accuracy" if any("accuracy" in line for line in history) else "rmse"
    seen, rounds, holdout = 0, [], []
    for line in history:
        if "holdout" in line:
            holdout.append((seen, line["loss"], line[name]))
        elif "pass" in line and line["rows"]:  # the rows of grids and cells have been learned from before
            seen += line["rows"]
            rounds.append((seen, line["loss"], line[name]))
    return Learning(np.array(rounds, float).reshape(-1, 3), np.array(holdout, float).reshape(-1, 3), name)


def speed(trail: Sequence[tuple[str, float, int]]) -> list[tuple[str, F64]]:
    """Rows/s of each step of each pass: its name, and (steps, 2) of seconds since the first phase and rows/s."""
    steps: dict[str, list[tuple[float, float]]] = {}
    for (name, begin, before), (following, end, rows) in pairwise(trail):
        if name == following and name.startswith("pass") and rows > before and end > begin:
            steps.setdefault(name, []).append((end, (rows - before) / (end - begin)))
    return [(name, np.array(pairs)) for name, pairs in steps.items()]


def spectrum(model: Model, holdout: Block | None) -> tuple[F64, str]:
    """Eigenvalues of the kernel's matrix over its size, decreasing, and whose they are.

    Of the landmarks where there are some, else of the features of the holdout: a part of them if they are many.
    """
    map = model.map
    with one_blas_thread():
        if map.landmarks is not None:
            Z = wide(map.landmarks[:MOST_EIGEN])
            K = map.kernel(Z, Z)
            what = f"the kernel on {len(Z):,} landmarks"
        elif holdout is not None:
            X = holdout.X[:MOST_EIGEN]
            features = map(model.scaling.apply(X))
            K, what = features @ features.T, f"the features on {len(X):,} rows of the holdout"
        else:
            return np.empty(0), ""
        values = sl.eigvalsh(0.5 * (np.asarray(K, np.float64) + np.asarray(K, np.float64).T))[::-1]
    return np.maximum(values, 0.0) / len(values), what


@dataclass(frozen=True, eq=False)
class Quality:
    """A model on its holdout.

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
        """accuracy and auc (two classes), or rmse, mae and r2."""
        if self.classes is None:
            rows = self.truth, self.predicted, self.weight
            merits = {"RMSE": _of(root_mean_squared_error, *rows), "MAE": _of(mean_absolute_error, *rows)}
            return merits | ({"R²": _of(r2_score, *rows)} if len(np.unique(self.truth[self.weight > 0])) > 1 else {})
        merits = {"accuracy": _of(accuracy_score, self.truth, self.predicted, self.weight)}
        if len(self.classes) == 2 and len(np.unique(self.truth[self.weight > 0])) == 2:
            merits["AUC"] = _of(roc_auc_score, self.truth == 1, self.scores[:, 0], self.weight)
        return merits

    def one_against_rest(self) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.float32]]]:
        """Class, which rows are of it, their scores for it, where it has some rows and not all: one of two classes."""
        assert self.classes is not None
        there = set(self.truth[self.weight > 0].tolist())
        for i, name in enumerate(self.classes):
            if len(there) > 1 and i in there and (i == 1 or len(self.classes) > 2):
                yield name, self.truth == i, self.scores[:, 0 if len(self.classes) == 2 else i]


def judge(model: Model, holdout: Block | None) -> Quality | None:
    """The model on the rows that no gradient saw; None without such rows."""
    if holdout is None or holdout.y is None:
        return None
    S = model.scores(holdout.X)
    weight = np.ones(len(S)) if holdout.weight is None else np.asarray(holdout.weight, np.float64)
    if not weight.sum() > 0:
        return None
    if model.classes is None:
        return Quality(holdout.y.astype(np.float64), S[:, 0].astype(np.float64), S, weight, None)
    truth = Targets(model.classes, model.recipe.positive).codes(holdout.y)
    predicted = class_of_scores(S)
    return Quality(truth, predicted, S, weight, [str(name) for name in model.classes.tolist()])


def _of(metric: Callable[..., float], truth: NDArray[Any], predicted: NDArray[Any], weight: F64) -> float:
    return float(metric(truth, predicted, sample_weight=weight))


def calibration(model: Model, quality: Quality) -> tuple[F64, str] | None:
    """Stated probability, observed share and rows of up to 10 bins of as many rows each, (bins, 3), and whose it is.

    The probability is the model's own for the logistic and the softmax loss. The minimizer of the squared and the
    squared hinge loss is 2 p - 1, so (s + 1) / 2 stands in; hinge and perceptron say nothing of probabilities.
    """
    if quality.classes is None or not model.loss.smooth:
        return None
    two = len(quality.classes) == 2
    if model.has_probabilities:
        own = model.probabilities(quality.scores)
        stated = own[:, 1] if two else own.max(axis=1)
    else:
        stated = np.clip((quality.scores.max(axis=1).astype(np.float64) + 1) / 2, 0, 1)
    observed = quality.truth == 1 if two else quality.truth == quality.predicted
    order = np.argsort(stated, kind="stable")
    rows = [
        (float(stated[part].mean()), float(observed[part].mean()), len(part))
        for part in np.array_split(order, min(10, len(order)))  # groups of as many rows each
    ]
    return np.array(rows), f"P({quality.classes[1]})" if two else "P(predicted class)"


@dataclass(frozen=True, eq=False)
class Regions:
    """Answers of a model of two columns over a grid.

    Parameters
    ----------
    extent : left, right, bottom, top
    values : (PLANE_POINTS, PLANE_POINTS) scores of two classes or predictions, codes of several classes
    points, truth : rows of the holdout, and their codes or targets
    """

    extent: tuple[float, float, float, float]
    values: F64
    points: F64
    truth: NDArray[Any]


def regions(model: Model, holdout: Block | None, quality: Quality | None) -> Regions | None:
    """Answers of a model of two features over the plane; None for any other model."""
    if quality is None or holdout is None or len(model.inputs) != 2:
        return None
    low, high = np.quantile(holdout.X, [0.002, 0.998], axis=0).astype(np.float64)
    margin = 0.08 * np.maximum(high - low, 1e-9)
    (left, bottom), (right, top) = low - margin, high + margin
    extent = (float(left), float(right), float(bottom), float(top))
    S = model.scores(_plane_points(model, extent))
    values = np.asarray(S[:, 0] if S.shape[1] == 1 else S.argmax(axis=1), np.float64)
    points = holdout.X[:1500].astype(np.float64)
    return Regions(extent, values.reshape(PLANE_POINTS, PLANE_POINTS), points, quality.truth[:1500])


def _plane_points(model: Model, extent: tuple[float, float, float, float]) -> NDArray[Any]:
    """Rows of two features on a grid over the plane."""
    left, right, bottom, top = extent
    a, b = np.meshgrid(np.linspace(left, right, PLANE_POINTS), np.linspace(bottom, top, PLANE_POINTS))
    return np.column_stack([a.ravel(), b.ravel()]).astype(model.recipe.dtype)


def local_regions(model: Model, plane: Regions) -> NDArray[np.int64] | None:
    """Cell or bin of each point of the plane, (PLANE_POINTS, PLANE_POINTS); None without a local stage."""
    if model.local is None:
        return None
    return model.local.regions(_plane_points(model, plane.extent)).reshape(PLANE_POINTS, PLANE_POINTS)
