import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def test_scores_in_order_with_kept_columns(run, model, data, tmp_path):
    out = tmp_path / "scores.parquet"
    result = run("score", model, data / "new.parquet", "--out", out, "--keep", "id", "--progress", "none")
    assert result.exit_code == 0, result.output
    assert "500 rows" in result.stdout
    found = pd.read_parquet(out)
    assert found.columns.tolist() == ["id", "label", "score"]
    assert found["id"].tolist() == list(range(500))
    truth = pd.read_parquet(data / "test.parquet")["y"]
    assert (found["label"] == truth).mean() > 0.8


def test_the_second_time_does_nothing(run, model, data, tmp_path):
    args = ["score", model, data / "new.parquet", "--out", tmp_path / "s.csv", "--exclude", "id", "--json"]
    first, second = (json.loads(run(*args).stdout) for _ in range(2))
    assert (first["rows"], first["skipped"]) == (500, False)
    assert (second["rows"], second["skipped"]) == (500, True)


def test_columns_that_the_model_does_not_know(run, model, data, tmp_path):
    table = pq.read_table(data / "test.parquet")
    pq.write_table(table.rename_columns(["a", "b", "c", "y", "cost", "number", "words"]), tmp_path / "new.parquet")
    args = ["score", model, tmp_path / "new.parquet", "--out", tmp_path / "s.parquet"]
    refused = run(*args)
    assert refused.exit_code == 65
    for name in ("cost", "number", "words"):
        assert name in refused.stderr
    assert not (tmp_path / "s.parquet").exists()
    allowed = run(*args, "--allow-extra", "--quiet")
    assert (allowed.exit_code, allowed.stdout, allowed.stderr) == (0, "", "")


def test_the_label_of_the_training_may_be_there(run, model, data, tmp_path):
    args = ["--out", tmp_path / "s.parquet", "--exclude", "price,id,note"]
    result = run("score", model, data / "test.parquet", *args)
    assert result.exit_code == 0, result.output
    kept = run("score", model, data / "test.parquet", "--keep", "y", "--overwrite", *args)
    assert kept.exit_code == 0, kept.output
    assert pd.read_parquet(tmp_path / "s.parquet").columns.tolist() == ["y", "label", "score"]


def test_a_missing_column_is_named(run, model, tmp_path):
    pd.DataFrame({"a": [0.0], "b": [1.0]}).to_csv(tmp_path / "x.csv", index=False)
    result = run("score", model, tmp_path / "x.csv", "--out", tmp_path / "s.csv")
    assert result.exit_code == 65
    assert "'c'" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.csv.run.json", "x.csv"]


@pytest.mark.parametrize("word", ["lable", "probability,odds"])
def test_what_cannot_be_written_is_an_option_error(run, model, data, tmp_path, word):
    result = run("score", model, data / "new.parquet", "--out", tmp_path / "s.csv", "--write", word, "--keep", "id")
    assert result.exit_code == 2
    assert "label, score, std, interval, probability, set, novelty" in result.stderr


def half_text(path, every, first=0, rows=600):
    """Three columns of numbers, of which `a` is '??' in the `first` rows and in every so many; their numbers."""
    X = np.random.default_rng(3).normal(size=(rows, 3)).round(6).astype(str)
    bad = [row for row in range(rows) if row < first or (every and row % every == 0)]
    X[bad, 0] = "??"
    path.write_text("id,a,b,c\n" + "".join(f"{i},{','.join(row)}\n" for i, row in enumerate(X)))
    return bad


@pytest.mark.parametrize(("every", "first"), [(2, 0), (3, 0), (0, 550), (0, 599)])
def test_a_model_knows_which_columns_are_numbers(run, model, tmp_path, every, first):
    bad = half_text(tmp_path / "x.csv", every, first)
    args = ["score", model, tmp_path / "x.csv", "--keep", "id", "--out", tmp_path / "s.csv", "--quiet"]
    result = run(*args, "--max-bad-rows", 600)
    assert result.exit_code == 0, result.output
    assert pd.read_csv(tmp_path / "s.csv")["id"].tolist() == sorted(set(range(600)) - set(bad))
    (listed,) = tmp_path.glob("s.csv.rejects-*.csv")
    rejects = pd.read_csv(listed)
    assert rejects["line"].tolist() == [row + 2 for row in bad]
    assert set(rejects["reason"]) == {"'??' is not a number"}
    (tmp_path / "s.csv").unlink()
    refused = run(*args)
    assert refused.exit_code == 65
    assert "'??' is not a number" in refused.stderr


