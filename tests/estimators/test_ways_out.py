"""Refusals of the estimators name the way out, in scikit-learn's words too."""

import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier, KernelKMeans, KernelPCA, OneClassSVM
from dkernel.errors import DataError, MissingValueError, RecipeError

RNG = np.random.default_rng(0)
X = pd.DataFrame({"a": RNG.normal(size=80), "b": RNG.normal(size=80)})
Y = (X["a"] > 0).to_numpy().astype(int)
TEXT = X.assign(b=["x", "y"] * 40)


def test_a_margin_says_what_gives_probabilities():
    machine = KernelClassifier("gaussian", n_components=16, loss="hinge", calibration=None).fit(X, Y)
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError, match=r"Use loss='logistic'.*calibration='temperature'"):
        machine.predict_proba(X)


@pytest.mark.parametrize("name", ["isotonic", "platt", "sigmoid"])
def test_calibrations_of_other_tools_name_the_one_here(name):
    with pytest.raises(RecipeError, match="Did you mean 'temperature'"):
        KernelClassifier("gaussian", n_components=16, calibration=name).fit(X, Y)


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
