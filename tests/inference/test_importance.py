"""Importances are those of scikit-learn's permutation, on the holdout or on other rows, by column."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance

from dkernel import KernelClassifier, KernelRegressor, save
from dkernel.cli import main

QUICK = {"gamma": 0.2, "n_components": 64, "alpha": 1e-4, "metric": "identity", "local": "none", "solver": "psgd"}
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.normal(size=6000), "noise": RNG.normal(size=6000), "city": RNG.choice(["x", "y"], 6000)})
NUMBER = TABLE["a"] * np.where(TABLE["city"] == "x", 1.0, -1.0)


def test_those_of_the_holdout_are_those_of_scikit_learn():
    machine = KernelRegressor("gaussian", **QUICK).fit(TABLE, NUMBER)
    found = machine.feature_importances_
    expected = permutation_importance(machine, TABLE[-2000:], NUMBER[-2000:], random_state=0)
    np.testing.assert_allclose(found, expected.importances_mean, atol=0.15)
    assert abs(found[1]) < 0.02
    classifier = KernelClassifier("gaussian", **QUICK).fit(TABLE, NUMBER > 0)
    assert classifier.feature_importances_[[0, 2]].min() > 0.3


def test_where_no_row_was_held_out_it_says_what_to_use():
    machine = KernelRegressor("gaussian", gamma=0.2).fit(TABLE[:300], NUMBER[:300])
    assert not hasattr(machine, "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_importance"):
        _ = machine.feature_importances_


def test_columns_are_selected_by_it():
    X = TABLE[["a", "noise"]]
    machine = KernelRegressor("gaussian", **QUICK)
    chosen = SelectFromModel(machine, importance_getter="feature_importances_", threshold=0.1).fit(X, TABLE["a"])
    assert list(chosen.get_feature_names_out()) == ["a"]


def test_the_command_prints_the_largest_first(tmp_path):
    save(KernelRegressor("gaussian", **QUICK).fit(TABLE, NUMBER.rename("z")), tmp_path / "m")
    TABLE.assign(z=NUMBER).to_parquet(tmp_path / "rows.parquet")
    words = ["evaluate", str(tmp_path / "m"), str(tmp_path / "rows.parquet"), "--label", "z", "--importance"]
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["importance"]
    assert list(found)[2] == "noise"
    assert 0 < found["a"]["deviation"] < 0.1 < found["a"]["mean"]
    lines = CliRunner().invoke(main, words).stdout
    assert "importance" in lines
    assert " ± " in lines.split("noise: ")[1].splitlines()[0]
