"""The Tuner: the command's search with the interface of a scikit-learn search."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dkernel import KernelClassifier, KernelRegressor, Tuner, open_source
from dkernel.errors import RecipeError
from dkernel.leaves.tuning import search
from dkernel.leaves.tuning.search import tune
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import ThreadsExecutor
from tests.streaming.sources import rings, waves

SETTINGS = {"n_components": 32, "metric": "identity", "scale": "standard", "solver": "psgd"}
GRID = {"gamma": [0.001, 0.2], "alpha": [1e-6, 1e-2]}


def test_it_finds_what_the_search_finds(tmp_path):
    X, y = rings(1000, p=4)
    tuner = Tuner(KernelClassifier("gaussian", **SETTINGS), GRID, budget="1passes").fit(X, y)
    assert tuner.best_params_["kernel"] == "Gaussian(gamma=0.2)"
    assert len(tuner.leaderboard_) == 4
    assert 0 < tuner.passes_ <= 1
    assert tuner.best_estimator_.kernel == "Gaussian(gamma=0.2)"
    assert tuner.best_estimator_.alpha == tuner.best_params_["alpha"]
    fresh, labels = rings(500, seed=1, p=4)
    assert tuner.score(fresh, labels) == np.mean(tuner.predict(fresh) == labels) > 0.8
    np.testing.assert_array_equal(tuner.decision_function(fresh), tuner.best_estimator_.decision_function(fresh))
    np.testing.assert_array_equal(tuner.classes_, [0, 1])
    # The command on the same rows in the same chunk has the same bytes.
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    recipe = Recipe(task="classify", kernel="gaussian", **SETTINGS)
    source = open_source([str(tmp_path / "rows.npz")], label="y")
    found = tune(source, recipe, ThreadsExecutor(2), GRID, "1passes")
    assert found.fit.model.coef.tobytes() == tuner.best_model_.coef.tobytes()


def test_a_regressor_and_its_clone():
    X, y = waves(800, p=4)
    tuner = Tuner(KernelRegressor("gaussian", **SETTINGS), {"gamma": [0.2], "alpha": [1e-8, 1e-6]}, budget="1passes")
    fitted = clone(tuner).fit(X, y)
    assert "rmse" in fitted.leaderboard_[0]
    assert fitted.score(X, y) > 0.5
    assert not hasattr(tuner, "best_params_")


def test_what_is_refused():
    X, y = rings(200, p=4)
    with pytest.raises(RecipeError, match="KernelClassifier or KernelRegressor"):
        Tuner(object()).fit(X, y)
    with pytest.raises(RecipeError, match="10min"):
        Tuner(KernelClassifier("gaussian", **SETTINGS), GRID, budget="soon").fit(X, y)


def test_a_stopped_search_of_missing_values_goes_on(tmp_path, monkeypatch):
    X, y = rings(5000, p=4)
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    table.loc[::7, "a"] = np.nan
    table.to_parquet(tmp_path / "rows.parquet")
    source = open_source([str(tmp_path / "rows.parquet")], label="y")
    machine = KernelClassifier(gamma=0.3, local="none", **SETTINGS)
    rung, calls = search.HalvingSearch._rung, []

    def stopped(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return rung(*args)

    def tuned(folder):
        return Tuner(machine, {"alpha": [1e-6, 1e-5, 1e-4, 1e-3]}, checkpoint=folder).fit(source)

    monkeypatch.setattr(search.HalvingSearch, "_rung", stopped)
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path / "kept")
    found = tuned(tmp_path / "kept")
    assert len(calls) == 3  # of two rungs one was made twice
    assert found.leaderboard_ == tuned(None).leaderboard_
