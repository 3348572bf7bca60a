"""Commands that have a model and labelled rows take the weight of its training as they take its label."""

import json

import numpy as np
import pandas as pd
import pytest

from dkernel.model.model_file import load_model

FIT = ["--label", "y", "--weight", "w", "--kernel", "gaussian", "--gamma", "1", "--n-components", "16"]
ROWS = 600


@pytest.fixture
def weighted(run_to, here):
    """A model m of rows of which every second has no weight and a wrong label."""
    x = np.linspace(-3, 3, ROWS)
    w = np.arange(ROWS) % 2.0
    frame = pd.DataFrame({"x": x, "y": np.sin(x) + 3 * (1 - w), "w": w, "v": 1 - w, "site": "a"})
    frame.to_parquet(here / "rows.parquet")
    frame.drop(columns="w").to_parquet("bare.parquet")
    run_to("train", "rows.parquet", *FIT, "--exclude", "v,site", "--local", "none", "--quiet", "--out", "m")


def figure(run_to, command, *words):
    """A figure that the rows without weight would spoil, and what was said."""
    out = [] if command == "evaluate" else ["--out", "n", "--overwrite"]
    done = run_to(command, "m", "--exclude", "v,site", *words, *out, "--json")
    facts = json.loads(done.stdout)
    if command == "evaluate":
        return facts["rmse"], done.stderr
    if command == "conformalize":
        return facts["rows"], done.stderr
    return load_model("n").coef.tolist(), done.stderr


COMMANDS = ["evaluate", "conformalize", "update"]


@pytest.mark.usefixtures("weighted")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_weight_is_that_of_the_training(run_to, command):
    own, said = figure(run_to, command, "rows.parquet")
    assert own == figure(run_to, command, "rows.parquet", "--weight", "w")[0]
    assert "weights: the column 'w', as in the training" in said
    if command == "evaluate":
        assert own < 0.1


@pytest.mark.usefixtures("weighted")
@pytest.mark.parametrize("command", COMMANDS)
def test_without_that_column_all_rows_count_alike_and_it_is_said(run_to, command):
    bare, said = figure(run_to, command, "bare.parquet")
    assert "weights: none, for there is no column 'w'" in said
    left_out, said = figure(run_to, command, "rows.parquet", "--exclude", "v,site,w")
    assert "weights" not in said
    assert left_out == bare != figure(run_to, command, "rows.parquet")[0]


@pytest.mark.usefixtures("weighted")
def test_another_column_that_is_not_there_is_no_missing_weight(run_to):
    assert "no column 'z', named by label" in run_to("evaluate", "m", "rows.parquet", "--label", "z", code=65).stderr
