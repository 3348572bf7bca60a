"""Kernels of the distance of two rows: a profile over a metric, and a spectral law.

A new one is a class with its parameters, `_values`, `_law` and, where there is a quick float32 way, `columns`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError
from dkernel.kernels.base import GammaRule, Kernel
from dkernel.kernels.distances import DISTANCE_TOLERANCE, l1, squared_l2
from dkernel.kernels.landmark_columns.base import GaussianColumns, LandmarkColumns, LaplacianColumns
from dkernel.kernels.landmark_columns.wide import WideColumns, distance_columns
from dkernel.kernels.parameters import number_or_word, per_column, positive
from dkernel.kernels.spectra import laws
from dkernel.numerics.array_types import F64
from dkernel.numerics.fused.shapes import LOG2_E

__all__ = ["Gaussian", "Laplacian"]


class Stationary(Kernel):
    """A function of x - z with k(x, x) = 1, whose width may be a word until a fit has seen the data.

    The words are "auto", "median" and "scale"; `metric` says which distance their rule measures, "l2" or "l1".
    """

    metric: ClassVar[str] = "l2"
    width: ClassVar[str] = "gamma"
    """Name of the field that holds the width."""
    shift_invariant = True

    def __post_init__(self) -> None:
        object.__setattr__(self, self.width, number_or_word(type(self).__name__, self.width, self._given_width))

    @property
    def _given_width(self) -> Any:
        return getattr(self, self.width)

    @property
    def placeholders(self) -> tuple[str, ...]:
        return (self._given_width,) if isinstance(self._given_width, str) else ()

    def bind(self, rule: GammaRule) -> Kernel:
        """The kernel with its number: that of the gamma that rule(metric, word) says where the width is a word."""
        if not self.placeholders:
            return self
        gamma = positive(type(self).__name__, "gamma", rule(self.metric, self._given_width))
        return replace(self, **{self.width: self._of_gamma(gamma)})  # type: ignore[type-var]

    def _of_gamma(self, gamma: float) -> float:
        """The width that a gamma of a Gaussian stands for."""
        return gamma

    @property
    def _number(self) -> float:
        self._require_ready()
        return float(self._given_width)

    def _diag(self, X: F64) -> F64:
        return np.ones(len(X))


@dataclass(frozen=True)
class Gaussian(Stationary):
    """Gaussian kernel k(x, z) = exp(-γ‖x - z‖²), or exp(-Σ_j γ_j (x_j - z_j)²).

    Parameters
    ----------
    gamma : float, str or sequence of float, default="auto"
        Inverse width γ, positive, for all features or for each; or a word that a fit replaces by a number.
    sigma : float or sequence of float
        Another way to give gamma: γ = 1 / (2 sigma²).

    See Also
    --------
    Laplacian : Kernel of the L1 distance.
    Matern : Kernels of less smooth functions.

    Examples
    --------
    >>> Gaussian(sigma=2.0)
    Gaussian(gamma=0.125)
    >>> Gaussian(gamma=0.5)(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(6)
    array([[0.367879]])
    >>> Gaussian(gamma=[1.0, 2.0])
    Gaussian(gamma=(1.0, 2.0))
    """

    gamma: float | str | tuple[float, ...] = "auto"
    sigma: InitVar[float | Sequence[float] | None] = field(default=None, kw_only=True)

    def __post_init__(self, sigma: float | Sequence[float] | None) -> None:
        if sigma is not None:
            if not isinstance(self.gamma, str) or self.gamma != "auto":
                raise RecipeError(f"Gaussian was given gamma={self.gamma!r} and sigma={sigma!r}; give one of them.")
            # Divided by sigma twice: its square may underflow.
            object.__setattr__(self, "gamma", per_column("Gaussian", "sigma", sigma, lambda s: 0.5 / s / s))
        if isinstance(self.gamma, str):
            super().__post_init__()
        else:
            object.__setattr__(self, "gamma", per_column("Gaussian", "gamma", self.gamma))

    @property
    def takes_sparse(self) -> bool:
        return not isinstance(self.gamma, tuple)

    @property
    def is_product(self) -> bool:
        return not isinstance(self.gamma, tuple)

    def _factors(self, p: int) -> F64 | None:
        """√γ_j of each of p columns, or None where there is one gamma for all."""
        if not isinstance(self.gamma, tuple):
            return None
        if len(self.gamma) != p:
            raise DataError(
                f"Gaussian has a gamma for each of {len(self.gamma)} columns and was given {p}; give one number for "
                "all, or as many as there are columns."
            )
        return np.sqrt(self.gamma)

    def _values(self, X: F64, Z: F64) -> F64:
        factors = self._factors(X.shape[1])
        if factors is None:
            gamma = self._number
            values = squared_l2(X, Z, DISTANCE_TOLERANCE / gamma)
            values *= -gamma
        else:
            center = Z.mean(axis=0)  # before the factors: an offset times a factor would be rounded
            scaled = (X - center) * factors
            values = squared_l2(scaled, scaled if X is Z else (Z - center) * factors, DISTANCE_TOLERANCE)
            np.negative(values, out=values)
        return np.exp(values, out=values)

    def _law(self, p: int) -> laws.Law:
        factors = self._factors(p)
        return laws.NormalLaw(p, math.sqrt(2) * (math.sqrt(self._number) if factors is None else factors))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        Z = self._landmarks(Z)
        factors = self._factors(Z.shape[1])
        return GaussianColumns(Z, self._number if factors is None else factors**2)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        factors = self._factors(Z.shape[1])
        return distance_columns(
            "gaussian", Z, math.sqrt(LOG2_E) * (math.sqrt(self._number) if factors is None else factors)
        )


@dataclass(frozen=True)
class Laplacian(Stationary):
    """Laplacian kernel k(x, z) = exp(-γ‖x - z‖₁) of the L1 distance.

    Its frequencies are Cauchy of scale γ.

    Parameters
    ----------
    gamma : float or str
        Inverse width γ, positive, or a word that a fit replaces by a number.

    See Also
    --------
    Exponential : The same function of the Euclidean distance.
    BinningFeatures : Sparse features of this kernel.

    Examples
    --------
    >>> Laplacian(gamma=0.5)(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(6)
    array([[0.367879]])
    """

    metric: ClassVar[str] = "l1"

    gamma: float | str = "auto"
    is_product = True

    def _values(self, X: F64, Z: F64) -> F64:
        values = l1(X, Z)
        values *= -self._number
        return np.exp(values, out=values)

    def _law(self, p: int) -> laws.Law:
        return laws.IndependentLaw(p, laws.cauchy_quantile(self._number))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return LaplacianColumns(self._landmarks(Z), self._number)
