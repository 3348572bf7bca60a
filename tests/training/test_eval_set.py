"""Rows to judge by: choices, the local stage, probabilities and intervals are all of them, and of no other row."""

import numpy as np
import pandas as pd
import pytest

from dkernel import Grids, KernelClassifier, KernelRegressor, Tuner

SETTINGS = {"kernel": "gaussian", "gamma": 0.5, "n_components": 64, "metric": "identity", "random_state": 0}


def rough(n, seed, noise=0.05):
    """A target that needs a local stage, and its noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + noise * rng.normal(size=n)


LOCAL = Grids(n_grids=64)


def judged_by(judges, local=LOCAL):
    machine = KernelRegressor(**SETTINGS, local=local)
    return machine.fit(*rough(4000, 0), eval_set=judges)


def test_the_local_stage_is_judged_by_them():
    X, y = rough(1000, 1)
    judged, kept = judged_by((X, -y)), judged_by((X, y))
    assert kept.model_.local is not None
    assert judged.model_.local is None
    assert judged.model_.facts["holdout"]["rows"] == kept.model_.facts["holdout"]["rows"] == 1000


def test_alpha_is_chosen_by_them():
    X, _ = rough(1000, 1)
    zero, honest = (judged_by(judges, local="none") for judges in ((X, np.zeros(1000)), rough(1000, 1)))
    assert zero.alpha_ > honest.alpha_


def test_intervals_are_by_them():
    widths = []
    for noise in (0.05, 1.0):
        machine = judged_by(rough(1000, 1, noise))
        assert machine.model_.facts["conformal"] == {"rows": 1000, "of": "holdout"}
        X, y = rough(2000, 2, noise)
        low, high = machine.predict_interval(X).T
        assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.9, abs=0.03)
        widths.append(np.mean(high - low))
    assert widths[1] > 4 * widths[0]


def test_probabilities_are_by_them():
    X, y = rough(4000, 0)
    rng = np.random.default_rng(3)
    judges, truth = rough(1000, 1)
    sure = KernelClassifier(**SETTINGS, local="none").fit(X, y > 0, eval_set=(judges, truth > 0))
    wrong = np.where(rng.random(1000) < 0.4, truth <= 0, truth > 0)
    unsure = KernelClassifier(**SETTINGS, local="none").fit(X, y > 0, eval_set=(judges, wrong))
    for machine in (sure, unsure):
        assert machine.model_.facts["calibrated"] == 1000
    largest = [machine.predict_proba(rough(500, 2)[0]).max(axis=1).mean() for machine in (sure, unsure)]
    assert largest[0] > largest[1] + 0.1


@pytest.mark.parametrize("n", [600, 5000])
def test_a_search_is_judged_by_them(n):
    """Of labels that are all 0 the candidate that says least is the best, whatever the rows to learn from say."""
    X, y = rough(n, 0)
    judges, truth = rough(500, 1)
    machine = KernelRegressor("gaussian", metric="identity", n_components=64, local="none", random_state=0)
    grid = {"gamma": [1e-3, 2.0], "alpha": [1e-6]}
    honest = Tuner(machine, grid).fit(X, y, eval_set=(judges, truth))
    misled = Tuner(machine, grid).fit(X, y, eval_set=(judges, np.zeros(500)))
    assert honest.best_params_["kernel"] == "Gaussian(gamma=2.0)"
    assert misled.best_params_["kernel"] == "Gaussian(gamma=0.001)"
    assert {line["rows"] for line in honest.leaderboard_} == {500}
    assert honest.best_model_.facts["holdout"]["rows"] == 500


def test_a_search_leaves_whole_groups_out():
    """Rows of a group are copies: a search that has copies on both sides prefers to learn them by heart."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(300, 2))
    labels = centres.sum(axis=1) + rng.normal(size=300)
    group = rng.integers(0, 300, 3000)
    X = centres[group] + 1e-3 * rng.normal(size=(3000, 2))
    machine = KernelRegressor("gaussian", metric="identity", n_components=512, local="none", random_state=0)
    grid = {"gamma": [0.1, 300.0], "alpha": [1e-4]}
    assert Tuner(machine, grid).fit(X, labels[group]).best_params_["kernel"] == "Gaussian(gamma=300.0)"
    by_group = Tuner(machine, grid).fit(X, labels[group], groups=group)
    assert by_group.best_params_["kernel"] == "Gaussian(gamma=0.1)"


def test_the_command_searches_by_groups(run_to, tmp_path):
    X, y = rough(1500, 0)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, site=np.arange(1500) % 40)
    frame.to_parquet(tmp_path / "t.parquet")
    words = ["--metric", "identity", "--n-components", "64", "--grid", "gamma=0.1|2", "--alpha", "1e-6", "--json"]
    words += ["--kernel", "gaussian"]
    run_to("tune", tmp_path / "t.parquet", "--label", "y", "--out", tmp_path / "m", "--holdout-by", "group:site",
               "--holdout", "0.2", *words)  # fmt: skip
    from dkernel import load

    model = load(tmp_path / "m").model_
    assert "groups of 'site'" in model.facts["chosen"]["holdout"]
    assert list(model.columns) == ["a", "b"]
    assert model.facts["rows"] + model.facts["holdout"]["rows"] == 1500
