"""Exact maps: all monomials of a polynomial kernel, and the Taylor series of a Gaussian of one feature."""

from functools import cached_property
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError, UnsupportedError
from dkernel.features.dense_maps import TiledMap, WholeMap, in_groups
from dkernel.features.power_series import find_power_series
from dkernel.kernels import Gaussian, Kernel


class MonomialMap(TiledMap):
    """φ(x) = (a_N N! / α!)^{1/2} x^α for every α with |α| = N and a_N > 0: φ(x) . φ(z) = Σ a_N ⟨x, z⟩^N exactly.

    Parameters
    ----------
    kernel : a polynomial of ⟨x, z⟩: Linear, Polynomial, their sums, products and multiples
    n_in : p; there are C(p + d, d) columns for (⟨x, z⟩ + c)^d
    most : degrees above it are left out

    Examples
    --------
    >>> from dkernel import kernels
    >>> phi = MonomialMap(kernels.Polynomial(degree=2, c=1.0), n_in=2)
    >>> phi.n_components, (phi(np.array([[1.0, 2.0]])) ** 2).sum().round(9).item()
    (6, 36.0)
    """

    kind = "monomials"
    arguments = ("kernel", "n_in", "most")

    def __init__(self, kernel: Kernel, n_in: int, most: int | None = None) -> None:
        series = find_power_series(kernel)
        if series is None:
            raise UnsupportedError(
                f"{kernel!r} has no finite number of monomials: it is not a polynomial of the inner product. "
                "Use features='nystrom'."
            )
        self.kernel, self.n_in, self.most, self.series = kernel, n_in, most, series
        self._starts, at = {}, 0
        for degree, a in enumerate(series[: None if most is None else most + 1]):
            if a > 0:
                for first, _, width in in_groups(comb(n_in + degree - 1, degree)):
                    self._starts[at + first] = (degree, first, width)
                at += comb(n_in + degree - 1, degree)
        self.n_components = at

    @staticmethod
    def count(kernel: Kernel, n_in: int) -> int | None:
        """Number of columns that there would be; None where the kernel is no polynomial of ⟨x, z⟩."""
        series = find_power_series(kernel)
        return None if series is None else sum(comb(n_in + N - 1, N) for N, a in enumerate(series) if a > 0)

    @property
    def text(self) -> str:
        return "none" if self.most == 0 else self.kind  # the monomial of degree 0 alone, a constant

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((first, 1, width) for first, (_, _, width) in self._starts.items())

    @cached_property
    def terms(self) -> dict[int, tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Degree, the lowest first -> inputs whose products are monomials, (monomials, degree), and their weights."""
        terms_of = {}
        for degree in dict.fromkeys(degree for degree, _, _ in self._starts.values()):
            terms = list(combinations_with_replacement(range(self.n_in), degree))
            ways = [factorial(degree) / prod(factorial(term.count(j)) for j in set(term)) for term in terms]
            factors = np.array(terms, dtype=np.intp).reshape(len(terms), degree)
            terms_of[degree] = (factors, np.sqrt(self.series[degree] * np.array(ways)))
        return terms_of

    def _write(self, X: NDArray[np.floating], first: int, out: NDArray[np.floating]) -> None:
        degree, start, width = self._starts[first]
        factors, weights = (part[start : start + width] for part in self.terms[degree])
        out[...] = weights
        for j in range(degree):
            out *= X[:, factors[:, j]]


class TaylorMap(WholeMap):
    """φ_N(x) = exp(-γ x²) ((2γ)^N / N!)^{1/2} x^N for N < D: the Gaussian kernel of one column, from exp's own series.

    What is left out is at most the tail of exp(2γxz) after D terms, so D of some 20 are exact in float64 for standard
    columns.

    Parameters
    ----------
    kernel : Gaussian
    n_components : D

    Examples
    --------
    >>> phi = TaylorMap(Gaussian(gamma=0.5), 40)
    >>> x, z = phi(np.array([[1.0], [-0.5]]))
    >>> bool(abs(x @ z - np.exp(-0.5 * 1.5**2)) < 1e-12)
    True
    """

    kind = "taylor"
    arguments = ("kernel", "n_components")

    def __init__(self, kernel: Kernel, n_components: int) -> None:
        if not isinstance(kernel, Gaussian):
            raise UnsupportedError(f"{kernel!r} has no Taylor map; Gaussian has one. Use features='nystrom'.")
        if n_components < 1:
            raise RecipeError(f"n_components={n_components}: a Taylor map has at least 1 component.")
        self.kernel, self.n_in, self.n_components = kernel, 1, n_components

    def _components(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        x = X[:, 0].astype(np.float64)
        gamma = float(self.kernel.gamma)  # type: ignore[attr-defined]
        out = np.empty((self.n_components, len(X)))
        out[0] = np.exp(-gamma * x * x)
        for N in range(1, self.n_components):
            np.multiply(out[N - 1], x * np.sqrt(2.0 * gamma / N), out=out[N])
        return np.ascontiguousarray(out.T, dtype=X.dtype)
