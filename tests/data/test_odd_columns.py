"""Columns of odd values: numbers of any byte order and size, bytes that are text, and a refusal by name of the rest."""

import datetime as dt
import fractions
import uuid

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.errors import DataError

N = 6
ORDERS = {
    "big-endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "long doubles": lambda values: values.astype(np.longdouble),
    "integers of Python": lambda values: pd.Series([None if np.isnan(v) else int(v) for v in values], dtype=object),
}
TAKEN = {
    "integers beyond 64 bits": ([2**70 + 2**30 * i for i in range(N)], "number"),
    "some beyond 64 bits": ([2**70, None, 1, 2, 3, 4], "number"),
    "beyond 63 bits": ([2**63 + 2**20 * i for i in range(N)], "number"),
    "categories of bytes": (pd.Categorical([b"a", b"b"] * 3), "category"),
}
REFUSED = {
    "integers beyond float64": [10**400] * N,
    "a lone surrogate": pd.Series(["a\udcff"] * N, dtype=object),
    "categories of tuples": pd.Categorical([(1, 2), (3, 4)] * 3),
    "categories of UUIDs": pd.Categorical([uuid.UUID(int=1), uuid.UUID(int=2)] * 3),
    "categories of several types": pd.Categorical([1, "a"] * 3),
    "bytes": [b"\xff", b"a"] * 3,
    "UUIDs": [uuid.UUID(int=1)] * N,
    "periods": pd.period_range("2020", periods=N, freq="Y"),
    "intervals": pd.interval_range(0, N),
    "fractions": [fractions.Fraction(1, 3)] * N,
    "complex numbers": [1j] * N,
    "text and numbers": [1, "a"] * 3,
    "dictionaries": [{"a": 1}] * N,
    "long durations": [dt.timedelta(999_999_999)] * N,
}


def frame_of(values, **more):
    return pd.DataFrame({"x": np.arange(N) / 3, "c": values, **more})


def read(rows):
    source = from_arrays(rows, categorical="auto", missing="indicator", holes=True)
    return source, source.X.compute(scheduler="sync")


@pytest.mark.parametrize("text", [{}, {"s": list("ababab")}])
@pytest.mark.parametrize("values", [[1.0, 2, 3, 1, 2, 3], [1, np.nan, 3, 1, 2, 3]])
@pytest.mark.parametrize("order", ORDERS)
def test_numbers_of_any_byte_order_are_the_same_numbers(order, values, text):
    values = np.array(values)
    plain, X = read(frame_of(values, **text))
    made = frame_of(ORDERS[order](values), **text)
    for rows in (made, dd.from_pandas(made, npartitions=2)):
        if order == "integers of Python" and rows is not made:
            continue  # Dask makes text of objects
        found, other = read(rows)
        assert found.encoding == plain.encoding
        np.testing.assert_array_equal(other, X)
        again = from_arrays(rows, encoding=plain.encoding) if plain.encoding else found
        np.testing.assert_array_equal(again.X.compute(scheduler="sync"), X)


@pytest.mark.parametrize("text", [{}, {"s": list("ababab")}])
@pytest.mark.parametrize("name", TAKEN)
def test_large_integers_are_numbers_and_bytes_are_text(name, text):
    values, kind = TAKEN[name]
    source, X = read(frame_of(values, **text))
    assert np.isfinite(X).all()
    assert source.encoding is None or source.encoding.kinds["c"] == kind


@pytest.mark.parametrize("text", [{}, {"s": list("ababab")}])
@pytest.mark.parametrize("name", REFUSED)
def test_other_values_are_refused_by_the_name_of_their_column(name, text):
    rows = frame_of(REFUSED[name], **text)
    with pytest.raises(DataError, match="olumn 'c'"):
        read(rows)
    with pytest.raises(DataError, match="olumn 'c'"):
        from_arrays(rows, encoding=read(frame_of(np.arange(N), **text, t=list("cdcdcd")))[0].encoding)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(REFUSED.keys() - {"intervals"}))  # of which Dask cannot tell the shape
def test_other_values_in_dask_are_refused_or_text(name):
    try:
        lazy = dd.from_pandas(frame_of(REFUSED[name]), npartitions=2)
    except UnicodeError:
        return  # Dask's own refusal
    if str(lazy.dtypes["c"]).startswith("str"):
        assert read(lazy)[0].encoding.kinds["c"] == "category"
    else:
        with pytest.raises(DataError, match="olumn 'c'"):
            read(lazy)


BYTES = [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary()), pa.binary(2)]


def write_bytes(path, values, type_=BYTES[0]):
    column = pa.array(values).dictionary_encode() if pa.types.is_dictionary(type_) else pa.array(values, type_)
    pq.write_table(pa.table({"x": np.arange(len(values)) / 3, "c": column, "y": column}), path)


@pytest.mark.parametrize("type_", BYTES, ids=str)
def test_bytes_of_a_file_that_are_text_are_text(type_, tmp_path):
    values = [b"aa", "é".encode(), b"aa", b"bc"] * 2
    write_bytes(tmp_path / "b.parquet", values, type_)
    frame = pq.read_table(tmp_path / "b.parquet").to_pandas()
    frame.assign(c=[v.decode() for v in values], y=[v.decode() for v in values]).to_parquet(tmp_path / "t.parquet")
    sources = [open_source(tmp_path / name, label="y") for name in ("b.parquet", "t.parquet")]
    assert sources[0].encoding == sources[1].encoding
    assert sources[0].label_kind == sources[1].label_kind == "text"
    for part in ("X", "y"):
        found, expected = (getattr(source, part).compute(scheduler="sync") for source in sources)
        np.testing.assert_array_equal(found, expected)
    kept = (
        open_source(tmp_path / "b.parquet", columns=["x"], keep="c", exclude="y")
        .units[0]
        .task.compute(scheduler="sync")[0]
        .kept
    )
    assert kept["c"].to_pylist() == values


def test_bytes_of_a_file_that_are_no_text_are_refused_or_left_out(tmp_path):
    write_bytes(tmp_path / "b.parquet", [b"a", b"b", b"a", b"\xff\x01", b"b"])
    with pytest.raises(DataError, match=r"row 4, column 'c': the bytes b'\\xff\\x01' are not UTF-8 text\. Exclude"):
        open_source(tmp_path / "b.parquet", exclude="y")
    with pytest.warns(UserWarning, match="row 4, column 'c': the bytes are not UTF-8 text"):
        source = open_source(tmp_path / "b.parquet", exclude="y", label="x", max_bad_rows=1)
    assert source.n_rows == 4
