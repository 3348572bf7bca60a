"""Effort and max_seconds: what a fit may cost is predicted, never measured, and both faces say it alike."""

import numpy as np
import pytest

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.model.parameters import EFFORTS
from dkernel.model.recipe import Recipe
from dkernel.solvers.budget import choice_flops
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.ask import Ask
from dkernel.training.fit import plan
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.planning.memory_plan import format_plan
from tests.combinations import every_two


def rows(n=3000, p=3):
    X = np.random.default_rng(0).standard_normal((n, p)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def planned(n=60_000, **given):
    return plan(from_arrays(*rows(n)), Recipe(**given), SerialExecutor())


def wide(n, p=54):
    """Rows without numbers."""
    return from_arrays(np.zeros((n, p), np.float32), np.arange(n) % 2)


def test_effort_multiplies_what_the_choice_may_cost():
    normal = choice_flops(Recipe(solver="psgd"), 1e13)
    assert [choice_flops(Recipe(solver="psgd", effort=word), 1e13) for word in EFFORTS] == [
        EFFORTS[word] * normal for word in EFFORTS
    ]
    assert list(EFFORTS) == ["low", "normal", "high"]


def test_less_effort_tries_fewer_local_stages():
    tried = [planned(effort=effort)["local"] for effort in EFFORTS]
    assert set(tried[0]) <= set(tried[1]) <= set(tried[2])
    assert (tried[0], tried[2]) == (["grids"], [*LOCAL_STAGES])


@pytest.mark.parametrize(("effort", "weighted"), every_two([*EFFORTS], [False, True]))
def test_every_effort_fits_more_rows_than_its_first_trials_judge(effort, weighted):
    X, y = rows(6000, 10)
    weight = np.random.default_rng(1).random(6000) + 0.5 if weighted else None
    machine = KernelClassifier(effort=effort, max_seconds=20, local="none", random_state=0)
    assert machine.fit(X, y, sample_weight=weight).score(X, y) > 0.7


def test_a_low_effort_has_few_components_and_a_quarter_of_the_grids():
    assert [planned(n, effort="low")["components"] for n in (30_000, 60_000)] == [1024, 1024]
    low, normal = (
        plan(wide(520_000), Recipe(solver="psgd", effort=effort), SerialExecutor()) for effort in ("low", "normal")
    )
    assert low["local"] == normal["local"] == ["grids"]
    assert low["local_readings"] - 1 == 1032 // 64 + 1  # and one of the rows that settings are tried on
    assert normal["local_readings"] - 1 == 2048 // 64


def test_a_local_stage_is_tried_within_its_budget():
    def tried(n, classes, **given):
        source = from_arrays(*rows(n, 16))
        executor = SerialExecutor()
        return Ask.of(source, Recipe(solver="psgd", **given), executor).plan_local(executor, classes).local

    assert tried(2900, 1) == ()  # 145 rows are held out
    assert tried(8000, 1) == tried(8000, 26) == tuple(LOCAL_STAGES)


def test_grids_of_many_classes_are_tried_and_what_is_left_is_named():
    source, executor = wide(950_000, 10), SerialExecutor()
    asked = Ask.of(source, Recipe(solver="psgd"), executor).plan_local(executor, 10)
    assert asked.local == ("grids",)
    found = plan(source, Recipe(solver="psgd"), executor)
    assert found["untried"]["cells"].startswith("not tried: ")
    assert ("cells", found["untried"]["cells"]) in format_plan(found)


def test_a_fit_says_which_stage_is_left_for_its_cost(monkeypatch):
    monkeypatch.setattr("dkernel.solvers.budget.LEAST_LOCAL", 0.1)
    monkeypatch.setattr("dkernel.solvers.budget.LOCAL_SHARE", 0.01)
    machine = KernelClassifier(random_state=0).fit(*rows(3200, 4))
    assert "more than the 0.1" in machine.model_.facts["chosen"]["cells"]


@pytest.mark.parametrize("seconds", [4, 10, 100, 1e5])
def test_a_limit_of_seconds_holds_for_the_predicted_work(seconds):
    found = planned(max_seconds=seconds)
    assert 0 < found["most_seconds"] <= seconds
    free = planned()
    assert found["components"] <= free["components"]
    if seconds == 1e5:
        assert found == free


def test_a_limit_leaves_what_is_given_and_lowers_what_is_open():
    sizes = [
        Sizes.of(500_000, 20, Recipe(solver="psgd", max_seconds=seconds)).components for seconds in (10, 30, 100, 1e4)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert Sizes.of(500_000, 20, Recipe(solver="psgd", max_seconds=10, n_components=4096)).components == 4096


def test_the_same_limit_gives_the_same_model_whatever_the_clock_says(monkeypatch):
    given = {"max_seconds": 1.5, "kernel": "gaussian", "gamma": "auto", "n_components": 64, "solver": "psgd"}
    first = KernelClassifier(**given).fit(*rows(600))
    monkeypatch.setattr("time.perf_counter", iter(range(10**9)).__next__)
    second = KernelClassifier(**given).fit(*rows(600))
    np.testing.assert_array_equal(first.component_coef_, second.component_coef_)
