"""The law of the gate: the same rows have the same schema, model and answers by any door, or are refused by all.

Tables are drawn from types; a door is a way in which rows reach a fit or a model.
"""

import datetime as dt
from decimal import Decimal

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

import dkernel
from dkernel.errors import DKernelError
from dkernel.model.model_file import compute_digest

N = 48
MOMENT = dt.datetime(2024, 2, 28, 23, 30)
HOUR = dt.timedelta(hours=1)
SETTINGS = {"kernel": "gaussian", "gamma": 1.0, "n_components": 8, "alpha": 1e-3, "local": "none", "scale": "standard"}

# Type -> the type of Arrow, a value of a number from 0 to 11, and whether a CSV shows the value as what it is.
TYPES = {
    "bool": (pa.bool_(), lambda k: k % 3 == 0, True),
    "int8": (pa.int8(), lambda k: k - 5, True),
    "int64": (pa.int64(), lambda k: 1000 * k, True),
    "uint16": (pa.uint16(), int, True),
    "float32": (pa.float32(), lambda k: k / 4, True),
    "float64": (pa.float64(), lambda k: k / 10, True),
    "decimal": (pa.decimal128(12, 2), lambda k: Decimal(k) / 4, True),
    "whole decimal": (pa.decimal128(38, 0), Decimal, True),
    "text": (pa.string(), lambda k: "abcdefghijkl"[k], True),
    "large text": (pa.large_string(), lambda k: f"word {k}", True),
    "bytes": (pa.binary(), lambda k: b"xyz"[k % 3 : k % 3 + 1], True),
    "codes": (pa.string(), lambda k: f"0{k % 7}", False),
    "versions": (pa.string(), lambda k: f"1.{k}.2", True),
    "ranges": (pa.string(), lambda k: f"{k}0-{k}9", True),
    "category": (pa.dictionary(pa.int8(), pa.string()), lambda k: "uvw"[k % 3], True),
    "date": (pa.date32(), lambda k: (MOMENT + k * 24 * HOUR).date(), True),
    "moment, s": (pa.timestamp("s"), lambda k: MOMENT + k * HOUR, True),
    "moment, ns": (pa.timestamp("ns"), lambda k: MOMENT + k * HOUR, True),
    "moment, UTC": (pa.timestamp("us", "UTC"), lambda k: (MOMENT + k * HOUR).replace(tzinfo=dt.UTC), True),
    "moment, zone": (pa.timestamp("us", "Europe/Rome"), lambda k: (MOMENT + k * HOUR).replace(tzinfo=dt.UTC), False),
    "dates as text": (pa.string(), lambda k: str((MOMENT + k * 24 * HOUR).date()), True),
    "moments as text": (pa.string(), lambda k: (MOMENT + k * HOUR).isoformat(), True),
    "duration": (pa.duration("s"), lambda k: k * HOUR, False),
    "nothing": (pa.null(), lambda _: None, True),
    "lists": (pa.list_(pa.int64()), lambda k: [k], False),
    "other dates": (pa.string(), lambda k: (MOMENT + k * 24 * HOUR).strftime("%d.%m.%Y"), True),
    "amounts": (pa.string(), lambda k: f"{k + 1},234.50", True),
}


