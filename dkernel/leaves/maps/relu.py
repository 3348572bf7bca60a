"""Random ReLU features: a layer of random neurons, whose kernel is the arc-cosine kernel."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel import kernels
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.features.base import in_tiles
from dkernel.features.dense_maps import PlainMap, same_dtype
from dkernel.features.random.projections import FAST, Projection, draw_projection
from dkernel.kernels import ArcCosine, Gaussian, Kernel

NORMAL = Gaussian(gamma=0.5)  # its spectral law is the standard normal one


class ReluMap(PlainMap):
    """φ(x) = (2 / D)^{1/2} max(0, Wx)^order, W normal, order 0 the step: arc-cosine kernels (Cho and Saul 2009).

    Parameters
    ----------
    kernel : ArcCosine
    projection : W

    Examples
    --------
    >>> phi = ReluMap.draw(ArcCosine(order=1), n_in=3, n_components=64, seed=0)
    >>> phi(np.zeros((1, 3))).max().item()
    0.0
    """

    kind = "relu"
    arguments = ("kernel", "projection")

    def __init__(self, kernel: Kernel, projection: Projection) -> None:
        if not isinstance(kernel, ArcCosine):
            raise UnsupportedError(f"{kernel!r} has no ReLU features; ArcCosine has. Use features='nystrom'.")
        self.kernel, self.order, self.projection = kernel, kernel.order, projection
        self.n_in, self.n_components = projection.p, projection.m

    @classmethod
    def draw(cls, kernel: Kernel, n_in: int, n_components: int, seed: int, sampling: str = "auto") -> "ReluMap":
        """A layer of `n_components` neurons, a function of the seed."""
        if n_components < 1:
            raise RecipeError(f"n_components={n_components}: a layer has at least 1 neuron.")
        return cls(kernel, draw_projection(NORMAL, n_in, n_components, seed, sampling))

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return self.projection.groups(1)

    @property
    def whitening(self) -> float:
        return float(np.sqrt(2.0 / self.n_components))

    def _fire(self, z: NDArray[np.floating]) -> NDArray[np.floating]:
        """Apply the activation, in place."""
        if self.order == 0:
            z[...] = z > 0
            return z
        return np.maximum(z, 0, out=z)

    def rows(self, X: NDArray[Any]) -> Any:
        return self.projection.rows(X)

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        self.projection.fill(rows, first, out[0])
        self._fire(out[0])

    def components(self, X: NDArray[Any], dtype: str = "float64") -> NDArray[np.floating]:
        if dtype == "float32" and self.projection.sampling in FAST:
            return in_tiles(self, X)
        return self._fire(same_dtype(X, dtype) @ self.projection.frequencies.T.astype(dtype))

    def spec(self) -> dict[str, Any]:
        kernel = repr(self.kernel)
        return {"kind": self.kind, "kernel": kernel, "sampling": self.projection.sampling, "n_in": self.n_in}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return self.projection.arrays()

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "ReluMap":
        return cls(kernels.parse(spec["kernel"]), Projection.build(spec["sampling"], spec["n_in"], arrays))
