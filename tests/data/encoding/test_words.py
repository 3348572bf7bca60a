"""The word of a value of a category: of each type, in each spelling, and where texts stay the texts that they are."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dkernel.data.encoding import CategoryColumn, Encoding, TableCounts
from dkernel.data.encoding.words import in_kind, kind_among, kinds_in, to_words


def column_of(*parts, label=None) -> CategoryColumn:
    """The column that training on these parts learns."""
    total, first = None, 0
    for part in parts:
        table = pa.table({"c": part})
        own = None if label is None else label[first : first + len(part)]
        counts = TableCounts.of(table, {"c": "category"}, own, None, first)
        total, first = counts if total is None else total.merge(counts), first + len(part)
    return total.encoding({"c": "category"}).columns[0]


@pytest.mark.parametrize(
    ("kind", "word", "texts"),
    [
        ("number", "1", ["1", "1.0", "01", "+1", "1e0", "1.00", "True"]),
        ("number", "0", ["0", "-0", "-0.0", "0.00"]),
        ("number", "0.1", ["0.1", "0.10", "1e-1", "0.10000000149011612"]),
        ("number", "10000000000000000", ["1e16", "1e+16", "1E16", "10000000000000000.0"]),
        ("number", "1e+22", ["1e22", "1E+22", "10000000000000000000000"]),
        ("number", "9007199254740993", ["9007199254740993"]),
        ("number", "-86400.5", ["-2 days +23:59:59.5", "-86400.50"]),
        ("number", "one", ["one"]),
        ("%03d", "007", ["7", "07", "007", "7.0"]),
        ("%.2f", "1.50", ["1.5", "1.500", "1.50"]),
        ("%.2f", "1.555", ["1.555"]),
        ("bool", "True", ["true", "True", "TRUE", "1", "1.0"]),
        ("bool", "yes", ["yes"]),
        (
            "date",
            "2024-01-01",
            ["2024-01-01", "2024-01-01 00:00:00.000", "2024-01-01T00:00Z", "2024-01-01 02:00+02:00"],
        ),
        ("date", "2024-13-45", ["2024-13-45"]),
        ("date", "2024-01-01 00:00:00.000000001", ["2024-01-01 00:00:00.000000001"]),
        ("time", "01:00:00", ["01:00", "01:00:00", "01:00:00.000000"]),
        ("text", "1.0", ["1.0"]),
    ],
)
def test_spellings_of_a_value_have_one_word(kind, word, texts):
    assert [in_kind(text, kind) for text in texts] == [word] * len(texts)
    assert in_kind(word, kind) == word


@pytest.mark.parametrize(
    "texts",
    [
        ["1", "01"],
        ["3.1", "3.10"],
        ["1E1", "10"],
        ["true", "yes"],
        ["2024-01-01", "soon"],
        ["0" * 25 + "1", "1" * 26],
        ["1" * 25, "1" * 24 + "2"],
        ["2024-01-01-05", "2024-01-01-06"],
        ["24:00", "23:00"],
        ["0" * 40, "0" * 39 + "1"],
        ["٣", "3"],
    ],
)
def test_texts_that_are_not_all_written_alike_stay_as_they_are(texts):
    column = column_of(pa.array(texts))
    assert column.values == "text"
    assert column.levels == tuple(sorted(texts))


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "2.0", "1e-09", "-3"], "number"),
        (["1", "1.0"], "number"),
        (["02138", "10115"], "%05d"),
        (["1.50", "12.00"], "%.2f"),
        (["true", "FALSE"], "bool"),
        (["2024-01-01", "1999-12-31 23:59:59+01:00"], "date"),
        (["01:00", "02:00:00.5"], "time"),
        (["1 days", "0 days 00:01:00"], "duration"),
    ],
)
def test_texts_of_one_kind_are_values_of_it(texts, kind):
    assert kind_among(kinds_in([None, *texts])) == kind
    assert column_of(*(pa.array([text]) for text in texts)).values == kind  # however the rows are cut


def test_values_of_one_word_share_a_level_and_its_means():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 150, 3000)
    y = codes % 7 + 0.1 * rng.normal(size=3000)
    mixed = pa.array(
        [f"{code}.0" if odd else str(code) for code, odd in zip(codes, rng.random(3000) < 0.5, strict=True)]
    )
    one, other = column_of(mixed, label=y), column_of(pa.array(codes), label=y)
    assert one.levels == other.levels
    assert one.means.outputs == other.means.outputs
    assert [word for word, _ in one.means.values] == [word for word, _ in other.means.values]
    for mine, theirs in zip((one.means, *one.folds), (other.means, *other.folds), strict=True):
        np.testing.assert_allclose([x for _, x in mine.values], [x for _, x in theirs.values], rtol=1e-12)


def test_an_encoding_keeps_the_kind_of_the_values():
    encoding = Encoding((column_of(pa.array([True, False])), column_of(pa.array(["a"]))))
    stored = encoding.to_json()
    assert [column.get("values") for column in stored["columns"]] == ["bool", None]
    assert Encoding.from_json(stored) == encoding
    for wrong in ("digits", "%s", "%2d", "%0999999d", 3):
        stored["columns"][0]["values"] = wrong
        with pytest.raises(ValueError, match="values of a category"):
            Encoding.from_json(stored)


def test_a_column_of_mixed_types_between_parts_has_the_words_of_both():
    assert column_of(pa.array([1, 2]), pa.array(["x"])).levels == ("1", "2", "x")
    assert column_of(pa.array([1, 2]), pa.array(["1.0"])).levels == ("1", "2")
    assert column_of(pa.nulls(2), pa.array([dt.date(2024, 1, 1)])).values == "date"


def test_values_of_other_types_have_texts():
    assert to_words(pa.array([float("nan"), float("inf"), -0.0])) == [None, "inf", "0"]
    assert to_words(pa.array([dt.time(1)], pa.time64("ns"))) == ["01:00:00"]
    assert to_words(pa.array(pd.to_datetime(["1677-09-22"]))) == ["1677-09-22"]
    assert to_words(pa.array([b"ab"])) == ["b'ab'"]
    assert in_kind("9" * 5000, "number") == "inf"  # Python reads no integer of so many digits
