"""Command and estimator begin with one recipe, and a holdout of few rows says how uncertain it is."""

import pytest

from dkernel import KernelClassifier, KernelRegressor
from dkernel.cli.train import RECIPE, _uncertainty, recipe_of


@pytest.mark.parametrize("machine", [KernelClassifier, KernelRegressor])
def test_with_nothing_given_both_make_the_same_recipe(machine):
    values = dict.fromkeys(RECIPE) | ({"task": "regress"} if machine is KernelRegressor else {"task": "classify"})
    assert machine(random_state=0)._recipe() == recipe_of(values)


def test_a_figure_of_few_rows_has_its_standard_error():
    assert _uncertainty("accuracy", 0.5, 96) == " (standard error 0.05)"
    assert _uncertainty("accuracy", 1.0, 20) == " (standard error 0.06)"  # twenty of twenty are not certain
    assert _uncertainty("rmse", 10.0, 50) == " (standard error 1)"
    assert _uncertainty("accuracy", 0.5, 2000) == _uncertainty("loss", 0.5, 20) == ""
