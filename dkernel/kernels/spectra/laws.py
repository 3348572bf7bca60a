"""Draws from the spectral law of a shift-invariant kernel: the frequencies ω with k(x - z) = E cos⟨ω, x - z⟩.

Three ways to draw, all unbiased: "iid"; "orthogonal", blocks of p orthogonal directions with independent lengths (Yu et
al. 2016); "sobol", a scrambled low-discrepancy sequence through the inverse distribution functions (Avron, Sindhwani,
Yang and Mahoney 2016).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import scipy

from dkernel.errors import RecipeError, UnsupportedError
from dkernel.numerics.array_types import F64
from dkernel.numerics.validation import nearest_name

SAMPLINGS = ("iid", "orthogonal", "sobol")
SOBOL_MAX_DIMS = 21201  # dimensions in SciPy's table of directions
# A uniform number nearer to 0 or 1 than this would become an infinite or useless frequency.
EDGE = 1e-7
# A Cauchy frequency beyond its 1e-6 tail spends all digits of a float32 phase; the bias this costs is below 2e-6 p.
CAUCHY_EDGE = 5e-7
# scipy 1.15 renamed the keyword; both take a Generator.
_GENERATOR_KEYWORD = "rng" if tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 15) else "seed"


class Law(ABC):
    """Distribution of a frequency vector of p coordinates; a draw of m is a matrix (m, p) with a frequency a row."""

    dims: int  # how many uniform numbers make one frequency

    @abstractmethod
    def from_uniforms(self, U: F64) -> F64:
        """Frequencies (m, p) out of uniform numbers (m, dims) strictly between 0 and 1."""

    def iid(self, m: int, rng: np.random.Generator) -> F64:
        """Independent frequencies."""
        return self.from_uniforms(np.clip(rng.random((m, self.dims)), EDGE, 1 - EDGE))

    def coordinate(self, m: int, rng: np.random.Generator) -> F64:  # noqa: ARG002
        """One coordinate of m independent frequencies, (m,), but for the factors that `shared` draws."""
        raise UnsupportedError(
            "Frequencies of sparse rows are drawn one column at a time, and the spectral law of this kernel has none "
            "that are drawn alone. Use features='nystrom'."
        )

    def shared(self, m: int, rng: np.random.Generator) -> F64:  # noqa: ARG002
        """The factors of m frequencies that all their coordinates have, (m,)."""
        return np.ones(m)

    def orthogonal(self, m: int, rng: np.random.Generator) -> F64:  # noqa: ARG002
        """Frequencies in blocks of orthogonal directions: for laws that are the same in every direction."""
        raise UnsupportedError(
            "sampling='orthogonal' needs a kernel of the Euclidean distance: the spectral law of this one is not the "
            "same in every direction. Use sampling='sobol' or sampling='iid'."
        )


class NormalLaw(Law):
    """ω ~ N(0, scale² I) in p coordinates, or N(0, diag(scale²)) with a scale for each.

    Examples
    --------
    >>> NormalLaw(3, 2.0).iid(5, np.random.default_rng(0)).shape
    (5, 3)
    """

    def __init__(self, p: int, scale: float | F64) -> None:
        self.dims = p
        self._scale = scale

    def from_uniforms(self, U: F64) -> F64:
        return scipy.special.ndtri(U) * self._scale

    def iid(self, m: int, rng: np.random.Generator) -> F64:
        """The generator's own normal numbers: quicker than the inverse, and with nothing cut off."""
        return rng.standard_normal((m, self.dims)) * self._scale

    def coordinate(self, m: int, rng: np.random.Generator) -> F64:
        """Normal numbers, where all columns have one scale."""
        if np.ndim(self._scale):
            return super().coordinate(m, rng)
        return rng.standard_normal(m) * self._scale

    def orthogonal(self, m: int, rng: np.random.Generator) -> F64:
        """ω = scale · χ_p · direction, the directions of p consecutive rows orthogonal, each uniform on the sphere."""
        p = self.dims
        frequencies = np.empty((m, p))
        for first in range(0, m, p):
            Q, R = np.linalg.qr(rng.standard_normal((p, p)))
            # Without the signs Q would follow LAPACK's convention, not the uniform law on rotations.
            Q *= np.sign(np.diag(R))
            lengths = np.sqrt(rng.chisquare(p, size=p))
            frequencies[first : first + p] = (lengths[:, None] * Q)[: m - first]
        return frequencies * self._scale


