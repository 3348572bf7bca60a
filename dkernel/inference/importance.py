"""Importance of the columns: how much worse a model answers if the values of a column are shuffled."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dkernel.data.block import Block
from dkernel.inference.evaluate import measure_quality
from dkernel.model.model import Model

SHUFFLES = 5  # of each column, as many as scikit-learn has


def importances(
    model: Model, block: Block, columns: Sequence[str] | None = None, shuffles: int = SHUFFLES
) -> dict[str, tuple[float, float]]:
    """Column -> mean and deviation, over some shuffles, of what its shuffling costs of accuracy or R².

    The inputs of a column, such as a category, are shuffled together. Of several targets R² is their mean.

    Parameters
    ----------
    block : labelled rows that the model has not learned from
    columns : those to shuffle; None for all
    """
    rng, of_column = np.random.default_rng(0), {}
    whole = measure_quality(model, block)
    for name in model.places if columns is None else columns:
        X, lost, places = block.X.copy(), [], list(model.places[name])
        for _ in range(shuffles):
            X[:, places] = block.X[rng.permutation(len(X))][:, places]
            lost.append(whole - measure_quality(model, replace(block, X=X)))
        of_column[name] = (float(np.mean(lost)), float(np.std(lost)))
    return of_column
