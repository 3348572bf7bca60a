"""Features that are far from 0 for their spread are as good as without the offset, from files and in the estimators."""

import json

import numpy as np
import pandas as pd
import pytest

from dkernel import KernelClassifier, KernelRegressor, open_source
from dkernel.data.digits import dtype_for

OPTIONS = ("--label", "y", "--task", "classify", "--n-components", 128, "--kernel", "gaussian")


@pytest.fixture
def run(run):
    def call(*args, code=0):
        done = run(*args)
        assert done.exit_code == code, done.output
        return done

    return call


def rows(offset, n=3000, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X + offset, (X**2).sum(axis=1) > 2.4


def written(folder, form, offset, seed=0):
    X, y = rows(offset, seed=seed)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y.astype(int))
    if form == "parquet":
        frame.to_parquet(folder / "t.parquet")
    elif form == "csv":
        frame.to_csv(folder / "t.csv", index=False)
    else:
        np.save(folder / "t.npy", frame.to_numpy())
    return folder / f"t.{form}"


@pytest.mark.parametrize("form", ["parquet", "csv", "npy"])
def test_files_with_an_offset_are_as_good_as_without(run, tmp_path, form):
    found = {}
    for offset in (0.0, 1e9):
        path = written(tmp_path, form, offset)
        options = ("--label", "3", *OPTIONS[2:]) if form == "npy" else OPTIONS
        run("train", path, *options, "--out", tmp_path / "m", "--quiet")
        new = written(tmp_path, form, offset, seed=1)
        told = run("evaluate", tmp_path / "m", new, "--label", "3" if form == "npy" else "y", "--json")
        found[offset] = json.loads(told.stdout)["accuracy"]
        assert json.loads(run("show", tmp_path / "m", "--json").stdout)["recipe"]["dtype"] == (
            "float64" if offset else "float32"
        )
    assert found[0.0] > 0.95
    assert found[1e9] > found[0.0] - 0.02
    run("train", path, *options, "--out", tmp_path / "m", "--dtype", "float32", "--quiet")
    assert json.loads(run("show", tmp_path / "m", "--json").stdout)["recipe"]["dtype"] == "float32"


@pytest.mark.parametrize("solver", ["auto", "psgd"])
@pytest.mark.parametrize("wrap", [np.asarray, pd.DataFrame])
def test_estimators_too(wrap, solver):
    settings = {"kernel": "gaussian", "n_components": 128, "random_state": 0, "solver": solver}
    X, y = rows(0.0)
    plain = KernelClassifier(**settings).fit(wrap(X), y).score(wrap(X), y)
    far = rows(1e9)[0]
    assert KernelClassifier(**settings).fit(wrap(far), y).score(wrap(far), y) > plain - 0.02
    machine = KernelRegressor(**settings).fit(wrap(far), X[:, 0])
    assert machine.score(wrap(far), X[:, 0]) > 0.95


def test_blocks_that_come_one_by_one_and_sources():
    X, y = rows(1e9, 6000)
    machine = KernelClassifier("gaussian", n_components=128, random_state=0)
    for first in range(0, 6000, 1000):
        machine.partial_fit(X[first : first + 1000], y[first : first + 1000], classes=[False, True])
    assert machine.score(X, y) > 0.9


def test_a_source_opened_by_its_rows(tmp_path):
    source = open_source(written(tmp_path, "parquet", 1e9), label="y", dtype="auto")
    assert source.dtype == "float64"
    X, y = rows(1e9)
    assert (
        KernelClassifier("gaussian", n_components=128, random_state=0)
        .fit(source)
        .score(pd.DataFrame(X, columns=["a", "b", "c"]), y.astype(int))
        > 0.9
    )
    assert open_source(written(tmp_path, "csv", 0.0), label="y", dtype="auto").dtype == "float32"


def test_the_rows_that_want_float64():
    x = np.random.default_rng(0).normal(size=(300, 1))
    wants = {1.0: False, 1e3: False, 1e9: True, 1e15: True}
    for offset, wanted in wants.items():
        assert (dtype_for(x + offset) == "float64") == wanted
    assert dtype_for((x + 1e9).astype(np.float32)) == "float32"
    assert dtype_for(np.full((300, 1), 0.1)) == "float32"
    assert dtype_for(1_700_000_000 + np.arange(300)[:, None]) == "float64"
    assert dtype_for(np.arange(300)[:, None]) == dtype_for(None) == dtype_for(x[:1] + 1e9) == "float32"
