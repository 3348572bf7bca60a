"""Baselines: a linear model and boosted trees on the same holdout.

    linear   ridge regression on the scaled columns themselves, by its normal equations
    boosted  gradient-boosted trees, LightGBM with its defaults (extra `baseline`)

Where a fit holds no rows out, as of few rows, each fifth of the sample is judged by what the others teach. Both learn
from the fit's sample, some ten thousand rows, which costs seconds whatever the size of the data; the model
itself may have seen far more. They are reported beside a model, not in it: the bytes of a model do not depend
on what it was compared with, nor on the version of a library that it does not use.
"""

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.losses.metrics import class_of_scores
from dkernel.model.model import Model
from dkernel.model.solver_table import SOLVERS
from dkernel.numerics.array_types import F64
from dkernel.numerics.linalg import solve_here
from dkernel.numerics.object_values import numbers_of
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.validation import nearest_name
from dkernel.solvers.reservoir_split import part_of
from dkernel.solvers.targets import Targets
from dkernel.streaming.cost import Cost

BASELINES = ("off", "linear", "all")
MOST_BASELINE_ROWS, LEAST_BASELINE_ROWS = 65_536, 4096  # rows of the sample that baselines learn from
FLOPS = 1e10  # operations of the linear model, a second of work
MOST_LINEAR_COLUMNS = 4096  # columns of the data; the linear model needs a square of them
BASELINE_FOLDS = 5  # folds of a sample without a holdout
BASELINE_RIDGES = tuple(10.0**k for k in range(-6, 3))


def check(which: str) -> None:
    """Refuse models that cannot be compared, before anything is trained."""
    if which not in BASELINES:
        raise RecipeError(
            f"baselines={which!r} is not valid.{nearest_name(which, BASELINES)} Possible: {' | '.join(BASELINES)}."
        )
    if which == "all" and importlib.util.find_spec("lightgbm") is None:
        raise UnsupportedError(
            "--baselines all compares with LightGBM, which is not installed. Install it (pip install "
            "'dkernel[baseline]'), or use --baselines linear."
        )


def baselines(model: Model, sample: Block | None, holdout: Block | None, which: str = "linear") -> dict[str, Any]:
    """The error (rmse, of a regression) of each on the rows of the holdout, and which wins.

    Parameters
    ----------
    sample, holdout : raw rows, of a `TrainResult`
    which : "off" | "linear" | "all"

    Returns
    -------
    dict with rows, sample_rows, figure ("error" or "rmse"), linear, boosted where it was asked for, model, and wins:
    the name of the best. Empty where the model was not judged, or for data that are no numbers.
    """
    check(which)
    left_out = holdout is not None or SOLVERS[model.recipe.solver].in_memory
    judged = model.facts.get("holdout") if left_out else None
    if which == "off" or sample is None or model.objects or not (judged or (holdout is not None and len(holdout.X))):
        return {}
    sample = _some(sample)
    rows = sample if holdout is None else holdout
    targets = Targets(model.classes, model.recipe.positive)
    name = "error" if model.classes is not None else "rmse"
    figures: dict[str, Any] = {"rows": len(rows.X), "sample_rows": len(sample.X), "figure": name}
    figures |= {"folds": holdout is None, "weighted": holdout is not None and holdout.weight is not None}
    with one_blas_thread():
        if sample.X.shape[1] <= MOST_LINEAR_COLUMNS:
            figures["linear"] = _figure(_unseen(partial(_linear, targets), sample, holdout), targets, rows)
        if which == "all":
            figures["boosted"] = _figure(_unseen(partial(_fit_boosted, model, targets), sample, holdout), targets, rows)
        if judged and not figures["weighted"]:
            figures["model"] = float(judged["rmse"] if name == "rmse" else 1 - judged["accuracy"])  # as the fit says it
        else:
            figures["model"] = _figure(model.scores(rows.X).astype(np.float64), targets, rows)
    tried = [each for each in ("linear", "boosted", "model") if each in figures]
    # Where two are equal, the simpler wins: it stands first.
    return {**figures, "wins": min(tried, key=lambda each: figures[each])}


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


