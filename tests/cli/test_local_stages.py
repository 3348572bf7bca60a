"""`train --local`: from file to file, the plan, what show and evaluate tell, what is refused."""

import json
import resource
from functools import partial

import numpy as np
import pandas as pd
import pytest

GRIDS = ["--label", "y", "--features", "none", "--local", "grids(n_grids=64)", "--baselines", "off"]
CELLS = ["--label", "y", "--gamma", "1.0", "--kernel", "gaussian", "--metric", "identity", "--n-components", "32"]
CELLS += ["--alpha", "1e-4", "--local", "cells(rows=200, overlap=0.25)", "--baselines", "off"]


@pytest.mark.parametrize(
    ("job", "told", "least"),
    [(GRIDS, "64 random grids of ", 0.9), (CELLS, "local machines (cells)", 0.95)],
    ids=["grids", "cells"],
)
def test_from_file_to_file(run_to, stripes, tmp_path, job, told, least):
    model, scratch, scores = tmp_path / "m.safetensors", tmp_path / "scratch", tmp_path / "scores.parquet"
    scratch.mkdir()
    run_to("train", stripes, "--out", model, "--loss", "logistic", "--scratch", scratch, "--quiet", *job)
    assert list(scratch.iterdir()) == []
    assert told in run_to("show", model).stdout
    found = json.loads(run_to("evaluate", model, stripes, "--label", "y", "--json", "--quiet").stdout)
    assert found["accuracy"] > least
    run_to("score", model, stripes, "--write", "label,probability", "--out", scores, "--quiet")
    written = pd.read_parquet(scores)
    np.testing.assert_array_equal(written["probability_True"] > 0.5, written["label"])
    run_to("export", model, "--out", tmp_path / "m.onnx")


def test_the_plan_states_readings_and_the_model(run_to, stripes, tmp_path):
    dry = ("train", stripes, "--out", tmp_path / "m", "--dry-run", "--json", *GRIDS)
    plan = json.loads(run_to(*dry).stdout)
    assert (plan["components"], plan["local"]) == (1, ["grids"])
    assert plan["readings"] >= 64 // 16
    refused = run_to("train", stripes, "--out", tmp_path / "m", "--quiet", *GRIDS, "--max-model-size", "100kB", code=1)
    assert "bytes and --max-model-size 100000. Use fewer grids or components, or --local none" in refused.stderr
    assert not (tmp_path / "m").exists()


def test_the_plan_states_the_scratch(run_to, stripes, tmp_path):
    plan = json.loads(run_to("train", stripes, "--out", tmp_path / "m", "--dry-run", "--json", *CELLS).stdout)
    assert plan["scratch_bytes"] > 1200 * 1.25 * 4 * 2
    assert plan["local"] == ["cells"]


def test_a_scratch_without_room_is_75_and_leaves_nothing(stripes, shell, tmp_path):
    scratch, limit = tmp_path / "scratch", 2 * 4096
    job = ["train", stripes, "--out", tmp_path / "m", "--scratch", scratch, "--quiet", *CELLS]
    done = shell(*job, preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 75, done.stderr
    assert str(scratch) in done.stderr
    assert "no room to write" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m").exists()
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("groups", "said"),
    [("a,nothing", "one_hot='nothing' is like no feature"), (";", "one_hot=';' is not valid"), ("a", "one_hot='a' is")],
)
def test_groups_that_are_none_are_refused_in_words_of_the_command(run, run_to, stripes, tmp_path, groups, said):
    """A dry run took them, and features of many values were one category, all of whose rows were equal."""
    words = ["train", stripes, "--out", tmp_path / "m", *GRIDS, "--local", f"grids(one_hot={groups!r})"]
    refused = run_to(*words, code=2)
    assert said in refused.stderr
    if groups != "a":  # that a feature has many values the rows say, which a dry run does not read
        assert run(*words, "--dry-run").stderr == refused.stderr
