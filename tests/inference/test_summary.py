"""A fit in words: what the model is, how good beside simpler ones, how sure, and what to check."""

import re

import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel import KernelClassifier, KernelRegressor
from dkernel.inference.summary import FitSummary, verdict

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
SETTINGS = {"kernel": "gaussian", "gamma": 0.5, "metric": "identity"}


def summary(machine, **more):
    return dict(line.strip().split(maxsplit=1) for line in machine.summary(**more).splitlines() if "  " in line[2:])


def test_a_plane_is_no_clear_case_and_the_linear_model_is_simpler():
    told = summary(KernelRegressor("linear").fit(X, X @ [1.0, 2.0, 3.0] + RNG.normal(size=600)))
    assert told["model"] == "linear model of 3 columns"
    assert told["compare"].startswith("the mean 3.")
    assert ": clearly worse; plain linear model 1" in told["compare"]
    assert told["compare"].endswith(": no clear difference")  # it is one itself
    assert "90 % of the rows are within 1." in told["sure"]


def test_of_equal_models_the_simpler_is_named():
    noise = np.random.default_rng(4).normal(size=600)
    told = summary(KernelRegressor(**SETTINGS).fit(X, X @ [0.1, 0.0, 0.0] + noise))
    assert told["compare"].endswith("no clear difference (consider it: it is simpler)")


def test_what_a_linear_model_cannot_do_is_better():
    told = summary(KernelClassifier(**SETTINGS).fit(X, np.where((X**2).sum(axis=1) < 2.4, "in", "out")))
    assert told["model"] == "600 components of a Gaussian kernel"
    assert told["error"].endswith("on 600 rows left out, which also chose the settings")
    assert re.search(r"linear model .* %: clearly worse$", told["compare"])
    assert "have a probability of 0.9 or more" in told["sure"]


def test_equal_rows_of_an_exact_fit_are_left_out_once():
    few = np.concatenate([X[:100], X[:20]])
    told = summary(KernelClassifier(**SETTINGS).fit(few, (few**2).sum(axis=1) < 2.4))
    assert "on 100 different rows left out" in told["error"]


@pytest.mark.parametrize("given", [{"alpha": 1e-3, "solver": "exact"}, {"alpha": 1e-3, "solver": "normal"}])
def test_rows_that_chose_nothing_are_not_said_to_have_chosen(given):
    told = summary(KernelRegressor(**SETTINGS, n_components=50, holdout=0.2, **given).fit(X, X[:, 0]))
    assert told["rmse"].endswith("rows left out")


@pytest.mark.parametrize("machine", [KernelClassifier(**SETTINGS), KernelRegressor(**SETTINGS)])
def test_the_file_of_a_model_says_no_other_error_than_its_fit(machine, tmp_path):
    y = np.exp(3 * X[:, 0]) * np.random.default_rng(2).normal(size=600)  # few rows have most of the squares
    figure, y = ("error", y > 0) if isinstance(machine, KernelClassifier) else ("rmse", y)
    told = summary(machine.fit(X, y))[figure]
    dkernel.save(machine, tmp_path / "m")
    shown = summary(dkernel.load(tmp_path / "m"))[figure]
    assert shown == re.sub(r" \(± .*?\)", "", told)


@pytest.mark.parametrize(("copies", "rows"), [(0, "60 rows"), (1, "60 different rows")])
def test_equal_rows_that_were_merged_are_said_to_be(copies, rows):
    some = np.concatenate([X[:60], X[:copies]])
    machine = KernelClassifier(**SETTINGS).fit(some, some[:, 0] > 0)
    of_file = FitSummary.of_model(machine.model_)
    assert of_file.rows == rows
    for lines in (machine.summary(), "\n".join(of_file.lines())):
        assert f" on {rows} left out" in lines


