"""A scorer judges alphas, ways, grids and the candidates of a search, and the model tells its figure."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, make_scorer, mean_absolute_error, roc_auc_score
from sklearn.model_selection import GridSearchCV

from dkernel import KernelClassifier, KernelRegressor, Tuner
from dkernel.errors import RecipeError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 3))
RARE = (X**2).sum(axis=1) + 0.5 * RNG.normal(size=1500) > 6.5
GIVEN = {"kernel": "gaussian", "gamma": 0.5, "metric": "identity", "n_components": 48, "holdout": 0.3}
WAYS = {
    "steps": {"solver": "psgd"},
    "normal equations": {"solver": "normal", "loss": "squared"},
    "batches": {"solver": "lbfgs", "alpha": 1e-3},
    "grids": {"local": "grids(n_grids=64)"},
    "cells": {"local": "cells(rows=200)"},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_figure_is_that_of_the_rows_left_out(way):
    machine = KernelClassifier(scoring="average_precision", **GIVEN | WAYS[way]).fit(X, RARE)
    held = machine._finished[0].holdout
    told = machine.model_.facts["holdout"]
    expected = average_precision_score(held.y, machine.model_.scores(held.X)[:, 0])
    assert told["average_precision"] == pytest.approx(expected, abs=1e-3)
    assert "loss" not in told
    assert f"average_precision {expected:.2f}"[:-1] in machine.summary()


def test_it_decides_alpha():
    """The best alpha of the path has the largest score, not the smallest loss."""
    for scoring in ("roc_auc", "loss"):
        machine = KernelClassifier(scoring=scoring, solver="normal", loss="squared", **GIVEN).fit(X, RARE)
        lines = [line for line in machine.history_ if "path" in line]
        path = lines[-1]["path"]
        assert f"{machine.alpha_:g}" == min(path, key=path.get)
        if scoring == "roc_auc":
            held = machine._finished[0].holdout
            auc = roc_auc_score(held.y, machine.model_.scores(held.X)[:, 0])
            assert path[f"{machine.alpha_:g}"] == pytest.approx(1 - auc, abs=1e-3)


def test_few_rows_are_judged_by_their_folds():
    machine = KernelClassifier("gaussian", scoring="accuracy", gamma=0.5, metric="identity").fit(X[:400], RARE[:400])
    told = machine.model_.facts["holdout"]
    assert told["accuracy"] > 0.9
    assert "accuracy" in machine.summary()


def test_numbers_have_their_unit():
    machine = KernelRegressor(scoring="neg_mean_absolute_error", **GIVEN, solver="psgd").fit(X, 50 * X[:, 0] ** 2)
    held = machine._finished[0].holdout
    expected = -mean_absolute_error(held.y, machine.model_.predict(held.X))
    assert machine.model_.facts["holdout"]["neg_mean_absolute_error"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("given", [{"alpha": 1e-4, "n_components": 64, "holdout": 0.3}, {}])
def test_a_search_takes_the_best_score(given):
    machine = KernelClassifier("gaussian", scoring="roc_auc", metric="identity", random_state=0, **given)
    tuner = Tuner(machine, {"gamma": [1e-3, 0.3, 30.0]}).fit(X, RARE)
    scores = [line["score"] for line in tuner.leaderboard_ if "score" in line]
    assert tuner.best_score_ == scores[0] == max(scores)
    assert 0.5 < scores[0] <= 1.0


def test_a_function_is_for_a_search_of_scikit_learn():
    scorer = make_scorer(f1_score)
    with pytest.raises(RecipeError, match="GridSearchCV"):
        KernelClassifier(scoring=scorer, **GIVEN).fit(X, RARE)
    search = GridSearchCV(KernelClassifier(solver="psgd", **GIVEN), {"alpha": [1e-4, 10.0]}, scoring=scorer, cv=2)
    assert search.fit(X, RARE).best_params_["alpha"] == 1e-4
