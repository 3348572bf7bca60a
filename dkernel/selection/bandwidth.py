"""Resolves gamma="auto", "median" and "scale" from the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import UnsupportedError
from dkernel.features import Scaling
from dkernel.features.scaling import SPARSE
from dkernel.kernels.distances import l2, pair_distances
from dkernel.numerics.rows import numbers_in
from dkernel.numerics.sparse_rows import SparseRows
from dkernel.recipe import Recipe
from dkernel.streaming.survey import SurveyResult

# Of more the distances come from one product of matrices: of 25,600 in a fraction of a second, where the sums of all
# columns one after the other take twenty.
SUMMED_COLUMNS = 512
ROUNDING = 1e-12  # share of the squared lengths under which a squared distance is a difference of rounding errors


class Gammas:
    """Resolves gamma="median", "scale" and "auto", for all columns or for those of a part of the kernel.

    Parameters
    ----------
    rows : before their scaling
    """

    def __init__(self, recipe: Recipe, survey: SurveyResult, scaling: Scaling, rows: Any) -> None:
        self.recipe, self.survey, self.scaling, self.rows = recipe, survey, scaling, rows
        self.medians: dict[tuple[str, tuple[int, ...] | None], float] = {}

    def gamma(self, factor: float, metric: str, word: str, columns: Sequence[int] | None = None) -> float:
        """The number for a word; "auto" is `factor` times the median value."""
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
            self.medians[metric, columns] = pair_median(X if columns is None else X[:, columns], metric)
        return self.medians[metric, columns]


def requested_rule(recipe: Recipe, word: str) -> str | float:
    """Rule that fills a placeholder: the recipe's gamma for "auto", else the word of the kernel itself."""
    return recipe.gamma if word == "auto" else word


def _variance(scaling: Scaling, survey: SurveyResult, columns: Sequence[int] | None) -> float:
    """Variance of all scaled numbers of some columns together, the `X.var()` of gamma="scale"."""
    some = slice(None) if columns is None else list(columns)
    shift = 0.0 if scaling.kind in SPARSE else scaling.shift  # there the shift only keeps digits
    mean = ((survey.moments.mean - shift) * scaling.factor)[some]
    variance = float(np.mean((survey.moments.variance * scaling.factor**2)[some]) + np.var(mean))
    return variance if variance > 0 else 1.0


def pair_median(X: NDArray[np.float64], metric: str) -> float:
    """Median distance of two different rows: of all pairs, without those at distance zero.

    Examples
    --------
    >>> pair_median(np.array([[0.0], [1.0], [3.0]]), "l2")
    2.0
    """
    if isinstance(X, SparseRows) and metric == "l2":
        distances = l2(X, X, 1.0, 1e-12)[np.triu_indices(len(X), 1)]
    elif metric == "l2" and X.shape[1] > SUMMED_COLUMNS:
        distances = _wide_distances(X)
    else:
        distances = pair_distances(X, metric)
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0


def _wide_distances(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The l2 distances of all pairs of different rows, wrong in their last digits; those of equal rows are 0."""
    centred = X - X.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    i, j = np.triu_indices(len(X), 1)
    both = squares[i] + squares[j]
    apart = both - 2 * (centred @ centred.T)[i, j]
    return np.sqrt(np.where(apart > ROUNDING * both, apart, 0.0))
