"""Kernels of the Euclidean distance and a length: Matern's family, the rational quadratic one, Cauchy's two.

Their `length` may be a word until a fit has seen the data. A rule answers with the gamma of a Gaussian kernel; the
length is the sigma of that kernel, sqrt(1 / (2 gamma)): for "median", the median distance itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from dkernel.errors import RecipeError
from dkernel.kernels.distances import DISTANCE_TOLERANCE, l2, squared_l2
from dkernel.kernels.landmark_columns.base import LandmarkColumns
from dkernel.kernels.landmark_columns.radial import (
    CauchyProductColumns,
    DecayColumns,
    RationalColumns,
    TabulatedColumns,
)
from dkernel.kernels.landmark_columns.wide import WideColumns, distance_columns
from dkernel.kernels.parameters import positive
from dkernel.kernels.spectra import laws, mixtures
from dkernel.kernels.stationary import Stationary
from dkernel.numerics.array_types import F64
from dkernel.numerics.fused.shapes import LOG2_E

__all__ = ["Cauchy", "Exponential", "Matern", "ProductCauchy", "RationalQuadratic"]

LARGEST_NU = 50.0  # beyond it the kernel is Gaussian for all purposes


class LengthKernel(Stationary):
    """A function of x - z over a length. Each class has the length as the last of its fields."""

    width: ClassVar[str] = "length"
    length: float | str
    takes_sparse = True  # as all functions of the Euclidean distance

    def _of_gamma(self, gamma: float) -> float:
        return math.sqrt(0.5 / gamma)

    def _square(self, X: F64, Z: F64) -> F64:
        """‖x - z‖² / length² of every pair."""
        length = self._number
        squared = squared_l2(X, Z, DISTANCE_TOLERANCE * length * length)
        squared /= length
        squared /= length  # one after the other: length² may underflow
        return squared

    def _distance(self, X: F64, Z: F64) -> F64:
        """‖x - z‖ / length of every pair, exact also where it is small."""
        length = self._number
        distance = l2(X, Z, length, DISTANCE_TOLERANCE)
        distance /= length
        return distance


@dataclass(frozen=True)
class Matern(LengthKernel):
    """Matérn kernel k(x, z) = 2^(1-ν) / Γ(ν) · a^ν K_ν(a), a = √(2ν) ‖x - z‖ / length.

    For ν = 1/2, 3/2, 5/2 it is exp(-a), (1 + a) exp(-a), (1 + a + a²/3) exp(-a); for ν → ∞ it is
    Gaussian(sigma=length). The functions of its space have ν derivatives. Its frequencies are multivariate t with 2ν
    degrees of freedom.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness ν, 0 < ν <= 50.
    length : float or str, default="auto"
        Length scale, positive, or a word that a fit replaces by a number.

    See Also
    --------
    Exponential : The kernel of ν = 1/2.
    Gaussian : The limit of large ν.

    References
    ----------
    C. E. Rasmussen and C. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006, equation 4.14.

    Examples
    --------
    >>> Matern(nu=0.5, length=2.0)(np.array([[0.0]]), np.array([[2.0]])).round(6)
    array([[0.367879]])
    """

    nu: float = 1.5
    length: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "nu", positive("Matern", "nu", self.nu))
        if self.nu > LARGEST_NU:
            raise RecipeError(
                f"Matern was given nu={self.nu!r}; at most {LARGEST_NU:g} is needed: beyond that it is "
                "Gaussian(sigma=length) to all digits."
            )

    def _values(self, X: F64, Z: F64) -> F64:
        # Below 3/2 the profile is not smooth enough at 0 to forgive a rounded square.
        a = self._distance(X, Z) if self.nu < 1.5 else np.sqrt(self._square(X, Z))
        a *= math.sqrt(2 * self.nu)
        decay = np.exp(-a)
        if self.nu == 0.5:
            return decay
        if self.nu == 1.5:
            return np.multiply(decay, 1 + a, out=decay)
        if self.nu == 2.5:
            return np.multiply(decay, 1 + a + a * a / 3, out=decay)
        return _bessel(self.nu, a)

    def _law(self, p: int) -> laws.Law:
        return mixtures.MixtureLaw(p, mixtures.inverse_gamma_root(self.nu, self._number))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        """Closed forms for ν = 1/2, 3/2, 5/2, else a table; below 3/4 the float64 values, rounded."""
        slope = math.sqrt(2 * self.nu)
        polynomial = {0.5: (0.0, 0.0), 1.5: (1.0, 0.0), 2.5: (1.0, 1 / 3)}.get(self.nu)
        if polynomial is not None:
            return DecayColumns(self._landmarks(Z), self._number, slope, *polynomial, sharp=self.nu == 0.5)
        if self.nu < 0.75:  # steeper at 0 than a table can be
            return super().columns(Z)
        profile = partial(_bessel, self.nu)
        return TabulatedColumns(self._landmarks(Z), self._number, slope, profile, sharp=self.nu < 1.5)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        function = {0.5: "exponential", 1.5: "matern3", 2.5: "matern5"}.get(self.nu, "none")
        return distance_columns(function, Z, math.sqrt(2 * self.nu) * LOG2_E / self._number)


@dataclass(frozen=True)
class Exponential(Matern):
    """Exponential kernel k(x, z) = exp(-‖x - z‖ / length) of the Euclidean distance.

    It is Matern with ν = 1/2. Its frequencies are z / (length |g|), z and g normal: multivariate Cauchy.

    Parameters
    ----------
    length : float or str, default="auto"
        Length scale, positive, or a word that a fit replaces by a number.

    See Also
    --------
    Laplacian : The same function of the L1 distance.
    Matern : The family that it belongs to.

    Examples
    --------
    >>> Exponential(length=5.0)(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])).round(6)
    array([[0.367879]])
    """

    nu: ClassVar[float] = 0.5  # type: ignore[misc]
    length: float | str = "auto"


def _bessel(nu: float, a: F64) -> F64:
    """2^(1-ν) / Γ(ν) · a^ν K_ν(a), with logarithms: a^ν and K_ν leave the floats at both ends."""
    # Beyond 1e4 the kernel is 0 in float64 for all ν, and K_ν soon has no value
    inside = np.clip(a, np.finfo(np.float64).tiny, 1e4)
    bessel = scipy.special.kve(nu, inside)
    with np.errstate(divide="ignore"):
        logs = np.log(bessel) - inside + nu * np.log(inside) + ((1 - nu) * math.log(2) - scipy.special.gammaln(nu))
    values = np.exp(np.minimum(logs, 0.0))
    # Where K_ν overflows a is so small that the first term of the series is all there is.
    near = ~np.isfinite(bessel)
    if near.any():
        values[near] = 1 - a[near] ** 2 / (4 * (nu - 1)) if nu > 1 else 1.0
    values[a == 0] = 1
    return values


@dataclass(frozen=True)
class RationalQuadratic(LengthKernel):
    """Rational quadratic kernel k(x, z) = (1 + ‖x - z‖² / (2 alpha length²))^-alpha.

    It is a mixture of Gaussians of all lengths. Its frequencies are √τ z, z normal, τ ~ Gamma(shape alpha, rate alpha
    length²).

    Parameters
    ----------
    alpha : float, default=1.0
        Shape of the mixture, positive.
    length : float or str, default="auto"
        Length scale, positive, or a word that a fit replaces by a number.

    See Also
    --------
    Cauchy : The kernel of alpha = 1.
    Gaussian : The limit of large alpha.

    Examples
    --------
    >>> RationalQuadratic(alpha=2.0, length=1.0)(np.array([[0.0]]), np.array([[2.0]]))
    array([[0.25]])
    """

    alpha: float = 1.0
    length: float | str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "alpha", positive("RationalQuadratic", "alpha", self.alpha))

    def _values(self, X: F64, Z: F64) -> F64:
        values = self._square(X, Z)
        values /= 2 * self.alpha
        np.log1p(values, out=values)
        values *= -self.alpha
        return np.exp(values, out=values)

    def _law(self, p: int) -> laws.Law:
        return mixtures.MixtureLaw(p, mixtures.gamma_root(self.alpha, self.alpha * self._number**2))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return RationalColumns(self._landmarks(Z), self._number * math.sqrt(2 * self.alpha), self.alpha)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        return distance_columns(f"rational {self.alpha:g}", Z, 1 / (self._number * math.sqrt(2 * self.alpha)))


@dataclass(frozen=True)
class Cauchy(LengthKernel):
    """Cauchy kernel k(x, z) = 1 / (1 + ‖x - z‖² / length²).

    It is RationalQuadratic with alpha = 1 and length / √2.

    Parameters
    ----------
    length : float or str, default="auto"
        Length scale, positive, or a word that a fit replaces by a number.

    See Also
    --------
    ProductCauchy : Product of Cauchy kernels of single features.
    RationalQuadratic : The family that it belongs to.

    Examples
    --------
    >>> Cauchy(length=2.0)(np.array([[0.0]]), np.array([[2.0]]))
    array([[0.5]])
    """

    length: float | str = "auto"

    def _values(self, X: F64, Z: F64) -> F64:
        values = self._square(X, Z)
        values += 1
        return np.reciprocal(values, out=values)

    def _law(self, p: int) -> laws.Law:
        return mixtures.MixtureLaw(p, mixtures.gamma_root(1.0, 0.5 * self._number**2))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return RationalColumns(self._landmarks(Z), self._number, 1.0)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        return distance_columns("rational 1", Z, 1 / self._number)


@dataclass(frozen=True)
class ProductCauchy(LengthKernel):
    """Product Cauchy kernel k(x, z) = Π_j 1 / (1 + (x_j - z_j)² / length²).

    Its frequencies are Laplace of scale 1 / length in each coordinate.

    Parameters
    ----------
    length : float or str, default="auto"
        Length scale, positive, or a word that a fit replaces by a number.

    See Also
    --------
    Cauchy : The radial Cauchy kernel.

    Examples
    --------
    >>> ProductCauchy(length=2.0)(np.array([[0.0, 0.0]]), np.array([[2.0, 2.0]]))
    array([[0.25]])
    """

    length: float | str = "auto"
    takes_sparse = False  # the kernel looks at one column after the other
    is_product = True

    def _values(self, X: F64, Z: F64) -> F64:
        length = self._number
        values = np.ones((len(X), len(Z)))
        for x, z in zip(X.T, Z.T, strict=True):
            ratio = np.subtract.outer(x, z)
            ratio /= length
            ratio *= ratio
            ratio += 1
            values /= ratio
        return values

    def _law(self, p: int) -> laws.Law:
        return laws.IndependentLaw(p, mixtures.laplace_quantile(1 / self._number))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return CauchyProductColumns(self._landmarks(Z), self._number)
