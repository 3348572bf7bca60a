"""Maps side by side: the map of a sum of kernels, of a multiple of a kernel, and the average of independent maps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.features.base import FeatureMap
from dkernel.features.dense_maps import PlainMap, same_dtype
from dkernel.kernels import Kernel


class StackedMap(PlainMap):
    """φ = [w_1^{1/2} φ_1, w_2^{1/2} φ_2, ...]: the map of Σ w_i k_i.

    The weights, and what whitens each map, are in the columns: beside each other they need not be equal, and a
    solver wants one number.

    Parameters
    ----------
    kernel : the sum
    maps : each with a number for its whitening
    weights : w

    Examples
    --------
    >>> from dkernel import kernels
    >>> from dkernel.features import FourierMap, MonomialMap
    >>> kernel = kernels.Gaussian(gamma=0.5) + 2.0 * kernels.Linear()
    >>> waves = FourierMap.draw(kernels.Gaussian(gamma=0.5), n_in=3, n_components=64, seed=0)
    >>> phi = StackedMap(kernel, [waves, MonomialMap(kernels.Linear(), 3)], [1.0, 2.0])
    >>> phi(np.zeros((1, 3))).shape
    (1, 67)
    """

    kind = "stacked"
    arguments = ("kernel", "maps", "weights")

    def __init__(self, kernel: Kernel, maps: Sequence[FeatureMap], weights: Sequence[float]) -> None:
        self.kernel, self.maps, self.weights = kernel, tuple(maps), tuple(map(float, weights))
        if not self.maps or len({part.n_in for part in self.maps}) > 1 or len(self.maps) != len(self.weights):
            raise RecipeError(
                f"Maps of {[part.n_in for part in self.maps]} input columns were given with {len(self.weights)} "
                "weights; maps of the same columns and a weight for each are needed."
            )
        if not all(isinstance(part.whitening, float) for part in self.maps):
            raise RecipeError("A Nystrom map cannot stand in a stack: give the sum of the kernels to one Nystrom map.")
        self.n_in = self.maps[0].n_in
        self.n_components = sum(part.n_components for part in self.maps)
        self._factors = [w**0.5 * float(part.whitening) for w, part in zip(self.weights, self.maps, strict=True)]
        self._starts, groups, at = {}, [], 0
        for i, part in enumerate(self.maps):
            for first, tiles, width in part.groups:
                self._starts[at + first] = (i, first)
                groups.append((at + first, tiles, width))
            at += part.n_components
        self._groups = tuple(groups)

    @classmethod
    def average(cls, maps: Sequence[FeatureMap]) -> "StackedMap":
        """The average of L independent maps of one kernel, [φ_1, ..., φ_L] / L^{1/2}: the variance divided by L."""
        return cls(maps[0].kernel, maps, [1.0 / len(maps)] * len(maps))

    @property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return self._groups

    def rows(self, X: NDArray) -> Any:
        X = same_dtype(X, "float32")
        return [part.rows(X) for part in self.maps]

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        i, start = self._starts[first]
        self.maps[i].fill(rows[i], start, out)
        if self._factors[i] != 1.0:
            out *= np.float32(self._factors[i])

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        scalar = np.dtype(dtype).type
        parts = zip(self.maps, self._factors, strict=True)
        return np.concatenate([part.components(X, dtype) * scalar(factor) for part, factor in parts], axis=1)

    def wide_scores(self, X: NDArray, coef: NDArray[np.float64], scaled: Callable[[Any], Any]) -> NDArray[np.float64]:
        ends = np.cumsum([part.n_components for part in self.maps])
        parts = zip(self.maps, self._factors, np.split(coef, ends[:-1]), strict=True)
        return np.asarray(sum(part.wide_scores(X, factor * part_coef, scaled) for part, factor, part_coef in parts))
