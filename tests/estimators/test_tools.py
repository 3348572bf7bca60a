"""Tools of scikit-learn that read attributes of an estimator: each is right here, or refused in words."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - it makes the import below possible
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import HalvingGridSearchCV, TunedThresholdClassifierCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkernel import KernelClassifier, KernelRegressor

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(400, 4)), columns=list("abcd"))
CODES = (X["b"] ** 2 + 0.2 * X["d"] > 0.7).to_numpy()  # b matters most, then d
NUMBERS = (4 * X["b"] + X["d"]).to_numpy()
GIVEN = {"kernel": "gaussian", "gamma": 0.5, "metric": "identity", "n_components": 50, "random_state": 0}


def classifier(**more):
    return KernelClassifier(**GIVEN | more)


def linear():
    return KernelRegressor("linear", random_state=0)


TOOLS = {
    "permutation_importance": lambda: X.columns[
        [np.argmax(permutation_importance(classifier().fit(X, CODES), X, CODES, n_repeats=2)["importances_mean"])]
    ],
    "partial_dependence": lambda: X.columns[
        [np.argmax([np.ptp(partial_dependence(classifier().fit(X, CODES), X, [c])["average"]) for c in X.columns])]
    ],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_finds_the_column_that_matters(tool):
    assert list(TOOLS[tool]()) == ["b"]


SCORED = {
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(classifier(calibration=None), cv=2),
    "BaggingClassifier": lambda: BaggingClassifier(classifier(), n_estimators=2, random_state=0),
    "StackingClassifier": lambda: StackingClassifier([("k", classifier())], cv=2),
    "VotingClassifier": lambda: VotingClassifier([("k", classifier()), ("l", classifier(gamma=0.2))], voting="soft"),
    "TunedThresholdClassifierCV": lambda: TunedThresholdClassifierCV(classifier(), cv=2),
    "OneVsOneClassifier": lambda: OneVsOneClassifier(classifier()),
    "AdaBoostClassifier": lambda: AdaBoostClassifier(classifier(), n_estimators=2, random_state=0),
    "HalvingGridSearchCV": lambda: HalvingGridSearchCV(classifier(), {"alpha": [1e-5, 1e-3]}, cv=2, random_state=0),
    "OneVsRestClassifier": lambda: OneVsRestClassifier(classifier()),
    "set_output": lambda: make_pipeline(StandardScaler(), classifier()).set_output(transform="pandas"),
}


@pytest.mark.parametrize("tool", SCORED)
def test_a_tool_around_a_classifier_predicts_as_it_does(tool):
    assert SCORED[tool]().fit(X, CODES).score(X, CODES) > 0.9


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear")
def test_weights_calibrate_as_copies_do():
    weight = np.random.default_rng(1).integers(1, 3, len(X))
    machine = CalibratedClassifierCV(FrozenEstimator(classifier(dtype="float64").fit(X, CODES)))
    one = clone(machine).fit(X, CODES, sample_weight=weight).predict_proba(X)
    other = clone(machine).fit(X.loc[X.index.repeat(weight)], CODES.repeat(weight)).predict_proba(X)
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("scoring", ["roc_auc", "average_precision", "neg_log_loss", "balanced_accuracy"])
def test_scorers_of_scikit_learn_read_scores_and_probabilities(scoring):
    scores = cross_val_score(classifier(), X, CODES, scoring=scoring, cv=2, error_score="raise")
    assert (scores > (-0.5 if scoring.startswith("neg") else 0.8)).all()


def test_transformed_targets():
    machine = TransformedTargetRegressor(linear(), func=np.sinh, inverse_func=np.arcsinh)
    assert machine.fit(X, np.arcsinh(NUMBERS)).score(X, np.arcsinh(NUMBERS)) > 0.99


PASSES = {
    "exact": ({"solver": "exact"}, 1),
    "normal": ({"solver": "normal", "loss": "squared"}, 1),
    "psgd": ({"solver": "psgd", "passes": 3, "polish": 0}, 3),
}


@pytest.mark.parametrize("solver", PASSES)
def test_every_fit_has_importances_and_the_passes_that_it_made(solver):
    settings, made = PASSES[solver]
    machine = classifier(**settings).fit(X, CODES)
    assert np.argmax(machine.feature_importances_) == 1
    assert machine.n_iter_ == made


NONE_LEFT_OUT = {
    "no holdout": lambda: classifier(solver="psgd", holdout=0).fit(X, CODES),
    "partial_fit": lambda: classifier().partial_fit(X, CODES, classes=[False, True]),
}


@pytest.mark.parametrize("case", NONE_LEFT_OUT)
def test_what_needs_rows_left_out_is_refused_in_words_without_them(case):
    machine = NONE_LEFT_OUT[case]()
    with pytest.raises(AttributeError, match="permutation_importance"):
        machine.feature_importances_  # noqa: B018 - it raises
    if case == "no holdout":  # blocks are scored before they are learned
        assert not hasattr(machine, "predict_proba")
        with pytest.raises(AttributeError, match="loss='logistic'"):
            machine.predict_proba(X)
    assert not hasattr(machine, "set_output")


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_probabilities_are_those_of_rows_in_the_weights_of_the_classes(loss):
    for weight in (1.0, 4.0):
        rows = np.where(CODES, weight, 1.0)
        P = classifier(loss=loss, class_weight={True: weight}).fit(X, CODES).predict_proba(X)[:, 1]
        assert np.average(P, weights=rows) == pytest.approx(np.average(CODES, weights=rows), abs=0.05)
