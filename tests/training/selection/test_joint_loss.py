"""A linear kernel with the loss of all classes at once, where one class against the rest errs more."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import train
from dkernel.training.local_stages import LOCAL_STAGES


def planes(n, k=12, p=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, (2 * X @ np.random.default_rng(k).normal(size=(p, k)) + rng.gumbel(size=(n, k))).argmax(axis=1)


def rings(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    return X, np.digitize(np.square(X).sum(axis=1), [0.8, 2.0])


@pytest.mark.parametrize("solver", ["exact", pytest.param("psgd", marks=pytest.mark.slow)])
def test_classes_between_planes_are_learned_as_by_logistic_regression(solver):
    X, y = planes(2900, k=24, p=20)  # a gain of 3 to 5 standard errors; 1 to 4 with 12 classes and 10 features
    fit = KernelClassifier(solver=solver).fit(X[:900], y[:900])
    assert fit.model_.recipe.loss == "softmax"
    assert fit.n_components_ == X.shape[1]
    assert "squared_hinge" in fit.chosen_["loss"]
    assert fit.predict_proba(X[:2]).shape == (2, 24)
    linear = LogisticRegression().fit(X[:900], y[:900])
    assert fit.score(X[900:], y[900:]) > linear.score(X[900:], y[900:]) - 0.01


def test_a_loss_that_is_given_stays():
    X, y = planes(900)
    fit = KernelClassifier(loss="squared_hinge").fit(X, y)
    assert fit.model_.recipe.loss == "squared_hinge"
    assert "loss" not in fit.chosen_


def test_rings_are_learned_one_against_the_rest():
    fit = KernelClassifier().fit(*rings(900))
    assert fit.model_.recipe.loss == "squared_hinge"


def test_the_joint_loss_goes_with_the_ways_that_a_race_has_left():
    X, y = planes(1500)
    fit = train(from_arrays(X, y), Recipe(task="classify", solver="psgd", holdout=0.2), SerialExecutor())
    assert ("losses after" in fit.chosen["way"]) == ("cells" in LOCAL_STAGES)  # which run in a race
    assert fit.model.recipe.loss == "softmax"


@pytest.mark.slow  # tests/training/test_same_bytes.py compares three classes and a choice
def test_is_the_same_on_every_executor():
    X, y = planes(900)
    recipe = Recipe(task="classify", solver="psgd")
    one, other = (train(from_arrays(X, y), recipe, of).model for of in (SerialExecutor(), ThreadsExecutor(2)))
    assert one.recipe.loss == "softmax"
    np.testing.assert_array_equal(one.coef, other.coef)
