"""A local stage after the global one: rough targets, every smooth loss, resume, and what is refused."""

import dask.array as da
import numpy as np
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.losses.losses import parse_loss
from dkernel.model import local_settings
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.fit import plan, train
from dkernel.training.grids.stage import automatic_grids, code_bits
from dkernel.training.stage_result import StageResult
from tests.processor import WIDE
from tests.streaming.sources import rings
from tests.training.fits import CELLS, GRIDS, StoppedError, digest, fit, stop_at

STAGES = {"grids": "grids(n_grids=128)", "cells": "cells(rows=400)"}


def rough(n=3000, seed=0):
    """Rows of two numbers and a category of four levels; the answer flips along a fine stripe and by the category."""
    rng = np.random.default_rng(seed)
    X, level = rng.uniform(-1, 1, (n, 2)), rng.integers(0, 4, n)
    value = np.sign(np.sin(14 * X[:, 0])) * np.where(level % 2, 1.0, -1.0)
    return np.hstack([X, level[:, None] == np.arange(4)]).astype(np.float32), value


def machine(kind=KernelClassifier, **settings):
    known = {"kernel": "gaussian", "gamma": 1.0, "metric": "identity", "n_components": 64, "alpha": 1e-4}
    return kind(**known, solver="psgd", **settings)


@pytest.mark.parametrize("stage", local_settings.STAGES)
def test_a_stage_learns_what_is_too_rough_for_the_components(stage):
    X, y = rough()
    new, truth = rough(1000, seed=1)
    smooth, both = machine().fit(X, y > 0), machine(local=STAGES[stage]).fit(X, y > 0)
    assert smooth.score(new, truth > 0) < 0.7
    assert both.score(new, truth > 0) > 0.85
    if stage == "grids":
        assert both.chosen_["local"].startswith("128 grids")
        assert both.model_.local.inputs.groups == ((2, 3, 4, 5),)
    else:
        assert "cells of" in both.chosen_["local"]
        assert np.diff([0, *both.model_.local.ends]).max() <= 600


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "squared", "softmax"])
def test_the_loss_on_the_rows_never_rises(loss):
    X, y = rough(1200)
    labels = np.digitize(y + X[:, 0], [-1.0, 0.0, 1.0]) if loss == "softmax" else y > 0
    found = machine(loss=loss, local="grids(n_grids=96)").fit(X, labels)
    losses = [line["loss"] for line in found.history_ if "grids" in line]
    assert len(losses) == 6
    assert (np.diff(losses) <= 1e-6).all()
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("loss", ["squared", pytest.param("huber", marks=pytest.mark.slow)])
@pytest.mark.parametrize("stage", local_settings.STAGES)
def test_regressions_in_any_unit(stage, loss):
    X, y = rough()
    new, truth = rough(500, seed=1)
    found = machine(KernelRegressor, loss=loss, local=STAGES[stage]).fit(X, 1e6 + 50 * y)
    assert found.model_.local is not None
    assert np.sqrt(np.mean((found.predict(new) - (1e6 + 50 * truth)) ** 2)) < 40
    both = machine(KernelRegressor, loss=loss, local=STAGES[stage]).fit(X, np.column_stack([y, 1e6 + 50 * y]))
    assert both.predict(new).shape == (500, 2)


@pytest.mark.parametrize("loss", ["quantile(0.9)", pytest.param("epsilon_insensitive(0.1)", marks=pytest.mark.slow)])
def test_losses_with_kinks_for_numbers(loss):
    X, y = rough()
    y = y + 0.5 * np.random.default_rng(2).exponential(size=len(y))
    X, y, new, truth = X[:2500], y[:2500], X[2500:], y[2500:]
    before, found = (machine(KernelRegressor, loss=loss, **s).fit(X, y) for s in ({}, {"local": "grids(n_grids=128)"}))
    errors = [parse_loss(loss).value(truth, each.predict(new)).mean() for each in (before, found)]
    assert errors[1] < 0.95 * errors[0]
    if loss == "quantile(0.9)":
        assert 0.82 < np.mean(truth <= found.predict(new)) < 0.95


def test_grids_that_gain_nothing_leave_the_model_unchanged():
    rng = np.random.default_rng(6)  # of eight seeds three have a gain, of 1.1 to 2.2 standard errors
    X = rng.normal(size=(2000, 3)).astype(np.float32)
    y = rng.normal(size=2000) > 0
    plain, found = machine().fit(X, y), machine(local="grids(n_grids=32)").fit(X, y)
    assert found.model_.local is None
    assert found.chosen_["local"].startswith("none: ")
    np.testing.assert_array_equal(found.decision_function(X), plain.decision_function(X))


@pytest.mark.parametrize("stage", local_settings.STAGES)
def test_a_file_holds_the_stage_and_dask_rows_get_the_same_answers(tmp_path, stage):
    X, y = rough(1500)
    found = machine(local=STAGES[stage], calibration="temperature").fit(X, y > 0)
    assert found.model_.local is not None
    dkernel.save(found, tmp_path / "m.safetensors")
    again = dkernel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), found.predict_proba(X))
    near = 0.0 if WIDE or stage == "grids" else 1e-3  # BLAS, which cells call, rounds by a row's place without AVX-512
    lazy = found.decision_function(da.from_array(X, chunks=(400, -1)))
    np.testing.assert_allclose(lazy.compute(), found.decision_function(X), rtol=0, atol=near)
    np.testing.assert_allclose(found.decision_function(X[7:8]), found.decision_function(X)[7:8], rtol=0, atol=near)


