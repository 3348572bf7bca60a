"""What a user of scikit-learn's estimators counts on beside its checks: warnings, refusals, small methods."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import dkernel
from dkernel import KernelClassifier, KernelPCA, KernelRegressor
from dkernel.errors import ModelFileError, RecipeError
from tests.estimators.data import ESTIMATORS, SMALL, ball, wave


@pytest.mark.parametrize("solver", ["pcg", "lbfgs"])
def test_a_solver_that_was_stopped_before_the_optimum_says_so(solver, recwarn):
    X, y = wave(600)
    settings = {"kernel": "gaussian", "gamma": 0.4, "alpha": 1e-7, "n_components": 60, "solver": solver}
    with pytest.warns(ConvergenceWarning, match=f"solver='{solver}' was not fully converged in 2 passes.*passes=4"):
        KernelRegressor(passes=2, **settings).fit(X, y)
    recwarn.clear()
    KernelRegressor(**(settings | {"alpha": 1e-2})).fit(X, y)
    KernelRegressor(**(settings | {"solver": "psgd"}), polish=1).fit(X, y)  # which asks for no more than that
    assert not recwarn


def test_logarithms_of_probabilities():
    X, y = ball(300)
    machine = KernelClassifier(loss="logistic", **SMALL).fit(X, y)
    np.testing.assert_array_equal(machine.predict_log_proba(X), np.log(machine.predict_proba(X)))
    assert not hasattr(KernelClassifier(calibration=None), "predict_log_proba")


@pytest.mark.parametrize("callbacks", [print, [3], "print", {print}])
def test_callbacks_that_are_none_are_refused_before_the_data_are_read(callbacks):
    with pytest.raises(RecipeError, match=r"a list of functions of one dict is needed, as in \[print\]"):
        KernelClassifier(callbacks=callbacks, **SMALL).fit(*ball(100))


def test_what_cannot_leave_hears_what_can():
    with pytest.raises(ModelFileError, match=r"A KernelPCA cannot be exported.*KernelClassifier, KernelRegressor"):
        dkernel.to_onnx(KernelPCA(2, n_map_components=8).fit(ball(50)[0]))


def test_the_table_of_twins_names_every_estimator():
    text = (Path(__file__).parents[2] / "dkernel/losses/README.md").read_text()
    table = text.split("## Twins")[1]
    assert ESTIMATORS
    assert not {kind.__name__ for kind in ESTIMATORS if f"`{kind.__name__}`" not in table}
