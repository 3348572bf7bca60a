"""Grids with all that a fit can have: no components, groups that are given, weights, a limited size, callbacks."""

import json

import numpy as np
import pytest

import dkernel
from dkernel import Grids, KernelClassifier, KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import MemoryBudgetError, RecipeError, UnsupportedError
from dkernel.model.recipe import Recipe
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import plan, train
from tests.training.test_local_stage import rough

ALONE = {"features": "none", "local": "grids(n_grids=64)"}


def test_grids_alone_learn_without_components(tmp_path):
    X, y = rough(1500)
    new, truth = rough(500, seed=1)
    found = KernelClassifier(**ALONE).fit(X, y > 0)
    assert found.n_components_ == 1
    assert found.score(new, truth > 0) > 0.75
    dkernel.save(found, tmp_path / "m")
    np.testing.assert_array_equal(dkernel.load(tmp_path / "m").decision_function(new), found.decision_function(new))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "none"}, "local='auto' may be none"),
        ({"features": "none", "local": "none"}, "Use local='grids'"),
        (ALONE | {"kernel": "gaussian"}, "kernel='gaussian' has no part"),
        (ALONE | {"n_components": 64}, "n_components=64 has no part"),
        (ALONE | {"local": "grids(one_hot='soil*')"}, r"one_hot='soil\*' is like no feature"),
        (ALONE | {"local": Grids(one_hot="2,3;3,4")}, "one_hot='3' is like no feature that is left"),
        (ALONE | {"local": Grids(one_hot=";")}, "groups of names"),
        (ALONE | {"max_model_size": "much"}, "bytes, as 200MiB"),
    ],
    ids=str,
)
def test_what_has_no_meaning_is_refused(settings, message):
    X, y = rough(600)
    with pytest.raises(RecipeError, match=message):
        KernelClassifier(**settings).fit(X, y > 0)


@pytest.mark.parametrize(
    ("one_hot", "groups"),
    [("auto", ((2, 3, 4, 5),)), ("none", ()), ("2,3;4,5", ((2, 3), (4, 5))), ([["[2-5]"]], ((2, 3, 4, 5),))],
    ids=str,
)
def test_groups_are_found_given_or_switched_off(one_hot, groups):
    X, y = rough(1500)
    found = KernelClassifier(**ALONE | {"local": Grids(n_grids=64, one_hot=one_hot)}).fit(X, y > 0)
    assert found.model_.local.inputs.groups == groups
    assert Recipe.from_dict(json.loads(found.model_.recipe.to_text())) == found.model_.recipe


