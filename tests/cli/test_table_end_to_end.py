"""One mixed table (text, categories, missing values, dates) from every kind of file and collection to every answer."""

import json

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dkernel
from tests.cli.test_tables import FIXED, mixed, ok

SETTINGS = {"gamma": 0.5, "n_components": 48, "alpha": 1e-4, "metric": "identity", "scale": "standard"}
FILES = ("t.parquet", "t.csv", "hive")


@pytest.fixture(scope="module")
def table():
    return mixed(600)


@pytest.fixture(scope="module")
def new():
    found = mixed(200, 1)
    found.loc[3, "city"] = "Chur"  # which training never saw
    return found


@pytest.fixture
def files(tmp_path, monkeypatch, table, new):
    monkeypatch.chdir(tmp_path)
    for name, frame in (("", table), ("new-", new)):
        frame.to_parquet(f"{name}t.parquet", index=False, row_group_size=150)
        frame.to_csv(f"{name}t.csv", index=False)
        frame.to_parquet(f"{name}hive", partition_cols=["size"], index=False)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", FILES)
def test_from_files(run, name, new):
    ok(run, "train", name, "--label", "y", "--out", "m", *FIXED)
    figures = json.loads(ok(run, "evaluate", "m", f"new-{name}", "--json", "--quiet").stdout)
    assert figures["accuracy"] > 0.7  # of 48 components; chance is 0.5
    assert figures["filled"]["unknown"] == {"city": 1}
    keep = ["--keep", "x,city,when", "--write", "label,score", "--quiet"]
    ok(run, "score", "m", f"new-{name}", "--out", "s.parquet", *keep)
    scored, machine = pd.read_parquet("s.parquet"), dkernel.load("m")
    rows = new[list(machine.feature_names_in_)]
    assert scored["x"].isna().sum() == new["x"].isna().sum()
    # A folder of values has its rows in another order, and so has the file that is made of it.
    expected = np.sort(machine.decision_function(rows))
    np.testing.assert_allclose(np.sort(scored["score"]), expected, rtol=0, atol=1e-6)
    assert (machine.predict(rows) == new["y"]).mean() == pytest.approx(figures["accuracy"])


@pytest.mark.slow
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", FILES)
def test_workers_make_the_same_model(run, tmp_path, name):
    ok(run, "train", name, "--label", "y", "--out", "m", *FIXED)
    ok(run, "train", name, "--label", "y", "--out", "w", *FIXED, "--workers", "2")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "w").read_bytes()


@pytest.mark.usefixtures("files")
def test_from_frames_to_every_answer(run, tmp_path, table, new):
    X, y, rows = table.drop(columns="y"), table["y"], new.drop(columns="y")
    ok(run, "train", "t.parquet", "--label", "y", "--out", "m", *FIXED)
    machine = dkernel.KernelClassifier("gaussian", **SETTINGS)
    answers = {"file": dkernel.load("m").decision_function(rows)}
    answers["pandas"] = machine.fit(X, y).decision_function(rows)
    dkernel.save(machine, tmp_path / "saved")
    answers["load"] = dkernel.load(tmp_path / "saved").decision_function(rows)
    answers["Dask rows"] = machine.decision_function(dd.from_pandas(rows, npartitions=3)).compute()
    answers["pipeline"] = machine.to_sklearn().decision_function(rows)
    lazy = dd.from_pandas(table, npartitions=1)
    answers["Dask"] = machine.fit(lazy.drop(columns="y"), lazy["y"]).decision_function(rows)
    for name, found in answers.items():
        np.testing.assert_allclose(found, answers["file"], rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.usefixtures("files")
def test_the_graph_of_a_trained_file_gives_its_scores(run, new):
    onnxruntime = pytest.importorskip("onnxruntime")
    from tests.export.test_tables import feeds

    ok(run, "train", "t.csv", "--label", "y", "--out", "m", *FIXED)
    ok(run, "export", "m", "--out", "m.onnx")
    machine, rows = dkernel.load("m"), new.drop(columns="y")
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    (score,) = session.run(["score"], feeds(machine, rows, "float32"))
    np.testing.assert_allclose(score[:, 0], machine.decision_function(rows), rtol=0, atol=1e-4)
