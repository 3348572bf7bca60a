"""Effects of the features on a model: permutation importance and partial dependence on unseen rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.model import Model
from dkernel.report.numbers import Quality

MOST_ROWS = 2048  # rows of the holdout, which give a share to a percent
MOST_FEATURES = 30  # bars that a picture can show


@dataclass(frozen=True, eq=False)
class Dependence:
    """Mean answer of a model over all rows, with one feature set to each value of `grid` in turn.

    answers : (steps, k): a score for two classes, the prediction of a regression, else a share of each class predicted
    """

    name: str
    grid: NDArray[np.float64]
    answers: NDArray[np.float64]


def strongest(model: Model) -> list[tuple[str, float]]:
    """Features and their shares in the learned metric, the largest first; nothing where no metric was learned."""
    weights = model.facts.get("weights") or []
    if len(weights) != len(model.inputs):
        return []
    return sorted(zip(model.inputs, map(float, weights), strict=True), key=lambda pair: -pair[1])


def importances(model: Model, rows: Block, found: Quality) -> list[tuple[str, float]]:
    """Features, and by how much the error (of classes) or RMSE grows when their values are shuffled, largest first."""
    X, places = _rows(model, rows)
    if not len(places):
        return []
    truth, weight = found.truth[: len(X)], found.weight[: len(X)]
    before, order = _error(model, X, truth, weight), np.random.default_rng(0).permutation(len(X))
    grown = []
    for j in places:
        shuffled = X.copy()
        shuffled[:, j] = X[order, j]
        grown.append((model.inputs[j], _error(model, shuffled, truth, weight) - before))
    return sorted(grown, key=lambda pair: -pair[1])


def dependences(model: Model, rows: Block, names: list[str]) -> list[Dependence]:
    """Partial dependence on each of these features, from its 2nd to its 98th percentile."""
    X, _ = _rows(model, rows)
    found, X = [], X[: MOST_ROWS // 4]
    for name in names[:4]:  # partial dependences
        j = list(model.inputs).index(name)
        grid = np.unique(np.quantile(X[:, j].astype(np.float64), np.linspace(0.02, 0.98, 25)))
        answers = []
        for value in grid:
            changed = X.copy()
            changed[:, j] = value
            answers.append(_answer(model, changed))
        found.append(Dependence(name, grid, np.array(answers)))
    return found


def _rows(model: Model, rows: Block) -> tuple[NDArray[Any], list[int]]:
    """Rows to try on, and the features to try: those of numbers, the strongest where they are many."""
    width = len(model.inputs)
    if model.map.sparse or model.objects or rows.X.shape[1] != width:
        return np.empty((0, 0)), []
    places = list(range(width))
    if width > MOST_FEATURES:
        names = list(model.inputs)
        places = [names.index(name) for name, _ in strongest(model)[:MOST_FEATURES]]
    return rows.X[:MOST_ROWS], places


def _error(model: Model, X: NDArray[Any], truth: NDArray[Any], weight: NDArray[np.float64]) -> float:
    S = model.scores(X)
    if model.classes is None:
        return float(np.sqrt(weight @ (S[:, 0] - truth) ** 2 / weight.sum()))
    called = (S[:, 0] > 0).astype(np.intp) if S.shape[1] == 1 else S.argmax(axis=1)
    return float(weight @ (called != truth) / weight.sum())


def _answer(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    S = model.scores(X)
    if S.shape[1] == 1:
        return np.asarray(S.mean(axis=0), np.float64)
    return np.bincount(S.argmax(axis=1), minlength=S.shape[1]) / len(S)
