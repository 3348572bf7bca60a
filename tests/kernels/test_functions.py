"""A user's own kernels: how a name stands for a function, and what is said of a function that is no kernel."""

import copy
import pickle

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError
from dkernel.kernels import FeatureMapKernel, FunctionKernel, Gaussian, Kernel, is_psd, parse, register
from tests.kernels.catalogue import squares, sum_of_minima

X = np.random.default_rng(0).standard_normal((70, 3))


def largest(A, B):
    return np.maximum(A, B.T)


def test_a_registered_name_is_the_text():
    k = FunctionKernel(sum_of_minima) + 2 * FeatureMapKernel("tests: squares")
    assert repr(k) == "FunctionKernel('tests: sum of minima') + 2.0 * FeatureMapKernel('tests: squares')"
    assert parse(repr(k)) == k
    assert FunctionKernel("tests: sum of minima").function is sum_of_minima
    assert pickle.loads(pickle.dumps(k)) == copy.deepcopy(k) == k


def test_a_function_without_a_name_is_used_and_not_read_back():
    k = FunctionKernel(largest)
    assert repr(k) == "FunctionKernel('largest (not registered)')"
    assert pickle.loads(pickle.dumps(k)) == k
    with pytest.raises(RecipeError, match=r"register\('largest', function\)"):
        parse(repr(k))
    register("largest", np.minimum)
    with pytest.raises(RecipeError, match="register"):  # another function of that name is not it
        parse(repr(FunctionKernel(largest)))
    register("largest", largest)
    assert parse(repr(FunctionKernel(largest))) == FunctionKernel(largest)


def test_a_class_of_the_user_reads_back_by_its_name():
    @register("Ripples")
    class Ripples(Kernel):
        def __repr__(self):
            return "Ripples()"

        def __eq__(self, other):
            return isinstance(other, Ripples)

        __hash__ = object.__hash__

        def _values(self, X, Z):
            return np.cos(X[:, :1] - Z[:, 0])

        def _diag(self, X):
            return np.ones(len(X))

    assert parse("ripples + Gaussian(gamma=1)") == Ripples() + Gaussian(gamma=1)
    with pytest.raises(RecipeError, match="as 'Ripples'"):
        register("another", Ripples)


@pytest.mark.parametrize(
    "make", [lambda: register("", largest), lambda: register(3, largest), lambda: register("a", 3)]
)
def test_what_cannot_be_registered(make):
    with pytest.raises(RecipeError):
        make()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda A, B: A @ B.T - np.arange(len(A))[:, None], "not symmetric"),
        (lambda A, _: A[:, 0], r"\(70, 70\) is needed"),
        (lambda A, B: A @ B.T * np.nan, "not finite"),
    ],
)
def test_functions_that_are_no_kernel(function, says):
    with pytest.raises(DataError, match=says):
        FunctionKernel(function)(X)


@pytest.mark.parametrize("kind", [FunctionKernel, FeatureMapKernel])
def test_no_function(kind):
    with pytest.raises(RecipeError, match="a function or its name"):
        kind(3)


def test_the_diagonal_is_taken_in_strips():
    k = FunctionKernel(lambda A, B: np.exp(-np.abs(A[:, :1] - B[:, 0])) * (1 + A @ B.T))
    np.testing.assert_allclose(k.diag(X), np.diag(k(X)), rtol=1e-13)
    with pytest.raises(DataError, match=r"\(70, D\)"):
        FeatureMapKernel(lambda A: A[1:])(X)
    assert np.allclose(FeatureMapKernel(squares)(X), squares(X) @ squares(X).T)


def test_the_largest_of_two_numbers_is_no_kernel():
    found = is_psd(largest, [0.0, 2.0])
    assert not found
    assert found.smallest == pytest.approx(1 - 5**0.5)
    K = np.array([[0.0, 2.0], [2.0, 2.0]])
    assert found.witness @ K @ found.witness == pytest.approx(found.smallest)
    assert "not positive semi-definite" in str(found)
    assert "row 0" in str(found)


def test_kernels_have_no_witness():
    for k in ("Gaussian(gamma=0.1)", Gaussian(gamma=1e-9), FunctionKernel(lambda A, B: np.minimum(A, B.T))):
        found = is_psd(k, np.abs(X[:, :1]))
        assert found
        assert str(found).startswith("positive semi-definite on these 70 rows")
    with pytest.raises(DataError, match="no rows"):
        is_psd("linear", X[:0])
