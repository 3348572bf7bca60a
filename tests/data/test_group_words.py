"""The words of groups, and the times of rows: of equal values the same, whatever type holds them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dkernel.data.division import times_in
from dkernel.data.group_words import group_words
from dkernel.errors import DataError

NUMBERS = {"type": [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2)]}
DAYS = [dt.datetime(2024, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59), dt.datetime(1500, 2, 3, 4)]
DATES = [pa.array(DAYS, pa.timestamp(unit)) for unit in ("s", "ms", "us")]
DATES += [each.cast(pa.timestamp("us", zone)) for each in DATES for zone in ("UTC", "America/Lima")]
DATES += [pa.array([sign.join(str(day).split()) for day in DAYS]) for sign in " T"]
DATES += [pa.array([f"{day}{zone}" for day in DAYS]) for zone in ("Z", "+00:00", " UTC")]
TABLE = {
    "whole numbers": [
        pa.array(np.array([3, 12, 0], "e") if kind == pa.float16() else [3, 12, 0], kind) for kind in NUMBERS["type"]
    ]
    + [pa.array(["3", "12.0", "0"])],
    "fractions": [
        pa.array([0.1, 2.5], pa.float32()),
        pa.array([0.1, 2.5]),
        pa.array([Decimal("0.10"), Decimal("2.50")]),
    ],
    "dates": DATES,
    "days": [pa.array(DAYS[:1]).cast(kind) for kind in (pa.date32(), pa.date64(), pa.timestamp("ns"))]
    + [pa.array([text]) for text in ("2024-01-01", "2024-01-01 00:00:00", "2024-01-01T02:00:00.000+02:00")],
    "truth": [pa.array([True, False]), pa.array(["true", "false"]), pa.array(["TRUE", "FALSE"])],
    "text": [pa.array(["a", "007"]), pa.array(["a", "007"]).dictionary_encode(), pa.array([b"a", b"007"])]
    + [pa.array([b"a", b"007"], kind) for kind in (pa.large_binary(), pa.binary_view())],
}


@pytest.mark.parametrize("name", TABLE)
def test_equal_groups_have_equal_words(name):
    first, *others = [group_words(pa.chunked_array([column])).tolist() for column in TABLE[name]]
    assert len(set(first)) == len(first)
    assert [each for each in others if each != first] == []
    frames = [group_words(column.to_pandas()).tolist() for column in TABLE[name]]
    assert [each for each in frames if each != first] == []
    assert group_words(first).tolist() == first, "the word of a word is itself"


@pytest.mark.parametrize("name", ["whole numbers", "fractions", "dates", "days"])
def test_equal_times_are_equal_numbers(name):
    columns = [
        each for each in TABLE[name] if not (name in ("whole numbers", "fractions") and each.type == pa.string())
    ]
    times = [times_in(pa.table({"t": column}), "t") for column in columns]
    for each in times[1:]:
        np.testing.assert_allclose(each, times[0], rtol=1e-7)
    order = np.argsort(times[0]).tolist()
    assert order == sorted(order, key=lambda i: columns[0][i].as_py())


@pytest.mark.parametrize(
    "values", [[1.0, np.nan], [None, "a"], ["", "a"], [pd.NaT, pd.Timestamp("2024-01-01")], [1, "a", 2.5j], [[1], [2]]]
)
def test_groups_without_words_are_refused(values):
    with pytest.raises(DataError, match="groups holds"):
        group_words(np.array(values, object))


@pytest.mark.parametrize("values", [[None, 1.5], [np.nan, 1.5], [None, dt.date(2024, 1, 1)], ["", "2024-01-01"]])
def test_a_missing_time_is_refused(values):
    with pytest.raises(DataError, match="missing value"):
        times_in(pa.table({"t": values}), "t")
