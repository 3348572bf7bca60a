"""`train --local grids --features none`: from file to file, the plan, what show and evaluate tell, what is refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

JOB = ["--label", "y", "--features", "none", "--local", "grids(n_grids=64)", "--baselines", "off"]


def test_grids_from_file_to_file(run, stripes, tmp_path):
    model = tmp_path / "m.safetensors"
    done = run("train", stripes, "--out", model, "--quiet", "--loss", "logistic", *JOB)
    assert done.exit_code == 0, done.output
    assert "64 grids of " in run("show", model).stdout
    found = json.loads(run("evaluate", model, stripes, "--label", "y", "--json", "--quiet").stdout)
    assert found["accuracy"] > 0.9
    scores = tmp_path / "scores.parquet"
    done = run("score", model, stripes, "--write", "label,probability", "--out", scores, "--quiet")
    assert done.exit_code == 0, done.output
    written = pq.read_table(scores).to_pandas()
    np.testing.assert_array_equal(written["probability_True"] > 0.5, written["label"])
    for words in (["score", model, stripes, "--write", "std", "--out", tmp_path / "std.parquet"],
                  ["score", model, stripes, "--write", "novelty", "--out", tmp_path / "new.parquet"]):  # fmt: skip
        refused = run(*words)
        assert refused.exit_code not in (0, 1), refused.output
        assert "Traceback" not in refused.output


def test_the_plan_states_readings_and_the_model(run, stripes, tmp_path):
    dry = ("train", stripes, "--out", tmp_path / "m", "--dry-run", "--json", *JOB)
    plan = json.loads(run(*dry).stdout)
    assert (plan["columns"], plan["local"]) == (1, ["grids"])
    assert plan["readings"] >= 64 // 16
    refused = run("train", stripes, "--out", tmp_path / "m", "--quiet", *JOB, "--max-model-size", "100kB")
    assert "bytes and --max-model-size 100000. Use fewer grids or components, or --local none" in refused.stderr
    assert refused.exit_code == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("groups", "said"),
    [("a,nothing", "one_hot='nothing' is like no feature"), (";", "one_hot=';' is not valid"), ("a", "one_hot='a' is")],
)
def test_groups_that_are_none_are_refused_in_words_of_the_command(run, stripes, tmp_path, groups, said):
    """A dry run took them, and features of many values were one category, all of whose rows were equal."""
    words = ["train", stripes, "--out", tmp_path / "m", *JOB, "--local", f"grids(one_hot={groups!r})"]
    refused = run(*words)
    assert refused.exit_code == 2, refused.output
    assert said in refused.stderr
    if groups != "a":  # that a feature has many values the rows say, which a dry run does not read
        assert run(*words, "--dry-run").stderr == refused.stderr
