"""With `dtype="float64"` scores are float64 from the rows on: those of the formula and of the exported graph."""

import numpy as np
import onnxruntime
import pytest

import dkernel
from dkernel import Cells, Grids, KernelClassifier, KernelRegressor
from tests.leaves.export.models import wide_scores

CASES = {
    "gaussian": {},
    "three classes": {"loss": "logistic"},
    "softmax": {"loss": "softmax"},
    "exact": {"solver": "exact"},
    "laplacian": {"kernel": "Laplacian(gamma=0.3)"},
    "exponential": {"kernel": "Exponential(length=2.0)"},
    "polynomial": {"kernel": "Polynomial(degree=3, c=1.0)", "features": "nystrom"},
    "monomials": {"kernel": "Polynomial(degree=2, c=1.0)", "features": "exact"},
    "fourier": {"features": "fourier"},
    "stacked": {"kernel": "0.5 * Gaussian(gamma=0.3) + Linear().on([0, 2])", "features": "random"},
    "a learned metric": {"metric": "full"},
    "grids": {"local": Grids(n_grids=160), "loss": "squared"},
    "cells": {"local": Cells(rows=300), "loss": "squared"},
}


def rows(seed):
    return np.random.default_rng(seed).normal(size=(900, 3)) * [1.0, 5.0, 0.2] + [10.0, 0.0, -3.0]


def fitted(name):
    X = rows(0)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    settings = {"kernel": "Gaussian(gamma=0.3)", "n_components": 64, "alpha": 1e-6, "metric": "identity"}
    settings |= {"solver": "psgd", "local": "none", "dtype": "float64", **CASES[name]}
    if settings.get("loss", "squared") != "squared":
        return KernelClassifier(**settings).fit(X, np.digitize(y, np.quantile(y, [0.3, 0.6])))
    return KernelRegressor(**settings).fit(X, y)


@pytest.mark.parametrize("name", CASES)
def test_scores_are_float64_throughout(name):
    X, machine = rows(1), fitted(name)
    found = machine.decision_function(X) if hasattr(machine, "classes_") else machine.predict(X)
    assert found.dtype == np.float64
    graph = onnxruntime.InferenceSession(dkernel.to_onnx(machine, "float64").SerializeToString())
    wanted = [graph.run(["score"], {"X": X})[0]]
    if machine.model_.local is None:
        wanted.append(wide_scores(machine.model_, X))
    for scores in wanted:  # products of two libraries differ in the last digits, of which some cancel
        np.testing.assert_allclose(found, scores.reshape(found.shape), rtol=0, atol=1e-8 * np.abs(scores).max())
