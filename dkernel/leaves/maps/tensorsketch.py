"""TensorSketch: the product of kernels as the convolution of count sketches of their maps."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.features.base import FeatureMap
from dkernel.features.dense_maps import WholeMap
from dkernel.kernels import Kernel
from dkernel.numerics.random_streams import stream


class TensorSketchMap(WholeMap):
    """φ = F^{-1} Π_j F(S_j φ_j), S_j a count sketch, F the Fourier transform: φ(x) . φ(z) ≈ Π_j φ_j(x) . φ_j(z).

    The sketch of the tensor product of φ_j without that product (Pham and Pagh 2013): D log D and not D p a degree.
    Unbiased; the variance for ⟨x, z⟩^q is at most (2 + 3^q) / D |x|^{2q} |z|^{2q}.

    Parameters
    ----------
    kernel : the product
    maps, powers : a map of each factor, and how often the factor stands in the product; different factors need maps
        that are independent of each other
    n_components : D
    places, signs : int32 and bool, one for each column of each map, power times over

    Examples
    --------
    >>> from dkernel import kernels
    >>> from dkernel.features import MonomialMap
    >>> factor = MonomialMap(kernels.Polynomial(degree=1, c=1.0), n_in=3)
    >>> phi = TensorSketchMap.draw(kernels.Polynomial(degree=3, c=1.0), [factor], [3], 64, seed=0)
    >>> phi(np.ones((2, 3))).shape
    (2, 64)
    """

    kind = "tensorsketch"
    arguments = ("kernel", "maps", "powers", "n_components", "places", "signs")

    def __init__(
        self,
        kernel: Kernel,
        maps: Sequence[FeatureMap],
        powers: Sequence[int],
        n_components: int,
        places: NDArray[np.int32],
        signs: NDArray[np.bool_],
    ) -> None:
        self.kernel, self.maps, self.powers = kernel, tuple(maps), tuple(powers)
        self.n_in, self.n_components, self.places, self.signs = maps[0].n_in, n_components, places, signs

    @classmethod
    def draw(
        cls, kernel: Kernel, maps: Sequence[FeatureMap], powers: Sequence[int], n_components: int, seed: int
    ) -> "TensorSketchMap":
        """A sketch of `n_components` columns, a function of the seed."""
        if n_components < 1:
            raise RecipeError(f"n_components={n_components}: a tensor sketch has at least 1 column.")
        size = sum(map.n_components * power for map, power in zip(maps, powers, strict=True))
        rng = stream(seed, "tensorsketch")
        places = rng.integers(0, n_components, size).astype(np.int32)
        return cls(kernel, maps, powers, n_components, places, rng.integers(0, 2, size).astype(bool))

    @cached_property
    def _sketches(self) -> list[list[sp.csr_matrix]]:
        """Count sketches of each map, sparse (D, components of the map), multiplied by its whitening."""
        sketches: list[list[sp.csr_matrix]] = []
        at = 0
        for map, power in zip(self.maps, self.powers, strict=True):
            n, of_map = map.n_components, []
            for _ in range(power):
                values = (1.0 - 2.0 * self.signs[at : at + n]) * float(map.whitening)
                of_map.append(sp.csr_matrix((values, (self.places[at : at + n], np.arange(n))), (self.n_components, n)))
                at += n
            sketches.append(of_map)
        return sketches

    def _components(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        spectrum: Any = 1.0
        for map, sketches in zip(self.maps, self._sketches, strict=True):
            F = np.ascontiguousarray(map.components(X, X.dtype.name).T)
            for sketch in sketches:
                counted = np.ascontiguousarray((sketch.astype(X.dtype) @ F).T)
                spectrum = spectrum * np.fft.rfft(counted, axis=1)
        return np.fft.irfft(spectrum, n=self.n_components, axis=1).astype(X.dtype, copy=False)
