"""Scores in folders of the values of a column, as Dask and Spark write and read them: whole, and no row lost."""

import json

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dkernel
from dkernel.data.readers.folder_keys import NULL
from dkernel.data.writers.partitions import Partitioned

FIXED = ["--kernel", "gaussian", "--gamma", "0.5", "--n-components", "16", "--alpha", "1e-4", "--metric", "identity"]
FIXED += ["--solver", "psgd", "--baselines", "off"]


@pytest.fixture
def rows(run_to, here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(600), "a": rng.normal(size=600), "year": rng.integers(2019, 2022, 600)})
    frame["city"] = rng.choice(["La Paz", "a/b=c", "Zürich"], 600)
    frame["y"] = np.where(frame["a"] > 0, "yes", "no")
    frame.to_parquet(here / "t.parquet", index=False, row_group_size=100)
    run_to("train", "t.parquet", "--label", "y", "--exclude", "id,year,city", "--out", "m", *FIXED, "--quiet")
    return frame


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, which pandas will drop
def test_rows_are_those_of_one_folder_in_their_order(run_to, rows):
    job = ["score", "m", "t.parquet", "--keep", "id", "--partition-by", "year,city"]
    for out in ("s", "again"):
        run_to(*job, "--out", out)
    run_to("score", "m", "t.parquet", "--keep", "id,year,city", "--out", "flat", "--quiet")
    flat = pd.read_parquet("flat")
    for found in (pd.read_parquet("s"), dd.read_parquet("s").compute()):
        assert (found.groupby(["year", "city"], observed=True)["id"].diff().dropna() > 0).all()
        found = found.sort_values("id", ignore_index=True).astype({"year": "int64", "city": "str"})
        pd.testing.assert_frame_equal(found[flat.columns], flat, check_dtype=False)
    source = dkernel.open_source("s", label="label", exclude="id")
    assert (source.n_rows, source.table_columns) == (len(rows), ("probability_yes", "year", "city"))
    with open("s/_manifest.json") as one, open("again/_manifest.json") as other:
        assert json.load(one)["files"] == json.load(other)["files"]
    assert "already complete" in run_to(*job, "--out", "s").stdout


def test_other_files_are_kept_and_a_file_that_is_gone_is_found(run, run_to, rows, tmp_path):
    job = ["score", "m", "t.parquet", "--out", "s", "--partition-by", "year", "--quiet"]
    run_to(*job)
    (tmp_path / "s" / "year=2020" / "mine.txt").write_text("notes")
    refused = run_to(*job, "--overwrite", "--keep", "id", code=65)
    assert "year=2020/mine.txt" in refused.stderr
    (tmp_path / "s" / "year=2020" / "mine.txt").unlink()
    (tmp_path / "s" / "year=2020" / "part-00000.parquet").unlink()
    assert "was changed since it was written" in run(*job).stderr
    run_to(*job, "--overwrite")
    assert len(pd.read_parquet("s")) == len(rows)


