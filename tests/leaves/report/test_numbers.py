import numpy as np
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    confusion_matrix,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
)

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.leaves.report.numbers import calibration, judge, learning_curve
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train


def fitted(y_of, holdout=0.3, **recipe):
    X = np.random.default_rng(0).normal(size=(1200, 2)).astype(np.float32)
    settings = {"kernel": "gaussian", "metric": "identity", "scale": "none", "n_components": 48, "gamma": 0.5}
    settings |= {"alpha": 1e-6, "holdout": holdout, "solver": "psgd"} | recipe
    return train(from_arrays(X, y_of(X)), Recipe(**settings), SerialExecutor())


def rows_of(result):
    return [(model, rows) for model, rows, _ in result.left_out]


@pytest.fixture(scope="module")
def two():
    return fitted(lambda X: np.where((X**2).sum(1) < 1.4, "in", "out"))


@pytest.fixture(scope="module")
def three():
    return fitted(lambda X: np.digitize(X[:, 0], [-0.5, 0.5]), loss="logistic")


@pytest.fixture(scope="module")
def smooth():
    return fitted(lambda X: np.sin(X[:, 0]) + X[:, 1], task="regress", loss="squared")


def test_two_classes_have_the_figures_that_scikit_learn_gives_them(two):
    found = judge(rows_of(two))
    truth, scores = two.holdout.y, two.model.scores(two.holdout.X)[:, 0]
    assert found.merits["AUC"] == pytest.approx(roc_auc_score(truth == "out", scores), abs=1e-12)
    predicted = two.model.predict(two.holdout.X)
    assert found.confusion.tolist() == confusion_matrix(truth, predicted).tolist()
    precision, recall, _, n = precision_recall_fscore_support(truth, predicted)
    assert np.array([figures for _, *figures in found.per_class]) == pytest.approx(np.array([n, precision, recall]).T)
    assert [name for name, *_ in found.one_against_rest()] == ["out"]


def test_several_classes(three):
    found = judge(rows_of(three))
    assert found.confusion.shape == (3, 3)
    truth = three.holdout.y
    assert found.merits == {"balanced accuracy": balanced_accuracy_score(truth, three.model.predict(three.holdout.X))}
    assert [name for name, *_ in found.one_against_rest()] == ["0", "1", "2"]
    bins, whose = calibration(three.model, found)
    assert whose == "P(predicted class)"
    assert bins[:, 2].sum() == len(three.holdout.X)
    assert (np.diff(bins[:, 0]) >= 0).all()
    assert np.average(bins[:, 1], weights=bins[:, 2]) == pytest.approx((found.truth == found.predicted).mean())


def test_a_squared_hinge_score_is_twice_a_probability_less_one(two):
    bins, whose = calibration(two.model, judge(rows_of(two)))
    assert whose == "P(out)"
    assert np.abs(bins[:, 0] - bins[:, 1]).mean() < 0.12


def test_a_hinge_says_nothing_of_probabilities():
    hinge = fitted(lambda X: X[:, 0] > 0, loss="hinge", calibration="none")
    assert calibration(hinge.model, judge(rows_of(hinge))) is None


def test_a_regression(smooth):
    found = judge(rows_of(smooth))
    predicted = smooth.model.predict(smooth.holdout.X)
    assert found.merits == {"R²": pytest.approx(r2_score(smooth.holdout.y, predicted))}
    assert calibration(smooth.model, found) is None


def test_without_rows_left_out_nothing_is_measured():
    result = fitted(lambda X: X[:, 0] > 0, holdout=0)
    assert judge(rows_of(result)) is None


def test_folds_are_judged_as_if_they_were_one_model():
    X = np.random.default_rng(0).normal(size=(200, 2))
    result = KernelClassifier("gaussian").fit(X, X[:, 0] > 0)._finished[0]
    found = judge(rows_of(result))
    assert len(result.folds) > 1
    assert len(found.truth) == 200
    assert (found.truth == found.predicted).mean() == pytest.approx(result.model.facts["holdout"]["accuracy"], abs=0.01)


def test_the_learning_curve_counts_rows(two):
    rounds, holdout = learning_curve(two.history)
    assert rounds[-1, 0] == sum(line["rows"] for line in two.history if "round" in line)
    assert holdout[0, 0] == 0
