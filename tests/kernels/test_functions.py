"""A user's own kernels: how a name stands for a function, and what is said of a function that is no kernel."""

import copy
import pickle
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone

import dkernel
from dkernel.errors import DataError, ModelFileError, RecipeError
from dkernel.kernels import FeatureMapKernel, FunctionKernel, Gaussian, Kernel, parse, register
from dkernel.leaves.analysis.psd_check import is_psd
from tests.kernels.catalogue import squares, sum_of_minima
from tests.processes import environment

X = np.random.default_rng(0).standard_normal((70, 3))


def largest(A, B):
    return np.maximum(A, B.T)


def test_a_registered_name_is_the_text():
    k = FunctionKernel(sum_of_minima) + 2 * FeatureMapKernel("tests: squares")
    assert repr(k) == "FunctionKernel('tests: sum of minima') + 2.0 * FeatureMapKernel('tests: squares')"
    assert parse(repr(k)) == k
    assert FunctionKernel("tests: sum of minima").function is sum_of_minima
    assert pickle.loads(pickle.dumps(k)) == copy.deepcopy(k) == k


def test_a_function_without_a_name_is_read_back_in_this_process():
    k = FunctionKernel(largest)
    assert repr(k).startswith("FunctionKernel('largest (not registered, ")
    assert pickle.loads(pickle.dumps(k)) == k == parse(repr(k)) == parse(largest)
    script = f"from dkernel.kernels import parse; parse({repr(k)!r})"
    elsewhere = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert "register('largest', function)" in elsewhere.stderr
    register("largest", np.minimum)
    assert parse(repr(FunctionKernel(largest))).function is largest  # another function of that name is not it
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


def test_two_functions_of_one_name_are_two():
    first, second = (lambda A, B, c=c: c * (A @ B.T) for c in (1.0, 2.0))
    assert repr(parse(first)) != repr(parse(second))
    X = np.ones((1, 2))
    assert [parse(repr(parse(each)))(X, X).item() for each in (first, second)] == [2.0, 4.0]


def test_a_function_is_a_kernel_of_a_fit_and_no_file_holds_it(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 2))

    def near(A, B):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1))

    machine = dkernel.KernelRegressor(near, n_components=32).fit(X, X[:, 0])
    assert machine.score(X, X[:, 0]) > 0.5
    assert clone(machine).fit(X, X[:, 0]).model_.recipe.kernel == machine.model_.recipe.kernel
    with pytest.raises(ModelFileError, match=r"say dkernel.register\('near', function\) before the fit"):
        dkernel.save(machine, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_the_processes_of_a_cluster_have_it_too(shared_cluster):
    from distributed import Client

    X = da.from_array(np.random.default_rng(0).normal(size=(3000, 2)), chunks=(1000, 2))
    asked = {"n_components": 32, "solver": "psgd", "local": "cells", "passes": 2}
    here, there = (
        dkernel.KernelClassifier(lambda A, B: np.minimum(A, 0.0) @ np.minimum(B, 0.0).T + A @ B.T, **asked)
        for _ in range(2)
    )
    here.fit(X, X[:, 0] > 0)
    with Client(shared_cluster):
        there.fit(X, X[:, 0] > 0)
    np.testing.assert_array_equal(here.decision_function(X[:10]), there.decision_function(X[:10]))
