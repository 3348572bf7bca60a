"""Slopes of radial kernels: the derivative of the kernel itself, for every member of the catalogue that has one."""

import numpy as np
import pytest

from dkernel.errors import UnsupportedError
from dkernel.kernels import (
    Cauchy,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    RationalQuadratic,
    parse,
)
from dkernel.kernels.analysis.gradients import gradients, has_gradient, is_radial, slopes
from tests.kernels.catalogue import CATALOGUE

RADIAL = [
    Gaussian(gamma=0.3),
    Exponential(length=1.7),
    Matern(0.5, 1.3),
    Matern(0.8, 1.3),
    Matern(1.5, 1.3),
    Matern(2.5, 0.9),
    Matern(3.3, 2.0),
    RationalQuadratic(alpha=0.7, length=1.2),
    Cauchy(length=1.4),
    2.5 * Gaussian(gamma=0.2) + Cauchy(length=2.0),
    Gaussian(gamma=0.2) * Matern(1.5, 1.1) * Cauchy(length=3.0),
]


@pytest.mark.parametrize("kernel", [*RADIAL, Laplacian(gamma=0.4)], ids=repr)
def test_gradients_are_finite_differences(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    X, Z, coef = rng.standard_normal((4, 3)), rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    found = gradients(kernel, X, Z, coef)
    h = 1e-5
    for j, step in enumerate(h * np.eye(3)):
        change = (kernel(X + step, Z) - kernel(X - step, Z)) @ coef / (2 * h)
        np.testing.assert_allclose(found[:, :, j].T, change, rtol=1e-5, atol=1e-8)


def test_columns_of_two_values_have_the_slopes_of_all_others() -> None:
    rng = np.random.default_rng(0)
    X, Z = (np.hstack([rng.standard_normal((n, 2)), rng.integers(0, 2, (n, 3)), np.ones((n, 1))]) for n in (5, 8))
    kernel, coef = Laplacian(gamma=0.4), rng.standard_normal((8, 2))
    expected = np.einsum("ij,ijk,jo->oik", -0.4 * kernel(X, Z), np.sign(X[:, None] - Z), coef)
    np.testing.assert_allclose(gradients(kernel, X, Z, coef), expected, atol=1e-14)


def test_a_corner_at_zero_is_flat_and_the_others_are_not() -> None:
    x = np.zeros((1, 2))
    assert slopes(Exponential(length=1.0), x, x)[0, 0] == 0
    assert slopes(Matern(1.5, 2.0), x, x)[0, 0] == pytest.approx(-3 / (2 * 4), rel=1e-5)
    assert slopes(Gaussian(gamma=2.0), x, x)[0, 0] == -2.0


@pytest.mark.parametrize("kernel", [Laplacian(gamma=1.0), Linear(), Gaussian(gamma=[1.0, 2.0])], ids=repr)
def test_what_is_not_radial_is_refused_with_what_would_be(kernel: Kernel) -> None:
    assert not is_radial(kernel)
    with pytest.raises(UnsupportedError, match="metric='identity'"):
        slopes(kernel, np.zeros((1, 2)), np.zeros((1, 2)))


def test_a_kernel_whose_length_is_a_word_is_radial_already() -> None:
    assert not has_gradient(Linear())
    assert has_gradient(Laplacian())
    assert is_radial(parse('Gaussian(gamma="auto") + 2.0 * Matern(1.5)'))


def test_radial_kernels_of_the_catalogue_know_it() -> None:
    names = {type(member.kernel).__name__ for member in CATALOGUE if is_radial(member.kernel)}
    assert {"Gaussian", "Exponential", "Matern", "RationalQuadratic", "Cauchy", "Sum", "Product", "Scaled"} >= names
    assert {"Gaussian", "Exponential", "Matern", "RationalQuadratic", "Cauchy"} <= names
