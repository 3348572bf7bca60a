"""Tables of text, categories, missing values and dates, from the command line and from Python to the same model."""

import json

import numpy as np
import pandas as pd
import pytest

import dkernel

FIXED = ["--kernel", "gaussian", "--gamma", "0.5", "--n-components", "48", "--alpha", "1e-4", "--metric", "identity"]
FIXED += ["--scale", "standard", "--solver", "psgd", "--quiet"]


def mixed(n: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "city": rng.choice(["Basel", "Genève", "Zug, ZG"], n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"]),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 8760, n), "h"),
            "flag": rng.random(n) > 0.5,
        }
    )
    late = frame["when"] > pd.Timestamp("2024-07-01")
    frame["y"] = np.where((frame["city"] == "Basel") ^ late ^ frame["flag"], "yes", "no")
    frame.loc[rng.random(n) < 0.1, "x"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    return frame


@pytest.fixture
def there(here):
    frame = mixed()
    frame.to_parquet(here / "train.parquet", index=False)
    frame.to_csv("train.csv", index=False)
    mixed(200, 1).to_parquet("new.parquet", index=False)
    return frame


@pytest.mark.usefixtures("there")
def test_train_evaluate_and_score_need_nothing_but_the_label(run_to):
    said = run_to("train", "train.parquet", "--label", "y", "--out", "m").stdout
    assert "categories" not in said
    assert "missing" not in said
    assert (
        "missing      x " in run_to("train", "train.parquet", "--label", "y", "--out", "m", "--overwrite", "-v").stdout
    )
    figures = json.loads(run_to("evaluate", "m", "new.parquet", "--json", "--quiet").stdout)
    assert figures["accuracy"] > 0.8
    assert "filled" not in figures
    run_to("score", "m", "new.parquet", "--out", "s.parquet", "--keep", "city,when", "--quiet")
    scored = pd.read_parquet("s.parquet")
    model = dkernel.load("m")
    new = mixed(200, 1)
    assert (scored["label"] == model.predict(new.drop(columns="y"))).all()
    assert scored["city"].fillna("").tolist() == new["city"].fillna("").tolist()


@pytest.mark.usefixtures("there")
def test_workers_and_threads_give_the_same_bytes(run_to, tmp_path):
    three = pd.concat([mixed(seed=s) for s in range(3)]).assign(zip=[f"{i % 300}" for i in range(1500)])
    three.to_parquet("three.parquet", index=False, row_group_size=500)
    run_to("train", "three.parquet", "--label", "y", "--out", "a", *FIXED)
    run_to("train", "three.parquet", "--label", "y", "--out", "b", *FIXED, "--workers", "2")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_table_of_numbers_without_holes_has_no_encoding(run_to, there):
    there[["x", "flag", "y"]].dropna().to_parquet("plain.parquet", index=False)
    run_to("train", "plain.parquet", "--label", "y", "--out", "m", *FIXED)
    assert dkernel.load("m").model_.encoding is None


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".npz"])
def test_holes_in_numbers_are_found_by_the_fit(run_to, here, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400)})
    y = (frame["a"] * frame["b"] > 0).to_numpy()
    frame.loc[300:, "b"] = np.nan
    if suffix == ".npz":
        np.savez("t.npz", X=frame.to_numpy(), y=y)
    else:
        getattr(frame.assign(y=y), "to_csv" if suffix == ".csv" else "to_parquet")(f"t{suffix}", index=False)
    run_to("train", f"t{suffix}", "--label", "y", "--out", "m", *FIXED, "--checkpoint", "c")
    model = dkernel.load("m").model_
    assert [column.indicator for column in model.encoding.columns] == [False, True]
    run_to("train", f"t{suffix}", "--label", "y", "--out", "again", *FIXED, "--checkpoint", "c", "--resume")
    assert (here / "m").read_bytes() == (here / "again").read_bytes()
    refused = run_to("train", f"t{suffix}", "--label", "y", "--out", "n", *FIXED, "--missing", "error", code=65)
    assert "row 301" in refused.stderr


@pytest.mark.usefixtures("there")
def test_tune_takes_tables(run_to):
    args = ["--grid", "gamma=0.1|0.5", "--n-components", "32", "--quiet"]
    run_to("tune", "train.parquet", "--label", "y", "--out", "m", *args)
    assert dkernel.load("m").model_.encoding is not None


