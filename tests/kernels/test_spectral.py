"""The spectral laws: right on average, with the variance of the formula, and smaller where structure promises it."""

import numpy as np
import pytest

from dkernel.errors import RecipeError, UnsupportedError
from dkernel.kernels import (
    SAMPLINGS,
    Cauchy,
    Exponential,
    Gaussian,
    Laplacian,
    Matern,
    ProductCauchy,
    RationalQuadratic,
)
from dkernel.kernels.spectra.laws import IndependentLaw, cauchy_quantile, draw
from dkernel.numerics.random_streams import stream

KERNELS = [
    Gaussian(gamma=0.2),
    Laplacian(gamma=0.2),
    Gaussian(gamma=0.1) * Gaussian(gamma=0.3),
    Gaussian(gamma=0.1) * Laplacian(gamma=0.1),
    Exponential(length=1.5),
    Matern(nu=1.5, length=1.0),
    Matern(nu=2.5, length=1.0),
    Matern(nu=0.8, length=1.0),
    RationalQuadratic(alpha=0.7, length=1.0),
    RationalQuadratic(alpha=3.0, length=1.0),
    Cauchy(length=2.0),
    ProductCauchy(length=2.0),
    Gaussian(gamma=0.5).on([4, 0, 1]) * Cauchy(length=1.0).on([2, 3]),
    Gaussian(gamma=(0.1, 1.0, 0.01, 0.3)).on([0, 1, 2, 3]),
]
RADIAL = {KERNELS[0], KERNELS[2], *KERNELS[4:11], *KERNELS[12:]}
CASES = [(k, sampling) for k in KERNELS for sampling in SAMPLINGS if sampling != "orthogonal" or k in RADIAL]


def differences(p, lengths):
    """One vector of each Euclidean length, in directions that are not special."""
    directions = stream(1, "directions", p).standard_normal((len(lengths), p))
    return directions / np.linalg.norm(directions, axis=1)[:, None] * np.array(lengths)[:, None]


def estimates(draw_one, deltas, repeats):
    """The kernel values that `repeats` independent draws of frequencies give for the differences, (repeats, len)."""
    return np.array([np.cos(draw_one(stream(5, "draw", i)) @ deltas.T).mean(axis=0) for i in range(repeats)])


def truth(k, deltas):
    return k(deltas, np.zeros((1, deltas.shape[1])))[:, 0]


def standard_errors_off(values, expected):
    return np.abs(values.mean(axis=0) - expected) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))


@pytest.mark.parametrize(("k", "sampling"), CASES, ids=str)
def test_unbiased(k, sampling):
    deltas = differences(6, [0.3, 1.0, 2.0])
    values = estimates(lambda rng: k.frequencies(6, 64, rng, sampling), deltas, 150)
    assert (standard_errors_off(values, truth(k, deltas)) < 4).all()


def test_the_scale_in_the_lecture_notes_fails():
    gamma = 0.2
    deltas = differences(6, [0.3, 1.0, 2.0])
    wrong = IndependentLaw(6, cauchy_quantile(np.sqrt(2 * gamma)))
    values = estimates(lambda rng: draw(wrong, 64, rng), deltas, 400)
    assert (standard_errors_off(values, truth(Laplacian(gamma=gamma), deltas)) > 4).all()


@pytest.mark.parametrize("k", KERNELS, ids=str)
def test_variance_of_independent_draws(k):
    m, deltas = 64, differences(5, [0.5, 1.0, 2.0])
    values = estimates(lambda rng: k.frequencies(5, m, rng), deltas, 1000)
    expected = (1 + truth(k, 2 * deltas) - 2 * truth(k, deltas) ** 2) / (2 * m)
    np.testing.assert_allclose(values.var(axis=0), expected, rtol=0.15)


def test_frequencies_of_some_columns_are_zero_in_the_others():
    W = Gaussian(gamma=0.5).on([3, 1]).frequencies(4, 8, stream(0, "t"), "orthogonal")
    assert not W[:, [0, 2]].any()
    assert W[:, [1, 3]].all()
    assert W[0] @ W[1] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("k", [Exponential(length=2.0), Matern(nu=0.1, length=2.0)], ids=str)
def test_long_frequencies_are_cut_off(k):
    W = k.frequencies(3, 100_000, stream(0, "t"))
    assert np.isfinite(W).all()
    assert np.linalg.norm(W, axis=1).max() <= 6 * 1e6 / 2


@pytest.mark.parametrize(("k", "sampling"), [case for case in CASES if ".on(" not in str(case[0])], ids=str)
def test_shape_and_determinism(k, sampling):
    for p, m in [(1, 1), (3, 8), (4, 10), (7, 5)]:
        W = k.frequencies(p, m, stream(0, "t"), sampling)
        assert W.shape == (m, p)
        assert W.dtype == np.float64
        assert np.isfinite(W).all()
        assert np.array_equal(W, k.frequencies(p, m, stream(0, "t"), sampling))
        assert not np.array_equal(W, k.frequencies(p, m, stream(1, "t"), sampling))


def test_orthogonal_blocks():
    W = Gaussian(gamma=0.5).frequencies(5, 12, stream(0, "t"), "orthogonal")
    for block in (W[:5], W[5:10], W[10:]):
        products = block @ block.T
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)
    assert len(np.unique(np.linalg.norm(W, axis=1).round(9))) == 12


def test_cauchy_is_cut_off():
    W = Laplacian(gamma=2.0).frequencies(1, 2_000_000, stream(0, "t"))
    assert np.abs(W).max() <= 2.0 * 2 / (np.pi * 1e-6) * 1.001
    assert abs(np.median(np.abs(W)) - 2.0) < 0.01


@pytest.mark.parametrize("k", [KERNELS[1], KERNELS[3], KERNELS[11]], ids=str)
def test_laplacian_has_no_orthogonal_draw(k):
    with pytest.raises(UnsupportedError, match="sampling='sobol'"):
        k.frequencies(4, 8, stream(0, "t"), "orthogonal")


def test_refusals():
    k = Gaussian(gamma=1)
    with pytest.raises(RecipeError, match="Did you mean 'sobol'"):
        k.frequencies(4, 8, stream(0, "t"), "sobel")
    with pytest.raises(RecipeError, match="at least one"):
        k.frequencies(4, 0, stream(0, "t"))
    with pytest.raises(UnsupportedError, match="21201 dimensions"):
        k.frequencies(30_000, 8, stream(0, "t"), "sobol")
