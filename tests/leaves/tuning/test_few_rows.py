"""A search on few rows: candidates are judged as `train` judges its alphas, and its own choice is the first of them."""

import numpy as np
import pytest

from dkernel.leaves.tuning import few_rows
from dkernel.leaves.tuning.search import tune
from dkernel.model import model_file
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor, ThreadsExecutor
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.fit import train
from tests.streaming.sources import source_of

RECIPE = Recipe(kernel="gaussian", local="none", solver="auto")


def crescents(n, seed=0):
    """Two noisy crescents, one in the other's hollow."""
    rng = np.random.default_rng(seed)
    turn, y = rng.uniform(0, np.pi, n), rng.integers(0, 2, n)
    X = np.column_stack([np.cos(turn) + y, np.sin(turn) * (1 - 2 * y) + 0.4 * y]) + 0.35 * rng.normal(size=(n, 2))
    return X.astype(np.float32), y


@pytest.fixture(scope="module")
def source():
    return source_of(*crescents(300), [(200, 100)])


@pytest.fixture(scope="module")
def alone(source):
    return train(source, RECIPE, SerialExecutor()).model


@pytest.fixture(scope="module")
def found(source):
    return tune(source, RECIPE, SerialExecutor())


def test_the_winner_is_never_worse_than_the_choice_of_train(found, alone):
    own = alone.facts["holdout"]["loss"]
    losses = [line["left_out_loss"] for line in found.leaderboard]
    assert losses == sorted(losses)
    assert own in losses
    assert found.fit.model.facts["holdout"]["loss"] == losses[0] <= own
    assert found.fit.model.recipe.solver == "exact"
    X, y = crescents(3000, seed=1)
    assert np.mean(found.fit.model.predict(X) == y) > np.mean(alone.predict(X) == y) - 0.01


def test_every_line_is_another_fit(found):
    assert [line["rank"] for line in found.leaderboard] == list(range(1, len(found.leaderboard) + 1))
    fits = [(line["kernel"], line["metric"]) for line in found.leaderboard]
    assert len(set(fits)) == len(fits)
    assert all(line["rows"] == 300 for line in found.leaderboard)
    assert found.params["alpha"] == found.leaderboard[0]["alpha"] == found.fit.model.recipe.alpha


def test_the_least_budget_has_the_choice_of_train(source, alone):
    result = tune(source, RECIPE, SerialExecutor(), budget="0.01passes")
    assert [line["rungs"] for line in result.leaderboard] == [1] + [0] * (len(result.leaderboard) - 1)
    assert np.array_equal(result.fit.model.coef, alone.coef)
    assert repr(result.fit.model.map.kernel) == repr(alone.map.kernel)


def test_threads_find_the_bytes_of_the_loop(source, found, tmp_path):
    threads = tune(source, RECIPE, ThreadsExecutor(2))
    assert threads.leaderboard == found.leaderboard
    sums = [model_file.save(each.fit.model, tmp_path / "m") for each in (threads, found)]
    assert sums[0] == sums[1]


def test_a_stopped_search_goes_on(source, found, tmp_path, monkeypatch):
    whole, calls = few_rows.FewRowsSearch._judge, []

    def stopping(self, candidate):
        calls.append(candidate)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, candidate)

    monkeypatch.setattr(few_rows.FewRowsSearch, "_judge", stopping)
    with pytest.raises(KeyboardInterrupt):
        tune(source, RECIPE, SerialExecutor(), checkpoint=Checkpoint(tmp_path / "ck"))
    again = tune(source, RECIPE, SerialExecutor(), checkpoint=Checkpoint(tmp_path / "ck", True))
    assert len(calls) == 1 + len(found.leaderboard)
    assert again.leaderboard == found.leaderboard


def test_a_regression_with_components_on_its_grid():
    X, _ = crescents(300)
    result = tune(
        source_of(X, np.sin(3 * X[:, 0]), [(300,)]), RECIPE.replace(loss="squared", metric="identity"),
        SerialExecutor(), {"n_components": [8, 64]},
    )  # fmt: skip
    assert {line["n_components"] for line in result.leaderboard} == {8, 64}
    assert result.params["n_components"] == 64
    assert result.leaderboard[0]["rmse"] < result.leaderboard[-1]["rmse"]