@pytest.mark.filterwarnings("default")
def test_bad_rows_are_left_out_of_train_tune_and_evaluate(run_to, there):
    there["x"] = there["x"].fillna(0.0)
    there.to_csv("good.csv", index=False)
    lines = (there.to_csv(index=False)).splitlines()
    odd = [
        *lines[:4],
        lines[4].rpartition(",")[0] + ",",
        lines[4],
        "oops" + lines[5][lines[5].index(",") :],
        *lines[5:],
    ]
    with open("odd.csv", "w") as text:
        text.write("\n".join(odd) + "\n")
    refused = run_to("train", "odd.csv", "--label", "y", "--out", "m", *FIXED, "--max-bad-rows", "1", code=65)
    assert "odd.csv, line 5, column 'y': the label is missing" in refused.stderr
    run_to("train", "good.csv", "--label", "y", "--out", "clean", *FIXED)
    said = run_to("train", "odd.csv", "--label", "y", "--out", "m", *FIXED[:-1], "--max-bad-rows", "2")
    assert "2 bad rows, left out" in said.stderr
    with open("m", "rb") as found, open("clean", "rb") as expected:
        assert found.read() == expected.read()
    with open("m.run.json") as file:
        record = json.load(file)
    assert (record["rows_in"], record["rows_rejected"]) == (502, 2)
    assert [row["line"] for row in record["rejects"]] == [5, 7]
    figures = json.loads(run_to("evaluate", "m", "odd.csv", "--json", "--quiet", "--max-bad-rows", "9").stdout)
    expected = json.loads(run_to("evaluate", "m", "good.csv", "--json", "--quiet").stdout)
    assert figures == {**expected, "rejected": 2}
    run_to("evaluate", "m", "odd.csv", "--json", "--quiet", code=65)


def test_text_of_another_encoding_is_read(run_to, there, tmp_path):
    there.to_csv("t.csv", index=False)
    run_to("train", "t.csv", "--label", "y", "--out", "m", *FIXED)
    asked = ["evaluate", "m", "--json", "--quiet"]
    figures = [run_to(*asked, "t.csv").stdout]
    for encoding in ("latin-1", "utf-16", "cp1252"):
        there.to_csv(f"{encoding}.csv", index=False, encoding=encoding)
        figures.append(run_to(*asked, f"{encoding}.csv", "--encoding", encoding).stdout)
    assert len(set(figures)) == 1
    run_to("score", "m", "latin-1.csv", "--out", "s.csv", "--encoding", "latin1", "--keep", "city", "--quiet")
    assert "Genève" in (tmp_path / "s.csv").read_text(encoding="utf-8")
    fit = ["train", "latin-1.csv", "--label", "y", "--out", "n", "--encoding"]
    for encoding, code, words in (("utf-16", 65, "is not utf-16"), ("latim", 2, "--encoding latim is no encoding")):
        assert words in run_to(*fit, encoding, code=code).stderr


@pytest.mark.usefixtures("there")
def test_grids_take_each_category_whole(run_to):
    run_to("train", "train.parquet", "--label", "y", "--out", "m", *FIXED, "--local", "grids(n_grids=16)")
    model = dkernel.load("m").model_
    assert model.facts["local"]["groups"] == 4  # city and size, that x is missing, and the flag, which the sample shows
    if model.local is not None:
        groups = set(model.local.inputs.groups)
        assert groups >= set(model.encoding.groups)


def test_a_calendar_sees_what_seconds_do_not():
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 8760, 600), "h")
    frame, y = pd.DataFrame({"when": when}), np.where(when.day_of_week >= 5, "rest", "work")
    settings = {"gamma": 0.5, "n_components": 48, "alpha": 1e-4, "metric": "identity", "scale": "standard"}
    machine = dkernel.KernelClassifier("gaussian", dates="calendar", **settings).fit(frame, y)
    assert machine.score(frame, y) > 0.97  # of seconds alone it is 0.71


@pytest.mark.filterwarnings("always::dkernel.errors.UnknownCategoriesWarning")
@pytest.mark.usefixtures("there")
@pytest.mark.filterwarnings("always::dkernel.errors.DriftWarning")
def test_a_column_that_is_wholly_unknown_is_told_of_with_quiet_too(run_to):
    run_to("train", "train.parquet", "--label", "y", "--out", "m", *FIXED)
    new = mixed(100, 2)
    new.loc[:30, "city"] = None
    for share, told in ((0.3, False), (0.8, True)):
        odd = new["city"].where(np.arange(100) < 100 - 69 * share, "Chur").where(new["city"].notna())
        new.assign(city=odd).to_parquet("odd.parquet", index=False)
        for command in (["evaluate"], ["score", "--out", f"s{share}"], ["score", "--out", f"s{share}"]):
            result = run_to(command[0], "m", "odd.parquet", *command[1:], "--quiet", "--json")
            assert ("warning: 'city': more than half of the values" in result.stderr) is told, result.stderr
            assert set(json.loads(result.stdout)["filled"]) == {"unknown"}


@pytest.mark.usefixtures("there")
def test_dates_are_no_numbers_and_numbers_no_dates(run_to):
    run_to("train", "train.parquet", "--label", "y", "--out", "m", *FIXED)
    new = mixed(100, 2)
    numbers, dates = "floating-point numbers", "dates or times"
    since = new["when"] - new["when"].min()
    cases = (
        ("x", new["when"], dates),
        ("when", new["x"], numbers),
        ("x", since, "durations"),
        ("when", since, "durations"),
    )
    for name, values, what in cases:
        new.assign(**{name: values}).to_parquet("odd.parquet", index=False)
        result = run_to("score", "m", "odd.parquet", "--out", "s", code=65)
        assert f"odd.parquet, column '{name}': it holds {what}, and the model takes" in result.stderr
