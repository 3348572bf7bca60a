"""Importance of the columns: how much worse a model answers if the values of a column are shuffled."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.inference.evaluate import measure_quality
from dkernel.model.model import Model
from dkernel.solvers.reservoir_split import select_rows

SHUFFLES = 5  # of each column, as many as scikit-learn has
MOST_SHUFFLED, LEAST_SHUFFLED = 2**20, 1024  # scores of all columns: seconds; and rows of many columns


def importances(parts: Sequence[tuple[Model, Block]], columns: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure what the shuffling of each column costs of accuracy or R², the same wherever it is shown.

    The inputs of a column, such as a category, are shuffled together. Of several targets R² is their mean.

    Parameters
    ----------
    parts : models, each with labelled rows in random order that it has not learned from: their mean counts
    columns : those to shuffle; None for all

    Returns
    -------
    dict with rows and columns: name -> mean and deviation over the shuffles, the largest mean first.
    """
    places = parts[0][0].places
    most = max(LEAST_SHUFFLED, MOST_SHUFFLED // (SHUFFLES * max(len(places), 1))) // len(parts)
    some = [(model, select_rows(rows, slice(max(most, 1)))) for model, rows in parts]
    names = list(places) if columns is None else columns
    lost = np.mean([_lost(model, rows, names) for model, rows in some], axis=0)
    found = zip(names, lost.mean(axis=1).tolist(), lost.std(axis=1).tolist(), strict=True)
    ordered = sorted(found, key=lambda each: (-each[1], each[0]))
    of_columns = {name: {"mean": mean, "deviation": deviation} for name, mean, deviation in ordered}
    return {"rows": sum(len(rows.X) for _, rows in some), "columns": of_columns}


def _lost(model: Model, block: Block, names: Sequence[str]) -> NDArray[np.float64]:
    """Accuracy or R² lost by each shuffle of each column, (columns, shuffles); the shuffles of all are the same."""
    rng, whole = np.random.default_rng(0), measure_quality(model, block)
    orders = [rng.permutation(len(block.X)) for _ in range(SHUFFLES)]
    lost = np.empty((len(names), SHUFFLES))
    for i, name in enumerate(names):
        X, places = block.X.copy(), list(model.places[name])
        for j, order in enumerate(orders):
            X[:, places] = block.X[order][:, places]
            lost[i, j] = whole - measure_quality(model, replace(block, X=X))
    return lost
