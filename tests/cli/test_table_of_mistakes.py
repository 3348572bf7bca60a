"""What users get wrong at first, a line each: a fresh folder, one command, and an answer that helps or a model.

What is wrong with the data alone is in tests/bad_input, through every face.
"""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dkernel

pytestmark = pytest.mark.usefixtures("here")
FIXED = ["--kernel", "gaussian", "--gamma", "0.5", "--n-components", "32", "--alpha", "1e-4", "--metric", "identity"]
FIXED += ["--baselines", "off"]


def table(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    return frame.assign(y=np.where(frame["a"] * frame["b"] > 0, "yes", "no"))


def csv(name="t.csv", above="", frame=None, **how):
    text = (table() if frame is None else frame).to_csv(**{"index": False, "lineterminator": "\n", **how})
    Path(name).write_bytes((above + text).encode(how.get("encoding", "utf-8")))
    return name


def parquet(name="t.parquet", frame=None, **columns):
    (table() if frame is None else frame).assign(**columns).to_parquet(name, index=False)
    return name


def packed(content):
    Path("t.csv").write_bytes(content)
    return "t.csv"


def numbers(**columns):
    return table().assign(**columns)


def with_gaps(share, value, column="b", seed=1):
    frame = table()
    frame.loc[np.random.default_rng(seed).random(len(frame)) < share, column] = value
    return frame


def cities():
    return np.resize(["Basel", "Genève", "Zug"], 300)


REFUSED, USAGE = 65, 2

# line -> the data, arguments beside the label, the exit code, words of the answer
LINES = {
    "a label in capitals": (parquet, "--label Y", REFUSED, "Did you mean 'y'?"),
    "a category of pandas of whole numbers": (
        lambda: parquet(zone=pd.Categorical(np.resize([1, 2, 7], 300))), "--dry-run", 0,
        "zone  category of 3 levels: '1', '2', '7'",
    ),
    "a constant feature": (lambda: parquet(c=1.0), "", 0, "constant     c: one value in all rows"),
    "a class of one row": (
        lambda: parquet(y=["rare", *table()["y"][1:]]), "", 0, "rare classes 'rare': one row each",
    ),
    "a number that copies the label": (
        lambda: parquet(same=table()["y"].map({"no": 5.0, "yes": 1.5})), "", 0,
        "too good     same: alone says the label on 300 rows; is it known when you predict?",
    ),
    "a number that copies a number": (
        lambda: parquet(y=table()["a"] ** 3, euros=0.9 * table()["a"] ** 3 + 2), "", 0, "a, euros: each alone",
    ),
    "a reason that rows of one class have": (
        lambda: csv(frame=numbers(why=np.where(table()["y"] == "yes", np.resize(["R1", "R2", "R3"], 300), ""))), "", 0,
        "too good     why: alone says",
    ),
    "another delimiter that is given": (lambda: csv(sep="~"), "--delimiter ~", 0, "m: 300 rows"),
    "a date in another format": (
        lambda: csv(frame=numbers(d="31.12.2024")), "--formats d=%m/%d/%y", REFUSED, "Change --formats",
    ),
    "two formats of a column": (
        lambda: csv(frame=numbers(d="03.12.2024")), "--formats d=%d.%m.%Y --formats d=%m.%d.%Y", USAGE,
        "each column once",
    ),
    "the index of pandas in a CSV": (lambda: csv(index=True), "", 0, "left out     '': an index or a column without"),
    "the index of pandas, read and written": (
        lambda: csv(frame=numbers().assign(**{"Unnamed: 0": np.arange(300)})), "", 0, "left out     'Unnamed: 0'",
    ),
    "the index of pandas in Parquet": (
        lambda: parquet(__index_level_0__=np.arange(300)), "", 0, "left out     '__index_level_0__'",
    ),
    "numbers of rows": (
        lambda: parquet(id=np.random.default_rng(0).permutation(300) + 7), "", 0,
        "row numbers  id: these number the rows, so exclude them",
    ),
    "a number for missing values": (
        lambda: csv(frame=with_gaps(0.1, -999)), "", 0, "far values   b -999: frequent and far from all others",
    ),
    "a number for a missing target": (
        lambda: parquet(y=np.where(np.arange(300) % 9, table()["a"], 9999.0)), "", 0, "far values   y 9999: frequent",
    ),
    "dates as whole numbers": (
        lambda: parquet(when=pd.date_range("2015", periods=300, freq="9D").strftime("%Y%m%d").astype(int)), "", 0,
        "whole dates  when: as numbers",
    ),
    "months as whole numbers": (
        lambda: csv(frame=numbers(when=pd.date_range("1999", periods=300, freq="27D").strftime("%Y%m"))), "", 0,
        "whole dates  when: as numbers",
    ),
    "numbers with a unit": (
        lambda: csv(frame=numbers(weight=[f"{i % 50} kg" for i in range(300)])), "", 0,
        "texts        weight: numbers with a unit, such as '0 kg': so a category",
    ),
    "numbers but for a mark": (
        lambda: parquet(age=[str(i % 50) if i % 9 else "?" for i in range(300)]), "", 0,
        "texts        age: numbers or dates, such as '1', but for '?': so a category",
    ),
    "amounts that are codes": (
        lambda: parquet(
            gain=np.where(np.arange(300) % 3, 0, np.arange(300) % 17 * 1000), city=cities()
        ), "", 0, "codes        gain 17: most rows have one value, so as many frequent values became 0/1 inputs",
    ),
    "dates of a mail": (
        lambda: csv(frame=numbers(when=pd.date_range("2015", periods=300).strftime("%a, %d %b %Y %H:%M:%S GMT"))),
        "", REFUSED,
        "dates such as 'Thu, 01 Jan 2015 00:00:00 GMT'. Add --formats 'when=%a, %d %b %Y %H:%M:%S GMT'. (Or --exclude",
    ),
    "a date for missing dates": (
        lambda: csv(frame=numbers(when=[f"2024-01-{i % 28 + 1:02}" if i % 9 else "1900-01-01" for i in range(300)])),
        "", 0,
        "far values   when 1900-01-01T00:00:00: frequent",
    ),
    "blanks after a class": (
        lambda: csv(frame=numbers(y=["yes " if i % 7 == 0 else w for i, w in enumerate(table()["y"])])), "", 0,
        "alike        'yes' and 'yes ': only spaces or capitals differ",
    ),
    "capitals of a category": (
        lambda: csv(frame=numbers(city=np.resize(["Basel", "basel", "Zug"], 300))), "", 0,
        "alike        'Basel' and 'basel': only spaces or capitals differ",
    ),
    "a line of the delimiter": (lambda: csv(above="sep=;\n", sep=";"), "", REFUSED, "Delete what stands above"),
    "a title above the names": (lambda: csv(above="Sales\n\n"), "", REFUSED, "('Sales') names 1 of the 3 columns"),
    "a title of a spreadsheet": (lambda: csv(above="Sales,,\n"), "", REFUSED, "('Sales,,') names 1 of the 3 columns"),
    "a title with a comma": (lambda: csv(above="Sales, 2024\n"), "", REFUSED, "Nothing may stand above the names"),
    "a spreadsheet": (lambda: packed(b"PK\x03\x04" + bytes(99)), "", REFUSED, "save a spreadsheet as CSV"),
    "gzip without its ending": (
        lambda: packed(gzip.compress(table().to_csv().encode())), "", REFUSED, "Name it .csv.gz",
    ),
    "a comment above the names": (lambda: csv(above="# by me\n# 2024\n"), "", REFUSED, "Delete what stands above"),
}  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("line", LINES)
def test_a_mistake_is_answered(run_to, line):
    make, more, code, words = LINES[line]
    usual = [word for option in ("--label y", "--out m") if option.split()[0] not in more for word in option.split()]
    said = run_to("train", make(), *usual, *FIXED, *more.split(), code=code)
    assert words in said.output
    assert code == 0 or not Path("m").exists()


def test_an_index_of_pandas_is_no_feature_and_no_extra_column(run_to):
    for name, frame in (("bare.csv", table()), ("index.csv", table().sample(frac=1.0, random_state=0))):
        frame.to_csv(name, index=name == "index.csv")
    models = {}
    for name in ("bare.csv", "index.csv"):
        run_to("train", name, "--label", "y", "--out", f"{name}.m", *FIXED)
        models[name] = dkernel.load(f"{name}.m")
        assert list(models[name].feature_names_in_) == ["a", "b"]
        for other in ("bare.csv", "index.csv"):
            run_to("evaluate", f"{name}.m", other, "--quiet")


def test_counts_and_codes_are_no_mistakes(run_to):
    rng = np.random.default_rng(0)
    frame = table().assign(
        flag=rng.integers(0, 2, 300), many=rng.exponential(size=300).round(1), zero=rng.poisson(3, 300),
        year=rng.integers(1990, 2024, 300), large=rng.integers(19_000_000, 21_000_000, 300),
        term=np.resize(["36 months", "60 months"], 300), zip=rng.integers(10_000, 10_050, 300).astype(str),
    )  # fmt: skip
    said = run_to("train", parquet(frame=frame), "--label", "y", "--out", "m", *FIXED)
    remarks = ("far values", "row numbers", "alike", "left out  ", "texts", "whole dates", "rare classes", "constant ")
    assert not any(word in said.stdout for word in (*remarks, "too good"))


def test_a_column_that_training_saw_empty_is_not_counted_as_filled(run, run_to):
    said = run("train", parquet(e=np.nan), "--label", "y", "--out", "m", *FIXED)
    assert "constant     e: " in said.stdout
    assert "filled" not in run_to("evaluate", "m", "t.parquet", "--json", "--quiet").stdout
