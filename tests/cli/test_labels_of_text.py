"""Labels of a CSV keep their zeros through train, evaluate and score, and are numbers where numbers are predicted."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.combinations import every_two

QUICK = ["--kernel", "gaussian", "--gamma", "1", "--n-components", "16", "--local", "none", "--quiet", "--overwrite"]


@pytest.fixture(autouse=True)
def folder(here):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(center, 0.1, 40) for center in (0, 2, 4)])
    for name, labels in {"codes": ["007", "7", "12"], "fractions": ["1.50", "1.5", "2"]}.items():
        pd.DataFrame({"x": x, "y": np.repeat(labels, 40)}).to_csv(here / f"{name}.csv", index=False)


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


@pytest.mark.filterwarnings("ignore:2 bad rows")
@pytest.mark.parametrize(("labels", "name"), every_two([["a", "b", "c"], [0, 1, 2]], ["t.csv", "t.parquet"]))
def test_labels_that_training_had_not_are_bad_rows(run_to, labels, name):
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 60), "y": np.repeat(labels[:2], 30)})
    frame.to_parquet("train.parquet")
    run_to("train", "train.parquet", "--label", "y", "--out", "m.st", *QUICK)
    frame.loc[[3, 40], "y"] = labels[2]
    frame.to_csv(name, index=False) if name == "t.csv" else frame.to_parquet(name)
    said = run_to("evaluate", "m.st", name, code=65).stderr
    assert f"row 4: no row of the training had the label {labels[2]!r}" in said
    assert "2 rows are bad in all: --max-bad-rows 2 leaves them out." in said
    result = run_to("evaluate", "m.st", name, "--json", "--max-bad-rows", "2", "--record", "r.json")
    listed = json.loads(Path("r.json").read_text())["rejects"]
    assert [row["reason"] for row in listed] == [f"no row of the training had the label {labels[2]!r}"] * 2
    figures = json.loads(result.stdout)
    assert (figures["n"], figures["rejected"]) == (58, 2)
