"""The map of a kernel of some features alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.features.base import FeatureMap
from dkernel.features.dense_maps import InnerMap
from dkernel.kernels import Kernel


class SelectedMap(InnerMap):
    """φ(x) = inner(x at some places).

    Parameters
    ----------
    kernel : `k.on(places)`, with the positions of its columns
    inner : the map of k, with a number for its whitening
    places : positions of the columns it is given
    n_in : p, all columns

    Examples
    --------
    >>> from dkernel import kernels
    >>> from dkernel.features import MonomialMap
    >>> phi = SelectedMap(kernels.Linear().on([1]), MonomialMap(kernels.Linear(), 1), [1], n_in=3)
    >>> phi(np.array([[5.0, 6.0, 7.0]])).tolist()
    [[6.0]]
    """

    kind = "selected"
    arguments = ("kernel", "inner", "places", "n_in")

    def __init__(self, kernel: Kernel, inner: FeatureMap, places: list[int], n_in: int) -> None:
        if max(places) >= n_in or not isinstance(inner.whitening, float):
            raise RecipeError(f"{kernel!r} is of the columns {places}, and the data have {n_in}, counted from 0.")
        self.kernel, self.inner, self.places, self.n_in = kernel, inner, places, n_in
        self.n_components = inner.n_components

    def _select(self, X: NDArray) -> NDArray:
        return np.ascontiguousarray(X[:, self.places])

    def rows(self, X: NDArray) -> Any:
        return super().rows(self._select(X))

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        return self.inner.components(self._select(X), dtype)

    def wide_scores(self, X: NDArray, coef: NDArray[np.float64], scaled: Callable[[Any], Any]) -> NDArray[np.float64]:
        return self.inner.wide_scores(X, coef, lambda rows: self._select(scaled(rows)))

    @property
    def text(self) -> str:
        return f"{self.inner.text} of {len(self.places)} columns"
