"""alpha="C=10": the regularization as support vector machines say it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from dkernel import KernelClassifier, Tuner
from dkernel.errors import RecipeError
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.estimators.data import SMALL, ball
from tests.streaming.sources import rings, source_of

GAUSSIAN = {"gamma": 0.4, "scale": "none", "metric": "identity", "random_state": 0}


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("weights", [None, "rows", "balanced"])
def test_a_machine_of_few_rows_is_that_of_scikit_learn(C, weights):
    X, y = ball(300)
    given = np.random.default_rng(0).uniform(0.5, 2.0, 300) if weights == "rows" else None
    balanced = "balanced" if weights == "balanced" else None
    ours = KernelClassifier("gaussian", loss="hinge", alpha=f"C={C}", class_weight=balanced, **GAUSSIAN)
    theirs = SVC(C=C, gamma=0.4, class_weight=balanced, tol=1e-6)
    scores = ours.fit(X, y, sample_weight=given).decision_function(X)
    wanted = theirs.fit(X, y, sample_weight=given).decision_function(X)
    np.testing.assert_allclose(scores, wanted, atol=2e-3 * np.abs(wanted).max())


def test_a_logistic_machine_too():
    X, y = ball(200)
    ours = KernelClassifier("Linear()", loss="logistic", alpha="C = 2", scale="none", metric="identity").fit(X, y)
    theirs = LogisticRegression(C=2.0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=1e-4, atol=1e-5)


def test_in_a_stream_the_rows_count_that_are_learned_from():
    source = source_of(*rings(1500, p=4), [(500, 400), (600,)])
    recipe = Recipe(n_components=48, kernel="Gaussian(gamma=0.2)", metric="identity", scale="none", holdout=0.1)
    found = train(source, recipe.replace(alpha="C=5"), SerialExecutor())
    same = train(source, recipe.replace(alpha=1 / (5 * 1350)), SerialExecutor())
    assert found.model.recipe.alpha == pytest.approx(1 / (5 * 1350), rel=1e-12)
    np.testing.assert_allclose(found.model.coef, same.model.coef, rtol=1e-6, atol=1e-6)
    assert "C = 5" in found.chosen["alpha"]


def test_what_knows_no_number_of_rows_refuses():
    X, y = ball(300)
    with pytest.raises(RecipeError, match="partial_fit does not know how many rows"):
        KernelClassifier(**SMALL | {"alpha": "C=1"}).partial_fit(X, y, classes=np.unique(y))
    with pytest.raises(RecipeError, match="a search compares alphas"):
        Tuner(KernelClassifier(**SMALL), {"alpha": ["C=1", 1e-3]}).fit(X, y)


@pytest.mark.parametrize("text", ["C=0", "C=-1", "C=", "C=inf", "C=ten", "c=1"])
def test_no_number_above_0_is_refused(text):
    with pytest.raises(RecipeError, match="C=NUMBER above 0"):
        Recipe(alpha=text)
