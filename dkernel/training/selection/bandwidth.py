"""The numbers that gamma="auto", "median" and "scale" stand for, from the data."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from dkernel.errors import UnsupportedError
from dkernel.features import Scaling
from dkernel.features.scaling import SPARSE
from dkernel.kernels.distances import median_distance
from dkernel.model.recipe import Recipe
from dkernel.numerics.rows import numbers_in
from dkernel.streaming.survey import SurveyResult


def gamma_rule(recipe: Recipe, survey: SurveyResult, scaling: Scaling, rows: Any) -> Callable[..., float]:
    """Return the function that finds the numbers of gamma="median", "scale" and "auto", for all columns or for some.

    Parameters
    ----------
    rows : rows before their scaling
    """

    @cache
    def median(metric: str, columns: tuple[int, ...] | None) -> float:
        X = numbers_in(scaling.apply(rows, "float64" if rows.dtype == np.float64 else "float32")).astype(np.float64)
        return median_distance(X if columns is None else X[:, columns], metric)

    def gamma(factor: float, metric: str, word: str, columns: Sequence[int] | None = None) -> float:
        """Return the number for a word; "auto" is `factor` times the median value."""
        value_or_word = requested_rule(recipe, word)
        if isinstance(value_or_word, float):
            return value_or_word
        if value_or_word == "scale":
            if survey.largest is not None:  # sparse rows
                raise UnsupportedError(
                    "gamma='scale' is the variance of all numbers together, which sparse rows are mostly without. Use "
                    "gamma='median', 'auto' or a number."
                )
            p = rows.shape[1] if columns is None else len(columns)
            return 1.0 / (p * _variance(scaling, survey, columns))
        distance = median(metric, None if columns is None else tuple(columns))
        value = 1.0 / (2.0 * distance**2) if metric == "l2" else 1.0 / distance
        return value * factor if value_or_word == "auto" else value

    return gamma


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
