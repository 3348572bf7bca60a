"""Local stages leave: every row falls in the bin and the cell of the fit, and has its score."""

import functools

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from scipy.spatial.distance import cdist

import dkernel
from dkernel import Cells, Grids, KernelClassifier, KernelRegressor
from dkernel.leaves.cells.cells import SMOOTHNESS
from dkernel.leaves.export import graph as graphs
from dkernel.leaves.export.onnx import write_onnx
from tests.combinations import every_two
from tests.leaves.export.feeds import answers, feeds

GLOBAL = {
    "kernel": "gaussian",
    "metric": "identity",
    "n_components": 64,
    "gamma": 0.1,
    "alpha": 1e-4,
    "loss": "squared",
}
STAGES = {
    "grids": Grids(n_grids=160),
    "cells": Cells(rows=300),
    "walls without bands": Cells(rows=300, overlap=0.0),
    "partitions": Cells(rows=400, partitions=2),
    "one cell": Cells(rows=4096),
}


def rows(n=2000, seed=0):
    """Numbers of unequal scales off the origin, and a category as one-hot columns."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + [10.0, 0.0, -3.0]
    return np.hstack([numbers, np.eye(3)[rng.integers(0, 3, n)]]).astype(np.float32)


def height(X):
    z = (X[:, :3] - [10.0, 0.0, -3.0]) / [1.0, 5.0, 0.2]
    return np.sin(5 * z[:, 0]) + z[:, 1] * z[:, 2] + X[:, 3]


@functools.cache
def regressor(stage, dtype="float32"):
    X = rows()
    made = KernelRegressor(dtype=dtype, local=STAGES[stage], **GLOBAL).fit(X, height(X))
    assert made.model_.local is not None
    return made


def exact_cells(model, X):
    """Scores of cells by their definition, all of it in float64 but the walls."""
    machine, Z = model.local, model.local.inputs(model.block(X))
    S, total = np.zeros((len(Z), machine.coef.shape[1])), np.zeros((len(Z), 1))
    slope, b, c = SMOOTHNESS[machine.nu]
    for number, visit in machine.tree.visits(Z):
        cell, weight = machine.cells[number], np.where(visit.inside, 1.0, 1.0 - visit.depth)[:, None].astype(np.float64)
        own = Z[visit.rows].astype(np.float64) @ cell.root.astype(np.float64)
        a = slope / cell.length * cdist(own, cell.Z.astype(np.float64))
        S[visit.rows] += weight * (((1 + b * a + c * a**2) * np.exp(-a)) @ cell.coef.astype(np.float64))
        total[visit.rows] += weight
    return S / total * machine.unit


def judged():
    """Rows of the training, which cuts go through, others, and some of no or of several categories."""
    new = rows(1000, 1)
    new[:50, 3:] = 0.0
    new[50:100, 3:] = 1.0
    new[100:110, :3] = 1e9
    return np.vstack([rows(), new])


ALIKE = [("float32", "float32"), ("float64", "float64")]
UNLIKE = [
    pytest.param(stage, pair, marks=pytest.mark.slow)
    for stage in STAGES
    for pair in (("float32", "float64"), ("float64", "float32"))
]


@pytest.mark.parametrize(("stage", "types"), [*every_two(list(STAGES), ALIKE), *UNLIKE])
def test_every_row_has_its_score(stage, types):
    read, dtype = types
    machine, X = regressor(stage, read), judged()
    model = machine.model_
    found = answers(dkernel.to_onnx(machine, dtype), {"X": X.astype(dtype)})["score"]
    wanted = model.scores(X)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "grids"])
def test_wide_scores_of_cells_are_those_of_the_definition(stage):
    """Those of a model of few rows; products in float32 round what is left of coefficients that cancel."""
    model, X = regressor(stage).model_, judged()
    exact = exact_cells(model, X)
    np.testing.assert_allclose(model.local.scores(model.block(X)), exact, atol=1e-9 * np.abs(exact).max())
    np.testing.assert_allclose(model.local.scores(model.block(X)), exact, atol=5e-3 * np.abs(exact).max())
    alone = np.vstack([model.scores(X[[i]]) for i in range(20)])
    np.testing.assert_array_equal(alone, model.scores(X)[:20])


@pytest.mark.parametrize("stage", ["grids", "cells"])
def test_a_row_alone_has_its_score(stage):
    machine, X = regressor(stage), rows(20, 2)
    graph = dkernel.to_onnx(machine)
    together = answers(graph, {"X": X})["score"]
    alone = np.vstack([answers(graph, {"X": X[[i]]})["score"] for i in range(len(X))])
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-6 * np.abs(together).max())
    assert answers(graph, {"X": X[:0]})["score"].shape == (0, 1)


@pytest.mark.parametrize("local", [Grids(n_grids=64), Cells(rows=500)], ids=repr)
def test_a_table_of_classes_leaves_with_its_local_stage(local):
    rng = np.random.default_rng(0)
    n = 2500
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "city": rng.choice(["Basel", "Genève", "Zug"], n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8760, n), "h"),
        }
    )
    rough = np.sin(6 * frame["x"]) + (frame["city"] == "Zug") + np.cos(frame["when"].dt.month)
    frame.loc[rng.random(n) < 0.1, ["x", "city", "when"]] = None
    y = np.array(["a", "b", "c"])[np.digitize(rough, [-0.3, 0.6])]
    machine = KernelClassifier(loss="softmax", n_components=64, gamma=0.1, alpha=1e-4, local=local).fit(frame, y)
    assert machine.model_.local is not None
    assert machine.model_.encoding.columns[2].calendar
    graph = dkernel.to_onnx(machine)
    found = answers(graph, feeds(machine, frame, graph))
    S = machine.decision_function(frame)
    # Numbers come in float32 here; a frame of float64 is rounded so as well.
    np.testing.assert_allclose(found["score"], S, rtol=0, atol=max(2e-5, 2 * machine.model_.rounding) * np.abs(S).max())
    np.testing.assert_allclose(found["probability"], machine.predict_proba(frame), atol=1e-3)
    sure = np.diff(np.sort(S, axis=1)[:, -2:])[:, 0] > 1e-3
    assert (found["label"][sure] == machine.predict(frame)[sure]).all()


def test_large_tensors_lie_beside_the_graph(monkeypatch, tmp_path):
    monkeypatch.setattr(graphs, "MOST_TENSOR_BYTES", 10_000)
    machine, X = regressor("cells"), rows(100, 3)
    whole = dkernel.to_onnx(machine)
    wanted = answers(whole, {"X": X})["score"]
    size = write_onnx(whole, tmp_path / "model.onnx")
    files = {file.name: file.stat().st_size for file in tmp_path.iterdir()}
    assert set(files) == {"model.onnx", "model.onnx.data"}
    assert sum(files.values()) == size
    assert files["model.onnx"] < files["model.onnx.data"]
    onnx.checker.check_model(str(tmp_path / "model.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(["score"], {"X": X})[0], wanted)
