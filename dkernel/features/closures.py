"""Maps of kernels made of kernels, where these have maps: x^T A z, f(x) f(z) k(x, z), and a product by all products."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, UnsupportedError
from dkernel.features.base import FeatureMap
from dkernel.features.dense_maps import InnerMap, WholeMap, same_dtype
from dkernel.kernels import Kernel, Linear, Normalized, Weighted


class ImageMap(WholeMap):
    """φ(x) = L^T x with A = L L^T: the linear kernel x^T A z.

    Parameters
    ----------
    kernel : Linear with a matrix A
    n_in : p; there is a column for each eigenvalue of A above 0

    Examples
    --------
    >>> phi = ImageMap(Linear(A=[[4.0, 0.0], [0.0, 0.0]]), n_in=2)
    >>> abs(phi(np.array([[3.0, 5.0]]))).tolist()
    [[6.0]]
    """

    kind = "image"
    arguments = ("kernel", "n_in")

    def __init__(self, kernel: Kernel, n_in: int) -> None:
        if not isinstance(kernel, Linear) or kernel.A is None:
            raise UnsupportedError(f"{kernel!r} has no matrix A. Use features='nystrom'.")
        if len(kernel.A) != n_in:
            raise DataError(f"Linear has a matrix A of {len(kernel.A)} columns and was given rows of {n_in}.")
        self.kernel, self.n_in = kernel, n_in
        self._factor = kernel.factor
        self.n_components = self._factor.shape[1]

    def _components(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        # Column by column: a product of matrices would round a row by the number of rows beside it.
        out = np.zeros((len(X), self.n_components), X.dtype)
        for j in range(self.n_in):
            out += X[:, j, None] * self._factor[j].astype(X.dtype)
        return out


class WeightedMap(InnerMap):
    """φ(x) = f(x) inner(x): the map of f(x) f(z) k(x, z).

    Parameters
    ----------
    kernel : Weighted or Normalized
    inner : the map of k, with a number for its whitening

    Examples
    --------
    >>> from dkernel.features import MonomialMap
    >>> phi = WeightedMap(Normalized(Linear()), MonomialMap(Linear(), 2))
    >>> phi(np.array([[3.0, 4.0]])).round(6).tolist()
    [[0.6, 0.8]]
    """

    kind = "weighted"
    arguments = ("kernel", "inner")

    def __init__(self, kernel: Kernel, inner: FeatureMap) -> None:
        if not isinstance(kernel, Weighted | Normalized):
            raise ValueError(f"{kernel} has no weights of rows.")
        self.kernel, self.inner, self.n_in, self.n_components = kernel, inner, inner.n_in, inner.n_components
        self._weights = kernel._weights

    def rows(self, X: NDArray) -> Any:
        return super().rows(X), self._weights(X.astype(np.float64)).astype(np.float32)[:, None]

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        super().fill(rows[0], first, out)
        out *= rows[1]

    def components(self, X: NDArray, dtype: str = "float64") -> NDArray[np.floating]:
        return self.inner.components(X, dtype) * self._weights(X.astype(np.float64)).astype(dtype)[:, None]

    @property
    def text(self) -> str:
        return f"{self.inner.text}, weighted"


class ProductMap(WholeMap):
    """φ_l(x) = φ_ai(x) φ_bj(x) ... of all i, j, ...: the map of a product of kernels.

    Parameters
    ----------
    kernel : the product
    maps : of its factors, each with a number for its whitening

    Examples
    --------
    >>> from dkernel.features import MonomialMap
    >>> linear = MonomialMap(Linear(), 2)
    >>> ProductMap(Linear() * Linear(), [linear, linear])(np.array([[2.0, 3.0]])).tolist()
    [[4.0, 6.0, 6.0, 9.0]]
    """

    kind = "product"
    arguments = ("kernel", "maps")

    def __init__(self, kernel: Kernel, maps: Sequence[FeatureMap]) -> None:
        self.kernel, self.maps, self.n_in = kernel, tuple(maps), maps[0].n_in
        self.n_components = int(np.prod([part.n_components for part in maps]))

    def _components(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        out = np.ones((len(X), 1), X.dtype)
        for part in self.maps:
            values = part.components(X, X.dtype.name) * X.dtype.type(part.whitening)
            out = (out[:, :, None] * values[:, None, :]).reshape(len(X), -1)
        return same_dtype(out, X.dtype.name)
