"""Choice of a kernel's map: by the word that was asked for, the kernel's parts, p and the number of components."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dkernel.errors import RecipeError, UnsupportedError
from dkernel.features.base import FeatureMap, rare_map
from dkernel.features.closures import ImageMap, ProductMap, WeightedMap
from dkernel.features.column_subset import SelectedMap
from dkernel.features.concatenation import StackedMap
from dkernel.features.monomials import MonomialMap, TaylorMap
from dkernel.features.power_series import degree_shares, find_power_series
from dkernel.features.random.fourier import FourierMap
from dkernel.kernels import (
    AdditiveChi2,
    ArcCosine,
    Gaussian,
    Kernel,
    Linear,
    Normalized,
    Polynomial,
    Product,
    Scaled,
    Selection,
    Sum,
    Weighted,
)
from dkernel.numerics.random_streams import stream
from dkernel.numerics.validation import nearest_name

FEATURES = {
    "auto": "exact for polynomials of no more monomials, else nystrom up to 20,000 components, above it random",
    "nystrom": "the kernel's columns at landmarks; for every kernel",
    "random": "the random map that suits each part of the kernel, exact ones where they are small",
    "exact": "all monomials of a polynomial, or the Taylor series of a Gaussian in one column; products and weights",
    "fourier": "cosines and sines at random frequencies; kernels of x - z",
    "maclaurin": "products of random signs; polynomials",
    "tensorsketch": "count sketches, convolved; polynomials, and products of kernels",
    "none": "a constant, so that a local stage learns all there is",
}
"""Meanings of the words for the features."""


def by_landmarks(features: str, auto: bool = False) -> bool:
    """True if this word of FEATURES asks for landmarks; with `auto` if it allows them."""
    return features == "nystrom" or (auto and features == "auto")


def is_complete(features: str) -> bool:
    """True if this word of FEATURES asks for all components of a kernel, of which none is random."""
    return features in ("exact", "none")


MOST_LANDMARKS = 20_000  # above it their Gram matrix and its factor cost more than what they are better
TRIAL = 64  # columns that tell whether a kernel has a map
_ANY = "Use features='nystrom', which any kernel can have"


def resolve_features(
    kernel: Kernel, n_in: int, n_components: int, features: str = "auto", sampling: str = "iid"
) -> str:
    """The word that "auto" stands for here, or the word itself; refuses a kernel that has no such map.

    Parameters
    ----------
    kernel : its numbers may still be words

    Examples
    --------
    >>> [resolve_features(kernel, 10, 1000) for kernel in (Gaussian(), Polynomial(degree=2), Polynomial(degree=9))]
    ['nystrom', 'exact', 'nystrom']
    >>> resolve_features(Gaussian(), 10, 50_000)
    'random'
    """
    if features not in FEATURES:
        hint = nearest_name(str(features), tuple(FEATURES))
        raise RecipeError(f"features={features!r} is not valid.{hint}")
    if features == "auto" and _is_small_polynomial(kernel, n_in, n_components):
        return "exact"
    if features == "nystrom" or (features == "auto" and n_components <= MOST_LANDMARKS):
        return "nystrom"
    if features == "auto":
        return "random" if Drawing("random", n_in, sampling).suits(kernel) else "nystrom"
    trial = min(n_components, TRIAL) if features != "exact" else n_components
    Drawing(features, n_in, sampling).map(
        kernel.bind(lambda *_: 1.0), trial + trial % 2
    )  # refuses what has no such map
    return features


def _is_small_polynomial(kernel: Kernel, n_in: int, n_components: int) -> bool:
    """True if the monomials of the kernel are no more than the components: they are the kernel itself, and cheaper."""
    try:
        return isinstance(Drawing("exact", n_in, "iid").map(kernel.bind(lambda *_: 1.0), n_components), MonomialMap)
    except (RecipeError, UnsupportedError, OverflowError):  # the degree may be beyond every float
        return False


def features_of_sparse(kernel: Kernel, n_components: int, features: str = "auto") -> str:
    """The word for sparse rows: "nystrom" or "fourier"; all else is refused.

    Parameters
    ----------
    kernel : its numbers may still be words: then it is evaluated to choose them

    Examples
    --------
    >>> features_of_sparse(Gaussian(), 1000), features_of_sparse(Gaussian(gamma=0.5), 50_000)
    ('nystrom', 'fourier')
    """
    drawn = features in ("random", "fourier") or (features == "auto" and n_components > MOST_LANDMARKS)
    if features not in ("auto", "nystrom", "random", "fourier"):
        raise UnsupportedError(f"features={features!r} would make sparse rows dense. Use 'nystrom' or 'fourier'.")
    if not drawn or (features == "auto" and not kernel.shift_invariant):
        kernel.require_sparse()
        return "nystrom"
    if kernel.placeholders:
        kernel.require_sparse()
    kernel.bind(lambda *_: 1.0).law(1).coordinate(1, stream(0, "law"))  # refuses what has no such law
    return "fourier"


def choose_map(
    kernel: Kernel,
    n_in: int,
    n_components: int,
    features: str = "auto",
    sampling: str = "auto",
    form: str = "pairs",
    seed: int = 0,
) -> FeatureMap | Literal["nystrom"]:
    """The map of at most `n_components` columns, a function of the seed; or "nystrom", which wants landmarks.

    Sums of kernels have their maps side by side, multiples the root of the number before them; a product has one
    Fourier map for its factors with a spectral law, and a tensor sketch of that with the others.

    Parameters
    ----------
    kernel : with numbers
    features : one of FEATURES
    sampling, form : of frequencies; an odd number of columns is one more where a map of pairs needs it

    Examples
    --------
    >>> choose_map(Gaussian(gamma=0.5), 3, 64, "random").kind
    'fourier'
    >>> choose_map(Polynomial(degree=2), 3, 64, "random").kind
    'monomials'
    >>> choose_map(Gaussian(gamma=0.5), 3, 64)
    'nystrom'
    """
    word = resolve_features(kernel, n_in, n_components, features)
    if word == "nystrom":
        return "nystrom"
    return Drawing(word, n_in, sampling, seed, form=form).map(kernel, n_components)


@dataclass(frozen=True)
class Drawing:
    """Settings by which a map is drawn: all but the kernel and the number of columns.

    Parameters
    ----------
    features : one of FEATURES that is drawn, or "exact"; never "auto" or "nystrom"
    sparse : whether its rows are sparse, of which there are Fourier features alone
    form : of frequencies

    Examples
    --------
    >>> Drawing("fourier", 3).map(Gaussian(gamma=0.5), 64).n_components
    64
    >>> Drawing("fourier", 3).suits(Gaussian()), Drawing("fourier", 3).suits(Polynomial())
    (True, False)
    """

    features: str
    n_in: int
    sampling: str = "auto"
    seed: int = 0
    sparse: bool = False
    form: str = "pairs"

    def suits(self, kernel: Kernel) -> bool:
        """True if a kernel, whose numbers may still be words, has such a map."""
        try:
            self.map(kernel.bind(lambda *_: 1.0), TRIAL)
        except UnsupportedError:
            return False
        return True

    def map(self, kernel: Kernel, n_components: int) -> FeatureMap:
        """The map of a kernel with numbers, of at most so many columns."""
        n = n_components
        if self.sparse:
            n += n % 2  # pairs of sine and cosine
            return FourierMap.draw(kernel, self.n_in, n, self.seed, self.sampling, sparse=True)
        if isinstance(kernel, Scaled):
            return StackedMap(kernel, [self.map(kernel.kernel, n)], [kernel.weight])
        if isinstance(kernel, Selection):
            places = list(kernel.at or ())
            inner = replace(self, n_in=len(places)).map(kernel.kernel, n)
            return SelectedMap(kernel, inner, places, self.n_in)
        if isinstance(kernel, Weighted | Normalized) and self.features != "none":
            return WeightedMap(kernel, self.map(kernel.kernel, n))
        makers: dict[str, Callable[[Kernel, int], FeatureMap]] = {
            "random": self._random,
            "exact": self._exact,
            "fourier": self._fourier,
            "maclaurin": self._maclaurin,
            "tensorsketch": self._sketch,
            "none": self._constant,
        }
        # A sum that is one power series needs no more than one map, where that is a map of power series.
        if isinstance(kernel, Sum) and (self.features in ("random", "fourier") or find_power_series(kernel) is None):
            return self._sum(kernel, n)
        return makers[self.features](kernel, n)

    def _part(self, i: int) -> "Drawing":
        """Take another seed for part i: the maps of the parts of a kernel are independent."""
        return replace(self, seed=int(stream(self.seed, "part", i).integers(2**63)))

    def _sum(self, kernel: Sum, n: int) -> FeatureMap:
        """Maps side by side; a map that needs few columns takes no more, and the others share the rest."""
        members = list(enumerate(kernel.members))
        if n < 2 * len(members):
            raise RecipeError(
                f"n_components={n} is too few for {kernel!r}: each of its {len(members)} terms needs components of its "
                f"own. Use n_components={2 * len(members)} or more."
            )
        small = {i: self._exact_columns(member) for i, member in members}
        remaining, others = n, len(members)
        sizes: dict[int, int] = {}
        for i, columns in sorted(small.items(), key=lambda item: item[1] or n):
            share = remaining // max(others, 1)
            sizes[i] = columns if columns is not None and columns <= share else share
            remaining, others = remaining - sizes[i], others - 1
        parts = [(m.weight, m.kernel) if isinstance(m, Scaled) else (1.0, m) for m in kernel.members]
        maps = [self._part(i).map(member, self._even(member, sizes[i])) for i, (_, member) in enumerate(parts)]
        return StackedMap(kernel, maps, [weight for weight, _ in parts])

    def _exact_columns(self, kernel: Kernel) -> int | None:
        """Number of columns of the exact map that a part of a kernel has in any case; None where it has none."""
        if self.features not in ("random", "exact"):
            return None
        if isinstance(kernel, Selection | Scaled | Weighted | Normalized):
            n_in = len(kernel.at or ()) if isinstance(kernel, Selection) else self.n_in
            return replace(self, n_in=n_in)._exact_columns(kernel.kernel)
        if isinstance(kernel, Linear) and kernel.A is not None:
            return kernel.factor.shape[1]
        return MonomialMap.count(kernel, self.n_in)

    def _even(self, kernel: Kernel, n: int) -> int:
        if isinstance(kernel, Weighted | Normalized):
            return self._even(kernel.kernel, n)
        return n - n % 2 if kernel.shift_invariant and self.form != "offset" else n

    def _random(self, kernel: Kernel, n: int) -> FeatureMap:
        if _has_law(kernel, self.n_in):
            return self._fourier(kernel, n)
        if isinstance(kernel, ArcCosine):
            return rare_map("relu").ReluMap.draw(kernel, self.n_in, n, self.seed, self.sampling)
        if isinstance(kernel, AdditiveChi2):
            return rare_map("chi2").Chi2Map.within(kernel, self.n_in, n)
        columns = self._exact_columns(kernel)
        if columns is not None and columns <= n:
            return self._exact(kernel, n)
        return self._sketch(kernel, n)

    def _fourier(self, kernel: Kernel, n: int) -> FeatureMap:
        if not _has_law(kernel, self.n_in):
            raise self._refusal(kernel, "it has no spectral law, as functions of x - z have")
        n += n % 2 if self.form != "offset" else 0
        return FourierMap.draw(kernel, self.n_in, n, self.seed, self.sampling, self.form)

    def _maclaurin(self, kernel: Kernel, n: int) -> FeatureMap:
        if find_power_series(kernel) is None:
            raise self._refusal(kernel, "it is not a power series of the inner product")
        return rare_map("maclaurin").MaclaurinMap.draw(kernel, self.n_in, n, self.seed)

    def _exact(self, kernel: Kernel, n: int) -> FeatureMap:
        columns = MonomialMap.count(kernel, self.n_in)
        if columns is not None:
            if columns > n:
                raise RecipeError(
                    f"features='exact' for {kernel!r} of {self.n_in} columns are {columns:,} monomials, and "
                    f"n_components={n:,}. Use n_components={columns}, or features='tensorsketch'."
                )
            return MonomialMap(kernel, self.n_in)
        if isinstance(kernel, Linear):
            return self._not_above(n, ImageMap(kernel, self.n_in))
        if isinstance(kernel, Gaussian) and self.n_in == 1:
            return TaylorMap(kernel, n)
        if isinstance(kernel, Product):
            return self._all_products(kernel, n)
        raise self._refusal(kernel, "only polynomials, and a Gaussian of one column, have an exact map")

    def _all_products(self, kernel: Product, n: int) -> FeatureMap:
        """The products of the features of the factors; those of a Taylor series share what the others leave."""
        counts = [self._exact_columns(factor) for factor in kernel.members]
        fixed = math.prod(count for count in counts if count is not None)
        series = counts.count(None)
        share = int(max(n // fixed, 1) ** (1 / max(series, 1)) + 1e-9)
        sizes = [share if count is None else count for count in counts]
        maps = [self.map(factor, size) for factor, size in zip(kernel.members, sizes, strict=True)]
        return self._not_above(n, ProductMap(kernel, maps))

    def _not_above(self, n: int, exact: FeatureMap) -> FeatureMap:
        if exact.n_components > n:
            raise RecipeError(
                f"features='exact' for {exact.kernel!r} are {exact.n_components:,} components, and n_components={n:,}. "
                f"Use n_components={exact.n_components}."
            )
        return exact

    def _constant(self, kernel: Kernel, n: int) -> FeatureMap:  # noqa: ARG002
        return MonomialMap(kernel, self.n_in, most=0)

    def _sketch(self, kernel: Kernel, n: int) -> FeatureMap:
        if isinstance(kernel, Polynomial):
            factor = MonomialMap(replace(kernel, degree=1), self.n_in)
            return rare_map("tensorsketch").TensorSketchMap.draw(kernel, [factor], [kernel.degree], n, self.seed)
        if find_power_series(kernel) is not None and not isinstance(kernel, Product):
            return self._series_sketch(kernel, n)
        if isinstance(kernel, Product):
            return self._product(kernel, n)
        why = "it is neither a polynomial nor a product" if self.features == "tensorsketch" else "it has no random map"
        raise self._refusal(kernel, why)

    def _series_sketch(self, kernel: Kernel, n: int) -> FeatureMap:
        """Degrees 0 and 1 as they are, and a sketch for each degree above."""
        series = find_power_series(kernel)
        assert series is not None
        low = MonomialMap(kernel, self.n_in, most=1)
        if low.n_components >= n:
            return self._maclaurin(kernel, n)
        # Every degree has a column at least: one left out would be missing from the mean of the kernel.
        degrees = [N for N, a in enumerate(series) if a > 0 and N > 1]
        remaining = n - low.n_components - len(degrees)
        if remaining < 0 or len(degrees) > 12:  # a series of more degrees has its degrees drawn
            return self._maclaurin(kernel, n)
        sizes = 1 + np.floor(degree_shares(series, 2) * remaining).astype(int)
        maps = [self._part(N)._sketch(Polynomial(degree=N, c=0.0), int(sizes[N])) for N in degrees]
        first = [low] if low.n_components else []
        return StackedMap(kernel, [*first, *maps], [1.0] * len(first) + [float(series[N]) for N in degrees])

    def _product(self, kernel: Product, n: int) -> FeatureMap:
        weight, factors = 1.0, []
        for factor in kernel.members:
            if isinstance(factor, Scaled):
                weight, factor = weight * factor.weight, factor.kernel
            factors.append(factor)
        waves = [factor for factor in factors if _has_law(factor, self.n_in)]
        others = [factor for factor in factors if not _has_law(factor, self.n_in)]
        if waves:
            others.insert(0, waves[0] if len(waves) == 1 else Product(tuple(waves)))
        if len(others) == 1:
            inner = replace(self, features="random").map(others[0], n)  # there is nothing to sketch
        else:
            draw = replace(self, features="random")
            maps = [draw._part(i).map(factor, draw._even(factor, n)) for i, factor in enumerate(others)]
            product = kernel if weight == 1.0 else Product(tuple(others))
            inner = rare_map("tensorsketch").TensorSketchMap.draw(product, maps, [1] * len(maps), n, self.seed)
        return inner if weight == 1.0 and len(others) > 1 else StackedMap(kernel, [inner], [weight])

    def _refusal(self, kernel: Kernel, why: str) -> UnsupportedError:
        return UnsupportedError(f"features={self.features!r} has no map for {kernel!r}: {why}. {_ANY}.")


def _has_law(kernel: Kernel, n_in: int) -> bool:
    if not kernel.shift_invariant:
        return False
    try:
        kernel.frequencies(n_in, 1, stream(0, "law"))
    except UnsupportedError:
        return False
    return True