@st.composite
def tables(draw):
    """A table of a column of numbers and one or two others, some with gaps; the label is last."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=2, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    columns = {"x": pa.array(rng.normal(size=N).round(3))}
    for name in names:
        kind, make, _ = TYPES[name]
        gap = draw(st.sampled_from([0, 0, 0.2]))
        values = [None if rng.random() < gap else make(int(k)) for k in rng.integers(0, 12, N)]
        columns[name] = pa.array(values, kind)
    shows = all(TYPES[name][2] for name in names)
    return pa.table({**columns, "y": pa.array(np.arange(N) % 2)}), shows


def as_pandas(table):
    return table.drop_columns("y").to_pandas()


def as_arrow_dtypes(table):
    return table.drop_columns("y").to_pandas(types_mapper=pd.ArrowDtype)


def as_dask(table):
    with dask.config.set({"dataframe.convert-string": False}):  # Dask itself would make text of objects
        return dd.from_pandas(as_pandas(table), npartitions=1)


def as_turned_dask(table):
    """A partition whose columns stand in another order than Dask has been told."""
    frame = as_pandas(table)
    turned = frame[frame.columns[::-1]]
    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_map(lambda _: turned, [0], meta=frame.iloc[:0], enforce_metadata=False)


FRAMES = [as_pandas, as_arrow_dtypes, as_dask, as_turned_dask]


def as_stream(table):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=20))


def write_parquet(table, folder):
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def write_csv(table, folder):
    table = table.set_column(
        0, "x", pa.array([f"{v:.3f}" for v in table["x"].to_pylist()])
    )  # as many decimals as there are
    plain = pa.table({n: _as_csv_has_it(c) for n, c in zip(table.column_names, table.columns, strict=True)})
    arrow_csv.write_csv(plain, folder / "t.csv", arrow_csv.WriteOptions(quoting_style="needed"))
    return folder / "t.csv"


def _as_csv_has_it(column):
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    return column.cast(pa.string()) if pa.types.is_binary(kind) or pa.types.is_decimal(kind) else column


def write_npz(table, folder):
    """Arrays of a value a row; None where numpy has no type for gaps, zones or decimals."""
    kinds = [column.type for column in table.columns]
    if any(column.null_count for column in table.columns) or any(
        pa.types.is_null(k) or pa.types.is_nested(k) or pa.types.is_decimal(k) or getattr(k, "tz", None) for k in kinds
    ):
        return None
    arrays = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_numpy()
        arrays[name] = values.astype("M8[D]") if pa.types.is_date32(column.type) else values
        if values.dtype == object and arrays[name] is values:
            arrays[name] = np.array(values.tolist())
    np.savez(folder / "t.npz", **arrays)
    return folder / "t.npz"


def outcome_of(fit):
    """What a fit by one door comes to: the schema and the digest of its model, or the refusal."""
    try:
        machine = fit()
    except DKernelError:
        return "refused", ""
    return machine.schema_, compute_digest(machine.model_)


def fit_frame(frame):
    y = pd.Series(np.arange(N) % 2, name="y")
    y = dd.from_pandas(y, npartitions=1) if isinstance(frame, dd.DataFrame) else y
    return dkernel.KernelClassifier(**SETTINGS).fit(frame, y)


def fit_file(path):
    return dkernel.KernelClassifier(**SETTINGS).fit(dkernel.open_source(path, label="y"))


@given(tables())
def test_the_same_rows_by_any_door_make_the_same_model_or_are_refused(tmp_path_factory, drawn):
    table, shows = drawn
    folder = tmp_path_factory.mktemp("gate")
    doors = {"parquet": lambda: fit_file(write_parquet(table, folder))}
    doors |= {make.__name__: lambda make=make: fit_frame(make(table)) for make in FRAMES}
    doors["stream"] = lambda: dkernel.KernelClassifier(**SETTINGS).fit(as_stream(table), "y")
    if (path := write_npz(table, folder)) is not None:
        doors["npz"] = lambda: fit_file(path)
    if shows:
        doors["csv"] = lambda: fit_file(write_csv(table, folder))
    found = {name: outcome_of(fit) for name, fit in doors.items()}
    first = found["parquet"]
    assert all(each == first for each in found.values()), {name: each for name, each in found.items() if each != first}


def scores_of(frame, machine):
    found = machine.decision_function(frame)
    return np.asarray(found.compute() if hasattr(found, "compute") else found)


def scores_of_file(path, machine, folder):
    out = folder / f"{path.suffix[1:]}.scores.parquet"
    dkernel.score(machine, str(path), str(out), exclude=["y"], write=["score"])
    return pq.read_table(out)["score"].to_numpy()


@given(tables())
def test_a_model_scores_the_same_rows_alike_by_any_door(tmp_path_factory, drawn):
    table, shows = drawn
    folder = tmp_path_factory.mktemp("gate")
    path = write_parquet(table, folder)
    try:
        machine = fit_file(path)
    except DKernelError:
        return
    expected = machine.decision_function(as_pandas(table))
    for make in FRAMES:
        np.testing.assert_array_equal(scores_of(make(table), machine), expected, err_msg=make.__name__)
    files = [path, write_csv(table, folder)] if shows else [path]
    if (arrays := write_npz(table, folder)) is not None:
        files.append(arrays)
    for file in files:
        np.testing.assert_array_equal(scores_of_file(file, machine, folder), expected, err_msg=file.name)
