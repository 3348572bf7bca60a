"""Baselines: simpler models on the rows that a fit left out, and boosted trees.

    constant  the most frequent class, or the mean
    linear    ridge regression on the scaled columns themselves, by its normal equations
    boosted   gradient-boosted trees, LightGBM with its defaults (extra `baseline`)

All are judged by the same rows: those of the holdout, or of the folds of a fit without one, each by a model of the
other rows. They learn from the fit's sample, some ten thousand rows, which costs seconds whatever the size of the data;
the model itself may have seen far more. They are reported beside a model, not in it: the bytes of a model do not depend
on what it was compared with, nor on the version of a library that it does not use.
"""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.losses.losses import signs
from dkernel.losses.metrics import (
    ScoreHistogram,
    area_under_curve,
    average_precision,
    class_of_scores,
    error_of_share,
    paired_difference,
)
from dkernel.model.model import Model
from dkernel.numerics.array_types import F64
from dkernel.numerics.linalg import solve_here
from dkernel.numerics.object_values import to_numbers
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.validation import nearest_name
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.targets import LEAST_WIDTH, Targets
from dkernel.streaming.cost import Cost
from dkernel.training.fit import TrainResult

BASELINES = ("off", "linear", "all")
MOST_BASELINE_ROWS, LEAST_BASELINE_ROWS = 65_536, 4096  # rows of the sample that baselines learn from
FLOPS = 1e10  # operations of the linear model, a second of work
MOST_LINEAR_COLUMNS = 4096  # columns of the data; the linear model needs a square of them
SURE_SHARE = 0.9  # a probability that people call sure, and the share of the rows whose distance is told
LEAST_SURE_ROWS = 50  # with fewer, a tenth of the rows is less than five
BASELINE_RIDGES = tuple(10.0**k for k in range(-6, 3))


def check(which: str) -> None:
    """Refuse models that cannot be compared, before anything is trained."""
    if which not in BASELINES:
        raise RecipeError(
            f"baselines={which!r} is not valid.{nearest_name(which, BASELINES)} Possible: {' | '.join(BASELINES)}."
        )
    if which == "all" and importlib.util.find_spec("lightgbm") is None:
        raise UnsupportedError(
            "--baselines all compares with LightGBM, which is not installed. Install it (pip install lightgbm), "
            "or use --baselines linear."
        )


def baselines(result: TrainResult, which: str = "linear") -> dict[str, Any]:
    """Figures of a fit, and of simpler models, on the rows that it left out.

    A figure is the share of wrong labels, or the root mean squared error, by the weights of the rows. Each row is
    scored by models that have not learned from it.

    Parameters
    ----------
    which : "off" | "linear" | "all": simpler models beside a constant one

    Returns
    -------
    dict with rows, figure ("error" or "rmse"), sure, model and, of each simpler model, its name -> figures of it. These
    are value and standard_error; auc and average_precision of two classes; for a simpler model gain, by which the value
    of this model is smaller, with the standard error of the paired difference. Empty if no rows were left out.
    """
    check(which)
    parts = [part for part in result.left_out if len(part[1].X)]
    if not parts:
        return {}
    model = result.model
    targets = Targets(model.classes)
    rows = _JudgedRows.of(targets, [rows for _, rows, _ in parts])
    with one_blas_thread():
        model_scores = np.concatenate([fitted.scores(rows.X).astype(np.float64) for fitted, rows, _ in parts])
        scores = {name: _scores(fit, parts) for name, fit in _simpler(model, targets, which).items()}
    found: dict[str, Any] = {
        "rows": len(model_scores),
        "figure": rows.figure,
        "sure": _how_sure(model, rows, model_scores),
        "model": rows.merits(model_scores),
    }
    for name, S in scores.items():
        found[name] = rows.merits(S, name != "constant") | rows.gain(model_scores, S)
    return found


FitFunction = Callable[[Block, Any], F64]
"""Rows to learn from and rows to score -> scores (rows, outputs)."""


def _simpler(model: Model, targets: Targets, which: str) -> dict[str, FitFunction]:
    """The models to compare with, the simplest first."""
    fits: dict[str, FitFunction] = {}
    if which != "off":
        fits["constant"] = partial(_constant, targets, model.facts.get("counts"))
        if not model.objects and len(model.inputs) <= MOST_LINEAR_COLUMNS:
            fits["linear"] = partial(_linear, targets)
    if which == "all" and not model.objects and len(model.intercept) == targets.outputs:
        fits["boosted"] = partial(_fit_boosted, model, targets)
    return fits