def test_a_limit_of_the_size_takes_fewer_grids_and_refuses_what_is_larger(tmp_path):
    X, y = rough(1500)
    free, small = (KernelClassifier(**ALONE | {"local": "grids", "max_model_size": size}) for size in (None, "2MB"))
    planned = plan(from_arrays(X, y > 0), small._recipe(), SerialExecutor())
    small.fit(X, y > 0)
    assert 16 <= len(small.model_.local.bits) < 2048
    dkernel.save(small, tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < planned["model_bytes"] <= 2e6
    assert plan(from_arrays(X, y > 0), free._recipe(), SerialExecutor())["model_bytes"] > 2e6
    with pytest.raises(MemoryBudgetError, match=r"The model file may have 2,\d+,\d+ bytes and max_model_size=2000000"):
        small.set_params(local__n_grids=512).fit(X, y > 0)
    with pytest.raises(MemoryBudgetError, match="max_model_size"):  # by the number of classes, which the rows say
        small.set_params(local__n_grids=256).fit(X, np.arange(1500) % 7)


def test_a_model_whose_size_nobody_asked_for_stays_within_the_default(monkeypatch, tmp_path):
    X, y = rough(1500)
    grids = {}
    for limit in (2**26, 300_000):
        monkeypatch.setattr("dkernel.solvers.budget.MODEL_BYTES", limit)
        found = KernelClassifier(**ALONE | {"local": "grids"})
        planned = plan(from_arrays(X, y > 0), found._recipe(), SerialExecutor())
        dkernel.save(found.fit(X, y > 0), tmp_path / "m")
        assert (tmp_path / "m").stat().st_size < planned["model_bytes"] + 20_000  # and its JSON
        assert planned["model_bytes"] <= limit
        grids[limit] = len(found.model_.local.bits)
    assert 16 <= grids[300_000] < grids[2**26] <= 2048
    high = plan(from_arrays(X, y > 0), Recipe(**ALONE | {"local": "grids", "effort": "high"}), SerialExecutor())
    assert 300_000 < high["model_bytes"] <= 4 * 300_000


def test_the_tables_of_many_classes_are_refused_where_memory_has_no_room(monkeypatch):
    X, y = rough(1500)
    needed = 2 * 8192 * 2**9 * 2  # of a class: two copies of the coefficients
    base = plan(from_arrays(X, y > 0), Recipe(**ALONE | {"local": Grids(n_grids=8192)}), SerialExecutor())
    room = base["client_bytes"] + base["worker_bytes"] + 10 * needed
    monkeypatch.setattr("dkernel.streaming.machine.memory_limit", lambda: room)
    KernelClassifier(**ALONE).fit(X, np.arange(1500) % 3)
    with pytest.raises(MemoryBudgetError, match="This process needs"):
        KernelClassifier(**ALONE | {"local": Grids(n_grids=8192)}).fit(X, np.arange(1500) % 26)


@pytest.mark.parametrize("local", ["grids(n_grids=64)", "cells(rows=500)"])
def test_the_figures_of_the_holdout_are_those_of_the_whole_model(local):
    X, y = rough(2000)
    recipe = Recipe(solver="psgd", features="none", local=local, holdout=0.3)
    found = train(from_arrays(X, y > 0), recipe, SerialExecutor())
    told, rows = found.model.facts["holdout"], found.holdout
    right = np.mean(found.model.predict(rows.X) == rows.y)
    assert told["rows"] == len(rows.X)
    assert told["accuracy"] == pytest.approx(right, abs=2 / len(rows.X))
    assert told["accuracy"] > 0.7
    assert told["loss"] == pytest.approx(found.model.facts["local"]["loss"])


def test_weights_of_classes_are_weights_of_rows():
    X, y = rough(1500)
    labels = y > 0
    source = {"classes": from_arrays(X, labels), "rows": from_arrays(X, labels, np.where(labels, 3.0, 1.0))}
    recipe = Recipe(**ALONE, holdout=0.0, alpha=1e-4)
    by_class = train(source["classes"], recipe.replace(class_weight={True: 3.0}), SerialExecutor()).model
    by_row, plain = (train(source[name], recipe, SerialExecutor()).model for name in ("rows", "classes"))
    # Weights of rows move the center, and with it the bins: the numbers are those of another seed.
    assert np.corrcoef(by_class.scores(X)[:, 0], by_row.scores(X)[:, 0])[0, 1] > 0.9
    assert by_class.scores(X).mean() == pytest.approx(by_row.scores(X).mean(), abs=0.03)
    assert by_row.scores(X).mean() > plain.scores(X).mean() + 0.1


@pytest.mark.parametrize("seed", range(4))
def test_a_constant_component_is_prepared_for_whatever_signs_are_drawn(seed):
    """The signs of a trace may be those of a vector that the Gram matrix of two equal columns makes 0."""
    X, y = rough(1000, seed=10 + seed)
    recipe = Recipe(**ALONE, holdout=0.0, alpha=1e-4, loss="squared", seed=seed)
    assert np.isfinite(train(from_arrays(X, y), recipe, SerialExecutor()).model.scores(X)).all()


def test_weights_are_copies_of_rows():
    X, y = rough(1500)
    weight = np.random.default_rng(5).integers(0, 3, 1500)
    y[weight == 0] *= -1  # nothing learns from these
    copies = np.repeat(np.arange(1500), weight)
    recipe = Recipe(**ALONE, holdout=0.0, alpha=1e-4, loss="squared")
    weighted = train(from_arrays(X, y, weight.astype(float)), recipe, SerialExecutor()).model
    copied = train(from_arrays(X[copies], y[copies]), recipe, SerialExecutor()).model
    new, truth = rough(500, seed=1)
    right = [np.mean((model.scores(new)[:, 0] > 0) == (truth > 0)) for model in (weighted, copied)]
    assert min(right) > 0.75
    assert right[0] == pytest.approx(right[1], abs=0.05)


def test_a_callback_that_ends_the_grids_leaves_the_cells_unbegun(monkeypatch):
    began = []
    monkeypatch.setattr("dkernel.leaves.cells.stage.CellStage.fit", lambda *some: began.append(some))
    monkeypatch.setattr(
        "dkernel.training.planning.stage_costs.local_costs", lambda *_: ({"grids": Cost(), "cells": Cost()}, {})
    )
    X, y = rough(1200)
    found = train(from_arrays(X, y > 0), Recipe(solver="psgd", local="auto"), SerialExecutor(),
                  callback=lambda line: line.get("grids") == 64)  # fmt: skip
    assert began == []
    assert max(line.get("grids", 0) for line in found.history) == 64


def test_what_grids_do_not_have_is_refused_by_name():
    X, y = rough(1200)
    found = KernelRegressor(**ALONE).fit(X, y)
    assert found.model_.local is not None
    for ask in (lambda: found.predict(X, return_std=True), lambda: found.model_.novelty(X)):
        with pytest.raises(UnsupportedError):
            ask()
