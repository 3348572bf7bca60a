"""Importance of the columns: how much worse a model answers if the values of a column are shuffled."""

from dataclasses import replace

import numpy as np

from dkernel.data.block import Block
from dkernel.inference.evaluate import quality_of
from dkernel.model import Model

SHUFFLES = 5  # of each column, as many as scikit-learn has


def importances(model: Model, block: Block, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Column -> mean and deviation, over SHUFFLES shuffles, of what its shuffling costs of accuracy or R².

    The inputs of a column, such as a category, are shuffled together. Of several targets R² is their mean.

    Parameters
    ----------
    block : labelled rows that the model has not learned from
    """
    rng, of_column = np.random.default_rng(seed), {}
    whole = quality_of(model, block)
    for name, places in model.places.items():
        X, lost = block.X.copy(), []
        for _ in range(SHUFFLES):
            X[:, list(places)] = block.X[rng.permutation(len(X))][:, list(places)]
            lost.append(whole - quality_of(model, replace(block, X=X)))
        of_column[name] = (float(np.mean(lost)), float(np.std(lost)))
    return of_column
