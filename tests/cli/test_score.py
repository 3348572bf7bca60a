import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_scores_in_order_with_kept_columns(run_to, model, data, tmp_path):
    out = tmp_path / "scores.parquet"
    result = run_to("score", model, data / "new.parquet", "--out", out, "--keep", "id", "--progress", "none")
    assert "500 rows" in result.stdout
    found = pd.read_parquet(out)
    assert found.columns.tolist() == ["id", "label", "probability_out"]
    assert found["id"].tolist() == list(range(500))
    truth = pd.read_parquet(data / "test.parquet")["y"]
    assert (found["label"] == truth).mean() > 0.8
    assert ((found["probability_out"] > 0.5) == (found["label"] == "out")).all()


def test_the_second_time_does_nothing(run_to, model, data, tmp_path):
    args = ["score", model, data / "new.parquet", "--out", tmp_path / "s.csv", "--exclude", "id", "--json"]
    first, second = (json.loads(run_to(*args).stdout) for _ in range(2))
    assert (first["rows"], first["skipped"]) == (500, False)
    assert (second["rows"], second["skipped"]) == (500, True)


def half_text(path, every, first=0, rows=600):
    """Three columns of numbers, of which `a` is '??' in the `first` rows and in every so many; their numbers."""
    X = np.random.default_rng(3).normal(size=(rows, 3)).round(6).astype(str)
    bad = [row for row in range(rows) if row < first or (every and row % every == 0)]
    X[bad, 0] = "??"
    path.write_text("id,a,b,c\n" + "".join(f"{i},{','.join(row)}\n" for i, row in enumerate(X)))
    return bad


@pytest.mark.parametrize(("every", "first"), [(2, 0), (3, 0), (0, 550), (0, 599)])
def test_a_model_knows_which_columns_are_numbers(run_to, model, tmp_path, every, first):
    bad = half_text(tmp_path / "x.csv", every, first)
    args = ["score", model, tmp_path / "x.csv", "--keep", "id", "--out", tmp_path / "s.csv", "--quiet"]
    run_to(*args, "--max-bad-rows", 600)
    assert pd.read_csv(tmp_path / "s.csv")["id"].tolist() == sorted(set(range(600)) - set(bad))
    (listed,) = tmp_path.glob("s.csv.rejects-*.csv")
    rejects = pd.read_csv(listed)
    assert rejects["line"].tolist() == [row + 2 for row in bad]
    assert set(rejects["reason"]) == {"'??' is not a number"}
    (tmp_path / "s.csv").unlink()
    refused = run_to(*args, code=65)
    assert "'??' is not a number" in refused.stderr


def test_text_where_a_model_takes_numbers_is_no_column_to_exclude(run_to, model, tmp_path):
    """It was advised to exclude the column, which the model needs, or to give it a kernel of texts."""
    pd.DataFrame({"a": ["x"] * 50, "b": 0.5, "c": 0.5}).to_parquet(tmp_path / "x.parquet")
    for more in ([], ["--max-bad-rows", 50]):
        result = run_to("score", model, tmp_path / "x.parquet", "--out", tmp_path / "s.csv", *more, code=65)
        assert "x.parquet, column 'a': it holds text, and the model takes numbers there." in result.stderr


@pytest.mark.usefixtures("here")
def test_a_column_that_is_text_in_some_files_may_be_a_category(run_to):
    rows = pd.DataFrame({"x": np.arange(200.0), "kind": np.arange(200) % 3, "y": np.arange(200) % 2})
    rows.to_parquet("1.parquet")
    rows.assign(kind=rows["kind"].astype(str)).to_parquet("2.parquet")
    fit = ("train", "1.parquet", "2.parquet", "--label", "y", "--n-components", "8", "--out", "m", "--quiet")
    refused = run_to(*fit, code=65)
    assert "(`--categorical kind`)" in refused.stderr
    run_to(*fit, "--categorical", "kind")


def test_true_and_false_are_numbers_that_a_model_knows(run_to, here):
    rows = "".join(f"{i % 7},{str(i % 2 == 0).lower()},{i % 2}\n" for i in range(300))
    (here / "t.csv").write_text("x,flag,y\n" + rows)
    run_to("train", "t.csv", "--label", "y", "--n-components", "8", "--out", "m", "--quiet", "--baselines", "off")
    (here / "new.csv").write_text("x,flag\n1,true\n2,??\n3,false\n4,??\n5,??\n")
    run_to("score", "m", "new.csv", "--out", "s.csv", "--max-bad-rows", 3, "--quiet")
    assert pd.read_csv("s.csv")["label"].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["string_view", "binary_view"])
@pytest.mark.parametrize("ending", [".csv", ".parquet", ""])
def test_a_kept_column_of_views(run_to, model, data, tmp_path, name, ending):
    rows = pq.read_table(data / "new.parquet")
    kept = pa.array(["a", "b,", None, 'd"', ""] * 100).cast(pa.binary() if "binary" in name else pa.string())
    kept = kept.cast(getattr(pa, name)())
    pq.write_table(rows.append_column("kept", kept), tmp_path / "x.parquet")
    out = tmp_path / f"s{ending}"
    run_to("score", model, tmp_path / "x.parquet", "--exclude", "id", "--keep", "kept", "--out", out, "--quiet")
    if ending == ".csv":
        found = pd.read_csv(out, keep_default_na=False)["kept"].tolist()
        assert found == ["a", "b,", "", 'd"', ""] * 100


def test_a_column_that_csv_cannot_hold_is_named(run_to, model, data, tmp_path):
    rows = pq.read_table(data / "new.parquet")
    pq.write_table(rows.append_column("u", pa.array([bytes(16)] * 500, pa.uuid())), tmp_path / "x.parquet")
    result = run_to(
        "score",
        model,
        tmp_path / "x.parquet",
        "--exclude",
        "id",
        "--keep",
        "u",
        "--out",
        tmp_path / "s.csv",
        "--quiet",
        code=65,
    )
    assert "'u'" in result.stderr


def test_a_regression_says_how_sure_it_is(run_to, data, tmp_path):
    model, out = tmp_path / "m", tmp_path / "scores.csv"
    run_to("train", data / "train.parquet", "--label", "price", "--exclude", "y,id,note", "--solver", "normal",
                  "--kernel", "gaussian", "--gamma", "0.1", "--n-components", "64", "--metric", "identity", "--out",
                  model, "--quiet")  # fmt: skip
    args = ["score", model, data / "new.parquet", "--exclude", "id", "--out", out]
    run_to(*args, "--write", "score,std")
    found, truth = pd.read_csv(out), pd.read_parquet(data / "test.parquet")["price"]
    assert found.columns.tolist() == ["score", "std"]
    assert (((found["score"] - truth) / found["std"]).abs() < 2).mean() > 0.9
