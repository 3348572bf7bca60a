"""Bad inputs: rows that a fit leaves out to judge by, and to say how sure it is."""

import numpy as np
import pandas as pd

from dkernel import KernelRegressor
from tests.bad_input.data import LAST, ROWS, SMALL, arrays, cell, frame, one, three, with_column, write
from tests.bad_input.doors import Doors
from tests.bad_input.table import REFUSED, entries_of

bad = entries_of("left out")
SITES = np.array([f"s{i % 20}" for i in range(ROWS)])
DAYS = pd.date_range("2024-01-01", periods=ROWS)
GROUP, TIME = ("--holdout-by", "group:site"), ("--holdout-by", "time:day")


@bad("one group, or one moment, in all rows", REFUSED, "nothing could be left out")
def one_group(at: Doors) -> None:
    at.train_refuses(one(with_column(site="all"), ".parquet", *GROUP), "one group", "'site'")
    at.train_refuses(one(with_column(day=DAYS[0]), ".csv", *TIME), "one moment", "'day'")
    X, y = arrays(ROWS)
    at.refuses("one group", lambda: KernelRegressor(**SMALL).fit(X, y * 1.0, groups=np.zeros(ROWS)))


@bad("a group of more than half of the rows", REFUSED, "the numbers of rows are given")
def large_group(at: Doors) -> None:
    site = np.where(np.arange(ROWS) < ROWS - 1, "small", "big")
    at.train_refuses(one(with_column(site=site), ".parquet", *GROUP), "299 of 300 rows", "more than half")


@bad("a row without group or time", REFUSED, "every row needs one")
def no_group(at: Doors) -> None:
    some = pd.Categorical(np.where(SITES == "s3", None, SITES))
    for suffix in (".parquet", ".csv"):
        at.train_refuses(one(with_column(site=some), suffix, *GROUP), "missing value")
    at.train_refuses(one(with_column(day=DAYS.where(DAYS[7] != DAYS)), ".parquet", *TIME), "missing value")
    X, y = arrays(ROWS)
    groups = [None, *SITES[1:]]
    at.refuses("every row needs a group", lambda: KernelRegressor(**SMALL).fit(X, y * 1.0, groups=groups))


@bad("times that are no dates and no numbers", REFUSED, "the first such value is given; zones are read")
def no_time(at: Doors) -> None:
    at.train_refuses(one(with_column(day="noon"), ".csv", *TIME), "'noon' is not a date or time")


@bad("a column to divide by that is not there", REFUSED, "the columns that are there are listed")
def no_column(at: Doors) -> None:
    at.train_refuses(one(frame(), ".parquet", *GROUP), "'site'")


@bad("a file both to learn from and to judge by", REFUSED, "the file is named")
def both(at: Doors) -> None:
    def make(folder):
        path = str(write(frame(), folder / "x.parquet"))
        return [path, "--eval-set", path]

    at.train_refuses(make, "x.parquet", "--eval-set")


@bad("a value that is no number among the rows to judge by", REFUSED, "as in the rows to learn from")
def bad_judges(at: Doors) -> None:
    def make(folder):
        frames = three(".csv", cell(np.inf, LAST))(folder)
        return [str(write(frame(), folder.parent / f"{folder.name}.csv")), "--eval-set", *frames]

    at.train_refuses(make, "part-2.csv", "'b'")


@bad("labels, weights or groups of conformalize that are not those of its rows", REFUSED, "by name")
def conformalize(at: Doors) -> None:
    X, y = arrays(ROWS)
    machine = KernelRegressor(**SMALL).fit(X, y * 1.0)
    for words, more in {
        "y has 299": {"y": y[1:] * 1.0},
        "the label is nan": {"y": np.where(y, np.nan, 1.0)},
        "not negative": {"y": y * 1.0, "sample_weight": -np.ones(ROWS)},
        "groups has 299": {"y": y * 1.0, "groups": SITES[1:]},
        "missing value": {"y": y * 1.0, "groups": np.array([None, *SITES[1:]], dtype=object)},
        "of one type": {"y": y * 1.0, "groups": np.array([1, *SITES[1:]], dtype=object)},
    }.items():
        at.refuses(words, lambda more=more: machine.conformalize(X, **more))


@bad("a coverage, or a group, that no row tells of", REFUSED, "with the rows that it needs")
def no_rows(at: Doors) -> None:
    X, y = arrays(ROWS)
    machine = KernelRegressor(**SMALL).fit(X, y * 1.0)
    at.refuses("needs 9,999 rows", lambda: machine.predict_interval(X, 0.9999))
    machine.conformalize(X, y * 1.0, groups=SITES)
    at.refuses("group 'north'", lambda: machine.predict_interval(X[:1], groups=["north"]))
    at.refuses("coverage=2", lambda: machine.predict_interval(X, 2))
