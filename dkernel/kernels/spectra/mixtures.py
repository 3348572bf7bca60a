"""Spectral laws that are normal, but for a random or a different scale: ω = √τ z, scaled columns, columns of a part."""

from collections.abc import Callable, Sequence

import numpy as np
import scipy

from dkernel.kernels.spectra.laws import EDGE, Law, NormalLaw
from dkernel.numerics.array_types import F64

# A frequency longer than this many reciprocal lengths spends all digits of a float32 phase (as CAUCHY_EDGE has it).
LONGEST = 1e6


class MixtureLaw(Law):
    """ω = √τ z with z ~ N(0, I) in p coordinates and √τ independent of it: any radial law that is a mixture of normals.

    Parameters
    ----------
    p : number of coordinates
    root : the quantile function of √τ

    Examples
    --------
    >>> MixtureLaw(3, gamma_root(1.0, 2.0)).iid(5, np.random.default_rng(0)).shape
    (5, 3)
    """

    def __init__(self, p: int, root: Callable[[F64], F64]) -> None:
        self.dims = p + 1
        self._normal = NormalLaw(p, 1.0)
        self._root = root

    def from_uniforms(self, U: F64) -> F64:
        return self._normal.from_uniforms(U[:, :-1]) * self._root(U[:, -1:])

    def iid(self, m: int, rng: np.random.Generator) -> F64:
        return self._normal.iid(m, rng) * self.roots(m, rng)

    def coordinate(self, m: int, rng: np.random.Generator) -> F64:
        return self._normal.coordinate(m, rng)

    def shared(self, m: int, rng: np.random.Generator) -> F64:
        return self.roots(m, rng)[:, 0]

    def orthogonal(self, m: int, rng: np.random.Generator) -> F64:
        """Blocks of orthogonal directions, each frequency with a length of its own."""
        return self._normal.orthogonal(m, rng) * self.roots(m, rng)

    def roots(self, m: int, rng: np.random.Generator) -> F64:
        """m independent draws of √τ, (m, 1)."""
        return self._root(np.clip(rng.random((m, 1)), EDGE, 1 - EDGE))


def gamma_root(shape: float, rate: float) -> Callable[[F64], F64]:
    """The quantile function of √τ, τ ~ Gamma(shape, rate).

    Examples
    --------
    >>> float(gamma_root(1.0, 2.0)(np.array(1 - np.exp(-2.0))).round(6))
    1.0
    """
    return lambda u: np.sqrt(scipy.special.gammaincinv(shape, u) / rate)


def inverse_gamma_root(nu: float, length: float) -> Callable[[F64], F64]:
    """The quantile function of √(2ν / χ²) / length, χ² of 2ν degrees of freedom, cut off at LONGEST / length.

    Examples
    --------
    >>> float(inverse_gamma_root(1.0, 1.0)(np.array(np.exp(-1.0))).round(6))
    1.0
    """

    def quantile(u: F64) -> F64:
        # χ² / 2ν = g / ν with g ~ Gamma(ν, 1), and what is large here is small there.
        mean = scipy.special.gammaincinv(nu, 1 - u) / nu
        return 1 / (np.sqrt(np.maximum(mean, LONGEST**-2)) * length)

    return quantile


def laplace_quantile(scale: float) -> Callable[[F64], F64]:
    """The quantile function of the Laplace distribution of that scale around 0.

    Examples
    --------
    >>> float(laplace_quantile(2.0)(np.array(1 - 0.5 * np.exp(-1.0))).round(6))
    2.0
    """
    return lambda u: -scale * np.sign(u - 0.5) * np.log1p(-2 * np.abs(u - 0.5))


class PartLaw(Law):
    """The law of a kernel of some of p columns: its frequencies there, and zeros in the others.

    Examples
    --------
    >>> PartLaw(4, [1, 3], NormalLaw(2, 1.0)).iid(1, np.random.default_rng(0))[0, [0, 2]].tolist()
    [0.0, 0.0]
    """

    def __init__(self, p: int, columns: Sequence[int], part: Law) -> None:
        self.dims = part.dims
        self._p, self._columns, self._part = p, list(columns), part

    def from_uniforms(self, U: F64) -> F64:
        return self._among_zeros(self._part.from_uniforms(U))

    def iid(self, m: int, rng: np.random.Generator) -> F64:
        return self._among_zeros(self._part.iid(m, rng))

    def orthogonal(self, m: int, rng: np.random.Generator) -> F64:
        return self._among_zeros(self._part.orthogonal(m, rng))

    def _among_zeros(self, frequencies: F64) -> F64:
        wide = np.zeros((len(frequencies), self._p))
        wide[:, self._columns] = frequencies
        return wide
