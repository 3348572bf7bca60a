"""The numbers inside kernels: what is refused, and that they become plain numbers."""

import numpy as np
import pytest

from dkernel.errors import RecipeError
from dkernel.kernels import Gaussian, Laplacian, Polynomial


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), None, True, 10**400, ["a"], [], 1j, "big"])
@pytest.mark.parametrize("kind", [Gaussian, Laplacian])
def test_gamma(kind, bad):
    with pytest.raises(RecipeError, match=f"{kind.__name__} was given gamma"):
        kind(gamma=bad)


def test_a_misspelled_word_is_answered():
    with pytest.raises(RecipeError, match="Did you mean 'median'"):
        Gaussian(gamma="medain")


@pytest.mark.parametrize("bad", [0, -1.0, "auto", float("inf")])
def test_sigma(bad):
    with pytest.raises(RecipeError, match="sigma"):
        Gaussian(sigma=bad)


def test_sigma_is_another_reading_of_gamma():
    assert Gaussian(sigma=2.0) == Gaussian(gamma=0.125)
    assert Gaussian(sigma=np.float32(2)) == Gaussian(gamma=0.125)
    with pytest.raises(RecipeError, match="give one of them"):
        Gaussian(gamma=1, sigma=2)
    with pytest.raises(RecipeError):
        Gaussian(sigma=1e-200)


@pytest.mark.parametrize("bad", [0, -2, 2.5, 2.0, True, "3", None])
def test_degree(bad):
    with pytest.raises(RecipeError, match="degree"):
        Polynomial(degree=bad)


def test_constant():
    with pytest.raises(RecipeError, match="not positive semi-definite"):
        Polynomial(c=-0.1)
    with pytest.raises(RecipeError, match="finite"):
        Polynomial(c=float("nan"))


def test_numbers_become_plain():
    assert repr(Gaussian(gamma=np.float64(0.1))) == "Gaussian(gamma=0.1)"
    assert repr(Laplacian(gamma=2)) == "Laplacian(gamma=2.0)"
    assert repr(Polynomial(np.int64(2), np.float32(0.5))) == "Polynomial(degree=2, c=0.5)"
    assert Gaussian(gamma=1) == Gaussian(gamma=1.0)
