"""Labels of a CSV keep their zeros through train, evaluate and score, and are numbers where numbers are predicted."""

import json

import numpy as np
import pandas as pd
import pytest

QUICK = ["--kernel", "gaussian", "--gamma", "1", "--n-components", "16", "--local", "none", "--quiet", "--overwrite"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(center, 0.1, 40) for center in (0, 2, 4)])
    for name, labels in {"codes": ["007", "7", "12"], "fractions": ["1.50", "1.5", "2"]}.items():
        pd.DataFrame({"x": x, "y": np.repeat(labels, 40)}).to_csv(f"{name}.csv", index=False)


@pytest.mark.parametrize(("name", "task"), [("codes", "auto"), ("codes", "classify"), ("fractions", "classify")])
def test_each_text_is_a_class_of_its_own(run_to, name, task):
    run_to("train", f"{name}.csv", "--label", "y", "--out", "m.st", "--task", task, *QUICK)
    run_to("score", "m.st", f"{name}.csv", "--out", "s.csv", "--keep", "y", "--quiet")
    scored = pd.read_csv("s.csv", dtype=str)
    assert set(scored["label"]) == set(scored["y"])
    result = run_to("evaluate", "m.st", f"{name}.csv", "--json")
    assert json.loads(result.stdout)["accuracy"] == pytest.approx((scored["label"] == scored["y"]).mean())


@pytest.mark.parametrize("name", ["codes", "fractions"])
def test_numbers_are_predicted_of_any_text_that_is_one(run_to, name):
    run_to("train", f"{name}.csv", "--label", "y", "--out", "m.st", "--task", "regress", *QUICK)
    assert json.loads(run_to("evaluate", "m.st", f"{name}.csv", "--json").stdout)["rmse"] < 3
