"""One mixed table (text, categories, missing values, dates) from every kind of file and collection to every answer."""

import json

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from dask.distributed import Client
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import dkernel
from dkernel.data.encoding.columns import ONE_HOT
from tests.cli.test_tables import FIXED, mixed

SETTINGS = {
    "gamma": 0.5,
    "n_components": 48,
    "alpha": 1e-4,
    "metric": "identity",
    "scale": "standard",
    "solver": "psgd",
}
FILES = ("t.parquet", "t.csv", "hive")
ENTRIES = (*FILES, "pandas", "Dask")


@pytest.fixture(scope="module")
def table():
    return mixed(600)


@pytest.fixture(scope="module")
def new():
    found = mixed(200, 1)
    found.loc[3, "city"] = "Chur"  # which training never saw
    return found


@pytest.fixture
def files(here, table, new):
    for name, frame in (("", table), ("new-", new)):
        frame.to_parquet(here / f"{name}t.parquet", index=False, row_group_size=150)
        frame.to_csv(f"{name}t.csv", index=False)
        frame.to_parquet(f"{name}hive", partition_cols=["size"], index=False)


def trained(run_to, entry, table, *more):
    """The estimator that one entry gives, loaded from its file m."""
    if entry in FILES:
        run_to("train", entry, "--label", "y", "--out", "m", *FIXED, *more)
    else:
        rows = table if entry == "pandas" else dd.from_pandas(table, npartitions=1)
        dkernel.save(dkernel.KernelClassifier("gaussian", **SETTINGS).fit(rows.drop(columns="y"), rows["y"]), "m")
    return dkernel.load("m")


def inputs_of_scikit_learn(table, rows, order):
    """The inputs of the rows by scikit-learn's encoders, of dates the seconds alone."""
    seconds = {"when": lambda frame: (frame["when"] - table["when"].min()) / pd.Timedelta(1, "s")}
    encoders = {
        "x": SimpleImputer(add_indicator=True),
        **dict.fromkeys(("city", "size"), OneHotEncoder(handle_unknown="ignore", sparse_output=False)),
    }
    encoders = [(name, encoders.get(name, "passthrough"), [name]) for name in order]
    found = ColumnTransformer(encoders).fit(table.assign(**seconds)).transform(rows.assign(**seconds))
    return np.asarray(found, dtype=np.float64)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("entry", ENTRIES)
def test_from_every_entry_to_every_answer(run_to, entry, table, new):
    onnx = pytest.importorskip("onnx")
    from tests.leaves.export.feeds import answers, feeds

    machine = trained(run_to, entry, table)
    order, given = list(machine.feature_names_in_), f"new-{entry}" if entry in FILES else "new-t.parquet"
    rows = new[order]
    encoding = machine.model_.encoding
    X = encoding.encode(pa.Table.from_pandas(rows, preserve_index=False), "float64")[0]
    calendar = [j for j, name in enumerate(encoding.names) if name.startswith("when.")]
    hot = [name.startswith(("city=", "size=")) for name in np.delete(encoding.names, calendar)]
    theirs = inputs_of_scikit_learn(table, rows, order) * np.where(hot, ONE_HOT, 1.0)
    np.testing.assert_allclose(np.delete(X, calendar, axis=1), theirs, rtol=1e-12)

    figures = json.loads(run_to("evaluate", "m", given, "--json", "--quiet").stdout)
    assert figures["accuracy"] > 0.7  # of 48 components; chance is 0.5
    assert figures["filled"]["unknown"] == {"city": 1}
    assert machine.score(rows, new["y"]) == pytest.approx(figures["accuracy"])
    keep = ["--keep", "x,city,when", "--write", "label,score", "--quiet"]
    run_to("score", "m", given, "--out", "s.parquet", *keep)
    scored, expected = pd.read_parquet("s.parquet"), machine.decision_function(rows)
    assert scored["x"].isna().sum() == new["x"].isna().sum()
    # A folder of values has its rows in another order, and so has the file that is made of it.
    np.testing.assert_allclose(np.sort(scored["score"]), np.sort(expected), rtol=0, atol=1e-6)

    lazy = machine.decision_function(dd.from_pandas(rows, npartitions=3))
    np.testing.assert_allclose(np.asarray(lazy), expected, rtol=0, atol=1e-6)
    run_to("export", "m", "--out", "m.onnx")
    graph = onnx.load("m.onnx")
    score = answers(graph, feeds(machine, rows, graph))["score"]
    np.testing.assert_allclose(score[:, 0], expected, rtol=0, atol=1e-4)


@pytest.mark.usefixtures("files")
def test_entries_with_the_rows_in_one_order_make_one_model(run_to, table, new):
    rows = new.drop(columns="y")
    answers = [
        trained(run_to, entry, table, "--overwrite").decision_function(rows) for entry in ENTRIES if entry != "hive"
    ]
    for found in answers[1:]:
        np.testing.assert_allclose(found, answers[0], rtol=0, atol=1e-5)


@pytest.mark.cluster
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("entry", ["pandas", "Dask"])
def test_frames_make_the_same_model_on_workers(run_to, tmp_path, table, entry, shared_cluster):
    trained(run_to, entry, table)
    alone = (tmp_path / "m").read_bytes()
    with Client(shared_cluster):
        trained(run_to, entry, table)
    assert (tmp_path / "m").read_bytes() == alone