def format_baselines(figures: Mapping[str, Any]) -> str:
    """The comparison as one line of text.

    Examples
    --------
    >>> format_baselines({"rows": 1000, "sample_rows": 5000, "figure": "error", "linear": 0.243, "model": 0.087,
    ...           "wins": "model", "folds": False, "weighted": False})
    'linear 24.30 % (learned from 5,000 rows), this model 8.70 %: this model wins'
    """
    way = "cross-validated on" if figures["folds"] else "learned from"
    on = f" ({way} {figures['sample_rows']:,} rows)"
    parts = [f"{name} {_value(figures, name)}{on}" for name in ("linear", "boosted") if name in figures]
    winner = {"model": "this model wins", "linear": "the linear model wins", "boosted": "the boosted trees win"}
    weighted = " (by the weights of the rows)" * figures["weighted"]  # a row counts once in the figures of the holdout
    parts.append(f"this model {_value(figures, 'model')}{weighted}: {winner[figures['wins']]}")
    return ", ".join(parts)


def _value(figures: Mapping[str, Any], name: str) -> str:
    return f"{100 * figures[name]:.2f} %" if figures["figure"] == "error" else f"{figures[name]:.4g}"


def _some(block: Block) -> Block:
    """Take the first rows of a block, as many as a linear model may cost."""
    return part_of(block, slice(_most_rows(block.X.shape[1])))


def _unseen(scores: Callable[[Block, Any], F64], sample: Block, holdout: Block | None) -> F64:
    """Scores of the holdout, or of all rows of the sample, each from the other folds."""
    if holdout is not None:
        return scores(sample, holdout.X)
    fold = np.arange(len(sample.X)) % BASELINE_FOLDS
    parts = [np.flatnonzero(fold == i) for i in range(BASELINE_FOLDS)]
    scores_of = [scores(part_of(sample, np.flatnonzero(fold != i)), sample.X[parts[i]]) for i in range(BASELINE_FOLDS)]
    return np.asarray(np.concatenate(scores_of)[np.argsort(np.concatenate(parts))])


def _figure(S: F64, targets: Targets, holdout: Block) -> float:
    """Share of wrong decisions of these scores (rows, outputs), or their root mean squared error; weighted."""
    assert holdout.y is not None
    weight = np.ones(len(S)) if holdout.weight is None else holdout.weight.astype(np.float64)
    if not weight.sum() > 0:
        weight = np.ones(len(S))
    if targets.classes is None:
        return float(np.sqrt(np.average((S[:, 0] - holdout.y.astype(np.float64)) ** 2, weights=weight)))
    return float(np.average(class_of_scores(S) != targets.codes(holdout.y), weights=weight))


def _linear(targets: Targets, sample: Block, X: NDArray[Any]) -> F64:
    """Scores of ridge regression; its strength from the last fifth of the sample."""
    assert sample.y is not None
    Y = sample.y.astype(np.float64)[:, None] if targets.classes is None else targets.of(sample.y).astype(np.float64)
    center = Y.mean(axis=0)
    moments = numbers_of(sample.X).astype(np.float64)
    shift, width = moments.mean(axis=0), moments.std(axis=0)
    width[width == 0] = 1.0

    def features(rows: NDArray[Any]) -> F64:
        Z = (numbers_of(rows).astype(np.float64) - shift) / width
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
    """Scores of LightGBM with its defaults."""
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
    data = lightgbm.Dataset(numbers_of(sample.X).astype(np.float64), y, weight=sample.weight, params=settings)
    trees = lightgbm.train(settings, data, num_boost_round=100)
    S = np.asarray(trees.predict(numbers_of(X).astype(np.float64)), np.float64)
    if classes == 2:
        return S[:, None] - 0.5
    return S[:, None] if S.ndim == 1 else S
