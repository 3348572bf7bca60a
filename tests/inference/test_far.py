"""Rows that are far from the data of a model, and how wrong it is there."""

import numpy as np
import pytest

from dkernel.data import from_arrays
from dkernel.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.inference.evaluate import evaluate
from dkernel.recipe import Recipe
from dkernel.training.fit import train
from tests.streaming.sources import rings, waves

RECIPE = Recipe(n_components=40, kernel="Gaussian(gamma=0.15)", scale="standard", alpha=1e-6, local="none")


def figures(model, X, y, executor=None, weight=None):
    return evaluate(model, from_arrays(X, y, weight), executor or SerialExecutor())


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


def test_a_map_without_landmarks_has_none():
    X, y = rings(600)
    model = train(from_arrays(X, y), RECIPE.replace(features="fourier"), SerialExecutor()).model
    assert "far" not in figures(model, X, y)
