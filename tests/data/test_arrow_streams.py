"""Rows that come in batches of Arrow: a fit of a stream is that of its rows, whatever library cuts it into batches."""

import hashlib
import subprocess
import sys
import weakref

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dkernel
from dkernel import KernelClassifier, open_source
from dkernel.data import arrow_streams
from dkernel.data.arrow_streams import GROUP_ROWS, store_stream
from dkernel.data.scratch import Scratch
from dkernel.errors import DataError

N = 3000
QUICK = {"kernel": "gaussian", "gamma": 0.5, "n_components": 32, "alpha": 1e-4, "local": "none", "random_state": 0}


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


def streams(table, rows=500):
    """Name -> a stream of the rows, in batches of some rows."""
    return {
        "reader": lambda: pa.Table.from_pandas(table, preserve_index=False).to_reader(max_chunksize=rows),
        "lazy frame": lambda: pl.from_pandas(table).lazy(),
        "relation": lambda: duckdb.connect().from_df(table),
    }


def model_bytes(machine, place):
    dkernel.save(machine, place)
    return place.read_bytes()


@pytest.mark.parametrize("name", ["reader", "lazy frame", "relation"])
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


def test_the_batches_of_a_stream_change_no_byte(table, tmp_path):
    fits = [KernelClassifier(**QUICK).fit(streams(table, rows)["reader"](), "label") for rows in (7, 500, N)]
    assert len({hashlib.sha256(model_bytes(fit, tmp_path / f"m{i}")).hexdigest() for i, fit in enumerate(fits)}) == 1


def test_equal_rows_are_equal_files_so_a_checkpoint_goes_on(table, tmp_path):
    files = [store_stream(streams(table, rows)["reader"](), Scratch.of(tmp_path / str(rows))) for rows in (100, 1000)]
    assert len({(file.name, file.size, file.stamp) for file in files}) == 1
    other = store_stream(streams(table[1:])["reader"](), Scratch.of(tmp_path))
    assert other.name != files[0].name
    assert [path.name for path in (tmp_path / "100").iterdir()] == [files[0].name]  # nothing else is left


def test_weights_are_a_column_too(table):
    weighted = table.assign(weight=np.arange(N) % 3)
    machine = KernelClassifier(**QUICK).fit(pl.from_pandas(weighted).lazy(), "label", "weight")
    assert list(machine.feature_names_in_) == ["a", "b", "city", "day"]


def test_what_a_stream_needs_is_said(table):
    with pytest.raises(DataError, match=r"X is a LazyFrame.*y must be the name of a column.*y is a ndarray"):
        KernelClassifier(**QUICK).fit(pl.from_pandas(table).lazy(), np.zeros(N))
    with pytest.raises(DataError, match="'labl'"):
        KernelClassifier(**QUICK).fit(streams(table)["relation"](), "labl")
    with pytest.raises(DataError, match="RecordBatchReader has no rows"):
        open_source(streams(table[:0])["reader"](), label="label")
    with pytest.raises(DataError, match=r"X is a LazyFrame, whose rows come in batches.*X\.collect\(\)"):
        KernelClassifier(**QUICK).partial_fit(pl.from_pandas(table[["a"]]).lazy(), table["label"], [False, True])


def test_a_stream_is_in_memory_a_row_group_at_a_time(tmp_path, monkeypatch):
    """Of batches that end together only those of the row group that is being written are alive."""
    monkeypatch.setattr(arrow_streams, "GROUP_ROWS", 1000)
    alive, most = [0], [0]
    schema = pa.schema([("a", pa.float64())])

    def ended():
        alive[0] -= 1

    def batches():
        for i in range(100):
            values = np.full(100, float(i))
            weakref.finalize(values, ended)
            alive[0] += 1
            most[0] = max(most[0], alive[0])
            yield pa.record_batch([pa.array(values)], schema)

    file = store_stream(pa.RecordBatchReader.from_batches(schema, batches()), Scratch.of(tmp_path))
    assert file.size > 0
    assert most[0] <= 2 * 10 + 1  # those of a row group, and those that its table still holds


LARGE = """
import resource, sys
import numpy as np, pyarrow as pa
from dkernel.data.arrow_streams import store_stream
from dkernel.data.scratch import Scratch

def made(name, folder, n):
    columns = ", ".join(f"(range * {k}) % 997 / 7.0 AS c{k}" for k in range(1, 9))
    if name == "polars":
        import polars as pl
        return pl.scan_parquet(f"{folder}/rows.parquet")
    import duckdb
    connection = duckdb.connect(config={"memory_limit": "200MB", "threads": 1})
    return connection.sql(f"SELECT {columns} FROM range({n})")

name, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
few = made(name, folder, 300_000)
store_stream(few.head(300_000) if name == "polars" else few, Scratch.of(folder))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store_stream(made(name, folder, n), Scratch.of(folder))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["polars", "duckdb"])
def test_rows_that_are_many_take_no_more_memory(name, tmp_path):
    """Eight columns of six million rows are 366 MiB; the process grows by a fraction of that."""
    n = 6_000_000
    if name == "polars":
        groups = (
            pa.table({f"c{k}": np.random.default_rng(i).normal(size=300_000) for k in range(8)}) for i in range(20)
        )
        with pa.parquet.ParquetWriter(tmp_path / "rows.parquet", next(groups).schema) as writer:
            for group in groups:
                writer.write_table(group)
    done = subprocess.run(
        [sys.executable, "-c", LARGE, name, str(tmp_path), str(n)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 150
