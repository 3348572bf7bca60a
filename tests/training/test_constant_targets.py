"""A target with one value in all rows: it is what is predicted, to the digit, whatever solves the others."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict

from dkernel import Cells, Grids, KernelRegressor, Tuner
from dkernel.errors import ConstantLabelWarning
from tests.estimators.data import SMALL, wave

X, Y = wave(400)
Y += 2 * X[:, 0]
FIXED = {"kernel": "gaussian", "gamma": 0.3, "n_components": 64, "alpha": 1e-4}
WAYS = {
    "default": {},
    "linear": {"kernel": "linear"},
    "a learned metric": {"kernel": "gaussian", "metric": "full"},
    "normal": FIXED | {"solver": "normal"},
    "pcg": FIXED | {"solver": "pcg"},
    "grids": FIXED | {"local": Grids(n_grids=64)},
    "grids alone": {"features": "none", "local": Grids(n_grids=64)},
    "grids of quantiles": FIXED | {"local": Grids(n_grids=64), "loss": "quantile(0.9)"},
    "cells": FIXED | {"local": Cells(rows=200)},
}
for loss in ("squared", "huber", "epsilon_insensitive(0.1)", "quantile(0.9)"):
    WAYS |= {f"{loss} by {solver}": FIXED | {"loss": loss, "solver": solver} for solver in ("psgd", "exact")}
WAYS |= {f"{loss} by lbfgs": FIXED | {"loss": loss, "solver": "lbfgs"} for loss in ("squared", "huber")}


def fit(settings, y, rows=X):
    with pytest.warns(ConstantLabelWarning, match=r"'?label'?.* one value in all rows"):
        return KernelRegressor(**settings).fit(rows, y)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_predicted_alone_and_beside_another(way):
    assert (fit(WAYS[way], np.full(len(X), 0.1)).predict(X) == 0.1).all()
    machine = fit(WAYS[way], np.column_stack([Y, np.full(len(X), 1e12 + 0.1)]))
    assert (machine.predict(X)[:, 1] == 1e12 + 0.1).all()
    assert "Target 1" in machine.chosen_["label"]
    assert np.corrcoef(machine.predict(X)[:, 0], Y)[0, 1] > 0.5


def test_nothing_races_for_many_rows():
    rows, _ = wave(4500)
    assert (fit({}, np.full(4500, 7.0), rows).predict(rows) == 7.0).all()


def test_intervals_deviations_searches_and_the_report_take_it(tmp_path):
    constant = np.full(len(X), 0.1)
    machine = fit(FIXED | {"solver": "normal"}, constant)
    assert (machine.predict_interval(X[:3]) == 0.1).all()
    assert (machine.predict(X[:3], return_std=True)[1] == 0.0).all()
    machine.report(tmp_path / "page.html")
    tuner = Tuner(KernelRegressor(**FIXED), {"gamma": [0.1, 0.3], "alpha": [1e-4, 1e-3]})
    with pytest.warns(ConstantLabelWarning):
        assert (tuner.fit(X, constant).predict(X) == 0.1).all()


def test_a_fold_may_be_constant():
    y = np.where(np.arange(len(X)) < 300, 7.0, Y)
    with pytest.warns(ConstantLabelWarning):
        found = cross_val_predict(KernelRegressor(**FIXED), X, y, cv=[(np.arange(200), np.arange(400))])
    assert (found == 7.0).all()


def test_blocks_may_begin_with_it():
    machine, (rows, y) = KernelRegressor(**SMALL), wave(9000)
    with pytest.warns(ConstantLabelWarning):
        machine.partial_fit(rows[:100], np.full(100, 7.0))
    assert (machine.predict(rows) == 7.0).all()
    for first in range(100, 9000, 890):
        machine.partial_fit(rows[first : first + 890], y[first : first + 890])
    assert machine.score(rows, y) > 0.8
