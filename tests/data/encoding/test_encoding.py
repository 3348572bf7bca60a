"""Encodings: equal to scikit-learn's encoders on small tables, the same however the rows are cut, and JSON."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from dkernel.data.arrow import column_numbers
from dkernel.data.encoding import CategoryColumn, Encoding, NumberColumn, TableCounts
from dkernel.data.encoding.columns import ONE_HOT
from dkernel.data.encoding.counts import MOST_LEVELS, MOST_VALUES, CategoryCount
from dkernel.data.encoding.words import code_column
from dkernel.errors import DataError

KINDS = {"x": "number", "s": "category", "z": "number"}


def table(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "s": rng.choice(list("cab"), n), "z": rng.integers(0, 9, n)})
    frame.loc[rng.random(n) < 0.1, "x"] = np.nan
    frame.loc[rng.random(n) < 0.1, "s"] = None
    return frame


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def learned(frame: pd.DataFrame, kinds: dict[str, str] = KINDS, missing: str = "indicator") -> Encoding:
    return TableCounts.of(arrow(frame), kinds).encoding(kinds, missing)


def test_inputs_are_those_of_scikit_learn():
    frame, new = table(), table(50, 1)
    new.loc[0, "s"] = "unknown"
    theirs = ColumnTransformer(
        [
            ("x", SimpleImputer(add_indicator=True), ["x"]),
            ("s", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["s"]),
            ("z", "passthrough", ["z"]),
        ]
    ).fit(frame)
    X = learned(frame).encode(arrow(new), "float64")[0]
    scale = np.array([1, 1, ONE_HOT, ONE_HOT, ONE_HOT, ONE_HOT, 1])
    np.testing.assert_allclose(X, theirs.transform(new) * scale, rtol=1e-14)


def test_names_say_column_and_level():
    assert learned(table()).names == ("x", "x=missing", "s=a", "s=b", "s=c", "s=missing", "z")


@pytest.mark.parametrize("missing", ["mean", "error"])
def test_mean_and_error_have_no_indicator(missing):
    encoding = learned(table(), missing=missing)
    assert encoding.names == ("x", "s=a", "s=b", "s=c", "s=missing", "z")
    X = encoding.encode(arrow(table()))[0]
    assert np.isnan(X).any() == (missing == "error")


def test_parts_merge_to_the_whole():
    frame = table(1000)
    total = None
    for first in range(0, 1000, 130):
        part = TableCounts.of(arrow(frame[first : first + 130]), KINDS)
        total = part if total is None else total.merge(part)
    one, whole = total.encoding(KINDS), learned(frame)
    assert one.columns[1:] == whole.columns[1:]
    assert one.columns[0].mean == pytest.approx(whole.columns[0].mean, rel=1e-13)


def test_what_training_never_saw_is_marked_and_counted():
    encoding = learned(table()[["z", "s"]].fillna("a"), {"z": "number", "s": "category"})
    new = pa.table({"z": pa.array([1, None, None, 3]), "s": ["a", "new", None, "b"]})
    X, marks = encoding.encode(new, "float64")
    assert encoding.count_marks(marks) == {"missing": {"z": 2, "s": 1}, "unknown": {"s": 1}}
    assert X[1, 0] == X[2, 0] == encoding.columns[0].mean
    assert (X[1:3, 1:] == 0).all()
    assert encoding.encode(new.slice(0, 1))[1] is None


def test_a_category_is_the_same_in_every_type():
    wanted = (["7", None], [0, 1, 0])
    for values in (pa.array([7, None, 7], pa.int16()), pa.array([7.0, None, 7.0]), pa.array(["7", "", "7"]),
                   pa.array(["7", None, "7"]).dictionary_encode(), pa.chunked_array([["7", None], ["7"]])):  # fmt: skip
        words, codes = code_column(values)
        assert [words[code] for code in codes] == [wanted[0][code] for code in wanted[1]]


def test_dates_are_seconds_from_the_first():
    days = pd.date_range("2024-01-01", periods=5, freq="D")
    frame = pd.DataFrame({"d": days})
    encoding = learned(frame, {"d": "date"})
    expected = np.arange(5) * 86400.0
    types = pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms"), pa.date32(), pa.date64()
    for kind in types:
        column = pa.array(days.to_pydatetime()).cast(pa.timestamp("s")).cast(kind)
        assert encoding.encode(pa.table({"d": column}))[0][:, 0].tolist() == expected.tolist()
    assert column_numbers(pa.array([1, None], pa.duration("ms"))).tolist()[0] == 1e-3
    assert column_numbers(pa.array([60], pa.time32("s"))).tolist() == [60.0]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_of_another_zone_than_those_of_training_are_refused(zone):
    here, there = pa.timestamp("us", zone), pa.timestamp("s", None if zone else "Europe/Rome")
    table = pa.table({"d": pa.array([0, 3600_000_000], pa.int64()).cast(here)})
    encoding = TableCounts.of(table, {"d": "date"}).encoding({"d": "date"})
    assert Encoding.from_json(encoding.to_json()) == encoding
    encoding.encode(pa.table({"d": pa.nulls(2, there)}))  # nothing is there, so nothing has another zone
    with pytest.raises(DataError, match="Column 'd': the times have"):
        encoding.encode(pa.table({"d": table["d"].cast(there)}))
    with pytest.raises(DataError, match="with a zone and times without"):
        TableCounts.of(table, {"d": "date"}).merge(
            TableCounts.of(pa.table({"d": table["d"].cast(there)}), {"d": "date"})
        ).encoding({"d": "date"})


def test_many_values_take_bounded_memory_and_the_frequent_ones_are_found():
    rng = np.random.default_rng(3)
    total = None
    for part in range(20):
        often = rng.integers(0, 50, 5000)
        values = np.where(rng.random(5000) < 0.5, often, 10**6 * (part + 1) + rng.integers(0, 10**5, 5000))
        counts = CategoryCount.of(*code_column(pa.array(values.astype(str))))
        total = counts if total is None else total.merge(counts)
        assert len(total.counts) <= MOST_VALUES
    column = total.column("s")
    assert not total.exact
    assert len(column.levels) <= MOST_LEVELS
    assert {str(i) for i in range(50)} <= set(column.levels)
    X, marks = Encoding((column,)).encode(pa.table({"s": ["never seen", "7", None]}))
    assert ((X[0] > 0).sum(), (X[1] > 0).sum()) == (0, 1)
    assert marks[:, 0].tolist() == [0, 0, 1]  # of values without an input not all are kept


def test_different_values_alone_are_said_to_be_identifiers():
    counts = TableCounts.of(pa.table({"id": [f"row {i}" for i in range(500)]}), {"id": "category"})
    assert "id" in counts.notes({"id": "category"})["identifiers"]


def test_a_column_without_values_is_said_to_be_empty():
    counts = TableCounts.of(pa.table({"x": pa.nulls(5, pa.float64())}), {"x": "number"})
    assert counts.notes({"x": "number"})["empty"].startswith("x")
    assert counts.encoding({"x": "number"}).encode(pa.table({"x": pa.nulls(2, pa.float64())}))[0].tolist() == [
        [0, 1],
        [0, 1],
    ]


def amounts(n: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Amounts of which most are 0, and some come again and again; of a range; and a count of few values."""
    rng = np.random.default_rng(seed)
    gain = np.where(rng.random(n) < 0.8, 0.0, rng.choice([*np.arange(1000.0, 1040.0), 7688.0, 99999.0], n))
    once = rng.random(n) < 0.05
    gain[once] = rng.normal(size=once.sum()) * 1e6
    gain[rng.random(n) < 0.05] = np.nan
    columns = {
        "gain": gain,
        "wide": rng.normal(size=n),
        "few": rng.poisson(8, n) * (rng.random(n) < 0.4),
        "s": rng.choice(["a", "b"], n),
    }
    return pd.DataFrame(columns)


