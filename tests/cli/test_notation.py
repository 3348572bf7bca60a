"""Texts that are numbers or dates in another notation are refused by name, and never a category without a word."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dkernel
from dkernel.data.collections.arrays import from_arrays
from dkernel.data.encoding.notation import find_example, remark_on
from dkernel.errors import DataError

NUMBERS = [
    "0,5",
    "-1.234,5",
    "1,234.5",
    "1 234",
    "1'000",
    "7 %",
    "7%",
    "$12.50",
    "12.50 €",
    "(12)",
    "\u22120.5",
    ".5 %",
    " 0.5",
]
DATES = ["5/1/2024", "05.01.2024", "5/1/24", "Jan 5, 2024", "5-Jan-2024", "5 January 2024", "05/01/2024 10:30"]
DATES += [
    "Friday, 5 January 2024",
    "Fri, 05 Jan 2024 10:30:00 GMT",
    "Fri Jan  5 10:30:00 2024",
    "5/Jan/2024:10:30:00 +0000",
]


@pytest.mark.parametrize("word", [*NUMBERS, *DATES, "2024-01-05", "2024-01-05 10:30"])
def test_a_notation_is_known(word):
    assert find_example([None, word, ""]) == word


@pytest.mark.parametrize("word", ["a", "555-12-1234", "20-29", "1.2.3", "10:30", "5 kg", "<5", "Q1 2024"])
def test_a_category_is_one(word):
    assert find_example(["0,5", word]) == ""


def test_digits_alone_are_a_category_unless_others_have_a_notation():
    assert find_example(["02138", "10115"]) == "02138"
    assert find_example(["999", "1,000"]) == "1,000"
    assert find_example(["0,5", "1.234,5"]) == find_example(["1.234,5", "0,5"]) == "1.234,5"
    assert find_example(["2024-01-05", "20240105", "5/1/2024"]) == "5/1/2024"


MANY = [str(i) for i in range(40)]


@pytest.mark.parametrize(
    ("words", "remark"),
    [
        ([f"{i} kg" for i in range(12)], "numbers with a unit, such as '0 kg'"),
        ([f"{i / 2}K" for i in range(12)], "numbers with a unit, such as '0.0K'"),
        (["1 year", *(f"{i} years" for i in range(12))], "numbers with a unit, such as '1 year'"),
        ([*MANY, "?", ">40"], "numbers or dates, such as '0', but for '?', '>40'"),
        ([*(f"2024-01-{i:02}" for i in range(1, 29)), "-"], "numbers or dates, such as '2024-01-01', but for '-'"),
        ([f"USD {i}" for i in range(12)], "numbers with a unit, such as 'USD 0'"),
        ([f"BUS {i}" for i in range(12)], None),
        ([f"P{i}" for i in range(12)], None),
        ([f"PT{i}" for i in range(12)], None),
        ([f"{i}-{i + 10}" for i in range(2000, 2020)], None),
        (["36 months", "60 months"], None),
        ([f"{i} {chr(97 + i)}" for i in range(20)], None),
        ([*MANY, *"abcdef"], None),
        (MANY, None),
        ([f"Ward {i}" for i in range(20)], None),
    ],
)
def test_amounts_that_became_a_category_are_remarked_on(words, remark):
    assert remark_on(words) == remark


MONTHS = [f"{year}-{month:02}" for year in (2018, 2019) for month in range(1, 13)]
MOMENTS = [
    MONTHS,
    [pd.Period(month).strftime("%b %Y") for month in MONTHS],
    [f"{i}Q{i % 4 + 1}" for i in range(2001, 2020)],
]
MOMENTS += [[f"{i}:30 PM" for i in range(1, 13)], [str(pd.Timedelta(i, "D")) for i in range(12)]]
MOMENTS += [[pd.Timedelta(i, "h").isoformat() for i in range(12)], [f"P{i}W" for i in range(12)]]
MOMENTS += [[f"PT{i}.5S" for i in range(12)], ["P1Y2M", *(f"P{i}DT12H" for i in range(12))]]


@pytest.mark.parametrize("words", MOMENTS)
def test_months_times_and_durations_in_text_are_remarked_on(words):
    example = f"months, times or durations, such as {words[0]!r} (see pandas.to_datetime, to_timedelta)"
    assert remark_on(words) == example
    assert remark_on([*words, "never"]) is None
    assert remark_on(words[:5]) is None


def table(words):
    x = np.linspace(-1, 1, 40)
    return pd.DataFrame({"x": x, "text": [words[i % len(words)] for i in range(40)], "y": np.where(x > 0, "in", "out")})


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["0,5", "1.234,5"], "numbers such as '1.234,5'. Add --formats 'text=1.234,5'. (Or --exclude text.)"),
        (["5/1/2024", "2024-01-05", "Jan 5, 2024"], "dates such as 'Jan 5, 2024'. They have no common form"),
        (["1,000", "2,000"], "Add --formats 'text=1234,5' or --formats 'text=1,234.5'. (Or"),
        (["5/31/2024", "12/1/2024"], "dates such as '5/31/2024'. Add --formats 'text=%m/%d/%Y'. (Or"),
        (["1_000", "7"], "'1_000'"),
        (["\uff11\uff12", "7"], "They have no common form: write all as 1234.5"),
        (["5\0", "7"], "'5\\x00'"),
    ],
)
def test_it_is_refused_with_what_to_do_or_taken_as_a_category_on_request(run_to, tmp_path, words, advice):
    rows, path, out = table(words), tmp_path / "t.csv", tmp_path / "m"
    rows.to_csv(path, index=False)
    job = ["train", path, "--label", "y", "--out", out, "--kernel", "gaussian", "--gamma", 0.5, "--metric", "identity"]
    refused = run_to(*job, code=65)
    assert "t.csv (40 rows were looked at), column 'text': " in refused.stderr
    assert advice in refused.stderr
    run_to(*job, "--categorical", "text", "--quiet")
    machine = dkernel.KernelClassifier("gaussian", gamma=0.5, metric="identity")
    with pytest.raises(DataError, match=r"X \(40 rows were looked at\), column 'text': "):
        machine.fit(rows[["x", "text"]], rows["y"])
    stored = rows[["x", "text"]].astype({"text": "category"})
    assert machine.fit(stored, rows["y"]).model_.encoding.kinds["text"] == "category"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["2024-01-05", "2024-02-06", "-"], "date"),
        (["2024-01-05 10:30Z", "2024-02-06T10:30:00.5+02:00"], "date"),
        (["10:30", "12:45:10"], "time"),
        (["1 days 02:00:00", "3 days 00:00:00"], "duration"),
        (["2024-01-05", "spring"], "category"),
        (["1.2.3", "1.2"], "category"),
        (["10-19", "20-29"], "category"),
    ],
)
def test_texts_mean_the_same_by_every_door(words, kind, tmp_path):
    rows = table(words)
    rows.to_csv(tmp_path / "t.csv", index=False)
    rows.to_parquet(tmp_path / "t.parquet", index=False)
    X, y = rows[["x", "text"]], rows["y"]
    rows.to_parquet(tmp_path / "keys", partition_cols=["text"])
    found = [dkernel.open_source(tmp_path / name, label="y").encoding for name in ("t.csv", "t.parquet", "keys")]
    found.append(dkernel.KernelClassifier("gaussian", gamma=0.5, metric="identity").fit(X, y).model_.encoding)
    found.append(from_arrays(X, y, categorical="auto", missing="indicator").encoding)
    lazy = dd.from_pandas(X, npartitions=3), dd.from_pandas(y, npartitions=3)
    found.append(from_arrays(*lazy, categorical="auto", missing="indicator").encoding)
    assert [encoding.kinds["text"] for encoding in found] == [kind] * 6
    assert all(encoding == found[0] for encoding in found)
