"""A search on the full data: the same bytes for every executor, the right winner, resumed rungs, budgets."""

from dataclasses import replace

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError
from dkernel.leaves.tuning.search import tune
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import train
from tests.streaming.sources import rings, source_of, waves

RECIPE = Recipe(solver="psgd", n_components=48, kernel="gaussian", metric="identity", scale="none", rounds=8)
GRID = {"gamma": [0.001, 0.2, 20.0], "loss": ["squared_hinge", "logistic"], "alpha": [1e-6, 1e-2]}
UNITS = [(500, 400), (600,)]


@pytest.fixture(scope="module")
def source():
    return source_of(*rings(1500, p=4), UNITS)


@pytest.fixture(scope="module")
def found(source):
    return tune(source, RECIPE, SerialExecutor(), GRID)


def digest(result, folder):
    return model_file.save(result.fit.model, folder / "model.safetensors")


def test_threads_find_the_bytes_of_the_loop(source, found, tmp_path):
    threads = tune(source, RECIPE, ThreadsExecutor(2), GRID)
    assert threads.leaderboard == found.leaderboard
    assert digest(threads, tmp_path) == digest(found, tmp_path)


def test_the_right_gamma_wins_and_is_trained(found):
    assert found.params["kernel"] == "Gaussian(gamma=0.2)"
    assert found.fit.model.recipe.kernel == "Gaussian(gamma=0.2)"
    assert found.fit.model.recipe.loss == found.params["loss"]
    assert found.fit.model.recipe.alpha == found.params["alpha"]
    X, y = rings(2000, seed=1, p=4)
    assert np.mean(found.fit.model.predict(X) != y) < 0.12
    assert found.fit.model.facts["search"] == {
        "candidates": 12, "passes": found.passes, "rungs": 4, "winner": found.params
    }  # fmt: skip


def test_the_leaderboard_is_complete(found):
    board = found.leaderboard
    assert [line["rank"] for line in board] == list(range(1, 13))
    assert len({(line["gamma"], line["loss"], line["alpha"]) for line in board}) == 12
    # Twelve, then the better six, three, two: half of them end with the first rung.
    assert [line["rungs"] for line in board] == [4] * 2 + [3] + [2] * 3 + [1] * 6
    assert all(0 <= line["error"] <= 1 and line["rows"] > 0 for line in board)
    # Two losses cannot be compared with each other: the errors are.
    assert board[0]["error"] <= board[1]["error"]


def test_a_stop_in_a_rung_and_on_to_the_same_bytes(source, found, tmp_path, monkeypatch):
    from dkernel.leaves.tuning import search as module

    whole, calls = module.HalvingSearch._rung, []

    def stopping(self, *args):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, *args)

    monkeypatch.setattr(module.HalvingSearch, "_rung", stopping)
    with pytest.raises(KeyboardInterrupt):
        tune(source, RECIPE, SerialExecutor(), GRID, checkpoint=Checkpoint(tmp_path / "ck"))
    monkeypatch.setattr(module.HalvingSearch, "_rung", whole)
    assert sorted(p.stem for p in (tmp_path / "ck" / "search").glob("*rung*")) == [
        "checkpoint-rung-0", "checkpoint-rung-1"
    ]  # fmt: skip
    counted = []
    monkeypatch.setattr(module.HalvingSearch, "_rung", lambda self, *args: counted.append(1) or whole(self, *args))
    again = tune(source, RECIPE, SerialExecutor(), GRID, checkpoint=Checkpoint(tmp_path / "ck", True))
    assert len(counted) == 2  # of four
    assert again.leaderboard == found.leaderboard
    assert digest(again, tmp_path) == digest(found, tmp_path)
    # A third time nothing was done; another grid is another search.
    done = tune(source, RECIPE, SerialExecutor(), GRID, checkpoint=Checkpoint(tmp_path / "ck", True))
    assert len(counted) == 2
    assert digest(done, tmp_path) == digest(found, tmp_path)
    with pytest.raises(RecipeError, match="grid was"):
        tune(source, RECIPE, SerialExecutor(), {"alpha": [1e-3]}, checkpoint=Checkpoint(tmp_path / "ck", True))


def test_a_time_ends_with_a_rung_and_its_passes_do_the_same_again(source, tmp_path):
    seconds = iter(range(0, 100_000, 10))
    timed = tune(source, RECIPE, SerialExecutor(), GRID, "30s", clock=lambda: next(seconds))
    assert 0 < timed.leaderboard[0]["rungs"] < 4
    again = tune(source, RECIPE, SerialExecutor(), GRID, f"{timed.passes:.6g}passes")
    assert again.leaderboard == timed.leaderboard
    assert digest(again, tmp_path) == digest(timed, tmp_path)
    # Where a search was ended, its best leads.
    assert timed.leaderboard[0]["error"] == min(
        line["error"] for line in timed.leaderboard if line["rungs"] == timed.leaderboard[0]["rungs"]
    )


