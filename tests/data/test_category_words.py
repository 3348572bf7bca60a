"""A category that is trained on in one format, unit, type or library is the same in every other."""

import datetime as dt
import decimal
import importlib.util

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from dkernel.data import from_arrays, open_source
from dkernel.data.collections.tables import as_rows
from dkernel.data.writers.partitions import Partitioned
from tests.data.blocks import read_blocks

N = 24
DAY, MOMENT = dt.date(2024, 2, 28), dt.datetime(1999, 12, 31, 23, 59, 58)
TYPES = {
    "bool": (pa.bool_(), lambda k: k > 1),
    "int8": (pa.int8(), int),
    "int64": (pa.int64(), lambda k: 10**15 * k - 1),
    "uint64": (pa.uint64(), lambda k: 2**50 + k),
    "float32": (pa.float32(), lambda k: [0.1, 1e-9, 3.0][k]),
    "float64": (pa.float64(), lambda k: [1e22, -0.5, 7.0][k]),
    "decimal": (pa.decimal128(12, 2), lambda k: decimal.Decimal(["1.50", "2.00", "0.25"][k])),
    "text": (pa.string(), lambda k: ["a", " A", "1.0"][k]),
    "digits": (pa.string(), lambda k: f"{k:02d}"),
    "numbers as text": (pa.large_string(), str),
    "texts of True": (pa.string(), lambda k: ["True", "False", "maybe"][k]),
    "dictionary of text": (pa.dictionary(pa.int8(), pa.string()), lambda k: f"é,{k}"),
    "dictionary of numbers": (pa.dictionary(pa.int8(), pa.int64()), int),
    "date32": (pa.date32(), lambda k: DAY + dt.timedelta(k)),
    "date64": (pa.date64(), lambda k: DAY + dt.timedelta(k)),
    **{
        f"timestamp {unit}": (pa.timestamp(unit), lambda k: MOMENT + dt.timedelta(0, k))
        for unit in ("s", "ms", "us", "ns")
    },
    "days": (pa.timestamp("ms"), lambda k: dt.datetime(2024, 2, 27 + k)),
    "parts of a second": (pa.timestamp("ns"), lambda k: MOMENT + dt.timedelta(0, 0, 250_000 * k)),
    "timestamp of a zone": (pa.timestamp("us", "Europe/Rome"), lambda k: MOMENT + dt.timedelta(0, k)),
    "time32": (pa.time32("s"), lambda k: dt.time(k)),
    "time64": (pa.time64("us"), lambda k: dt.time(k, 0, 0, 1000 * k)),
    "duration": (pa.duration("ms"), lambda k: dt.timedelta(k - 1, 0, 0, 5 * k)),
}
NOT_WRITTEN = {("Arrow CSV", "duration"), ("folders of Arrow", "duration"), ("Polars CSV", "duration")}
"""Durations that are numbers without a unit there, or letters."""


def table_of(kind: str) -> pa.Table:
    """A number that names the row, and a category of three values and missing ones."""
    type_, make = TYPES[kind]
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    values = [None if i % 6 == 5 else make(i % 3) for i in range(N)]
    column = pa.array(values, plain)
    column = column.dictionary_encode().cast(type_) if pa.types.is_dictionary(type_) else column
    return pa.table({"x": np.arange(N) / 4, "c": column})


def decoded(table: pa.Table) -> pa.Table:
    column = table["c"]
    return (
        table.set_column(1, "c", column.cast(column.type.value_type)) if pa.types.is_dictionary(column.type) else table
    )


def write_arrow_csv(table: pa.Table, path) -> None:
    arrow_csv.write_csv(decoded(table), path)


def write_folders(table: pa.Table, path) -> None:
    for folder, rows in Partitioned(["c"])._folders(decoded(table)):
        (path / folder).mkdir(parents=True)
        pq.write_table(table.take(rows).drop_columns("c"), path / folder / "part-0.parquet")


def write_hive(table: pa.Table, path) -> None:
    """Folders as Arrow makes them."""
    pq.write_to_dataset(decoded(table), path, ["c"])


def polars_of(table: pa.Table):
    import polars

    return polars.from_arrow(table)


FILES = {
    "Parquet": (".parquet", pq.write_table),
    "Arrow CSV": (".csv", write_arrow_csv),
    "pandas CSV": (".csv", lambda table, path: table.to_pandas().to_csv(path, index=False)),
    "Arrow types CSV": (".csv", lambda table, path: frame_of_arrow(table).to_csv(path, index=False)),
    "folders": ("", write_folders),
    "folders of Arrow": ("", write_hive),
}


def frame_of_arrow(table: pa.Table) -> pd.DataFrame:
    return decoded(table).to_pandas(types_mapper=pd.ArrowDtype)


FRAMES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas of Arrow types": frame_of_arrow,
    "pandas categories": lambda table: decoded(table).to_pandas().astype({"c": "category"}),
    "Dask": lambda table: dd.from_pandas(table.to_pandas(), npartitions=3),
}
if importlib.util.find_spec("polars") is not None:
    FRAMES["Polars"] = lambda table: as_rows(polars_of(table))
    FILES["Polars CSV"] = (".csv", lambda table, path: polars_of(decoded(table)).write_csv(path))
    FILES["Polars Parquet"] = (".parquet", lambda table, path: polars_of(table).write_parquet(path))


def sources_of(kind: str, folder):
    """Name of each door -> a function that opens the rows there."""
    table = table_of(kind)
    for name, (ending, write) in FILES.items():
        path = folder / f"{name}{ending}"
        if (name, kind) not in NOT_WRITTEN:
            try:
                write(table, path)
            except pa.ArrowNotImplementedError:
                continue
            yield name, lambda path=path, **given: open_source(path, dtype="float32", **given)
    for name, make in FRAMES.items():
        frame = make(table)
        yield name, lambda frame=frame, **given: from_arrays(frame, missing="indicator", **given)


def rows_of(source) -> tuple[np.ndarray, bool]:
    """The inputs by the number that names the row, and whether a value was unknown."""
    blocks = read_blocks(source)
    X = np.concatenate([block.X for block in blocks])
    unknown = any(block.marks is not None and (block.marks == 2).any() for block in blocks)
    return X[np.argsort(X[:, 0])], unknown


@pytest.mark.parametrize("kind", TYPES)
def test_a_category_is_the_same_in_every_format_and_library(kind, tmp_path):
    sources = dict(sources_of(kind, tmp_path))
    learned: dict[str, tuple[str, object]] = {}
    for name, opened in sources.items():
        encoding = opened(categorical=("c",)).encoding
        learned.setdefault(repr(encoding.to_json()), (name, encoding))
    for trained, encoding in learned.values():
        assert encoding.columns[-1].missing
        expected = None
        given = {"encoding": encoding}
        for name, opened in {trained: sources[trained], **sources}.items():
            columns = {} if name in FRAMES else {"columns": encoding.column_names}
            X, unknown = rows_of(opened(**given, **columns))
            assert not unknown, f"{name} has values that training on {trained} never saw: {encoding.columns}"
            expected = X if expected is None else expected
            np.testing.assert_array_equal(X, expected, err_msg=f"trained on {trained}, read from {name}")
