"""A date is the same instant in every format, unit and library, or it is refused: it is never another year."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.opening import open_source
from dkernel.data.writers.formats import Csv
from dkernel.errors import DataError
from tests.data.blocks import read_kept

DATES = [dt.datetime(*day) for day in ((1, 1, 1), (1500, 2, 28), (1677, 9, 20), (1969, 12, 31), (2024, 3, 1))]
DATES += [dt.datetime(*day) for day in ((2262, 4, 12), (2263, 1, 1), (9999, 12, 31))]
SECONDS = np.array([(date - dt.datetime(1970, 1, 1)).total_seconds() for date in DATES])
UNITS = {str(t): t for t in (pa.date32(), pa.date64(), *map(pa.timestamp, ("s", "ms", "us")))}
UNITS["zone"] = pa.timestamp("us", "+05:30")


def table_of(type_: pa.DataType) -> pa.Table:
    instants = pa.array(SECONDS.astype("datetime64[s]"))
    instants = instants.cast(type_) if not pa.types.is_timestamp(type_) else instants.cast(pa.int64()).cast(
        pa.timestamp("s", type_.tz)
    ).cast(type_)  # fmt: skip
    return pa.table({"x": np.arange(len(DATES)) / 4, "when": instants})


def seconds_in(source) -> np.ndarray:
    """The seconds since 1970 that a source reads, in the order of its rows."""
    column = next(column for column in source.encoding.columns if column.name == "when")
    place = source.encoding.positions["when"][0]
    return source.X[:, place].compute(scheduler="sync") + column.offset


def write_int96(table: pa.Table, path) -> None:
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)


SETTINGS = {"dtype": "float64", "dates": "seconds", "missing": "indicator"}


@pytest.mark.parametrize("digits", ["1", "123", "1234567", "123456789"])
@pytest.mark.parametrize("form", ["{}T10:00:00.{}Z", "{} 10:00:00.{}", "{}T11:00:00.{}+01:00"])
def test_text_with_parts_of_a_second_is_a_date_of_its_microseconds(form, digits, tmp_path):
    rows = [form.format(f"{date:%Y-%m-%d}".rjust(10, "0"), digits) for date in DATES]
    (tmp_path / "t.csv").write_text("x,when\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows)))
    expected = SECONDS * 10**6 + 36_000 * 10**6 + int(digits[:6].ljust(6, "0"))
    found = seconds_in(open_source(tmp_path / "t.csv", **SETTINGS))
    np.testing.assert_allclose(found, expected * 1e-6, rtol=0, atol=1e-4)  # 1e11 s has no more digits in float64
    valid = open_source(tmp_path / "t.csv", max_bad_rows=1, **SETTINGS)
    assert valid.n_rows == len(DATES)


@pytest.mark.parametrize("kept_as", ["types", "text"])
def test_int96_is_the_same_instant_or_refused(kept_as, tmp_path):
    path = tmp_path / "t.parquet"
    write_int96(table_of(pa.timestamp("us")), path)
    np.testing.assert_array_equal(seconds_in(open_source(path, **SETTINGS)), SECONDS)
    assert read_kept(open_source(path, columns=["x"], keep="when", kept_as=kept_as))["when"].to_pylist() == DATES
    exact = pa.table({"x": [0.0, 1.0], "when": pa.array([5, None], pa.timestamp("ns"))})
    write_int96(exact, path)
    with pytest.raises(DataError, match="'when' has INT96 timestamps with nanoseconds"):
        read_kept(open_source(path, columns=["x"], keep="when"))


def test_years_beyond_microseconds_are_numbers_and_no_text(tmp_path):
    far = pa.table({"x": [0.0, 1.0], "when": pa.array([0, 2**45], pa.timestamp("s"))})
    np.testing.assert_array_equal(seconds_in(from_arrays(far.to_pandas(), **SETTINGS)), [0, 2**45])
    with pytest.raises(DataError, match="'when' holds dates of years that CSV has no text for"):
        Csv().stage([far], tmp_path / "part.csv")


def test_dates_of_which_some_have_a_time_are_refused():
    frame = pd.DataFrame({"x": [0.0, 1.0], "when": [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 5)]})
    for one in (frame, frame[::-1]):
        with pytest.raises(DataError, match="olumn 'when'"):
            seconds_in(from_arrays(one, **SETTINGS))


ONE_WAY = [
    ["2024-01-01 10:00:00 UTC", "2024-01-02 10:00:00 UTC"],
    ["2024-01-01 10:00:00+0000", "2024-01-02 10:00:00 UTC"],
    ["2024-01-01T10:00:00Z", "2024-01-02T12:00:00+02:00"],
    ["2024-01-01 10:00:00.000", "2024-01-02 10:00:00"],
]
SEVERAL_WAYS = [
    ["2024-01-01T10:00:00Z", "2024-01-01T10:00:00"],
    ["2024-01-01", "0000-00-00"],
    ["2024-01-01 24:00:00", "2024-01-01 10:00:00"],
    ["2024-01-01 10:00:00;123", "2024-01-01 10:00:00;456"],
]


@pytest.mark.parametrize("texts", ONE_WAY + SEVERAL_WAYS, ids=str)
def test_texts_of_dates_are_dates_or_refused_but_no_category(texts, tmp_path):
    rows = "".join(f'{i},"{text.replace(";", ",")}"\n' for i, text in enumerate(texts * 3))
    (tmp_path / "t.csv").write_text(f"x,when\n{rows}")
    if texts in ONE_WAY:
        expected = [1704103200, 1704189600] * 3
        assert seconds_in(open_source(tmp_path / "t.csv", **SETTINGS)).tolist() == expected
        return
    with pytest.raises(
        DataError, match=r"'when': dates such as .* have no common form: write all as 2024-12-31, all with"
    ):
        open_source(tmp_path / "t.csv", **SETTINGS)
    assert open_source(tmp_path / "t.csv", categorical=("when",)).encoding.kinds["when"] == "category"


def test_durations_of_a_csv_have_their_unit(tmp_path):
    spans = [dt.timedelta(1), None, dt.timedelta(-1, 1, 5)]
    Csv().stage([pa.table({"span": pa.array(spans, pa.duration("us")), "n": [1, 2, 3]})], tmp_path / "part.csv")
    read = pd.read_csv(tmp_path / "part.csv", names=["span", "n"])
    assert pd.to_timedelta(read["span"]).tolist() == [pd.Timedelta(spans[0]), pd.NaT, pd.Timedelta(spans[2])]


def write_times(kind: str, values: list[int], path) -> None:
    times = np.array(values * 3, "i8").view(kind)
    records = np.zeros(len(times), [("when", kind), ("label", "i8")])
    records["when"], records["label"] = times, np.arange(len(times)) % 2
    np.save(path, records)


@pytest.mark.parametrize(
    ("unit", "step", "seconds"),
    [("D", 10**6, 864e8), ("ps", 10**12, 1.0), ("fs", 10**15, 1.0), ("as", 10**18, 1.0), ("25us", 10**6, 25.0)],
)
@pytest.mark.parametrize("letter", "Mm")
def test_times_of_numpy_in_a_unit_that_arrow_lacks_are_the_same(letter, unit, step, seconds, tmp_path):
    """Those in picoseconds lost their part of a second."""
    write_times(f"{letter}8[{unit}]", [3 * step // 2, step, step // 4], tmp_path / "a.npy")
    source = open_source(tmp_path / "a.npy", label="label")
    found = source.X.compute()[:, 0] + source.encoding.columns[0].offset
    np.testing.assert_allclose(found[:3], np.array([1.5, 1, 0.25]) * seconds, rtol=1e-6)


@pytest.mark.parametrize("kind", ["M8[Y]", "M8[W]", "M8[h]", "m8[h]", "m8[W]", "M8[100s]"])
def test_times_of_numpy_that_no_unit_of_arrow_holds_are_refused(kind, tmp_path):
    """They were other years: numpy says no word where seconds overflow."""
    write_times(kind, [10**17, 5, 9], tmp_path / "a.npy")
    with pytest.raises(
        DataError, match=r"The column 'when' is of \w+64\[.*\] and has values beyond 64 bits of the unit"
    ):
        open_source(tmp_path / "a.npy", label="label").X.compute()
