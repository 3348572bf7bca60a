"""A regression's answers have the digits of its label: the file that is scored is as good as the holdout."""

import json

import numpy as np
import pandas as pd
import pytest

OPTIONS = ("--label", "t", "--kernel", "gaussian", "--gamma", 0.3, "--n-components", 128)


def table(n, center, width, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, n))
    return pd.DataFrame({"a": a, "b": b, "t": center + width * np.sin(a) + 0.01 * width * rng.normal(size=n)})


def rmse(found, wanted):
    return float(np.sqrt(np.mean((np.asarray(found, np.float64) - wanted) ** 2)))


@pytest.mark.parametrize(
    ("center", "width"),
    [
        (1.7e9, 100.0),
        (0.0, 1e-150),
        (1e39, 1e39),
        *(pytest.param(*far, marks=pytest.mark.slow) for far in ((1e8, 1.0), (0.0, 1e100), (-3e12, 1.0))),
    ],
)
def test_the_file_that_is_scored_is_as_good_as_the_holdout(run_to, tmp_path, center, width):
    table(3000, center, width).to_parquet(tmp_path / "ts.parquet")
    run_to("train", tmp_path / "ts.parquet", *OPTIONS, "--out", tmp_path / "m", "--quiet")
    header = json.loads(run_to("show", tmp_path / "m", "--json").stdout)
    holdout = header["facts"]["holdout"]["rmse"]
    assert holdout < 0.2 * width
    new = table(3000, center, width, seed=1)
    new.to_parquet(tmp_path / "new.parquet")
    for out in ("s.parquet", "s.csv", "s.npy"):
        run_to("score", tmp_path / "m", tmp_path / "new.parquet", "--out", tmp_path / out, "--quiet")
    found = pd.read_parquet(tmp_path / "s.parquet")["score"]
    assert found.dtype == np.float64
    assert rmse(found, new["t"]) < 1.5 * holdout
    text = (tmp_path / "s.csv").read_text().split()[1:]
    assert [float(value) for value in text] == found.tolist()
    assert np.array_equal(np.load(tmp_path / "s.npy").reshape(-1), found)
    told = json.loads(run_to("evaluate", tmp_path / "m", tmp_path / "new.parquet", "--label", "t", "--json").stdout)
    assert told["rmse"] == pytest.approx(rmse(found, new["t"]), rel=1e-6)