def test_text_where_a_model_takes_numbers_is_no_column_to_exclude(run, model, tmp_path):
    """It was advised to exclude the column, which the model needs, or to give it a kernel of texts."""
    pd.DataFrame({"a": ["x"] * 50, "b": 0.5, "c": 0.5}).to_parquet(tmp_path / "x.parquet")
    for more in ([], ["--max-bad-rows", 50]):
        result = run("score", model, tmp_path / "x.parquet", "--out", tmp_path / "s.csv", *more)
        assert result.exit_code == 65, result.output
        assert "x.parquet: column 'a' holds text, and the model takes numbers there." in result.stderr


def test_a_column_that_is_text_in_some_files_may_be_a_category(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = pd.DataFrame({"x": np.arange(200.0), "kind": np.arange(200) % 3, "y": np.arange(200) % 2})
    rows.to_parquet("1.parquet")
    rows.assign(kind=rows["kind"].astype(str)).to_parquet("2.parquet")
    fit = ("train", "1.parquet", "2.parquet", "--label", "y", "--n-components", "8", "--out", "m", "--quiet")
    refused = run(*fit)
    assert refused.exit_code == 65, refused.output
    assert "(`--categorical kind`)" in refused.stderr
    assert run(*fit, "--categorical", "kind").exit_code == 0


def test_true_and_false_are_numbers_that_a_model_knows(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i % 7},{str(i % 2 == 0).lower()},{i % 2}\n" for i in range(300))
    (tmp_path / "t.csv").write_text("x,flag,y\n" + rows)
    trained = run(
        "train", "t.csv", "--label", "y", "--n-components", "8", "--out", "m", "--quiet", "--baselines", "off"
    )
    assert trained.exit_code == 0, trained.output
    (tmp_path / "new.csv").write_text("x,flag\n1,true\n2,??\n3,false\n4,??\n5,??\n")
    result = run("score", "m", "new.csv", "--out", "s.csv", "--max-bad-rows", 3, "--quiet")
    assert result.exit_code == 0, result.output
    assert pd.read_csv("s.csv")["label"].tolist() == [0, 1]


def test_a_file_of_bad_rows_alone_says_so(run, model, tmp_path):
    half_text(tmp_path / "x.csv", 1)
    result = run("score", model, tmp_path / "x.csv", "--exclude", "id", "--out", tmp_path / "s", "--max-bad-rows", 600)
    assert result.exit_code == 65
    assert "every row of the input is bad" in result.stderr


@pytest.mark.parametrize("name", ["string_view", "binary_view"])
@pytest.mark.parametrize("ending", [".csv", ".parquet", ""])
def test_a_kept_column_of_views(run, model, data, tmp_path, name, ending):
    rows = pq.read_table(data / "new.parquet")
    kept = pa.array(["a", "b,", None, 'd"', ""] * 100).cast(pa.binary() if "binary" in name else pa.string())
    kept = kept.cast(getattr(pa, name)())
    pq.write_table(rows.append_column("kept", kept), tmp_path / "x.parquet")
    out = tmp_path / f"s{ending}"
    result = run("score", model, tmp_path / "x.parquet", "--exclude", "id", "--keep", "kept", "--out", out, "--quiet")
    assert result.exit_code == 0, result.output
    if ending == ".csv":
        found = pd.read_csv(out, keep_default_na=False)["kept"].tolist()
        assert found == ["a", "b,", "", 'd"', ""] * 100


def test_a_column_that_csv_cannot_hold_is_named(run, model, data, tmp_path):
    rows = pq.read_table(data / "new.parquet")
    pq.write_table(rows.append_column("u", pa.array([bytes(16)] * 500, pa.uuid())), tmp_path / "x.parquet")
    result = run(
        "score", model, tmp_path / "x.parquet", "--exclude", "id", "--keep", "u", "--out", tmp_path / "s.csv", "--quiet"
    )
    assert result.exit_code == 65, result.output
    assert "'u'" in result.stderr
