"""Which map a kernel gets, and what is refused."""

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.features import choose_map, resolve_features
from dkernel.kernels import (
    AdditiveChi2,
    ArcCosine,
    Exp,
    Gaussian,
    Geometric,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    Scaled,
)
from dkernel.leaves.maps.chi2 import Chi2Map

CUBIC = Polynomial(degree=3)


@pytest.mark.parametrize(
    ("kernel", "n_in", "words"),
    [
        (Gaussian(0.1), 8, "fourier (sobol)"),
        (Gaussian(0.1), 30, "fourier (orthogonal)"),
        (Matern(length=1.0), 30, "fourier (orthogonal)"),
        (Gaussian(0.1), 64, "fourier (structured)"),
        (Laplacian(0.1), 64, "fourier (sobol)"),
        (Laplacian(0.1), 65, "fourier (iid)"),
        (CUBIC, 4, "monomials"),
        (CUBIC, 40, "tensorsketch of monomials"),
        (Linear(), 40, "monomials"),
        (ArcCosine(order=1), 40, "relu"),
        (AdditiveChi2(), 4, "chi2"),
        (2.0 * Gaussian(0.1) + Linear(), 4, "stacked of fourier (sobol), monomials"),
        (Gaussian(0.1) * Laplacian(0.1), 4, "fourier (sobol)"),
        (Gaussian(0.1) * Linear(), 4, "tensorsketch of fourier (sobol), monomials"),
        (Gaussian(0.1).on([1, 2]), 4, "fourier (sobol) of 2 columns"),
        (Normalized(CUBIC), 4, "monomials, weighted"),
        (Linear(A=np.eye(4)), 4, "image"),
    ],
    ids=repr,
)
def test_the_map_that_suits_the_kernel(kernel, n_in, words):
    assert choose_map(kernel, n_in, 128, "random").text == words


def test_auto_is_nystrom_where_landmarks_are_few_or_nothing_else_fits():
    assert resolve_features(Gaussian(), 3, 20_000) == "nystrom"
    assert resolve_features(Gaussian(), 3, 20_001) == "random"
    assert resolve_features(Geometric(0.5 * Gaussian()), 3, 50_000) == "nystrom"
    assert choose_map(Gaussian(0.1), 3, 20_000) == "nystrom"


@pytest.mark.parametrize(
    ("kernel", "features"),
    [
        (Linear(), "fourier"), (Gaussian(0.1) + CUBIC, "fourier"), (ArcCosine(), "maclaurin"),
        (Gaussian(0.1), "maclaurin"), (Gaussian(0.1), "tensorsketch"), (Laplacian(0.1), "exact"),
        (Gaussian(0.1), "exact"), (Geometric(Linear()), "random"), (Exp(Gaussian(0.1)), "random"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_wrong_combination_is_refused_with_a_right_one(kernel, features):
    for call in (choose_map, resolve_features):
        with pytest.raises(UnsupportedError, match="features='nystrom'"):
            call(kernel, 3, 64, features)


def test_what_is_too_few_or_means_nothing():
    with pytest.raises(RecipeError, match=r"20 columns are 1,771 monomials.*n_components=1771"):
        choose_map(CUBIC, 20, 100, "exact")
    with pytest.raises(RecipeError, match="n_components=3 is too few"):
        choose_map(Gaussian(0.1) + CUBIC, 3, 3, "random")
    with pytest.raises(RecipeError, match="Did you mean 'fourier'"):
        choose_map(Gaussian(0.1), 3, 64, "fourrier")
    with pytest.raises(RecipeError, match="a column for each of the 9"):
        choose_map(AdditiveChi2(), 9, 8, "random")
    with pytest.raises(DataError, match="negative value -1"):
        choose_map(AdditiveChi2(), 1, 8, "random")(np.array([[-1.0]]))


@pytest.mark.parametrize(("steps", "most"), [(1, 0.25), (2, 0.11), (3, 0.055), (8, 0.005), (20, 2e-4)])
def test_the_sampled_chi_squared_map_comes_near(steps, most):
    """Relative to the geometric mean, over ratios from 1/10 to 10; zeros are zeros."""
    X = np.concatenate([np.zeros((1, 1)), np.geomspace(0.1, 1.0, 30)[:, None]])
    K = AdditiveChi2()(X, X)
    phi = Chi2Map(AdditiveChi2(), 1, steps)(X)
    found = phi @ phi.T
    assert not found[0].any()
    roots = np.sqrt(X[1:] @ X[1:].T)
    assert np.abs((found - K)[1:, 1:] / roots).max() <= most


def test_equal_terms_have_maps_of_their_own():
    map = choose_map(Gaussian(0.1) + Scaled(2.0, Gaussian(0.1)), 3, 64, "random")
    one, two = (part.frequencies for part in map.maps)
    assert not np.array_equal(one, two)


def test_the_maps_of_the_closure_table():
    """x^T A v has L^T x, f(x) f(v) k(x, v) has f(x) phi(x), and a product every product of two features."""
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((6, 3)), np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    image = choose_map(Linear(A=A), 3, 3, "exact")
    assert image(X).shape == (6, 2)  # A has an eigenvalue of 0
    np.testing.assert_allclose(image(X) @ image(X).T, X @ A @ X.T, atol=1e-12)
    weighted = choose_map(Normalized(CUBIC), 3, 20, "exact")
    factors = 1 / np.sqrt(CUBIC.diag(X))
    np.testing.assert_allclose(weighted(X), factors[:, None] * choose_map(CUBIC, 3, 20, "exact")(X), atol=1e-12)
    product = choose_map(Linear(A=A) * Gaussian(0.2).on([0]), 3, 50, "exact")
    taylor = choose_map(Gaussian(0.2).on([0]), 3, 25, "exact")
    np.testing.assert_allclose(product(X), np.einsum("ni,nj->nij", image(X), taylor(X)).reshape(6, -1), atol=1e-12)
    with pytest.raises(RecipeError, match="n_components=2"):
        choose_map(Linear(A=A), 3, 1, "exact")
    with pytest.raises(RecipeError, match="n_components=40"):
        choose_map(Linear(A=A) * Normalized(CUBIC), 3, 39, "exact")
    with pytest.raises(DataError, match="3 columns"):
        choose_map(Linear(A=A), 2, 9, "exact")
