"""Refusals of the estimators name the way out, in scikit-learn's words too."""

import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier, KernelKMeans, KernelPCA, OneClassSVM
from dkernel.errors import DataError, MissingValueError

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=80), "b": RNG.normal(size=80)})
Y = (X["a"] > 0).to_numpy().astype(int)
TEXT = X.assign(b=["x", "y"] * 40)


def test_a_margin_says_what_gives_probabilities():
    machine = KernelClassifier("gaussian", n_components=16, loss="hinge", calibration=None).fit(X, Y)
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError, match=r"Use loss='logistic'.*calibration='platt'"):
        machine.predict_proba(X)


def test_the_curve_of_platt_has_the_name_of_scikit_learn_too():
    of = {
        name: KernelClassifier("gaussian", n_components=16, calibration=name).fit(X, Y) for name in ("sigmoid", "platt")
    }
    np.testing.assert_array_equal(of["sigmoid"].predict_proba(X), of["platt"].predict_proba(X))
    assert of["sigmoid"].model_.recipe.calibration == "platt"


@pytest.mark.parametrize("table", [TEXT, TEXT.astype({"b": "category"})])
def test_partial_fit_of_text_names_fit(table):
    with pytest.raises(DataError, match=r"column 'b'.*fit of KernelClassifier and KernelRegressor encodes text"):
        KernelClassifier().partial_fit(table, Y, classes=[0, 1])


def test_partial_fit_of_missing_values_names_fit():
    with pytest.raises(MissingValueError, match=r"row 3, column 'a'.*fit takes missing values"):
        KernelClassifier().partial_fit(X.assign(a=X["a"].where(X.index != 3)), Y, classes=[0, 1])


@pytest.mark.parametrize("kind", [OneClassSVM, KernelKMeans, KernelPCA])
def test_others_say_who_encodes_text(kind):
    with pytest.raises(DataError, match=r"column 'b'.*for others sklearn\.preprocessing has encoders"):
        kind().fit(TEXT)
