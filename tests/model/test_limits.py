"""Scores of a regression stay within the range of the training labels, widened by a tenth of it."""

import functools
from dataclasses import replace

import numpy as np
import pytest

import dkernel
from dkernel import Cells, Grids, KernelClassifier, KernelRegressor
from dkernel.errors import ModelFileError
from dkernel.model import model_file
from dkernel.model.model import WIDER
from tests.leaves.export.feeds import answers

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 3))
Y = np.stack([X[:, 0] ** 3, 5.0 + 100.0 * X[:, 1]], axis=1)
FAR = np.concatenate([X[:50], 4.0 * X[:50], 30.0 * X[:50]])
CUBIC = {"kernel": "Polynomial(degree=3)", "n_components": 64, "alpha": 1e-6}
MACHINES = {
    "rounds": {"solver": "psgd", "local": "none"},
    "memory": {"solver": "exact"},
    "float64": {"solver": "normal", "dtype": "float64"},
    "grids": {"solver": "psgd", "local": Grids(n_grids=32)},
    "cells": {"solver": "psgd", "local": Cells(rows=300)},
    "linear and grids": {"kernel": "linear", "solver": "psgd", "local": Grids(n_grids=32)},
}


@functools.cache
def fitted(name, targets=1):
    return KernelRegressor(**{**CUBIC, **MACHINES[name]}).fit(X, Y[:, 0] if targets == 1 else Y)


def widened(y):
    room = WIDER * np.ptp(y, axis=0)
    return y.min(axis=0) - room, y.max(axis=0) + room


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("name", MACHINES)
def test_far_rows_stay_within_and_others_keep_their_bits(name, targets):
    machine, (low, high) = fitted(name, targets), widened(Y[:, :targets])
    model = machine.model_
    free, found = model.unclipped_scores(FAR), model.scores(FAR)
    inside = ((low <= free) & (free <= high)).reshape(free.shape)
    assert not inside.all()
    assert ((low <= found) & (found <= high)).all()
    np.testing.assert_array_equal(found[inside], free[inside])
    np.testing.assert_array_equal(machine.predict(FAR).reshape(found.shape), found)


@pytest.mark.parametrize("name", MACHINES)
def test_a_graph_clips_as_predict_does(name):
    machine = fitted(name, 2)
    found = answers(dkernel.to_onnx(machine, "float64"), {"X": FAR})["score"]
    np.testing.assert_allclose(found, machine.predict(FAR), atol=1e-3 * np.ptp(Y[:, 1]))
    assert found[:, 0].max() <= widened(Y)[1][0]


def test_intervals_are_around_clipped_scores():
    machine = fitted("rounds").conformalize(FAR, FAR[:, 0] ** 3)
    middle = machine.predict_interval(FAR).mean(axis=1)
    np.testing.assert_allclose(middle, machine.predict(FAR), atol=1e-9)


FREE = {
    "a linear kernel": {"kernel": "linear", "local": "none"},
    "a line of degree 1": {"kernel": "Polynomial(degree=1)", "local": "none"},
    "a quantile": {"loss": "quantile(0.9)", "local": "none"},
    "a quantile with grids": {"loss": "quantile(0.9)", "local": Grids(n_grids=16)},
}


@pytest.mark.parametrize("name", FREE)
def test_lines_and_quantiles_follow_their_trend(name):
    model = KernelRegressor(**{**CUBIC, "solver": "psgd", **FREE[name]}).fit(X, Y[:, 0]).model_
    assert model.limits is None
    np.testing.assert_array_equal(model.scores(FAR), model.unclipped_scores(FAR))


def test_classes_have_no_limits():
    assert KernelClassifier(**CUBIC).fit(X, Y[:, 0] > 0).model_.limits is None


@pytest.mark.parametrize("name", ["rounds", "grids", "cells"])
def test_new_labels_widen_the_range(name):
    machine = KernelRegressor(**{**CUBIC, "n_components": 16, **MACHINES[name]}).fit(X, Y[:, 0])
    low, high = Y[:, 0].min(), Y[:, 0].max()
    machine.partial_fit(np.concatenate([X[:200], X[:1]]), np.append(Y[:200, 0], high + 50.0), old=X)
    np.testing.assert_array_equal(machine.model_.facts["span"], [[low], [high + 50.0]])


def test_rows_without_weight_do_not_widen_it():
    y, weight = Y[:, 0].copy(), np.ones(len(X))
    y[7], weight[7] = 1e6, 0.0
    model = KernelRegressor(**CUBIC).fit(X, y, sample_weight=weight).model_
    assert model.facts["span"][1][0] < 1e6


def test_a_model_without_a_range_is_read_and_not_clipped(tmp_path):
    model = fitted("rounds").model_
    old = replace(model, facts={name: fact for name, fact in model.facts.items() if name != "span"})
    model_file.save(old, tmp_path / "m")
    again = model_file.load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.scores(FAR), old.unclipped_scores(FAR))


@pytest.mark.parametrize("span", [[[1.0], [0.0]], [[0.0, 0.0], [1.0, 1.0]], [["a"], ["b"]], [[0.0], [1.0, 2.0]], 3])
def test_a_range_that_is_none_is_refused(span, tmp_path):
    model = fitted("rounds").model_
    forged = replace(model, facts={**model.facts, "span": span})
    with pytest.raises((ModelFileError, ValueError)):
        model_file.save(forged, tmp_path / "m")