AMOUNTS = {"gain": "number", "wide": "number", "few": "number", "s": "category"}


def test_frequent_values_of_a_number_get_inputs_of_their_own():
    frame = amounts()
    encoding = learned(frame, AMOUNTS)
    gain, wide, few, _ = encoding.columns
    assert gain.levels == (0.0, *np.arange(1000.0, 1040.0), 7688.0, 99999.0)
    assert wide.levels == few.levels == ()
    assert encoding.groups[0] == tuple(range(1, 2 + len(gain.levels)))  # with the input of missing values
    assert "gain 43" in TableCounts.of(arrow(frame), AMOUNTS).notes(AMOUNTS)["codes"]
    new = pa.table({"gain": pa.array([7688, 5, None], pa.int64()), "wide": [0.0] * 3, "few": [0] * 3, "s": ["a"] * 3})
    X, marks = encoding.encode(new, "float64")
    assert [encoding.names[j] for j in np.flatnonzero(X[0, 1:45]) + 1] == ["gain=7688"]
    assert X[0, 43] == ONE_HOT
    assert not X[1, 1:45].any()
    assert X[2, 1:45].tolist() == [1.0] + [0.0] * 43
    assert marks is None
    assert NumberColumn("x", 0.0, levels=(float(np.float32(0.3)), 2.0)).names == ("x", "x=0.3", "x=2")
    single = arrow(frame.astype({"gain": "float32"}))
    np.testing.assert_array_equal(encoding.encode(single)[0][:, 1:], encoding.encode(arrow(frame))[0][:, 1:])


