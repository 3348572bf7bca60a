"""Rows that come in batches of Arrow: a fit of a stream is that of its rows, whatever library cuts it into batches."""

import hashlib
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from polars.io.plugins import register_io_source

import dkernel
from dkernel import KernelClassifier, open_source
from dkernel.data import arrow_streams
from dkernel.data.arrow_streams import GROUP_ROWS, store_stream
from dkernel.data.scratch import Scratch
from dkernel.errors import DataError

N = 3000
QUICK = {
    "kernel": "gaussian",
    "metric": "identity",
    "gamma": 0.5,
    "n_components": 32,
    "alpha": 1e-4,
    "local": "none",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    city = rng.choice(["Bern", "Rome", "Oslo"], N)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, N), unit="D")
    label = (X[:, 0] > 0) ^ (city == "Rome")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "city": city, "day": day, "label": label})
    frame.loc[::7, "b"] = np.nan
    return frame


class IbisTable:
    """What a table of Ibis is to us: it has the methods of a frame in memory, of which some fail."""

    def __init__(self, reader):
        self.to_pyarrow_batches = lambda: reader

    def __len__(self):
        raise TypeError("Use .count() instead")

    def to_pandas(self):
        raise AssertionError("the whole table")

    __arrow_c_stream__ = to_pandas


def streams(table, rows=500):
    """Name -> a stream of the rows, in batches of some rows."""
    return {
        "reader": lambda: pa.Table.from_pandas(table, preserve_index=False).to_reader(max_chunksize=rows),
        "lazy frame": lambda: pl.from_pandas(table).lazy(),
        "relation": lambda: duckdb.connect().from_df(table),
        "Ibis": lambda: IbisTable(pa.Table.from_pandas(table, preserve_index=False).to_reader(max_chunksize=rows)),
    }


def model_bytes(machine, place):
    dkernel.save(machine, place)
    return place.read_bytes()


@pytest.mark.parametrize("name", ["reader", "lazy frame", "relation", "Ibis"])
def test_a_fit_of_a_stream_is_that_of_a_file_of_its_rows(table, name, tmp_path):
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=GROUP_ROWS)
    of_file = KernelClassifier(**QUICK).fit(open_source(tmp_path / "rows.parquet", label="label"))
    make = streams(table)[name]
    of_stream = KernelClassifier(**QUICK).fit(make(), "label")
    X = table.drop(columns="label")
    expected = of_file.decision_function(X)
    np.testing.assert_allclose(of_stream.decision_function(X), expected, atol=1e-6)
    assert of_stream.score(X, table["label"]) > 0.7
    found = of_stream.decision_function(streams(X)[name]())
    np.testing.assert_array_equal(found, of_stream.decision_function(X))
    assert of_stream.score(make(), "label") == pytest.approx(of_stream.score(X, table["label"]), abs=1e-12)


def test_the_batches_of_a_stream_change_no_byte(table, tmp_path):
    fits = [KernelClassifier(**QUICK).fit(streams(table, rows)["reader"](), "label") for rows in (7, 500, N)]
    assert len({hashlib.sha256(model_bytes(fit, tmp_path / f"m{i}")).hexdigest() for i, fit in enumerate(fits)}) == 1


def test_equal_rows_are_equal_files_so_a_checkpoint_goes_on(table, tmp_path):
    files = [store_stream(streams(table, rows)["reader"](), Scratch.of(tmp_path / str(rows))) for rows in (100, 1000)]
    assert len({(file.name, file.size, file.stamp) for file in files}) == 1
    other = store_stream(streams(table[1:])["reader"](), Scratch.of(tmp_path))
    assert other.name != files[0].name
    assert list((tmp_path / "100").iterdir()) == [Path(files[0].path)]  # nothing else is left


def test_weights_are_a_column_too(table):
    weighted = table.assign(weight=np.arange(N) % 3)
    machine = KernelClassifier(**QUICK).fit(pl.from_pandas(weighted).lazy(), "label", "weight")
    assert list(machine.feature_names_in_) == ["a", "b", "city", "day"]
    expected = machine.score(table.drop(columns="label"), table["label"], weighted["weight"])
    assert machine.score(pl.from_pandas(weighted).lazy(), "label", "weight") == pytest.approx(expected, abs=1e-12)


