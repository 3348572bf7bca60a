"""Probabilities of margins: a calibration is part of the fit, of the model and of its file."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, log_loss

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import ModelFileError, RecipeError
from dkernel.inference.evaluate import evaluate_model
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.streaming.sources import rings, source_of

BASE = Recipe(solver="psgd", calibration="temperature",
    kernel="Gaussian(gamma=0.15)", n_components=80, loss="hinge", alpha=1e-5, scale="none", metric="identity",
    holdout=0.2,
)  # fmt: skip
UNITS = [(1500, 700), (800,)]


def source(classes=2):
    return source_of(*rings(3000, noise=0.05, classes=classes), UNITS)


@pytest.fixture(scope="module")
def fitted():
    return train(source(), BASE, SerialExecutor())


class Scores(ClassifierMixin, BaseEstimator):
    """The same model without its probabilities, for scikit-learn."""

    def __init__(self, model=None):
        self.model = model

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = self.model.classes
        return self

    def predict(self, X):
        return self.model.predict(X.astype(np.float32))

    def decision_function(self, X):
        return self.model.scores(X.astype(np.float32))[:, 0].astype(np.float64)


def test_it_is_more_reliable_than_the_margin_and_as_good_as_scikit_learns(fitted):
    model, rows = fitted.model, fitted.holdout
    X, y = rings(3000, seed=1, noise=0.05)
    S = model.scores(X)
    mine, raw = model.probabilities(S)[:, 1], 1 / (1 + np.exp(-S[:, 0].astype(float)))
    assert log_loss(y, mine) < log_loss(y, raw) - 0.01
    assert brier_score_loss(y, mine) < brier_score_loss(y, raw) - 0.002
    for method in ("sigmoid", "isotonic"):
        frozen = FrozenEstimator(Scores(model).fit(None, None))
        twin = CalibratedClassifierCV(frozen, method=method).fit(rows.X, rows.y).predict_proba(X)[:, 1]
        assert log_loss(y, mine) < log_loss(y, twin) + 2e-3


def test_the_scores_are_those_without_it_and_the_file_keeps_it(fitted, tmp_path):
    plain = train(source(), BASE.replace(calibration="none"), SerialExecutor()).model
    model = fitted.model
    assert plain.coef.tobytes() == model.coef.tobytes()
    assert not plain.has_probabilities
    assert model.has_probabilities
    assert model.facts["calibrated"] == len(fitted.holdout.X) == 600
    model_file.save(model, tmp_path / "m")
    again = model_file.load_model(tmp_path / "m")
    X, y = rings(100, seed=1, noise=0.05)
    np.testing.assert_array_equal(again.probabilities(again.scores(X)), model.probabilities(model.scores(X)))
    found = evaluate_model(again, from_arrays(X, y), SerialExecutor())
    assert found["log_loss"] == pytest.approx(log_loss(y, model.probabilities(model.scores(X))[:, 1]))


def test_many_classes_sum_to_one():
    X, y = rings(2000, classes=3, noise=0.05)
    names = np.array(["in", "mid", "out"])[y]
    machine = KernelClassifier("Gaussian(gamma=0.15)", n_components=64, alpha=1e-5, metric="identity").fit(X, names)
    P = machine.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    shares = [np.mean(names == c) for c in machine.classes_]
    assert log_loss(names, P) < log_loss(names, np.tile(shares, (len(X), 1))) - 0.2


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("solver", ["exact", "psgd"])
def test_the_label_is_the_most_probable_class_after_new_rows_too(classes, solver):
    X, y = rings(1500, classes=classes, noise=0.3)
    rare = (y > 0) | (np.arange(len(y)) % 5 == 0)
    X, y = X[rare], y[rare]
    machine = KernelClassifier("gaussian", gamma=0.3, n_components=64, alpha=1e-4, solver=solver).fit(X, y)
    for _ in range(2):
        P = machine.predict_proba(X)
        np.testing.assert_array_equal(machine.classes_[P.argmax(axis=1)], machine.predict(X))
        machine.partial_fit(*rings(1200, seed=2, classes=classes, noise=0.6))


def test_weights_of_the_holdout_count():
    X, y = rings(3000, noise=0.05)
    weight = np.where(y == 1, 4.0, 1.0)
    P = {}
    for name, given in (("equal", None), ("weighted", weight)):
        model = train(source_of(X, y, UNITS, given), BASE, SerialExecutor()).model
        P[name] = model.probabilities(model.scores(X))[:, 1]
    assert P["weighted"].mean() > P["equal"].mean() + 0.06
    assert np.average(P["weighted"], weights=weight) == pytest.approx(np.average(y, weights=weight), abs=0.05)


def test_a_file_whose_probabilities_fall_with_the_score_is_refused(fitted, tmp_path):
    model = fitted.model
    bad = replace(model, calibration=replace(model.calibration, slope=-model.calibration.slope))
    with pytest.raises(ModelFileError, match="its calibration"):
        model_file.save(bad, tmp_path / "m")
    lost = replace(model, calibration=None)
    model_file.save(lost, tmp_path / "m")
    with pytest.raises(ModelFileError, match="does not describe a model"):
        model_file.load_model(tmp_path / "m")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"calibration": "temprature"}, "Did you mean 'temperature'"),
        ({"calibration": "temperature", "loss": "squared", "task": "regress"}, "is for classes"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(RecipeError, match=words):
        Recipe(**changes)


def test_no_rows_to_fit_it_to_are_refused_before_the_fit():
    with pytest.raises(RecipeError, match="holdout=0 keeps none"):
        train(source(), BASE.replace(holdout=0.0), SerialExecutor())


def test_a_few_new_rows_of_the_same_law_leave_the_curve():
    X, y = rings(200)
    machine = KernelClassifier(n_components=16, alpha=1e-3, gamma=0.1, calibration="temperature").fit(X, y)
    before = machine.model_.calibration
    machine.partial_fit(*rings(150, seed=1))
    assert machine.model_.calibration is before  # of rows that the fit had left out


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic", "softmax"])
@pytest.mark.parametrize("solver", ["exact", "psgd"])
def test_probabilities_see_the_weight_of_a_class_as_that_of_its_rows(loss, solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    y = rng.random(1500) < 1 / (1 + np.exp(2.5 - X[:, 0] - X[:, 1]))
    settings = {"gamma": 0.05, "alpha": 1e-3, "n_components": 60, "loss": loss, "solver": solver, "holdout": 0.2}
    machine = KernelClassifier("gaussian", calibration="temperature", **settings)
    weighted = clone(machine).set_params(class_weight={True: 8.0}).fit(X[:700], y[:700]).predict_proba(X[700:])[:, 1]
    of_rows = machine.fit(X[:700], y[:700], sample_weight=np.where(y[:700], 8.0, 1.0)).predict_proba(X[700:])[:, 1]
    assert abs(weighted.mean() - of_rows.mean()) < 0.02
    assert weighted.mean() > 2 * y.mean()
