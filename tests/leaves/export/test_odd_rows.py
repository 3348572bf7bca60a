"""Holes, infinities and numbers far from all of training: a graph answers them as `predict` does, or refuses them."""

import copy
import functools
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest

import dkernel
from dkernel import Cells, Grids, KernelClassifier, KernelRegressor
from dkernel.errors import DataError
from dkernel.leaves.export.graph import REFUSAL
from tests.leaves.export.models import NYSTROM, RANDOM

MODELS = {
    **{name: {"kernel": kernel, "features": "nystrom"} for name, kernel in NYSTROM.items()},
    **RANDOM,
    "a learned metric": {"kernel": "gaussian", "metric": "full"},
    "global scale": {"kernel": "Matern(nu=2.5, length=2.0)", "scale": "global"},
    "normal scores": {"kernel": "Matern(nu=2.5, length=2.0)", "scale": "quantile"},
    "largest scale": {"kernel": "Gaussian(gamma=0.3)", "scale": "maxabs"},
    "no holes": {"kernel": "Gaussian(gamma=0.3)", "missing": "error"},
    "float64": {"kernel": "Matern(nu=1.5, length=2.0)", "dtype": "float64"},
    "grids": {"kernel": "Gaussian(gamma=0.3)", "local": Grids(n_grids=160), "loss": "squared"},
    "cells": {"kernel": "Gaussian(gamma=0.3)", "local": Cells(rows=300), "loss": "squared"},
}
ROWS = {
    "usual": [0.5, 1.0, -1.0],
    "a hole": [np.nan, 1.0, -1.0],
    "holes alone": [np.nan] * 3,
    "far": [1e12, 1.0, -1.0],
    "farther": [3e38, 1.0, -3e38],
    "infinite": [np.inf, 1.0, -1.0],
    "minus infinity": [0.5, -np.inf, -1.0],
}
# Of a far row the angles of waves have no digit that is right; products of kernels have squares that float32 has not.
NOT_FAR = ("fourier", "stacked", "selected", "sum")


CASES = [(model, row) for model in MODELS for row in ROWS if not (model.startswith(NOT_FAR) and "far" in row)]
"""Of the others a far row has another answer than predict's, which says as little."""


@functools.cache
def fitted(model, task):
    X = np.random.default_rng(0).normal(size=(900, 3)) * [1.0, 2.0, 0.5] + [0.5, 0.0, -1.0]
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    settings = {"n_components": 48, "alpha": 1e-3, "metric": "identity", "local": "none", "solver": "psgd"}
    settings |= MODELS[model]
    if task == "numbers":
        return KernelRegressor(**settings).fit(X, y)
    return KernelClassifier(**settings).fit(X, np.array(["low", "middle", "high"])[np.digitize(y, [-0.7, 0.7])])


def unclipped(machine):
    free = copy.copy(machine)
    free.model_ = replace(machine.model_, facts={k: v for k, v in machine.model_.facts.items() if k != "span"})
    return free


@functools.cache
def graph_of(model, task):
    machine = fitted(model, task)
    graph = dkernel.to_onnx(machine, machine.model_.recipe.dtype)
    return onnxruntime.InferenceSession(graph.SerializeToString())


@pytest.mark.parametrize("task", ["numbers", "classes"])
@pytest.mark.parametrize(("model", "row"), CASES)
def test_a_row_has_the_answer_of_predict_or_none(model, task, row):
    machine, rows = fitted(model, task), np.array([ROWS[row], ROWS["usual"]])
    dtype, graph = machine.model_.recipe.dtype, graph_of(model, task)
    try:
        wanted = machine.predict(rows)
        scores = unclipped(machine).predict(rows) if task == "numbers" else machine.decision_function(rows)
        refused = np.abs(scores).max() > np.finfo(dtype).max
    except DataError:
        refused = True
    if refused:
        with pytest.raises(Exception, match=REFUSAL):
            graph.run(None, {"X": rows.astype(dtype)})
        return
    names = [output.name for output in graph.get_outputs()]
    found = dict(zip(names, graph.run(None, {"X": rows.astype(dtype)}), strict=True))
    if task == "numbers":
        np.testing.assert_allclose(found["score"][:, 0], wanted, rtol=2e-5, atol=2e-5)
    else:
        assert found["label"].tolist() == wanted.tolist()
        np.testing.assert_allclose(found["score"], scores, rtol=2e-5, atol=2e-5)