def test_few_rows_of_a_class_bring_figures_of_its_ranking_and_a_check():
    machine = KernelClassifier(**SETTINGS).fit(X, X[:, 0] + X[:, 1] ** 2 > 3.8)
    told = summary(machine)
    assert "roc_auc 0.9" in told["error"]
    assert "average_precision 0." in told["error"]
    assert told["compare"].startswith("always False ")
    assert "linear model 4.50 %, roc_auc 0." in told["compare"]
    assert told["rare"].startswith("True (")
    assert told["rare"].endswith("and scoring lets them judge")
    shown = FitSummary.of_model(machine.model_)
    assert (shown.checks.keys(), shown.judged["rows"]) == ({"rare"}, 600)


@pytest.mark.parametrize(("classes", "rare"), [(26, False), (3, True)])
def test_of_many_classes_of_equal_size_none_is_rare(classes, rare):
    labels, counts = list("abcdefghijklmnopqrstuvwxyz")[:classes], [100] * classes
    counts[0] = 10 if rare else 60
    told = FitSummary.of_header(
        {
            "recipe": {"kernel": "Linear()", "solver": "exact", "scoring": "loss"},
            "facts": {"counts": counts},
            "classes": {"values": labels},
            "columns": ["a", "b"],
        }
    )
    assert ("rare" in told.checks) == rare


def test_rows_by_time_that_differ_are_a_shift():
    times = pd.date_range("2024-01-01", periods=6000, freq="37min")
    frame = pd.DataFrame({"ts": times, "a": RNG.normal(size=6000), "b": np.linspace(0, 9, 6000) ** 8})
    told = summary(KernelRegressor(**SETTINGS, n_components=32).fit(frame, frame["a"] + 1.0))
    assert told["ordered"].startswith("ts, b: the rows are in its order")
    assert told["ordered"].endswith("lie between others; judge by the last: give them in eval_set")
    late = frame[5000:]
    machine = KernelRegressor(**SETTINGS, n_components=32)
    told = summary(machine.fit(frame[:5000], frame["a"][:5000], eval_set=(late, late["a"])))
    assert "in training; mean" in told["shift"]


def test_choices_are_for_those_who_ask_and_a_loaded_machine_has_no_rows(tmp_path):
    machine = KernelRegressor("gaussian", n_components=50).fit(X, X[:, 0] ** 2 + X[:, 1])
    assert "alpha" not in summary(machine)
    chosen = summary(machine, verbose=True)
    assert "alpha" in chosen
    assert not re.search(r"\d\.\d{9}", str(chosen))
    dkernel.save(machine, tmp_path / "m")
    assert summary(dkernel.load(tmp_path / "m")).keys() == {"model", "rmse"}


@pytest.mark.parametrize(
    ("gain", "error", "rows", "said"),
    [(0.1, 0.04, 900, "clearly worse"), (-0.1, 0.04, 900, "clearly better"), (0.1, 0.06, 900, "no clear difference"),
     (0.5, 0.01, 19, "no clear difference")],
)  # fmt: skip
def test_a_difference_is_clear_from_two_standard_errors(gain, error, rows, said):
    judged = {"rows": rows, "figure": "rmse", "rarest": 1.0, "model": {"value": 0.9, "standard_error": 0.04}}
    judged["boosted"] = {"value": 1.0, "gain": gain, "gain_error": error}
    value = "1.000" if rows == 900 else "1.00"  # to the digits that as many rows tell
    assert verdict(judged, "boosted") == f"boosted trees {value}: {said}"


@pytest.mark.parametrize(
    ("holdout", "asked"),
    [
        ({"holdout": 0.05}, "holdout=0.3"),
        ({"holdout": 0.0, "holdout_by": "time:day"}, "holdout=0.3"),
        ({"holdout": 0.0, "holdout_by": "random"}, "give more in eval_set"),
    ],
)
def test_a_class_of_few_rows_that_judge_asks_for_more_of_them(holdout, asked):
    header = {
        "recipe": {"kernel": "Linear()", "solver": "exact", "scoring": "loss", **holdout},
        "classes": {"values": ["ok", "fault"]},
        "columns": ["a"],
    }
    told = FitSummary.of_header({**header, "facts": {"counts": [980, 20], "holdout": {"rows": 50, "accuracy": 1.0}}})
    assert told.checks["rare"].endswith(f"some 1 of the rows left out are too few to judge by: {asked}")