def test_what_is_open_is_searched_with_a_metric(source):
    recipe = RECIPE.replace(metric="auto", alpha=1e-6)
    result = tune(source, recipe, SerialExecutor(), {"gamma": ["auto", "4*median"]}, "0.1passes")
    assert {line["metric"] for line in result.leaderboard} == {"identity", "full"}
    assert len(result.leaderboard) == 4
    assert result.fit.model.recipe.metric == result.params["metric"]


def test_alpha_that_no_grid_names_is_chosen_again_at_full_size(source):
    recipe = RECIPE.replace(alpha="auto")
    result = tune(source, recipe, SerialExecutor(), {"gamma": [0.001, 0.2]}, "1passes")
    alone = train(source, recipe.replace(kernel="Gaussian(gamma=0.2)"), SerialExecutor())
    assert len(result.leaderboard) == 2 * len({line["alpha"] for line in result.leaderboard}) == 16
    assert result.params["alpha"] == result.fit.model.recipe.alpha == alone.model.recipe.alpha
    assert result.fit.model.facts["search"]["winner"] == result.params
    assert np.array_equal(result.fit.model.coef, alone.model.coef)


def test_sizes_and_kernels_of_a_regression():
    X, y = waves(1200, p=4)
    grid = {"n_components": [16, 64], "kernel": ["Gaussian(gamma=0.2)", "Laplacian(gamma=0.1)"], "alpha": [1e-6]}
    result = tune(source_of(X, y, [(600,), (600,)]), RECIPE.replace(loss="squared"), SerialExecutor(), grid)
    assert len(result.leaderboard) == 4
    assert "rmse" in result.leaderboard[0]
    assert result.fit.model.map.n_components == result.params["n_components"]


def test_three_classes_with_a_loss_over_all_of_them():
    X, y = rings(1500, p=4, classes=3)
    source, grid = (
        source_of(X, y, UNITS),
        {"gamma": [0.001, 0.2], "loss": ["softmax", "squared_hinge"], "alpha": [1e-6]},
    )
    result = tune(source, RECIPE.replace(class_weight="balanced"), SerialExecutor(), grid, "1passes")
    assert result.params["kernel"] == "Gaussian(gamma=0.2)"
    assert result.fit.model.coef.shape[1] == 3
    assert result.leaderboard[0]["error"] < 0.25 < result.leaderboard[-1]["error"]
    assert result.fit.model.recipe.loss == result.params["loss"]


def test_a_single_candidate_is_trained(source):
    result = tune(source, RECIPE, SerialExecutor(), {"gamma": [0.2], "alpha": [1e-6]})
    assert (result.passes, len(result.leaderboard)) == (0.0, 1)
    assert result.fit.model.recipe.alpha == 1e-6


@pytest.mark.parametrize("budget", ["soon", "0passes", "-1", "5 parsecs", "nan", True, ""])
def test_a_budget_that_is_none_is_refused_with_what_is_possible(source, budget):
    with pytest.raises(RecipeError, match="10min"):
        tune(source, RECIPE, SerialExecutor(), GRID, budget)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"gama": [1]}, "Did you mean 'gamma'"),
        ({"alpha": 1e-3}, "not a list of values"),
        ({"alpha": []}, "not a list of values"),
        ({"loss": ["hinges"]}, "Did you mean 'hinge'"),
        ({"gamma": ["x*median"]}, "above 0"),
        ({"alpha": [k / 5000 for k in range(5000)]}, "at most 4,096"),
    ],
)
def test_a_grid_that_means_nothing_is_refused(source, grid, said):
    with pytest.raises(RecipeError, match=said):
        tune(source, RECIPE, SerialExecutor(), grid)


def test_without_labels_there_is_nothing_to_search_for(source):
    with pytest.raises(DataError, match="no label"):
        tune(replace(source, label=None), RECIPE, SerialExecutor())


def test_the_bytes_follow_the_seed(source):
    def coefficients(seed):
        grid = {"gamma": [0.1, 0.3], "alpha": [1e-6]}
        return tune(source, RECIPE.replace(seed=seed), SerialExecutor(), grid, "0.5passes").fit.model.coef.tobytes()

    assert coefficients(0) == coefficients(0) != coefficients(1)


@pytest.mark.cluster
def test_processes_find_the_bytes_of_the_loop(two_workers, source, found, tmp_path):
    result = tune(source, RECIPE, two_workers, GRID)
    assert result.leaderboard == found.leaderboard
    assert digest(result, tmp_path) == digest(found, tmp_path)
