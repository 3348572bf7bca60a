"""Baselines: a linear model and boosted trees on the holdout of a fit, and who wins."""

import numpy as np
import pytest

from dkernel.data import from_arrays
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.inference import baselines as baseline
from dkernel.inference.baselines import baselines, format_baselines
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.streaming.sources import rings, waves

RECIPE = Recipe(
    solver="psgd", n_components=64, kernel="gaussian", gamma=0.15, metric="identity", scale="standard", alpha=1e-6
)
RECIPE = RECIPE.replace(holdout=0.2, rounds=8)


def fitted(X, y, recipe=RECIPE, weight=None):
    return train(from_arrays(X, y, weight), recipe, SerialExecutor())


@pytest.fixture(scope="module")
def curved():
    return fitted(*rings(1500, p=4))


@pytest.fixture(scope="module")
def straight():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    return X, fitted(X, X @ np.arange(1.0, 7.0) + 3.0, RECIPE.replace(loss="squared", gamma=2.0))


def test_rings_are_not_linear(curved):
    found = baselines(curved.model, curved.sample, curved.holdout)
    assert found["wins"] == "model"
    assert (found["rows"], found["sample_rows"], found["figure"]) == (300, 1200, "error")
    assert found["linear"] > 0.25 > 0.15 > found["model"]
    truth = curved.holdout.y
    assert found["model"] == pytest.approx(np.mean(curved.model.predict(curved.holdout.X) != truth))
    assert "boosted" not in found
    assert "(learned from 1,200 rows)" in format_baselines(found)
    assert format_baselines(found).endswith(": this model wins")


def test_the_figure_of_the_model_is_that_of_its_holdout():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    result = fitted(X, np.exp(X[:, 0]) + X[:, 1], RECIPE.replace(loss="squared", alpha=1e-9))
    found = baselines(result.model, result.sample, result.holdout)
    assert found["model"] == result.model.facts["holdout"]["rmse"]


def test_a_fit_without_a_holdout_is_compared_by_folds():
    result = fitted(*rings(600, p=4), Recipe(kernel="gaussian", gamma=0.15, metric="identity", solver="exact"))
    found = baselines(result.model, result.sample, result.holdout)
    assert found["model"] == pytest.approx(1 - result.model.facts["holdout"]["accuracy"])
    assert "(cross-validated on 600 rows)" in format_baselines(found)


def test_a_plane_is_and_it_is_said(straight):
    _, result = straight
    found = baselines(result.model, result.sample, result.holdout)
    assert (found["wins"], found["figure"]) == ("linear", "rmse")
    assert found["linear"] < 0.02 < found["model"]
    assert "the linear model wins" in format_baselines(found)


def test_the_linear_model_is_that_of_scikit_learn(straight):
    from sklearn.linear_model import LinearRegression

    _, result = straight
    expected = LinearRegression().fit(result.sample.X, result.sample.y).predict(result.holdout.X)
    error = np.sqrt(np.mean((expected - result.holdout.y) ** 2))
    found = baselines(result.model, result.sample, result.holdout)
    assert found["linear"] == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_boosted_trees_and_the_same_again(classes):
    pytest.importorskip("lightgbm")
    result = fitted(*rings(1500, p=4, classes=classes))
    found = baselines(result.model, result.sample, result.holdout, "all")
    assert found["boosted"] < found["linear"]
    assert found == baselines(result.model, result.sample, result.holdout, "all")
    assert found["wins"] == min(("linear", "boosted", "model"), key=lambda name: found[name])
    assert "boosted" in format_baselines(found)


def test_boosted_trees_of_a_regression():
    pytest.importorskip("lightgbm")
    result = fitted(*waves(1200, p=4), RECIPE.replace(loss="squared"))
    found = baselines(result.model, result.sample, result.holdout, "all")
    assert 0 < found["boosted"] < found["linear"]


def test_weights_decide_what_counts():
    X, y = rings(800, p=4)
    weight = np.where(y == 0, 1.0, 0.0)
    result = fitted(X, y, weight=weight + 1e-3)
    found = baselines(result.model, result.sample, result.holdout)
    assert "by the weights" in format_baselines(found)
    # Rows of one class are nearly all that counts: whoever says that class is right.
    assert found["linear"] < 0.05


def test_nothing_to_compare_with(curved):
    assert baselines(curved.model, curved.sample, None) == {}
    assert baselines(curved.model, curved.sample, curved.holdout, "off") == {}


def test_what_is_refused(curved, monkeypatch):
    with pytest.raises(RecipeError, match="Did you mean 'linear'"):
        baselines(curved.model, curved.sample, curved.holdout, "linaer")
    monkeypatch.setattr(baseline.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match=r"dkernel\[baseline\]"):
        baselines(curved.model, curved.sample, curved.holdout, "all")