class IndependentLaw(Law):
    """p independent coordinates, each with the same quantile function of a uniform number."""

    def __init__(self, p: int, quantile: Callable[[F64], F64]) -> None:
        self.dims = p
        self._quantile = quantile

    def from_uniforms(self, U: F64) -> F64:
        return self._quantile(U)

    def coordinate(self, m: int, rng: np.random.Generator) -> F64:
        return self._quantile(np.clip(rng.random(m), EDGE, 1 - EDGE))


def cauchy_quantile(scale: float) -> Callable[[F64], F64]:
    """The quantile function scale · tan(π(u - ½)), cut off at the tails of probability 1e-6.

    Examples
    --------
    >>> float(cauchy_quantile(2.0)(np.array(0.75)).round(6))
    2.0
    """
    return lambda u: scale * np.tan(np.pi * (np.clip(u, CAUCHY_EDGE, 1 - CAUCHY_EDGE) - 0.5))


class SumLaw(Law):
    """The law of a product of kernels: the sum of independent frequencies, one of each factor."""

    def __init__(self, parts: Sequence[Law]) -> None:
        # All uniform numbers side by side, as one Sobol sequence: two of them would not be independent of each other.
        self.dims = sum(part.dims for part in parts)
        self._parts = tuple(parts)

    def from_uniforms(self, U: F64) -> F64:
        pieces = np.split(U, np.cumsum([part.dims for part in self._parts])[:-1], axis=1)
        return np.sum([part.from_uniforms(u) for part, u in zip(self._parts, pieces, strict=True)], axis=0)

    def iid(self, m: int, rng: np.random.Generator) -> F64:
        return np.sum([part.iid(m, rng) for part in self._parts], axis=0)

    def orthogonal(self, m: int, rng: np.random.Generator) -> F64:
        return np.sum([part.orthogonal(m, rng) for part in self._parts], axis=0)


def _sobol(dims: int, m: int, rng: np.random.Generator) -> F64:
    """The first m points of a scrambled Sobol sequence, (m, dims), off the edges; a power of two is drawn."""
    if dims > SOBOL_MAX_DIMS:
        raise UnsupportedError(
            f"sampling='sobol' has at most {SOBOL_MAX_DIMS} dimensions and {dims} are needed. Use sampling='iid'."
        )
    from scipy.stats import qmc  # half a second, which every worker would pay on import

    # scipy spawns children of the generator it is given, which one keyed by seeds.stream cannot have.
    parent = np.random.default_rng(rng.integers(2**63, size=2))
    points = qmc.Sobol(dims, scramble=True, **{_GENERATOR_KEYWORD: parent}).random_base2((m - 1).bit_length())
    return np.clip(points[:m], EDGE, 1 - EDGE)


def draw(law: Law, m: int, rng: np.random.Generator, sampling: str = "iid") -> F64:
    """m frequencies, (m, p), from the law in the way named.

    Examples
    --------
    >>> W = draw(NormalLaw(4, 1.0), 4, np.random.default_rng(0), "orthogonal")
    >>> bool(abs(W[0] @ W[1]) < 1e-12)
    True
    """
    if sampling not in SAMPLINGS:
        raise RecipeError(
            f"Frequencies were asked for with sampling={sampling!r}; one of {', '.join(map(repr, SAMPLINGS))} is "
            f"needed.{nearest_name(str(sampling), SAMPLINGS)}"
        )
    if m < 1:
        raise RecipeError(f"{m} frequencies were asked for; at least one is needed.")
    if sampling == "iid":
        return law.iid(m, rng)
    if sampling == "orthogonal":
        return law.orthogonal(m, rng)
    return law.from_uniforms(_sobol(law.dims, m, rng))
