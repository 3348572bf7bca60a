"""What only the kernels of a length know: how a rule fills the length, their members in common, their limits."""

import numpy as np
import pytest

from dkernel.errors import RecipeError
from dkernel.kernels import (
    Cauchy,
    Exponential,
    Gaussian,
    Matern,
    ProductCauchy,
    RationalQuadratic,
    parse,
)

X = np.random.default_rng(0).standard_normal((30, 4))
KINDS = [Exponential, Matern, RationalQuadratic, Cauchy, ProductCauchy]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_fills_the_length_with_the_sigma_of_its_gamma(kind):
    asked = []

    def rule(metric, word):
        asked.append((metric, word))
        return 1 / (2 * 3.0**2)

    k = kind(length="median") + kind()
    assert k.placeholders == ("median", "auto")
    assert k.bind(rule).members[0].length == pytest.approx(3.0, rel=1e-15)
    assert asked == [("l2", "median"), ("l2", "auto")]
    assert parse(kind.__name__.lower()) == kind()
    with pytest.raises(RecipeError, match=r"bind\(rule\)"):
        kind()(X)
    with pytest.raises(RecipeError, match="gamma"):
        kind().bind(lambda *_: 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [0, -1, "medain", None, float("inf"), [1.0]])
def test_lengths(kind, bad):
    with pytest.raises(RecipeError, match=f"{kind.__name__} was given length="):
        kind(length=bad)


def test_other_numbers():
    for bad in (0, -1.5, "auto", float("nan")):
        with pytest.raises(RecipeError, match="nu"):
            Matern(nu=bad)
        with pytest.raises(RecipeError, match="alpha"):
            RationalQuadratic(alpha=bad)
    with pytest.raises(RecipeError, match=r"Gaussian\(sigma=length\)"):
        Matern(nu=51)


def test_families_meet():
    np.testing.assert_allclose(Matern(nu=0.5, length=2.0)(X), Exponential(length=2.0)(X), rtol=1e-13)
    np.testing.assert_allclose(RationalQuadratic(1.0, 2.0**0.5)(X), Cauchy(length=2.0)(X), rtol=1e-13)
    np.testing.assert_allclose(Matern(nu=50, length=2.0)(X), Gaussian(sigma=2.0)(X), atol=0.01)
    np.testing.assert_allclose(RationalQuadratic(1e6, 2.0)(X), Gaussian(sigma=2.0)(X), atol=1e-5)
    for nu in (0.5, 1.5, 2.5):
        np.testing.assert_allclose(Matern(nu + 1e-9, 2.0)(X), Matern(nu, 2.0)(X), atol=1e-8)
    one = X[:, :1]
    np.testing.assert_allclose(ProductCauchy(length=2.0)(one), Cauchy(length=2.0)(one), rtol=1e-13)


@pytest.mark.parametrize("nu", [0.2, 1.0, 1.01, 7.3, 50])
def test_matern_from_nothing_to_everything(nu):
    distances = np.concatenate([[0.0], np.logspace(-300, 4, 400)])[:, None]
    values = Matern(nu=nu, length=1.0)(distances, np.zeros((1, 1)))[:, 0]
    assert values[0] == 1
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 1e-13).all()
    assert values[-1] < 1e-12


def test_one_gamma_a_column_is_a_scaling_of_the_columns():
    gammas = np.array([0.1, 2.0, 0.5, 1.0])
    np.testing.assert_allclose(Gaussian(gamma=gammas)(X), Gaussian(gamma=1)(X * np.sqrt(gammas)), rtol=1e-12)
    assert Gaussian(gamma=gammas) == parse("gaussian(gamma=[0.1, 2, 0.5, 1])")
    with pytest.raises(ValueError, match="each of 4 columns and was given 3"):
        Gaussian(gamma=gammas)(X[:, :3])
    for bad in ([0.1, 0], [1, "auto"], [[1, 2]], [float("nan")]):
        with pytest.raises(RecipeError, match="gamma"):
            Gaussian(gamma=bad)
    with pytest.raises(RecipeError, match="give one of them"):
        Gaussian(gamma=[1, 2], sigma=[1, 2])


@pytest.mark.parametrize("nu", [0.3, 0.5, 1.0, 1.5, 2.2, 2.5, 3.5, 50.0])
@pytest.mark.parametrize("far", [1e5, 1e9, 1e15])
def test_a_matern_kernel_is_zero_far_away(nu, far):
    assert Matern(nu=nu, length=1.0)(np.full((1, 3), far), np.zeros((1, 3)))[0, 0] == 0.0