def test_what_a_stream_needs_is_said(table):
    with pytest.raises(DataError, match=r"X is a LazyFrame.*y must be the name of a column.*y is a ndarray"):
        KernelClassifier(**QUICK).fit(pl.from_pandas(table).lazy(), np.zeros(N))
    with pytest.raises(DataError, match="y is the text 'label', and X a DataFrame"):
        KernelClassifier(**QUICK).fit(pl.from_pandas(table), "label")
    with pytest.raises(DataError, match="'labl'"):
        KernelClassifier(**QUICK).fit(streams(table)["relation"](), "labl")
    with pytest.raises(DataError, match=r"^LazyFrame-[0-9a-f]{8} has no column 'lbl'"):
        open_source(pl.from_pandas(table).lazy(), label="lbl")
    with pytest.raises(DataError, match="RecordBatchReader has no rows"):
        open_source(streams(table[:0])["reader"](), label="label")
    with pytest.raises(DataError, match=r"X is a LazyFrame, whose rows come in batches.*X\.collect\(\)"):
        KernelClassifier(**QUICK).partial_fit(pl.from_pandas(table[["a"]]).lazy(), table["label"], [False, True])
    fitted, rows = KernelClassifier(**QUICK).fit(table[["a"]], table["label"]), pl.from_pandas(table[["a"]]).lazy()
    with pytest.raises(DataError, match=r"X is a LazyFrame.*X\.collect\(\)"):
        dkernel.explain(fitted, rows, rows)
    with pytest.raises(DataError, match=r"y must be the name of a column.*score\(X, 'label'\)"):
        fitted.score(rows, table["label"])


NUMBERS = pa.schema([(name, pa.float64()) for name in "abcd"])
LAZY_BATCHES, LAZY_ROWS = 128, 8192


def lazy_reader(batches):
    return pa.RecordBatchReader.from_batches(NUMBERS, batches)


def lazy_relation(batches):
    return duckdb.connect(config={"threads": 1}).from_arrow(lazy_reader(batches))


def lazy_frame(batches):
    def frames(_columns, _predicate, _n_rows, _batch_size):
        return (pl.from_arrow(batch) for batch in batches)

    return register_io_source(frames, schema=dict.fromkeys("abcd", pl.Float64))


@pytest.mark.parametrize("make", [lazy_reader, lazy_relation, lazy_frame])
def test_rows_are_written_while_the_stream_makes_others(make, tmp_path, monkeypatch):
    """So memory does not grow with the rows: never are more than a third of them made and not yet written."""
    monkeypatch.setattr(arrow_streams, "GROUP_ROWS", 2 * LAZY_ROWS)
    made, written, ahead = [0], [0], [0]

    def batches():
        for i in range(LAZY_BATCHES):
            made[0] += LAZY_ROWS
            ahead[0] = max(ahead[0], made[0] - written[0])
            yield pa.record_batch([np.full(LAZY_ROWS, float(i)) for _ in NUMBERS], NUMBERS)

    write = pa.parquet.ParquetWriter.write_table

    def counted(self, table, *args):
        write(self, table, *args)
        written[0] += len(table)

    monkeypatch.setattr(pa.parquet.ParquetWriter, "write_table", counted)
    file = store_stream(make(batches()), Scratch.of(tmp_path))
    assert written[0] == made[0] == LAZY_BATCHES * LAZY_ROWS
    assert ahead[0] < written[0] / 3
    kept = pa.parquet.read_table(file.path)
    assert (kept["d"].to_numpy() == np.repeat(np.arange(LAZY_BATCHES), LAZY_ROWS)).all()


def test_a_batch_whose_columns_are_others_is_refused(table, tmp_path):
    """A reader made of frames checks no batch, and passed on as a stream of C it would lose the names."""
    batch = pa.RecordBatch.from_pandas(table[["a", "b", "label"]], preserve_index=False)

    def reader(names):
        batches = [batch.select(names), batch.select([*names[1::-1], *names[2:]])]
        return pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))

    machine = KernelClassifier(**QUICK).fit(table[["a", "b"]], table["label"])
    dkernel.save(machine, tmp_path / "model.safetensors")
    for ask in (
        lambda: KernelClassifier(**QUICK).fit(reader(["a", "b", "label"]), "label"),
        lambda: machine.predict(reader(["a", "b"])),
        lambda: dkernel.score(tmp_path / "model.safetensors", reader(["a", "b"]), out=tmp_path / "scores.csv"),
    ):
        with pytest.raises(DataError, match=r"RecordBatchReader .*[Ss]chema"):
            ask()


def test_a_prediction_of_an_empty_stream_says_so(table):
    machine = KernelClassifier(**QUICK).fit(table[["a", "b"]], table["label"])
    empty = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.float64()), ("b", pa.float64())]), iter([]))
    with pytest.raises(DataError, match="RecordBatchReader has no rows"):
        machine.predict(empty)
