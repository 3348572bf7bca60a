"""`dkernel tune` and `train --baselines` as a person runs them."""

import json
import re

import pytest

from dkernel import load

SETTINGS = ["--label", "y", "--exclude", "price,id,note", "--kernel", "gaussian", "--metric", "identity"]
SETTINGS += ["--n-components", "32"]
GRID = ["--grid", "gamma=0.001|0.3|0.3", "--grid", "alpha=1e-6|1e-2"]


def test_a_search_prints_its_leaderboard_and_writes_the_best(data, run_to, tmp_path):
    out = tmp_path / "m.safetensors"
    result = run_to("tune", data / "train.parquet", *SETTINGS, *GRID, "--out", out, "--progress", "none")
    model = load(out).model_
    assert model.recipe.kernel == "Gaussian(gamma=0.3)"
    board = result.stdout.split("\n\n")[1].splitlines()
    assert re.split(r"\s{2,}", board[0]) == [
        "rank", "gamma", "alpha", "kernel", "rungs", "progressive_loss", "error"
    ]  # fmt: skip
    assert [line.split()[0] for line in board[1:]] == ["1", "2", "3", "4"]
    passes = re.search(r"4 candidates in ([\d.]+) passes", result.stdout)[1]
    assert float(passes) == model.facts["search"]["passes"]
    record = json.loads((tmp_path / "m.safetensors.run.json").read_text())
    assert record["status"] == "done"
    assert [line["rank"] for line in record["leaderboard"]] == [1, 2, 3, 4]
    # The same again by its passes, told as one object; evaluate and score take the model as any other.
    again = tmp_path / "again.safetensors"
    told = run_to(
        "tune", data / "train.parquet", *SETTINGS, *GRID, "--out", again, "--json", "--progress", "none",
        "--budget", f"{passes}passes",
    )  # fmt: skip
    assert json.loads(told.stdout)["leaderboard"] == record["leaderboard"]
    assert again.read_bytes() == out.read_bytes()
    judged = run_to("evaluate", out, data / "test.parquet", "--label", "y", "--allow-extra", "--json", "--quiet")
    assert json.loads(judged.stdout)["error"] < 0.1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--grid", "gamma"], "--grid 'gamma=0.1|1|10'"),
        (["--grid", "alpha=1", "--grid", "alpha=2"], "comes twice"),
        (["--resume"], "--checkpoint"),
    ],
)
def test_what_is_refused_is_said_in_a_line(data, run_to, tmp_path, options, said):
    result = run_to(
        "tune", data / "train.parquet", *SETTINGS, *options, "--out", tmp_path / "m", "--progress", "none", code=2
    )
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "m").exists()


def test_a_report_shows_the_search(data, run_to, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "r.html"
    result = run_to(
        "tune", data / "train.parquet", *SETTINGS, *GRID, "--out", tmp_path / "m", "--progress", "none",
        "--budget", "0.5passes", "--report", page,
    )  # fmt: skip
    assert "warning" not in result.stderr
    assert "Leaderboard" in page.read_text()


def test_a_fit_says_what_a_linear_model_does(data, run, run_to, tmp_path):
    command = ["train", data / "train.parquet", *SETTINGS, "--gamma", "0.3", "--alpha", "1e-6", "--progress", "none"]
    command += ["--solver", "psgd"]  # with a holdout
    told = run(*command, "--out", tmp_path / "m", "--json")
    found = json.loads(told.stdout)["judged"]
    assert found["linear"]["gain"] > 2 * found["linear"]["gain_error"]
    shown = run(*command, "--out", tmp_path / "n")
    assert "clearly worse" in next(line for line in shown.stdout.splitlines() if "linear model" in line)
    without = run(*command, "--out", tmp_path / "o", "--baselines", "off")
    assert "compare" not in without.stdout
    # What it is compared with is no part of a model.
    assert (tmp_path / "m").read_bytes() == (tmp_path / "o").read_bytes()
    run_to(*command, "--out", tmp_path / "p", "--baselines", "some", code=2)
