"""The choice says by how much it won, and takes the linear kernel where no other is better."""

import re

import numpy as np
import pytest

from dkernel import KernelRegressor


def of_many_features(n, p):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n + 500, p))
    return X, X @ rng.standard_normal(p) / np.sqrt(p) + 0.1 * rng.standard_normal(n + 500)


@pytest.mark.slow
def test_many_features_of_a_linear_rule_have_the_linear_kernel():
    X, y = of_many_features(3000, 2000)
    machine = KernelRegressor().fit(X[:3000], y[:3000])
    assert machine.model_.recipe.kernel == "Linear()"
    assert machine.chosen_["kernel"].startswith("Linear(), no worse than Gaussian")
    assert machine.score(X[3000:], y[3000:]) > 0.95


@pytest.mark.parametrize(("bend", "linear"), [(0.0, True), (0.5, False)])
def test_of_equals_the_linear_kernel_is_taken(bend, linear):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((900, 4))
    found = KernelRegressor().fit(X, X[:, 0] + bend * X[:, 1] ** 2 + 0.5 * rng.standard_normal(900))
    assert (found.model_.recipe.kernel == "Linear()") == linear


@pytest.mark.parametrize("given", [{"kernel": "gaussian"}, {"gamma": 0.001}])
def test_what_is_given_stays(given):
    machine = KernelRegressor(**given).fit(*of_many_features(0, 20))
    assert machine.model_.recipe.kernel.startswith("Gaussian")


def test_one_loss_and_that_of_the_next_are_said():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3)) * [1, 2, 4]
    machine = KernelRegressor().fit(X, np.sin(X[:, 0]) + 0.1 * X[:, 1])
    for name in ("kernel", "scale", "gamma", "alpha"):
        found = re.search(r": loss ([\d.e-]+), runner-up .* ([\d.e-]+)$", machine.chosen_[name])
        assert found is not None, name
        assert machine.chosen_[name].count("loss") == 1
        assert float(found[1]) > 0
        assert name != "gamma" or float(found[1]) <= float(found[2])