def test_a_missing_key_has_the_folder_of_hive_and_a_stop_loses_nothing(run, run_to, rows, tmp_path, monkeypatch):
    rows.assign(year=rows["year"].where(rows["id"] % 5 > 0).astype("Int64")).to_parquet("gaps.parquet", index=False)
    job = ["score", "m", "gaps.parquet", "--out", "s", "--partition-by", "year", "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr(Partitioned, "divide", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(*job).exit_code != 0
    assert not (tmp_path / "s").exists()
    run_to(*job)
    assert len(pd.read_parquet("s/year=__HIVE_DEFAULT_PARTITION__")) == 120
    assert len(dd.read_parquet("s")) == 600


@pytest.mark.usefixtures("rows")
def test_what_cannot_be_divided_is_refused(run, tmp_path):
    said = run("score", "m", "t.parquet", "--out", "s.csv", "--partition-by", "year")
    assert "Give a name without an ending" in said.stderr
    assert "no column" in run("score", "m", "t.parquet", "--out", "s", "--partition-by", "month").stderr
    assert "is not divided" in run("score", "m", "t.parquet", "--out", "memory://b/s", "--partition-by", "year").stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("words", [["u", "", None], ["", "a"]])
def test_keys_that_share_a_folder_lose_no_row(run, rows, words):
    rows["city"] = np.resize(np.array(words, dtype=object), len(rows))
    rows.to_parquet("keys.parquet", index=False)
    job = ["score", "m", "keys.parquet", "--keep", "id", "--partition-by", "year,city", "--out", "s", "--json"]
    said = run(*job)
    assert (said.exit_code, json.loads(said.stdout)["rows"]) == (0, len(rows)), said.output
    found = dkernel.open_source("s", label="label", keep=["id", "city"])
    kept = pa.concat_tables([block.kept for unit in found.units for block in dask.compute(unit.task)[0]])
    read = dict(zip(kept["id"].to_pylist(), kept["city"].to_pylist(), strict=True))
    assert read == dict(zip(rows["id"], np.where(rows["city"].fillna("") == "", None, rows["city"]), strict=True))


def test_a_text_that_readers_take_for_missing_is_refused(run_to, rows, tmp_path):
    rows.assign(city=["short"] * 599 + ["__HIVE_DEFAULT_PARTITION__"]).to_parquet("null.parquet", index=False)
    said = run_to("score", "m", "null.parquet", "--partition-by", "city", "--out", "s", code=65)
    assert "Column 'city' has the text '__HIVE_DEFAULT_PARTITION__', which readers of folders take for" in said.stderr
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("word", ["z" * 260, "é" * 90], ids=["long", "long when quoted"])
def test_a_value_too_long_for_a_folder_is_bad_data(run_to, rows, tmp_path, word):
    rows.assign(city=["short"] * 599 + [word]).to_parquet("long.parquet", index=False)
    said = run_to("score", "m", "long.parquet", "--partition-by", "city", "--out", "s", code=65)
    assert "'city'" in said.stderr
    assert "too long for the name of a folder" in said.stderr
    assert not [path.name for path in tmp_path.iterdir() if "staging" in path.name]


KINDS = {
    "list": pa.array([[1]] * 600),
    "map": pa.array([[("a", 1)]] * 600, pa.map_(pa.string(), pa.int64())),
    "bytes": pa.array([b"\xff"] * 600),
    "fixed bytes": pa.array([b"\xff"] * 600, pa.binary(1)),
    "uuid": pa.array([bytes(16)] * 600, pa.uuid()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_no_text_is_bad_data(run_to, rows, kind):
    table = pa.Table.from_pandas(rows, preserve_index=False)
    pq.write_table(table.append_column("k", KINDS[kind]), "odd.parquet")
    said = run_to("score", "m", "odd.parquet", "--partition-by", "k", "--out", "s", code=65)
    assert "Column 'k'" in said.stderr


def test_keys_and_columns_that_are_views_of_text_are_written(run_to, rows):
    table = pa.Table.from_pandas(rows, preserve_index=False)
    for name in ("k", "v"):
        table = table.append_column(name, pa.array(["a", "b"] * 300, pa.string_view()))
    pq.write_table(table, "views.parquet")
    run_to("score", "m", "views.parquet", "--partition-by", "k", "--keep", "v", "--out", "s")
    found = pd.read_parquet("s")
    assert (len(found), (found["v"] == found["k"].astype(str)).all()) == (600, True)


def test_folders_have_the_words_that_categories_have():
    keys = {
        "number": (pa.array([0.0, -0.0, float("nan"), None, 1.5]), ["0", NULL, "1.5"]),
        "truth": (pa.array([True, None, False]), ["True", NULL, "False"]),
        "day": (pa.array([0, 86_400_000], pa.timestamp("ms")), ["1970-01-01", "1970-01-02"]),
        "moment": (pa.array([1], pa.timestamp("s")), ["1970-01-01%2000%3A00%3A01"]),
        "text": (pa.array(["01", "1", "true"]), ["01", "1", "true"]),
        "bytes": (pa.array([b"u", b"v", b"u"], pa.binary(1)), ["u", "v"]),
        "category": (pa.array([1, 0, 1], pa.date32()).dictionary_encode(), ["1970-01-02", "1970-01-01"]),
    }
    for key, (column, folders) in keys.items():
        Partitioned([key]).check(pa.schema({key: column.type}))
        found = dict(Partitioned([key])._folders(pa.table({key: column})))
        assert list(found) == [f"{key}={folder}" for folder in folders]
        assert sum(map(len, found.values())) == len(column)