def _scores(fit: FitFunction, parts: Sequence[tuple[Model, Block, Block]]) -> F64:
    """Scores of all rows that were left out, each by a model of some of the rows beside its own."""
    some = [select_rows(learned, slice(_most_rows(learned.X.shape[1]))) for *_, learned in parts]
    return np.concatenate([fit(learned, rows.X) for learned, (_, rows, _) in zip(some, parts, strict=True)])


@dataclass(frozen=True, eq=False)
class _JudgedRows:
    """Rows that were left out.

    Parameters
    ----------
    truth : codes (n,) of classes, or targets (n, targets) in `unit`
    """

    targets: Targets
    truth: NDArray[Any]
    weight: F64
    unit: F64

    @classmethod
    def of(cls, targets: Targets, blocks: Sequence[Block]) -> "_JudgedRows":
        y = np.concatenate([block.y for block in blocks if block.y is not None])
        weight = np.concatenate(
            [np.ones(len(b.X)) if b.weight is None else b.weight.astype(np.float64) for b in blocks]
        )
        weight = weight if weight.sum() > 0 else np.ones(len(weight))
        if targets.classes is not None:
            return cls(targets, targets.codes(y), weight, np.ones(1))
        Y = y.astype(np.float64).reshape(len(y), -1)
        unit = np.maximum(Y.std(axis=0), LEAST_WIDTH) if Y.shape[1] > 1 else np.ones(1)
        return cls(targets, Y / unit, weight, unit)

    @property
    def figure(self) -> str:
        """The name of the figure."""
        return "rmse" if self.targets.classes is None else "error"

    def errors(self, S: F64) -> F64:
        """The error of each row: 1 for a wrong label, or squared, the mean over the targets."""
        if self.targets.classes is None:
            return np.asarray(np.square(S / self.unit - self.truth).mean(axis=1))
        return np.asarray(class_of_scores(S) != self.truth, np.float64)

    def merits(self, S: F64, ranked: bool = True) -> dict[str, float | None]:
        """The figure of these scores with its standard error, and of two classes those of a ranking."""
        mean, error = paired_difference(self.errors(S), np.zeros(len(S)), self.weight)
        if self.targets.classes is None:
            root = float(np.sqrt(mean))
            return {"value": root, "standard_error": error / (2 * root) if root else 0.0}
        count = float(self.weight.sum() ** 2 / (self.weight @ self.weight))
        found: dict[str, float | None] = {"value": mean, "standard_error": error_of_share(mean, count)}
        if self.targets.outputs == 1 and ranked:
            histogram = ScoreHistogram.of(S[:, 0].astype(np.float32), self.truth == 1, self.weight)
            found |= {"auc": area_under_curve(histogram), "average_precision": average_precision(histogram)}
        return found

    def gain(self, scores: F64, other: F64) -> dict[str, float]:
        """By how much the figure of some scores is below that of others, and the standard error of this difference."""
        one, two = self.errors(scores), self.errors(other)
        gain, error = paired_difference(two, one, self.weight)
        if self.targets.classes is not None:
            return {"gain": gain, "gain_error": error}
        total = sum(np.sqrt(np.average(each, weights=self.weight)) for each in (one, two)) or 1.0
        return {"gain": gain / total, "gain_error": error / total}  # of roots: a - b = (a^2 - b^2) / (a + b)


def _how_sure(model: Model, rows: _JudgedRows, S: F64) -> dict[str, float]:
    """The distance within which SURE_SHARE of the rows are; of classes the rows so probable, and their errors."""
    if len(S) < LEAST_SURE_ROWS:
        return {}
    if model.classes is None:
        if S.shape[1] > 1:
            return {}
        order = np.argsort(distance := np.abs(S[:, 0] - rows.truth[:, 0]))
        index = np.searchsorted(np.cumsum(rows.weight[order]), SURE_SHARE * rows.weight.sum())
        return {"share": SURE_SHARE, "within": float(distance[order[min(index, len(order) - 1)]])}
    if not model.has_probabilities:
        return {}
    P = model.probabilities(S)
    sure = P.max(axis=1) >= SURE_SHARE
    share = float(np.average(sure, weights=rows.weight))
    wrong = float(np.average(rows.errors(S)[sure], weights=rows.weight[sure])) if share else 0.0
    return {"probability": SURE_SHARE, "share": share, "error": wrong}


