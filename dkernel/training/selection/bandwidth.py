"""The numbers that gamma="auto", "median" and "scale" stand for, from the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkernel.errors import UnsupportedError
from dkernel.features import Scaling
from dkernel.features.scaling import SPARSE
from dkernel.kernels.distances import median_distance
from dkernel.model.recipe import Recipe
from dkernel.numerics.rows import numbers_in
from dkernel.streaming.survey import SurveyResult


class Gammas:
    """The numbers of gamma="median", "scale" and "auto", for all columns or for those of a part of the kernel.

    Parameters
    ----------
    rows : rows before their scaling
    """

    def __init__(self, recipe: Recipe, survey: SurveyResult, scaling: Scaling, rows: Any) -> None:
        self.recipe, self.survey, self.scaling, self.rows = recipe, survey, scaling, rows
        self.medians: dict[tuple[str, tuple[int, ...] | None], float] = {}

    def gamma(self, factor: float, metric: str, word: str, columns: Sequence[int] | None = None) -> float:
        """Return the number for a word; "auto" is `factor` times the median value."""
        value_or_word = requested_rule(self.recipe, word)
        if isinstance(value_or_word, float):
            return value_or_word
        if value_or_word == "scale":
            if self.survey.largest is not None:  # sparse rows
                raise UnsupportedError(
                    "gamma='scale' is the variance of all numbers together, which sparse rows are mostly without. Use "
                    "gamma='median', 'auto' or a number."
                )
            p = self.rows.shape[1] if columns is None else len(columns)
            return 1.0 / (p * _variance(self.scaling, self.survey, columns))
        median = self._median(metric, None if columns is None else tuple(columns))
        value = 1.0 / (2.0 * median**2) if metric == "l2" else 1.0 / median
        return value * factor if value_or_word == "auto" else value

    def _median(self, metric: str, columns: tuple[int, ...] | None) -> float:
        if (metric, columns) not in self.medians:
            dtype = "float64" if self.rows.dtype == np.float64 else "float32"
            X = numbers_in(self.scaling.apply(self.rows, dtype)).astype(np.float64)
            self.medians[metric, columns] = median_distance(X if columns is None else X[:, columns], metric)
        return self.medians[metric, columns]


def requested_rule(recipe: Recipe, word: str) -> str | float:
    """Return the rule of a placeholder: the recipe's gamma for "auto", otherwise the word in the kernel itself."""
    return recipe.gamma if word == "auto" else word


def _variance(scaling: Scaling, survey: SurveyResult, columns: Sequence[int] | None) -> float:
    """Return the variance of all scaled numbers of some columns together, the `X.var()` of gamma="scale"."""
    some = slice(None) if columns is None else list(columns)
    if scaling.curves is not None:  # the survey has the moments of the columns before the scaling
        Z, weight = scaling.apply(survey.reservoir.X, "float64")[:, some], survey.reservoir.weight
        deviation = Z - np.average(Z.mean(axis=1), weights=weight)
        return float(np.average(np.square(deviation).mean(axis=1), weights=weight)) or 1.0
    shift = 0.0 if scaling.kind in SPARSE else scaling.shift  # the shift of sparse rows only keeps digits
    mean = ((survey.moments.mean - shift) * scaling.factor)[some]
    variance = float(np.mean((survey.moments.variance * scaling.factor**2)[some]) + np.var(mean))
    return variance if variance > 0 else 1.0
