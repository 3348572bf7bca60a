"""Cells: losses, partitions, weights, the search, costs, and refusals beside those of any local stage."""

import numpy as np
import pytest

import dkernel
from dkernel import Cells, KernelClassifier, KernelRegressor
from dkernel.errors import RecipeError, UnsupportedError
from dkernel.leaves.cells.settings import SIZES, best_cells_anywhere
from dkernel.leaves.cells.stage import ROOM, CellStage
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.selection.race import MOST_RACE_ROWS
from tests.streaming.sources import source_of
from tests.training.fits import CELLS, RECIPE, StoppedError, digest, fit, stop_at
from tests.training.test_local_stage import machine, rough


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_every_smooth_loss_of_classes(loss):
    X, y = rough(1000)
    labels = np.digitize(y + X[:, 0], [-1.0, 0.0, 1.0]) if loss == "softmax" else y > 0
    found = machine(loss=loss, local="cells(rows=200)").fit(X, labels)
    assert found.model_.local is not None
    assert found.score(X, labels) > machine(loss=loss).fit(X, labels).score(X, labels)


def test_partitions_are_fitted_one_by_one_and_answer_together(tmp_path):
    X, y = rough()
    new, truth = rough(1000, seed=1)
    one, three = (machine(KernelRegressor, local=Cells(rows=300, partitions=k)).fit(X, y) for k in (1, 3))
    assert len(three.model_.local.Z) > 2.9 * len(one.model_.local.Z)
    assert three.score(new, truth) > one.score(new, truth)
    dkernel.save(three, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(dkernel.load(tmp_path / "m.safetensors").predict(new), three.predict(new))
    costs = [CellStage().cost(10**6, 28, RECIPE.replace(local=Cells(partitions=k)), 1) for k in (1, 3)]
    assert costs[1].model_bytes == 3 * costs[0].model_bytes
    assert costs[1].scratch_bytes == 3 * costs[0].scratch_bytes


@pytest.mark.parametrize("best", [(1, 4, 0, 0), (2, 0, 0, 1), (3, 1, 1, 1), (2, 4, 1, 0)])
def test_the_search_finds_each_smoothness_with_the_ridge_that_it_wants(best):
    tried = set()

    def loss(place):
        tried.add(place)
        away = sum(abs(a - b) for a, b in zip(place[:2], best[:2], strict=True)) + (place[3] != best[3]) / 2
        return away if place[2] == best[2] else 2 + abs(place[1] - (5 - best[1]))

    assert best_cells_anywhere(loss) == best
    assert len(tried) < sum(SIZES) + 4


def test_weights_count_and_their_unit_does_not():
    X, y = rough(1200)
    weight = np.where(np.arange(1200) % 3, 1.0, 0.0)
    settings = {"local": "cells(rows=300)"}
    weighted = machine(**settings).fit(X, y > 0, sample_weight=weight)
    assert weighted.model_.local is not None
    assert len(weighted.model_.local.Z) < 1.6 * 800
    again = machine(**settings).fit(X, y > 0, sample_weight=4 * weight)
    np.testing.assert_allclose(again.decision_function(X), weighted.decision_function(X), atol=1e-3)


def test_cells_that_gain_nothing_leave_the_model_unchanged():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3)).astype(np.float32)
    y = rng.normal(size=1000) > 0
    small = {"kernel": "gaussian", "gamma": 0.1, "metric": "identity", "n_components": 8, "alpha": 1.0}
    plain = KernelClassifier(**small, solver="psgd").fit(X, y)
    found = KernelClassifier(**small, solver="psgd", local="cells(rows=200)").fit(X, y)
    assert found.model_.local is None
    assert found.chosen_["local"].startswith("none: ")
    np.testing.assert_array_equal(found.decision_function(X), plain.decision_function(X))


def test_the_other_cells_stay_empty_where_the_fit_is_told_to_end():
    ends = []
    for executor in (SerialExecutor(), ThreadsExecutor(2)):
        found = fit(None, executor, recipe=CELLS, callback=lambda line: line.get("parts") == 2)
        assert [line["parts"] for line in found.history if "parts" in line] == [1, 2]
        ends.append(found.history)
    assert ends[0] == ends[1]


def test_what_has_no_meaning_is_refused_by_name():
    X, y = rough(600)
    with pytest.raises(UnsupportedError, match="loss='huber'"):
        machine(KernelRegressor, loss="quantile(0.9)", local="cells").fit(X, y)
    with pytest.raises(RecipeError, match="rows=3"):
        machine(local="cells(rows=3)").fit(X, y > 0)
    with pytest.raises(RecipeError, match="overlap=-1"):
        machine(local=Cells(overlap=-1)).fit(X, y > 0)
    squares = machine(KernelRegressor, local="cells").fit(X, y)
    with pytest.raises(UnsupportedError, match="local='none'"):
        squares.predict(X, return_std=True)


def test_the_plan_states_matrices_rows_and_scratch():
    small, large = (CellStage().cost(10**6, 28, RECIPE.replace(local=Cells(rows=n)), 1) for n in (1000, 4000))
    assert large.task_bytes > 8 * (ROOM * 5990) ** 2 > small.task_bytes  # as cuts make them, with their bands
    assert small.task_bytes >= 8 * MOST_RACE_ROWS**2  # a race fits one cell
    assert large.flops > 4 * small.flops  # beside the metric, whose rows are as many
    assert small.scratch_bytes == large.scratch_bytes > 1.5e6 * 4 * 28


def test_cells_learn_the_label_itself_where_the_race_says_so(tmp_path):
    """Components that have learned a rough function by heart leave residuals that say nothing of other rows."""
    X, y = rough(2000)
    found = KernelRegressor(local="cells", random_state=0).fit(X, y)
    assert found.model_.recipe.features == "none", found.chosen_
    assert found.chosen_["way"].startswith("cells"), found.chosen_
    assert found.model_.map.n_components == 1
    new, truth = rough(500, seed=1)
    assert found.score(new, truth) > 0.8
    dkernel.save(found, tmp_path / "m.safetensors")
    again = dkernel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(new), found.predict(new))


def test_a_way_that_was_stopped_goes_on_where_it_was(tmp_path):
    X, y = rough(1500)
    recipe = Recipe(solver="psgd", local="cells(rows=400)", task="regress", loss="squared")
    source = source_of(X, y, [(800,), (700,)])
    options = {"recipe": recipe, "source": source, "scratch": str(tmp_path / "scratch")}
    with pytest.raises(StoppedError):
        fit(tmp_path / "kept", callback=stop_at(parts=2), **options)
    found = fit(tmp_path / "kept", **options)
    assert "'none-cells" in found.resumed
    whole = fit(None, ThreadsExecutor(2), recipe=recipe, source=source)
    assert whole.model.recipe.features == "none"
    assert digest(found, tmp_path) == digest(whole, tmp_path)
