"""Every kernel, each beside its obvious second version. Every law of test_laws.py runs over every line."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dkernel.kernels import (
    AdditiveChi2,
    ArcCosine,
    Cauchy,
    Exp,
    Exponential,
    FeatureMapKernel,
    FunctionKernel,
    Gaussian,
    Geometric,
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
    parse,
    register,
)
from dkernel.leaf_table import has_leaf
from tests import reference as ref


@register("tests: sum of minima")
def sum_of_minima(X, Z):
    """The intersection of histograms."""
    return np.minimum(X[:, None], Z).sum(axis=2)


@register("tests: squares")
def squares(X):
    return np.hstack([X**2, np.ones((len(X), 1))])


@register("tests: shrink")
def shrink(X):
    return 1 / (1 + np.abs(X).max(axis=1))


A = ((2.0, 0.5, 0.0), (0.5, 1.0, 0.0), (0.0, 0.0, 0.0))


@dataclass(frozen=True)
class Member:
    kernel: Kernel
    reference: Callable[[list[float], list[float]], float]
    width: int | None = None
    nonnegative: bool = False

    def data(self, X):
        """The rows as this kernel takes them: as many columns, and signs."""
        if self.width is not None:
            X = np.ascontiguousarray(X[:, np.arange(self.width) % X.shape[1]])
        return np.abs(X) if self.nonnegative else X

    def __repr__(self):
        return repr(self.kernel)


CATALOGUE = [
    Member(Linear(), ref.linear),
    Member(Polynomial(), lambda x, z: ref.polynomial(x, z, 3, 1.0)),
    Member(Polynomial(degree=2, c=0), lambda x, z: ref.polynomial(x, z, 2, 0.0)),
    Member(Polynomial(degree=1, c=2.5), lambda x, z: ref.polynomial(x, z, 1, 2.5)),
    Member(Polynomial(degree=5, c=0.1), lambda x, z: ref.polynomial(x, z, 5, 0.1)),
    Member(Gaussian(gamma=0.1), lambda x, z: ref.gaussian(x, z, 0.1)),
    Member(Gaussian(sigma=2.0), lambda x, z: ref.gaussian(x, z, 0.125)),
    Member(Gaussian(gamma=30), lambda x, z: ref.gaussian(x, z, 30.0)),
    Member(Gaussian(gamma=1 / 3), lambda x, z: ref.gaussian(x, z, 1 / 3)),
    Member(Laplacian(gamma=0.1), lambda x, z: ref.laplacian(x, z, 0.1)),
    Member(Laplacian(gamma=2), lambda x, z: ref.laplacian(x, z, 2.0)),
    Member(
        Gaussian(gamma=0.1) + 0.5 * Laplacian(gamma=0.2) + Linear(),
        lambda x, z: ref.gaussian(x, z, 0.1) + 0.5 * ref.laplacian(x, z, 0.2) + ref.linear(x, z),
    ),
    Member(
        Gaussian(gamma=0.1) * Laplacian(gamma=0.2) * Gaussian(gamma=0.3),
        lambda x, z: ref.gaussian(x, z, 0.4) * ref.laplacian(x, z, 0.2),
    ),
    Member(3 * (Gaussian(gamma=0.1) + Linear()), lambda x, z: 3 * (ref.gaussian(x, z, 0.1) + ref.linear(x, z))),
    Member(
        (2 * Gaussian(gamma=0.1)) * (0.5 * Linear() + Polynomial(degree=2)) * (7 * Laplacian(gamma=0.01)),
        lambda x, z: (
            (14 * ref.gaussian(x, z, 0.1) * ref.laplacian(x, z, 0.01))
            * (0.5 * ref.linear(x, z) + ref.polynomial(x, z, 2, 1))
        ),
    ),
    Member(Gaussian(gamma=(0.1, 1.0, 0.01)), lambda x, z: ref.gaussian_per_column(x, z, [0.1, 1.0, 0.01]), width=3),
    Member(Gaussian(sigma=[2.0, 1.0]), lambda x, z: ref.gaussian_per_column(x, z, [0.125, 0.5]), width=2),
    Member(Linear(A=A), lambda x, z: sum(A[i][j] * x[i] * z[j] for i in range(3) for j in range(3)), width=3),
    Member(ArcCosine(order=0), lambda x, z: ref.arc_cosine(x, z, 0)),
    Member(ArcCosine(), lambda x, z: ref.arc_cosine(x, z, 1)),
    Member(Exponential(length=3.0), lambda x, z: ref.exponential(x, z, 3.0)),
    Member(Matern(nu=0.5, length=0.7), lambda x, z: ref.matern_half(x, z, 0, 0.7)),
    Member(Matern(length=2.0), lambda x, z: ref.matern_half(x, z, 1, 2.0)),
    Member(Matern(nu=2.5, length=2.0), lambda x, z: ref.matern_half(x, z, 2, 2.0)),
    Member(Matern(nu=3.5, length=1.0), lambda x, z: ref.matern_half(x, z, 3, 1.0)),
    Member(Matern(nu=0.3, length=2.0), lambda x, z: ref.matern(x, z, 0.3, 2.0)),
    Member(Matern(nu=1, length=2.0), lambda x, z: ref.matern(x, z, 1.0, 2.0)),
    Member(RationalQuadratic(alpha=0.5, length=2.0), lambda x, z: ref.rational_quadratic(x, z, 0.5, 2.0)),
    Member(RationalQuadratic(length=1.0), lambda x, z: ref.rational_quadratic(x, z, 1.0, 1.0)),
    Member(RationalQuadratic(alpha=20, length=2.0), lambda x, z: ref.rational_quadratic(x, z, 20.0, 2.0)),
    Member(Cauchy(length=2.0), lambda x, z: ref.cauchy(x, z, 2.0)),
    Member(ProductCauchy(length=2.0), lambda x, z: ref.product_cauchy(x, z, 2.0)),
    Member(AdditiveChi2(), ref.additive_chi2, nonnegative=True),
    Member(FunctionKernel(sum_of_minima), lambda x, z: sum(map(min, x, z)), nonnegative=True),
    Member(FeatureMapKernel(squares), lambda x, z: 1 + sum(a * a * b * b for a, b in zip(x, z, strict=True))),
    Member(
        PowerSeries(Gaussian(gamma=0.1), [0.5, 0, 2, 1]),
        lambda x, z: 0.5 + 2 * ref.gaussian(x, z, 0.2) + ref.gaussian(x, z, 0.3),
    ),
    Member(Exp(2 * Gaussian(gamma=0.1)), lambda x, z: np.exp(2 * ref.gaussian(x, z, 0.1))),
    Member(Geometric(0.5 * Gaussian(gamma=0.1)), lambda x, z: 1 / (1 - 0.5 * ref.gaussian(x, z, 0.1))),
    Member(
        Weighted(Gaussian(gamma=0.1) + Linear(), shrink),
        lambda x, z: (ref.gaussian(x, z, 0.1) + ref.linear(x, z)) / (1 + max(map(abs, x))) / (1 + max(map(abs, z))),
    ),
    Member(
        Normalized(Polynomial(degree=2)),
        lambda x, z: ref.polynomial(x, z, 2, 1) / (ref.polynomial(x, x, 2, 1) * ref.polynomial(z, z, 2, 1)) ** 0.5,
    ),
    Member(
        Gaussian(gamma=0.2).on([2, 0]) + 0.5 * Laplacian(gamma=0.1).on(1) * Linear(),
        lambda x, z: (
            ref.gaussian([x[0], x[2]], [z[0], z[2]], 0.2) + 0.5 * ref.laplacian(x[1:2], z[1:2], 0.1) * ref.linear(x, z)
        ),
        width=3,
    ),
    Member(
        (Exponential(length=2.0) + Linear()).on(["b", "a"]).bind_columns(["a", "x", "b"]),
        lambda x, z: ref.exponential([x[2], x[0]], [z[2], z[0]], 2.0) + ref.linear([x[2], x[0]], [z[2], z[0]]),
        width=3,
    ),
    Member(1e-3 * (Gaussian(gamma=0.1) * Linear()), lambda x, z: 1e-3 * ref.gaussian(x, z, 0.1) * ref.linear(x, z)),
]


@register("tests: equal words")
def equal_words(A, B):
    """1 where two words are one."""
    return np.array([[float(a == b) for b in B] for a in A]).reshape(len(A), len(B))


WORDS = ["banana", "bandana", "ananas", "cabana", "an", "", "bananabanana", "xyz", "banana"]
SETS = [{1, 2, 3}, {2, 3}, frozenset({9}), set(), {1, 9}, {1, 2, 3}]
BAGS = [np.random.default_rng(m).standard_normal((m, 2)) for m in (1, 4, 2, 7, 4)]

OF_LEAF = [
    ("SpectrumKernel(2)", WORDS),
    ("SpectrumKernel(1) * SpectrumKernel(3)", WORDS),
    ("Normalized(SpectrumKernel(2)) + 0.5 * SpectrumKernel(3)", WORDS),
    ("SetKernel()", SETS),
    ("Normalized(SetKernel(Gaussian(gamma=0.3)))", BAGS),
]
# Kernels of objects, each with rows: some of them empty, some twice there.
OBJECTS = [
    (FunctionKernel(equal_words), WORDS),
    *((parse(text), rows) for text, rows in OF_LEAF if has_leaf("objects")),
]
