"""Command and estimator begin with one recipe."""

import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.cli.train import RECIPE, make_recipe


@pytest.mark.parametrize("machine", [KernelClassifier, KernelRegressor])
def test_with_nothing_given_both_make_the_same_recipe(machine):
    values = dict.fromkeys(RECIPE) | ({"task": "regress"} if machine is KernelRegressor else {"task": "classify"})
    assert machine(random_state=0)._recipe() == make_recipe(values)


ELSEWHERE = {
    "task": "the class", "seed": "random_state", "categorical": "categorical_features", "positive": "classes_[1]",
    "holdout_by": "fit(groups=)",
}  # fmt: skip
"""Options of the command -> what says so in Python, where the estimators have no parameter of that name."""


def test_what_the_command_can_be_told_the_estimators_can_too():
    known = {*KernelClassifier().get_params(), *KernelRegressor().get_params()}
    assert set(RECIPE) - known == set(ELSEWHERE)
    assert {"class_weight", "holdout", "dtype"} <= known & set(RECIPE)
    assert "verbose" in known
    assert callable(KernelClassifier.report)


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """The file of a table of 120 rows, some of them twice."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    rows = rows.assign(y=np.where(rows.a**2 + rows.b > 0.5, "in", "out"))
    path = tmp_path_factory.mktemp("few") / "few.csv"
    pd.concat([rows, rows[:20]], ignore_index=True).to_csv(path, index=False)
    return path


def test_the_summary_of_an_exact_fit_compares_with_a_linear_model(few, run, tmp_path):
    args = ["--kernel", "gaussian", "--gamma", 0.5, "--metric", "identity"]
    result = run("train", few, "--label", "y", "--out", tmp_path / "m", *args)
    assert "on 100 different rows left out" in result.stdout  # each left out once
    assert "better than a linear model" in result.stdout