SLOW_STOPS = [pytest.param(*stop, marks=pytest.mark.slow) for stop in (("grids", 32), ("parts", 3))]


@pytest.mark.parametrize(("word", "number"), [("grids", 16), ("parts", 1), *SLOW_STOPS])
def test_a_fit_stopped_in_a_stage_goes_on_to_the_bytes_of_threads(tmp_path, word, number):
    recipe = {"grids": GRIDS, "parts": CELLS}[word]
    options = {"recipe": recipe, "scratch": str(tmp_path / "scratch")}
    with pytest.raises(StoppedError):
        fit(tmp_path / "kept", callback=stop_at(**{word: number}), **options)
    assert list((tmp_path / "scratch").glob("*")) == []  # the file of the rows has no name
    found = fit(tmp_path / "kept", **options)
    assert found.resumed == f"the middle of the step '{recipe.local_stage}'"
    whole = fit(None, ThreadsExecutor(3), recipe=recipe)
    assert digest(found, tmp_path) == digest(whole, tmp_path)
    assert [line for line in found.history if "parts" in line] == [line for line in whole.history if "parts" in line]


@pytest.mark.parametrize("stage", local_settings.STAGES)
def test_what_has_no_meaning_is_refused_by_name(stage):
    X, y = rough(600)
    with pytest.raises(UnsupportedError, match="loss='squared_hinge'"):
        machine(loss="hinge", local=stage).fit(X, y > 0)
    with pytest.raises(RecipeError, match="solver='exact' keeps none"):
        KernelClassifier(solver="exact", local=stage).fit(X, y > 0)
    with pytest.raises(UnsupportedError, match="partial_fit"):
        machine(local=stage).partial_fit(X, y > 0, [False, True])


@pytest.mark.parametrize("stage", [*local_settings.STAGES, "none", "auto"])
@pytest.mark.parametrize("X", [np.eye(2), np.eye(3)[:, :2], np.ones((300, 2))], ids=["2 rows", "3 rows", "constant"])
def test_few_rows_and_constant_columns_have_an_answer(X, stage):
    y = np.random.default_rng(0).normal(size=len(X))
    assert np.isfinite(KernelRegressor(local=stage).fit(X, y).predict(X)).all()


def test_sizes_follow_the_rows():
    assert [automatic_grids(n) for n in (100, 10**6, 10**8)] == [2048, 2048, 256]
    assert [automatic_grids(n, "high") for n in (100, 10**6, 10**9)] == [8192, 8192, 256]
    assert [code_bits(n) for n in (100, 10**6)] == [7, 13]


def open_fit(X, y, **settings):
    recipe = Recipe(holdout=0.5, **settings)
    return train(from_arrays(X, y), recipe, SerialExecutor())


@pytest.mark.slow
def test_auto_keeps_grids_where_they_gain():
    rng = np.random.default_rng(1)
    X, board = rng.uniform(0, 20, (8000, 2)).astype(np.float32), rng.integers(0, 2, (20, 20))
    found = open_fit(X, board[tuple(X.astype(int).T)] > 0)
    assert "grids" in found.plan["local"]
    assert found.model.recipe.local == found.model.local.kind
    assert "a clear gain" in found.chosen["local"]


def test_auto_leaves_out_grids_that_gain_nothing():
    X, noise = rough(1400)[0], np.random.default_rng(0).normal(size=1400) > 0
    left_out = open_fit(X, noise)
    assert left_out.plan["readings"] > 64 // 16
    assert left_out.plan["local"] == ["grids", "cells"]
    assert left_out.model.recipe.local == "none" or left_out.model.recipe.constant_map  # which names its stage
    assert left_out.model.local is None
    assert left_out.chosen["way"]


def test_another_way_follows_grids_that_gain_nothing(monkeypatch):
    nothing = StageResult(None, [], {}, "none: nothing gained")
    monkeypatch.setattr("dkernel.training.grids.stage.GridStage.fit", lambda *_: nothing)
    found = open_fit(*rings(1400, noise=0.0))
    assert found.model.map.n_components > 1 or found.model.local.kind == "cells"
    assert "of grids" in found.chosen["way"]
    assert found.model.facts["holdout"]["accuracy"] > 0.8


@pytest.mark.parametrize(
    "given",
    [{"kernel": "gaussian"}, {"n_components": 64}, {"alpha": 1e-4}, {"loss": "hinge"}, {"holdout": 0.1}],
    ids=str,
)
def test_auto_adds_no_local_stage_to_given_or_unjudged_machines(given):
    source = from_arrays(*rough(1400))
    assert plan(source, Recipe(**{"holdout": 0.5} | given), SerialExecutor())["local"] == []
    assert plan(source, Recipe(solver="psgd", holdout=0.5), SerialExecutor())["local"] == ["grids", "cells"]


@pytest.mark.parametrize(("n", "tried"), [(2900, []), (3100, ["grids", "cells"])])
def test_a_race_needs_rows_to_judge_by(n, tried):
    assert plan(from_arrays(*rough(n)), Recipe(solver="psgd"), SerialExecutor())["local"] == tried
