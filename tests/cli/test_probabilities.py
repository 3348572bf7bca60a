"""--calibration and --write std on the command line."""

import pandas as pd


def test_a_regression_says_how_sure_it_is(run, data, tmp_path):
    model, out = tmp_path / "m", tmp_path / "scores.csv"
    trained = run("train", data / "train.parquet", "--label", "price", "--exclude", "y,id,note", "--solver", "normal",
                  "--kernel", "gaussian", "--gamma", "0.1", "--n-components", "64", "--metric", "identity", "--out",
                  model, "--quiet")  # fmt: skip
    assert trained.exit_code == 0, trained.output
    args = ["score", model, data / "new.parquet", "--exclude", "id", "--out", out]
    assert run(*args, "--write", "score,std").exit_code == 0
    found, truth = pd.read_csv(out), pd.read_parquet(data / "test.parquet")["price"]
    assert found.columns.tolist() == ["score", "std"]
    assert (((found["score"] - truth) / found["std"]).abs() < 2).mean() > 0.9


def test_refusals_of_what_a_model_does_not_know(run, model, data, tmp_path):
    args = ["score", model, data / "new.parquet", "--exclude", "id", "--out", tmp_path / "s.csv", "--write"]
    for word, advice in (("interval", "Write set"), ("std", "solver='normal'")):
        refused = run(*args, word)
        assert refused.exit_code == 2
        assert advice in refused.stderr
