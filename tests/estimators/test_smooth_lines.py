"""Along a fine line through a row of the training a smooth kernel has smooth scores, and an exported graph agrees."""

import functools

import numpy as np
import onnxruntime
import pytest

import dkernel
from dkernel import Cells, KernelClassifier, KernelRegressor

ROUGH, APART = 1e-5, 2e-5  # shares of the deviation of the scores
STEPS, STEP = 65, 2.0**-13
GAUSSIAN = {"kernel": "Gaussian(gamma=0.3)"}
KERNELS = {
    "gaussian": GAUSSIAN,
    "gaussian by column": {"kernel": "Gaussian(gamma=[0.1, 0.3, 0.5])"},
    "matern 3/2": {"kernel": "Matern(nu=1.5, length=3.0)"},
    "matern 5/2": {"kernel": "Matern(nu=2.5, length=3.0)"},
    "cauchy": {"kernel": "Cauchy(length=3.0)"},
    "rational quadratic": {"kernel": "RationalQuadratic(alpha=2.0, length=3.0)"},
    "linear": {"kernel": "Linear()", "features": "nystrom"},
    "cubic": {"kernel": "Polynomial(degree=3, c=1.0)", "features": "nystrom"},
    "quartic": {"kernel": "Polynomial(degree=4, c=1.0)", "features": "nystrom"},
    "monomials": {"kernel": "Polynomial(degree=3, c=1.0)", "features": "exact"},
    "sum": {"kernel": "0.5 * Gaussian(gamma=0.3) + Linear()"},
    "some columns": {"kernel": "Gaussian(gamma=0.3).on([0, 1])"},
    "a learned metric": {"kernel": "gaussian", "metric": "full"},
}
SOLVERS = {
    "exact": {"solver": "exact"},
    "exact, logistic": {"solver": "exact", "loss": "logistic"},
    "psgd": {"solver": "psgd"},
    "normal": {"solver": "normal"},
    "pcg": {"solver": "pcg"},
    "lbfgs": {"solver": "lbfgs", "loss": "logistic"},
    "float64": {"solver": "psgd", "dtype": "float64"},
}
STAGES = {
    "cells": {"kernel": "linear", "local": Cells(rows=1500)},
    "cells, overlap": {"kernel": "gaussian", "local": Cells(rows=1500, overlap=1.0, partitions=2)},
    "cells, float64": {"kernel": "linear", "local": Cells(rows=1500), "dtype": "float64"},
    "cells, logistic": {"kernel": "linear", "local": Cells(rows=1500), "loss": "squared_hinge"},
}
CASES = {
    **KERNELS,
    **{name: GAUSSIAN | settings for name, settings in SOLVERS.items()},
    **STAGES,
}


@functools.cache
def learned():
    """Rows on a lattice, so that those of a line are float32 numbers, and a smooth target with little noise."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(5000, 3)) * 256) / 256
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.01 * rng.normal(size=len(X))


@functools.cache
def fitted(name):
    X, y = learned()
    settings = {"n_components": 64, "alpha": 1e-9, "metric": "identity", "local": "none", **CASES[name]}
    n = 1500 if settings.get("solver") == "exact" else len(X)
    if settings.get("loss") in ("logistic", "squared_hinge"):
        return KernelClassifier(**settings).fit(X[:n], y[:n] > 0)
    return KernelRegressor(**settings).fit(X[:n], y[:n])


def lines(model):
    """Lines through rows of the training along each column, of those that cross no cut of cells: (lines, steps, 3)."""
    rows = learned()[0][5:1500:300]
    found = rows[:, None, None] + STEP * np.arange(STEPS)[:, None] * np.eye(3)[:, None]
    found = found.reshape(-1, STEPS, 3)
    return found if model.local is None else np.stack([line for line in found if len(visited(model, line)) == 1])


def visited(model, line):
    """The sets of cells that see the rows of a line, of those that lie in no band: there the function has kinks."""
    seen = [set() for _ in line]
    for number, visit in model.local.tree.visits(model.local.inputs(model.block(line))):
        for row in visit.rows:
            seen[row].add(number)
    return set(map(frozenset, seen))


def score(machine, X):
    return np.asarray(machine.decision_function(X) if hasattr(machine, "classes_") else machine.predict(X))


@pytest.mark.parametrize("name", CASES)
def test_a_line_is_smooth(name):
    machine = fitted(name)
    found, deviation = lines(machine.model_), score(machine, learned()[0]).std()
    assert len(found) > 3
    S = score(machine, found.reshape(-1, 3)).reshape(found.shape[:2]).astype(np.float64)
    assert np.abs(np.diff(S, n=2, axis=1)).max() <= ROUGH * deviation


@pytest.mark.parametrize("name", CASES)
def test_the_graph_has_the_scores_of_the_line(name):
    machine = fitted(name)
    X, deviation = lines(machine.model_).reshape(-1, 3), score(machine, learned()[0]).std()
    dtype = machine.model_.recipe.dtype
    session = onnxruntime.InferenceSession(dkernel.to_onnx(machine, dtype).SerializeToString())
    found = session.run(["score"], {"X": X.astype(dtype)})[0][:, 0]
    np.testing.assert_allclose(found, score(machine, X), rtol=0, atol=APART * deviation)
