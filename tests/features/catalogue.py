"""Every feature map, small. Every law of test_laws.py runs over every line; a new map is a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import isabstract

import numpy as np

from dkernel.features import FeatureMap, FourierMap, NystromMap, StackedMap, choose_map
from dkernel.kernels import (
    AdditiveChi2,
    ArcCosine,
    Cauchy,
    Exp,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    PowerSeries,
    ProductCauchy,
    RationalQuadratic,
    Weighted,
)
from dkernel.leaves.maps.chi2 import Chi2Map
from dkernel.leaves.maps.maclaurin import MaclaurinMap
from tests.kernels.catalogue import shrink

P = 5
A = np.diag([2.0, 1.0, 0.5, 0.0, 1.0]) + 0.25 * np.eye(P)[[1, 0, 2, 3, 4]]
GAUSSIAN, LAPLACIAN, CUBIC = Gaussian(gamma=0.4), Laplacian(gamma=0.3), Polynomial(degree=3, c=0.5)

RADIAL = (Exponential(length=2.0), Matern(nu=1.5, length=2.0), RationalQuadratic(length=2.0), Cauchy(length=3.0))


@dataclass(frozen=True)
class Member:
    """A way to draw maps: `draw(n_components, seed)`; `scale` is the length of the rows it is tried on.

    `exact`: nothing is drawn, and the kernel is met to `error` of its largest value. `slope` -0.5: the error falls as
    the root of the columns; None where it falls faster, or where not all columns are random ones.
    """

    name: str
    kernel: Kernel
    draw: Callable[[int, int], FeatureMap]
    exact: bool = False
    n_in: int = P
    scale: float = 1.0
    columns: int = 64
    slope: float | None = -0.5
    error: float = 1e-10
    nonnegative: bool = False

    def __repr__(self):
        return f"{self.name}, {self.kernel!r}"

    @property
    def low_discrepancy(self):
        """Whether the error falls faster than that of independent draws: random offsets undo it."""
        return self.slope is None and "sobol" in self.name

    def pairs(self, n=12):
        """n pairs of rows from near to far, (n, p) each."""
        rng = np.random.default_rng(7)
        X, step = rng.standard_normal((2, n, self.n_in))
        X *= self.scale / np.linalg.norm(X, axis=1, keepdims=True)
        step *= (np.linspace(0.1, 2.0, n) * self.scale / np.linalg.norm(step, axis=1))[:, None]
        return tuple(map(np.abs, (X, X + step))) if self.nonnegative else (X, X + step)


def chosen(kernel, features, sampling="auto", form="pairs", n_in=P, **more):
    name = " ".join(word for word in (features, sampling, form) if word not in ("auto", "pairs"))

    def draw(n, seed):
        return choose_map(kernel, n_in, n, features, sampling, form, seed)

    return Member(name, kernel, draw, n_in=n_in, **more)


def averaged(n, seed):
    """Four maps of a quarter of the columns each."""
    return StackedMap.average([FourierMap.draw(GAUSSIAN, P, n // 8 * 2, 4 * seed + i, "iid") for i in range(4)])


CATALOGUE = [
    *(chosen(GAUSSIAN, "fourier", s, slope=None if s == "sobol" else -0.5) for s in
      ("iid", "orthogonal", "sobol", "structured", "fastfood")),
    *(chosen(GAUSSIAN, "fourier", "structured", n_in=p, columns=n) for p, n in ((9, 64), (18, 128), (64, 256))),
    chosen(GAUSSIAN, "fourier", "iid", "offset"),
    chosen(GAUSSIAN, "fourier", "structured", "offset"),
    chosen(GAUSSIAN, "fourier", "iid", "exponential"),
    *(chosen(LAPLACIAN, "fourier", s, slope=-0.5 if s == "iid" else None) for s in ("iid", "sobol")),
    *(chosen(kernel, "fourier", s) for s in ("orthogonal", "structured") for kernel in RADIAL),
    *(chosen(kernel, "fourier", "sobol", slope=None) for kernel in RADIAL[1:3]),
    *(chosen(kernel, "fourier", s) for s in ("iid", "fastfood") for kernel in RADIAL),
    chosen(GAUSSIAN, "fourier", "sobol", "offset"),
    chosen(GAUSSIAN, "fourier", "orthogonal", "offset", slope=None),
    chosen(LAPLACIAN, "fourier", "iid", "offset"),
    chosen(ProductCauchy(length=3.0), "fourier", "iid"),
    chosen(ProductCauchy(length=3.0), "fourier", "sobol", slope=None),
    chosen(GAUSSIAN * RADIAL[1], "fourier", "iid"),
    chosen(GAUSSIAN * LAPLACIAN, "fourier", "iid"),
    chosen(0.5 * GAUSSIAN + 2.0 * LAPLACIAN, "fourier", "iid"),
    chosen(CUBIC, "maclaurin"),
    chosen(Polynomial(degree=4, c=0.0), "maclaurin"),
    chosen(2.0 * CUBIC + Linear(), "maclaurin"),
    Member("maclaurin, few columns", CUBIC, lambda n, seed: MaclaurinMap.draw(CUBIC, P, min(n, 5), seed), slope=None),
    chosen(Exp(0.5 * Linear()), "maclaurin"),
    chosen(PowerSeries(Linear(), [1, 0, 0.5]), "tensorsketch"),
    chosen(ArcCosine(order=0), "random", "iid"),
    chosen(ArcCosine(order=0), "random", "sobol", slope=None),
    chosen(ArcCosine(order=1), "random", "orthogonal"),
    chosen(ArcCosine(order=1), "random", "structured"),
    chosen(ArcCosine(order=1) + ArcCosine(order=0) * Linear(), "random", "iid", columns=128),
    chosen(GAUSSIAN.on([1, 2]), "fourier", "iid"),
    chosen(GAUSSIAN.on([1, 2]) + CUBIC.on([0, 3, 4]), "random", "iid", slope=None),
    chosen(GAUSSIAN.on([1, 2]) * LAPLACIAN.on([0]), "random", "iid"),
    chosen(CUBIC, "tensorsketch"),
    chosen(Polynomial(degree=2, c=0.0), "tensorsketch"),
    chosen(CUBIC + Linear(), "tensorsketch"),
    chosen(CUBIC * GAUSSIAN, "tensorsketch", "iid", columns=128),
    chosen(GAUSSIAN + 0.5 * CUBIC, "random", "iid", slope=None),
    chosen(2.0 * (GAUSSIAN + LAPLACIAN) * GAUSSIAN, "random", "iid", columns=128),
    Member("average", GAUSSIAN, averaged),
    chosen(CUBIC, "exact", exact=True),
    chosen(Linear(), "exact", exact=True),
    chosen(0.5 * CUBIC + Linear() * Polynomial(degree=2, c=1.0), "exact", exact=True, columns=300),
    chosen(PowerSeries(Linear(), [1, 0, 0.5]), "exact", exact=True),
    chosen(2.0 * CUBIC.on([0, 3, 4]) + Linear().on([1]), "exact", exact=True),
    chosen(GAUSSIAN, "exact", n_in=1, exact=True),
    chosen(Linear(A=A), "exact", exact=True),
    chosen(Linear(A=A) + 0.5 * CUBIC, "random", exact=True),
    chosen(Weighted(CUBIC, shrink), "exact", exact=True),
    chosen(Normalized(CUBIC).on([0, 1]) * Linear(A=A), "exact", exact=True, columns=100),
    chosen(Weighted(GAUSSIAN, shrink), "fourier", "iid"),
    chosen(Normalized(Linear()) + GAUSSIAN, "random", "iid", slope=None),
    chosen(AdditiveChi2(), "random", exact=True, error=0.02, nonnegative=True),
    chosen(0.5 * AdditiveChi2() + Linear(), "random", exact=True, error=0.02, nonnegative=True, columns=128),
]  # fmt: skip

RANDOM = [member for member in CATALOGUE if not member.exact]
EXACT = [member for member in CATALOGUE if member.exact]


def kinds_in(map):
    """The class of a map, and of every map in it."""
    yield type(map)
    for inner in (*getattr(map, "maps", ()), *([map.inner] if hasattr(map, "inner") else [])):
        yield from kinds_in(inner)


KINDS = {kind for member in CATALOGUE for kind in kinds_in(member.draw(member.columns, 0))}
# Nystrom's maps have a matrix for their whitening, and laws of their own: test_nystrom.py, over every kernel there is.


def concrete(base):
    kinds = [kind for kind in base.__subclasses__() if kind.__module__.startswith("dkernel.")]
    return {one for kind in kinds for one in (concrete(kind) if isabstract(kind) else {kind})}


assert KINDS | {NystromMap} == concrete(FeatureMap) >= {Chi2Map}