def test_a_table_of_numbers_alone_keeps_its_width():
    numbers_alone = {name: kind for name, kind in AMOUNTS.items() if kind == "number"}
    assert learned(amounts(), numbers_alone).names == ("gain", "gain=missing", "wide", "few")
    assert learned(amounts(), AMOUNTS, "error").columns[0].levels


@pytest.mark.parametrize("ordered", [False, True])
def test_levels_are_the_same_however_the_rows_are_cut(ordered):
    frame = amounts()
    if ordered:  # the first parts hold 0 alone, and the last ones none of them
        frame = frame.sort_values("gain", key=abs)
    cuts = [TableCounts.of(arrow(frame[first : first + 300]), AMOUNTS) for first in range(0, 2000, 300)]
    total = cuts[0]
    for part in cuts[1:]:
        total = total.merge(part)
    assert total.encoding(AMOUNTS).names == learned(amounts(), AMOUNTS).names


def test_json_gives_the_encoding_again():
    encoding = Encoding(
        (
            NumberColumn("x", 0.1, True, levels=(-0.5, 3.0)),
            NumberColumn("d", 5.0, offset=1.7e9, kind="date"),
            CategoryColumn("s", ("é",)),
        )
    )
    assert Encoding.from_json(encoding.to_json()) == encoding


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "code"},
        {"mean": float("inf")},
        {"mean": "1"},
        {"indicator": 1},
        {"name": 3},
        {"levels": 1.0},
        {"levels": [1.0, 1.0]},
        {"levels": [float("nan")]},
        {"levels": ["1"]},
        {"levels": [1.0], "kind": "date"},
    ],
)
def test_json_that_means_nothing_is_refused(change):
    found = Encoding((NumberColumn("x", 0.1),)).to_json()
    found["columns"][0] |= change
    with pytest.raises((ValueError, TypeError)):
        Encoding.from_json(found)


def test_a_plain_encoding_leaves_numbers_as_they_are():
    X = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    encoding = Encoding.of_means(["a", "b"], np.array([1.0, 2.0]))
    assert encoding.encode(X)[0] is X
    X[3, 1] = np.nan
    filled, marks = encoding.encode(X)
    assert filled[3, 1] == 2.0
    assert encoding.count_marks(marks) == {"missing": {"b": 1}}


def test_a_calendar_is_the_year_and_points_on_circles():
    times = pd.Series(pd.to_datetime(["2024-01-01 00:00", "2024-07-03 06:30", None, "1969-12-31 23:59"]))
    table, kinds = pa.table({"when": times}), {"when": "date"}
    encoding = TableCounts.of(table, kinds).encoding(kinds, dates="calendar")
    cycles = [f"when.{part}.{axis}" for part in ("month", "weekday", "hour") for axis in ("sin", "cos")]
    assert encoding.names == ("when", "when=missing", "when.year", *cycles)
    X, _ = encoding.encode(table, "float64")
    there = times.dropna()
    np.testing.assert_array_equal(X[[0, 1, 3], 2], there.dt.year)
    hour = there.dt.hour + there.dt.minute / 60
    for j, (place, period) in enumerate([(there.dt.month - 1, 12), (there.dt.day_of_week, 7), (hour, 24)]):
        angle = 2 * np.pi * place / period
        np.testing.assert_allclose(X[[0, 1, 3], 3 + 2 * j], 0.5 * np.sin(angle), atol=1e-12)
        np.testing.assert_allclose(X[[0, 1, 3], 4 + 2 * j], 0.5 * np.cos(angle), atol=1e-12)
    assert X[2, 1] == 1
    assert (X[2, 3:] == 0).all()
    assert encoding.unscaled.tolist() == [False, True, False, *[True] * 6]
    assert encoding.groups == ((1,),)
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding
