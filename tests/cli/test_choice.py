"""The choice of kernel and gamma: of the features that the fit will have, and beyond the ends of its grid."""

import re

import numpy as np
import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import UnsupportedError
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.estimators.test_harmless import quadratic


@pytest.mark.parametrize("sampling", ["orthogonal", "structured", "fastfood"])
def test_a_sampling_that_some_kernels_lack_leaves_these_out(sampling):
    recipe = Recipe(features="fourier", sampling=sampling, n_components=64)
    found = train(from_arrays(*quadratic(3000)), recipe, SerialExecutor())
    assert "Laplacian" not in str(found.model.map.kernel)
    with pytest.raises(UnsupportedError, match="needs a kernel of the Euclidean distance"):
        train(from_arrays(*quadratic(100)), recipe.replace(kernel="laplacian"), SerialExecutor())


def test_gamma_goes_beyond_its_grid():
    X = np.random.default_rng(0).uniform(0, 1, (6000, 1))
    y = np.sin(2 * np.pi * 24 * X[:, 0])
    machine = KernelRegressor("gaussian", n_components=512, scale="standard").fit(X[:5000], y[:5000])
    assert machine.score(X[5000:], y[5000:]) > 0.95
    assert float(re.search(r"\(([\d.]+) x the median heuristic\)", machine.chosen_["gamma"])[1]) > 64


def test_fourier_features_are_judged_as_such():
    X, y = quadratic(14_000)
    machine = KernelClassifier(features="fourier", n_components=256).fit(X[:10_000], y[:10_000])
    assert machine.score(X[10_000:], y[10_000:]) > 0.92


@pytest.mark.parametrize(("noise", "components"), [(1.0, 1024), pytest.param(0.0, 1280, marks=pytest.mark.slow)])
def test_components_are_as_many_as_are_a_gain(noise, components):
    """Of a target that is mostly noise the first thousand find all there is to find."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (8192, 4)).astype(np.float32)
    y = np.sin(X[:, 0]) * X[:, 1] + np.cos(4 * X[:, 2]) * (noise == 0) + noise * rng.standard_normal(len(X))
    machine = KernelRegressor("gaussian", local="none").fit(X, y)
    assert machine.model_.recipe.n_components == machine.model_.map.n_components == components
    assert ("1 % at most" in machine.chosen_["n_components"]) is (components == 1024)
