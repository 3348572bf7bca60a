"""Rows that are far from the data of a model, and how wrong it is there."""

import numpy as np
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.features import NystromMap
from dkernel.inference.evaluate import evaluate_model
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import train
from tests.streaming.sources import rings, waves

RECIPE = Recipe(
    solver="psgd", n_components=40, kernel="Gaussian(gamma=0.15)", scale="standard", alpha=1e-6, local="none"
)


def figures(model, X, y, executor=None, weight=None):
    return evaluate_model(model, from_arrays(X, y, weight), executor or SerialExecutor())


@pytest.mark.parametrize("rows", [rings, waves])
def test_the_share_of_far_rows_and_their_error(rows):
    X, y = rows(1500)
    model = train(
        from_arrays(X, y),
        RECIPE.replace(loss="squared", task="auto" if rows is waves else "classify"),
        SerialExecutor(),
    ).model
    near, labels = rows(400, seed=1)
    assert figures(model, near, labels)["far"]["share"] < 0.05
    mixed, truth = np.concatenate([near, near[:100] + 50]), np.concatenate([labels, labels[:100]])
    far = model.novelty(mixed) > model.facts["certificate"]["trace_largest"]
    found = figures(model, mixed, truth)["far"]
    assert found["rows"] == 500
    assert found["share"] == pytest.approx(far.mean())
    off = model.predict(mixed[far]) - truth[far] if rows is waves else model.predict(mixed[far]) != truth[far]
    wanted = {"rmse": np.sqrt(np.mean(off**2))} if rows is waves else {"error": off.mean()}
    assert {word: found[word] for word in wanted} == pytest.approx(wanted, rel=1e-5)
    assert figures(model, mixed, truth, ThreadsExecutor(2))["far"] == found
    weight = np.ones(500)
    weight[:400] = 0
    weighted = figures(model, mixed, truth, weight=weight)["far"]
    assert (weighted["rows"], weighted["share"]) == (100, pytest.approx(1.0))


@pytest.mark.parametrize("local", ["grids(n_grids=64)", "cells(rows=500)"])
def test_far_rows_of_a_local_stage_have_the_error_of_the_model(local):
    X, y = rings(1500)
    asked = RECIPE.replace(local=local, loss="squared", task="classify")
    model = train(from_arrays(X, y), asked.replace(n_components=4, holdout=0.2), SerialExecutor()).model
    assert model.local is not None
    mixed, truth = np.concatenate([X[:200], X[:100] + 50]), np.concatenate([y[:200], y[:100]])
    far = model.novelty(mixed) > model.facts["certificate"]["trace_largest"]
    found = figures(model, mixed, truth)["far"]
    assert found["share"] == pytest.approx(far.mean())
    assert found["error"] == pytest.approx((model.predict(mixed[far]) != truth[far]).mean())


@pytest.mark.parametrize("columns", ["auto", 40])
def test_an_exact_fit_compares_each_landmark_with_the_others(columns):
    X, y = rings(300)
    recipe = RECIPE.replace(solver="exact", n_components=columns, loss="squared", task="classify")
    model = train(from_arrays(X, y), recipe, SerialExecutor()).model
    Z, K = model.map.landmarks, model.map.kernel
    others = [float(NystromMap(K, np.delete(Z, i, 0)).residual(Z[i : i + 1])[0]) for i in range(40)]
    np.testing.assert_allclose(model.map.left_out()[:40], others, rtol=1e-2, atol=1e-9)
    near, labels = rings(400, seed=1)
    share = figures(model, near, labels)["far"]["share"]
    assert share < (0.05 if columns == "auto" else 0.5)
    found = figures(model, np.concatenate([near, near[:100] + 50]), np.concatenate([labels, labels[:100]]))["far"]
    assert found["share"] == pytest.approx((400 * share + 100) / 500)
    assert found["error"] > 0


CELLS = {"features": "none", "local": "cells(rows=300)", "kernel": "auto"}


@pytest.mark.parametrize("given", [{"features": "fourier"}, CELLS])
def test_a_map_without_landmarks_has_none(given):
    X, y = rings(600)
    model = train(from_arrays(X, y), RECIPE.replace(n_components="auto", **given), SerialExecutor()).model
    assert "far" not in figures(model, X, y)
