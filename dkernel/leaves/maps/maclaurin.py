"""Random Maclaurin features: products of random signs for each degree of a power series of ⟨x, z⟩."""

from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import RecipeError, UnsupportedError
from dkernel.features.dense_maps import TiledMap, in_groups
from dkernel.features.power_series import degree_shares, find_power_series
from dkernel.kernels import Kernel
from dkernel.numerics.random_streams import stream


class MaclaurinMap(TiledMap):
    """φ_i(x) = (a_N / (D P_N))^{1/2} Π_{j ≤ N} ⟨ω_ij, x⟩, ω of random signs, N drawn with probability P_N.

    k(x, z) = Σ a_N ⟨x, z⟩^N (Kar and Karnick 2012). Degrees 0 and 1 need no drawing: a_0^{1/2} and a_1^{1/2} x stand
    there as they are ("H0/1"), where there are columns enough for them. The degrees of the others are one systematic
    draw, not D independent ones. The variance grows as |x|^{2N}: rows should be scaled to length 1 or so.

    Parameters
    ----------
    kernel : a polynomial of ⟨x, z⟩
    counts : int64 (degrees,), random columns of each degree
    weights : float64 (degrees,), the factor of each
    signs : bool (Σ N counts_N, p), true for -1
    exact : whether degrees 0 and 1 are exact

    Examples
    --------
    >>> from dkernel import kernels
    >>> phi = MaclaurinMap.draw(kernels.Polynomial(degree=3, c=1.0), n_in=4, n_components=64, seed=0)
    >>> phi(np.ones((1, 4)) / 2).shape
    (1, 64)
    """

    kind = "maclaurin"
    arguments = ("kernel", "counts", "weights", "signs", "exact")

    def __init__(
        self,
        kernel: Kernel,
        counts: NDArray[np.int64],
        weights: NDArray[np.float64],
        signs: NDArray[np.bool_],
        exact: bool,
    ) -> None:
        series = _require_series(kernel)
        self.kernel, self.counts, self.weights, self.signs, self.exact = kernel, counts, weights, signs, exact
        self.n_in = signs.shape[1]
        self.series = series
        # (degree, random or not): degrees 0 and 1 first, then each degree's products.
        parts = [(N, False, self.n_in**N) for N in (0, 1) if exact and len(series) > N and series[N] > 0]
        parts += [(N, True, int(c)) for N, c in enumerate(counts) if c]
        self._starts, at = {}, 0
        for degree, random, width in parts:
            for first, _, w in in_groups(width):
                self._starts[at + first] = (degree, random, first, w)
            at += width
        self.n_components = at

    @classmethod
    def draw(cls, kernel: Kernel, n_in: int, n_components: int, seed: int) -> "MaclaurinMap":
        """A map of at most `n_components` columns, a function of the seed; fewer where the kernel needs no more."""
        series = _require_series(kernel)
        if n_components < 1:
            raise RecipeError(f"n_components={n_components}: a Maclaurin map has at least 1 column.")
        known = sum(n_in**N for N in (0, 1) if len(series) > N and series[N] > 0)
        exact = known < n_components or (known == n_components and not series[2:].any())
        remaining = n_components - known if exact else n_components
        P = degree_shares(series, 2 if exact else 0)
        rng = stream(seed, "maclaurin")
        ends = np.floor(np.cumsum(P) / max(P.sum(), 1e-300) * remaining + rng.random())
        counts = np.diff(ends, prepend=0.0).astype(np.int64)
        if not P.any():
            counts[:] = 0
        weights = np.sqrt(np.divide(series, P * remaining, out=np.zeros_like(series), where=P > 0))
        needed = int((counts * np.arange(len(series))).sum())
        signs = rng.integers(0, 2, (needed, n_in)).astype(bool)
        return cls(kernel, counts, weights, signs, exact)

    @cached_property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        return tuple((first, 1, width) for first, (_, _, _, width) in self._starts.items())

    @cached_property
    def _directions(self) -> dict[int, NDArray[np.float32]]:
        """Signs of each degree N, (N, p, count), as numbers."""
        ends = [0, *accumulate(int(N * c) for N, c in enumerate(self.counts))]
        return {
            N: np.ascontiguousarray(
                (1.0 - 2.0 * self.signs[ends[N] : ends[N + 1]]).astype(np.float32).reshape(N, c, -1).transpose(0, 2, 1)
            )
            for N, c in enumerate(map(int, self.counts))
            if c and N
        }

    def _write(self, X: NDArray[np.floating], first: int, out: NDArray[np.floating]) -> None:
        degree, random, start, width = self._starts[first]
        if not random:
            out[...] = np.sqrt(self.series[degree]) * (X[:, start : start + width] if degree else 1.0)
            return
        out[...] = self.weights[degree]
        for j in range(degree):
            out *= X @ self._directions[degree][j, :, start : start + width].astype(X.dtype, copy=False)


def _require_series(kernel: Kernel) -> NDArray[np.float64]:
    series = find_power_series(kernel)
    if series is None:
        raise UnsupportedError(
            f"{kernel!r} has no Maclaurin features: it is not a power series of the inner product. Use "
            "features='nystrom'."
        )
    return series
