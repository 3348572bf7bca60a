import json

import pandas as pd
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
    args = ["score", model, data / "test.parquet", "--out", tmp_path / "s.parquet"]
    refused = run(*args)
    assert refused.exit_code == 65
    for name in ("price", "id", "note"):
        assert name in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["s.parquet.run.json"]
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
    assert "label, score, std, probability, novelty" in result.stderr
