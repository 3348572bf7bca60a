"""The compiled walk of scores in float64: its functions by their formulas, near and far rows, any place of a row."""

import numpy as np
import pytest

from dkernel.features import FourierMap, NystromMap
from dkernel.kernels import Gaussian, parse
from dkernel.numerics.fused import products
from dkernel.numerics.fused.wide_scores import MOST_POWER

needs_vectors = pytest.mark.skipif(not products.supports_products(2, np.float64), reason="no vector registers")
KERNELS = [
    "Gaussian(gamma=0.2)",
    "Exponential(length=2.0)",
    "Matern(nu=0.5, length=2.0)",
    "Matern(nu=1.5, length=2.0)",
    "Matern(nu=2.5, length=2.0)",
    "Cauchy(length=2.0)",
    "RationalQuadratic(alpha=3.0, length=2.0)",
    "Linear()",
    "Polynomial(degree=2, c=0.5)",
    f"Polynomial(degree={MOST_POWER}, c=1.0)",
    "2.0 * Gaussian(gamma=0.2) + Linear()",
    "Gaussian(gamma=0.2).on([0, 1])",
]


def operands(p, m=130, n=300):
    """Rows, some of which are landmarks, or near to some, or far from all; landmarks off the origin; coefficients."""
    rng = np.random.default_rng(p)
    Z = rng.normal(size=(m, p)) + 10.0
    X = rng.normal(size=(n, p)) + 10.0
    X[:9], X[9:18] = Z[:9], Z[:9] + 1e-9
    return X, Z, rng.normal(size=(m, 3))


def unscaled(rows):
    return rows


@needs_vectors
@pytest.mark.parametrize("p", [2, 9, 150])
@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_are_those_of_the_formula(kernel, p):
    X, Z, coef = operands(p)
    map = NystromMap(parse(kernel), Z)
    assert map.wide
    wanted = map.components(X) @ coef
    found = map.wide_scores(X, coef, unscaled)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13 * np.abs(wanted).max())


@needs_vectors
def test_waves_are_those_of_the_formula():
    X, _, _ = operands(5)
    map = FourierMap.draw(Gaussian(gamma=0.2), 5, 600, 0)
    coef = np.random.default_rng(0).normal(size=(600, 2))
    assert map.wide
    np.testing.assert_allclose(map.wide_scores(X, coef, unscaled), map.components(X) @ coef, atol=1e-11)


@needs_vectors
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_row_has_the_same_bits_anywhere(kernel):
    X, Z, coef = operands(3, n=2100)
    map = NystromMap(parse(kernel), Z)
    whole = map.wide_scores(X, coef, unscaled)
    for rows in (slice(7, 8), slice(2047, 2051), slice(None, None, -1)):
        assert map.wide_scores(X[rows], coef, unscaled).tobytes() == whole[rows].tobytes()


@needs_vectors
@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if "Linear" not in kernel and "Poly" not in kernel])
def test_far_rows_have_no_kernel(kernel):
    _, Z, coef = operands(3)
    map = NystromMap(parse(kernel), Z)
    far = np.array([[1e20, 0.0, 0.0], [-1e160, 1e160, 0.0], [0.0, 1e300, 0.0]])
    assert np.abs(map.wide_scores(far, coef, unscaled)).max() < 1e-30


def test_without_vectors_the_definition_has_them(monkeypatch):
    X, Z, coef = operands(3)
    monkeypatch.setattr(products, "registers", lambda: None)
    map = NystromMap(Gaussian(gamma=0.2), Z)
    assert not map.wide
    np.testing.assert_allclose(map.wide_scores(X, coef, unscaled), map.components(X) @ coef, atol=1e-12)


@pytest.mark.parametrize("kernel", ["Laplacian(gamma=0.2)", "Polynomial(degree=9)", "Matern(nu=2.0, length=1.0)"])
def test_other_kernels_have_no_walk(kernel):
    assert NystromMap(parse(kernel), np.eye(3)).wide == ()
