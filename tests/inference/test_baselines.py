"""Baselines: a linear model and boosted trees on the holdout of a fit, and who wins."""

import numpy as np
import pytest

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.inference import baselines as baseline
from dkernel.inference.baselines import baselines
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
    found = baselines(curved)
    assert (found["rows"], found["figure"]) == (300, "error")
    assert found["linear"]["value"] > 0.25 > 0.15 > found["model"]["value"]
    wrong = curved.model.predict(curved.holdout.X) != curved.holdout.y
    assert found["model"]["value"] == pytest.approx(wrong.mean())
    assert found["linear"]["gain"] == pytest.approx(found["linear"]["value"] - found["model"]["value"])
    assert "boosted" not in found


@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_of_equal_ones_is_wrong_for_all_others(classes):
    X = np.random.default_rng(0).standard_normal((150, 2))
    result = KernelClassifier("gaussian").fit(X, np.arange(150) % classes)._finished[0]
    assert len(result.folds) > 1
    assert baselines(result)["constant"]["value"] == pytest.approx(1 - 1 / classes)


@pytest.mark.parametrize("unit", [1.0, 1e-4])
def test_the_constant_is_the_same_in_any_unit_of_the_weights(unit):
    X = np.random.default_rng(0).standard_normal((2000, 2))
    result = KernelClassifier("linear").fit(X, np.arange(2000) % 5 > 0, sample_weight=np.full(2000, unit))._finished[0]
    assert baselines(result)["constant"]["value"] == pytest.approx(0.2, abs=0.03)


def test_the_error_of_a_difference_is_that_of_its_pairs(straight):
    _, result = straight
    found, held = baselines(result), result.holdout
    own = (result.model.predict(held.X) - held.y) ** 2
    mean = (result.sample.y.mean() - held.y) ** 2
    assert found["constant"]["gain"] == pytest.approx(np.sqrt(mean.mean()) - np.sqrt(own.mean()))
    near = (mean - own).std() / np.sqrt(len(own)) / (np.sqrt(mean.mean()) + np.sqrt(own.mean()))
    assert found["constant"]["gain_error"] == pytest.approx(near)


def test_the_figure_of_the_model_is_that_of_its_holdout():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    result = fitted(X, np.exp(X[:, 0]) + X[:, 1], RECIPE.replace(loss="squared", alpha=1e-9))
    assert baselines(result)["model"]["value"] == pytest.approx(result.model.facts["holdout"]["rmse"], rel=1e-5)


def test_a_fit_without_a_holdout_is_compared_by_the_rows_of_its_folds():
    result = fitted(*rings(600, p=4), Recipe(kernel="gaussian", gamma=0.15, metric="identity", solver="exact"))
    found = baselines(result)
    assert found["model"]["value"] == pytest.approx(1 - result.model.facts["holdout"]["accuracy"])
    assert found["rows"] == 600
    (_, rows, learned), *_ = result.left_out
    both = {row.tobytes() for row in rows.X} & {row.tobytes() for row in learned.X}
    assert (both, len(rows.X) + len(learned.X)) == (set(), 600)


def test_the_linear_model_is_that_of_scikit_learn(straight):
    from sklearn.linear_model import LinearRegression

    _, result = straight
    expected = LinearRegression().fit(result.sample.X, result.sample.y).predict(result.holdout.X)
    error = np.sqrt(np.mean((expected - result.holdout.y) ** 2))
    found = baselines(result)
    assert found["linear"]["value"] == pytest.approx(error, abs=1e-4)
    assert found["linear"]["value"] < 0.02 < found["model"]["value"]


def test_the_figures_of_a_ranking_are_those_of_scikit_learn(curved):
    from sklearn.metrics import average_precision_score, roc_auc_score

    found, held = baselines(curved), curved.holdout
    S = curved.model.scores(held.X)[:, 0]
    assert found["model"]["auc"] == pytest.approx(roc_auc_score(held.y, S))
    assert found["model"]["average_precision"] == pytest.approx(average_precision_score(held.y, S))


@pytest.mark.parametrize("classes", [2, 3])
def test_boosted_trees_and_the_same_again(classes):
    pytest.importorskip("lightgbm")
    found = baselines(result := fitted(*rings(1500, p=4, classes=classes)), "all")
    assert found["boosted"]["value"] < found["linear"]["value"]
    assert found == baselines(result, "all")


def test_boosted_trees_of_a_regression():
    pytest.importorskip("lightgbm")
    found = baselines(fitted(*waves(1200, p=4), RECIPE.replace(loss="squared")), "all")
    assert 0 < found["boosted"]["value"] < found["linear"]["value"]


def test_weights_decide_what_counts():
    X, y = rings(800, p=4)
    weight = np.where(y == 0, 1.0, 0.0)
    found = baselines(fitted(X, y, weight=weight + 1e-3))
    # Rows of one class are nearly all that counts: whoever says that class is right.
    assert found["linear"]["value"] < 0.05


def test_several_targets_are_judged_in_their_deviations():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 4))
    Y = np.stack([X[:, 0] ** 2, 1e6 * X[:, 1]], axis=1)
    found = baselines(fitted(X, Y, RECIPE.replace(loss="squared")))
    assert found["model"]["value"] < found["linear"]["value"] < found["constant"]["value"] == pytest.approx(1, rel=0.1)


def test_nothing_to_compare_with(curved):
    assert baselines(fitted(*rings(900, p=4), RECIPE.replace(holdout=0.0))) == {}
    assert baselines(curved, "off").keys() == {"rows", "figure", "sure", "model"}


def test_what_is_refused(curved, monkeypatch):
    with pytest.raises(RecipeError, match="Did you mean 'linear'"):
        baselines(curved, "linaer")
    monkeypatch.setattr(baseline.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match=r"pip install lightgbm"):
        baselines(curved, "all")
