"""Importance of the columns: how much worse a model answers if the values of a column are shuffled."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.model import Model
from dkernel.problem.targets import Targets

SHUFFLES = 5  # of each column, as many as scikit-learn has


def importances(model: Model, block: Block, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Column -> mean and deviation, over SHUFFLES shuffles, of what its shuffling costs of accuracy or R².

    The inputs of a column, such as a category, are shuffled together. Of several targets R² is their mean.

    Parameters
    ----------
    block : labelled rows that the model has not learned from
    """
    rng, y = np.random.default_rng(seed), block.y
    assert y is not None
    if model.classes is not None:
        y = Targets(model.classes, model.recipe.positive).codes(y)
    whole, of_column = _quality(model, block.X, y, block.weight), {}
    for name, places in model.places.items():
        X, lost = block.X.copy(), []
        for _ in range(SHUFFLES):
            X[:, list(places)] = block.X[rng.permutation(len(X))][:, list(places)]
            lost.append(whole - _quality(model, X, y, block.weight))
        of_column[name] = (float(np.mean(lost)), float(np.std(lost)))
    return of_column


def _quality(model: Model, X: NDArray[Any], y: Any, weight: NDArray[np.float64] | None) -> float:
    """Accuracy, or R²."""
    scores = model.scores(X)
    if model.classes is not None:
        codes = (scores[:, 0] > 0) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return float(np.average(codes == y, weights=weight))
    y = y.reshape(len(y), -1)
    off = np.average(np.square(scores - y), axis=0, weights=weight)
    spread = np.average(np.square(y - np.average(y, axis=0, weights=weight)), axis=0, weights=weight)
    return float(np.mean(1 - off / np.where(spread > 0, spread, 1)))