def _constant(targets: Targets, counts: Sequence[float] | None, sample: Block, X: Any) -> F64:
    """Scores of the most frequent class of all rows, or of the mean.

    The rows beside a fold have fewer of the class that is most frequent in it: of equal classes they name a wrong one.
    Counts are whole numbers, in which small weights are lost: rows with weights have the mean.
    """
    assert sample.y is not None
    if counts is None or sample.weight is not None:
        scores = np.average(_to_numbers(targets, sample.y), axis=0, weights=sample.weight)
    else:
        scores = signs(np.array([np.argmax(counts)]), len(counts))[0]
    return np.tile(scores, (len(X), 1))


def _to_numbers(targets: Targets, y: NDArray[Any]) -> F64:
    """Numbers to predict, (rows, outputs)."""
    Y = y.reshape(len(y), -1) if targets.classes is None else targets.of(y)
    return np.asarray(Y, np.float64)


def baselines_cost(rows: int, columns: int, which: str) -> Cost:
    """Cost of the baselines.

    Parameters
    ----------
    rows : of the data
    """
    if which == "off" or columns > MOST_LINEAR_COLUMNS:
        return Cost("choice")
    learned = min(rows, _most_rows(columns))
    return Cost("choice", (2.0 + 2.0 * len(BASELINE_RIDGES) / 3) * columns**3 + 4.0 * learned * columns**2)


def _most_rows(columns: int) -> int:
    """Rows that a linear model may cost."""
    return int(min(MOST_BASELINE_ROWS, max(LEAST_BASELINE_ROWS, FLOPS / columns**2)))


def _linear(targets: Targets, sample: Block, X: NDArray[Any]) -> F64:
    """Scores of ridge regression; its strength from the last fifth of the sample."""
    assert sample.y is not None
    Y = _to_numbers(targets, sample.y)
    center = Y.mean(axis=0)
    moments = to_numbers(sample.X).astype(np.float64)
    shift, width = moments.mean(axis=0), moments.std(axis=0)
    width[width == 0] = 1.0

    def features(rows: NDArray[Any]) -> F64:
        Z = (to_numbers(rows).astype(np.float64) - shift) / width
        return np.concatenate([Z, np.ones((len(Z), 1))], axis=1)

    F = features(sample.X)
    weight = np.ones((len(F), 1)) if sample.weight is None else sample.weight.astype(np.float64)[:, None]
    cut = max(1, len(F) * 4 // 5)
    best = BASELINE_RIDGES[0]
    if cut < len(F):
        fitted = _ridge(F[:cut], Y[:cut] - center, weight[:cut], BASELINE_RIDGES)
        losses = [float(np.mean(weight[cut:] * (F[cut:] @ w + center - Y[cut:]) ** 2)) for w in fitted]
        best = BASELINE_RIDGES[int(np.argmin(losses))]
    scores = features(X) @ _ridge(F, Y - center, weight, (best,))[0] + center
    return np.asarray(scores)


def _ridge(F: F64, Y: F64, weight: F64, ridges: tuple[float, ...]) -> list[F64]:
    """(F^T W F / n + ridge I)^{-1} F^T W Y / n for each ridge."""
    gram, moment = F.T @ (weight * F) / len(F), F.T @ (weight * Y) / len(F)
    return [solve_here(gram + ridge * np.eye(len(gram)), moment) for ridge in ridges]


def _fit_boosted(model: Model, targets: Targets, sample: Block, X: NDArray[Any]) -> F64:
    import lightgbm

    assert sample.y is not None
    classes = 0 if targets.classes is None else len(targets.classes)
    settings = {
        "objective": "regression" if not classes else "binary" if classes == 2 else "multiclass",
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": model.recipe.seed,
        "verbosity": -1,
    }
    if classes > 2:
        settings["num_class"] = classes
    y = sample.y.astype(np.float64) if not classes else targets.codes(sample.y).astype(np.float64)
    data = lightgbm.Dataset(to_numbers(sample.X).astype(np.float64), y, weight=sample.weight, params=settings)
    trees = lightgbm.train(settings, data, num_boost_round=100)
    S = np.asarray(trees.predict(to_numbers(X).astype(np.float64)), np.float64)
    if classes == 2:
        return S[:, None] - 0.5
    return S[:, None] if S.ndim == 1 else S
