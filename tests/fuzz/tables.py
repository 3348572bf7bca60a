"""Tables of random columns: numbers, dates, categories, missing values, and odd types of pandas and Arrow."""

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

NAMES = ["a b", "x=1", "label", "score", "__index_level_0__", "d.year", "x=missing", "0", "None", "a,b", 'q"q', "%s"]
NAMES += ["weight", "fold", "X", "日本", "a/b", "a\\b", "#", "{}", "remainder", "home__type", "-1"]
LINES = ("l\n1", "l\r\n2", 'q"', "c,d", " a", "a ", "", "A")
DAY, SPRING = dt.date(2020, 1, 1), pd.Timestamp("2021-03-27 22:00", tz="Europe/Paris")


class Draw(NamedTuple):
    """What a column is made of, (n,) each: codes, numbers, and where values are missing."""

    codes: np.ndarray
    numbers: np.ndarray
    gaps: np.ndarray

    def fill(self, values: Any, dtype: object) -> pd.Series:
        return pd.Series([None if gap else value for value, gap in zip(values, self.gaps, strict=True)], dtype=dtype)

    def days(self) -> list[dt.date]:
        return [DAY + dt.timedelta(k) for k in self.codes.tolist()]


# Kind -> a column. Of the first also fits by the command and graphs know all.
PLAIN = {
    "number": lambda v: v.numbers,
    "whole": lambda v: v.codes,
    "truth": lambda v: v.numbers < -0.3,
    "category": lambda v: pd.Series([f"k{code}" for code in v.codes], dtype=object),
    "date": lambda v: pd.Timestamp(DAY) + pd.to_timedelta(5 * v.codes, "D"),
    "missing": lambda v: np.where(v.gaps, np.nan, v.numbers),
    "offset": lambda v: 1e9 + 1e3 * v.numbers,
    "constant": lambda v: np.full(len(v.codes), 3.0),
    "tails": lambda v: np.exp(2 * v.numbers),
}
ODD = {
    "far": lambda v: v.numbers * 1e30,
    "bytes": lambda v: v.codes.astype(np.uint8),
    "nullable numbers": lambda v: v.fill(v.numbers, "Float64"),
    "nullable truth": lambda v: v.fill(v.codes % 2 == 0, "boolean"),
    "whole numbers of Arrow": lambda v: v.fill(v.codes.tolist(), pd.ArrowDtype(pa.int32())),
    "objects": lambda v: pd.Series(v.codes.tolist(), dtype=object),
    "decimals": lambda v: v.fill([Decimal(k) / 4 for k in v.codes.tolist()], object),
    "levels that never came": lambda v: pd.Categorical([f"v{k}" for k in v.codes], [f"v{k}" for k in range(300)]),
    "ordered numbers": lambda v: pd.Categorical(v.codes, sorted(set(v.codes.tolist())), ordered=True),
    "string": lambda v: v.fill([f"s{k}" for k in v.codes], "string"),
    "padded": lambda v: pd.Series([f"{k:03d}" for k in v.codes], dtype=object),
    "lines": lambda v: v.fill([LINES[k % len(LINES)] for k in v.codes], object),
    "dates": lambda v: v.fill(v.days(), object),
    "dates of Arrow": lambda v: pd.Series(v.days(), dtype=pd.ArrowDtype(pa.date32())),
    "years 1 to 9999": lambda v: pd.Series([dt.datetime(1 + k * 49, 2, 28) for k in v.codes], dtype="datetime64[us]"),
    "zone": lambda v: pd.Series(SPRING + pd.to_timedelta(v.codes, "h")),
    "nanoseconds": lambda v: pd.Series(pd.to_timedelta(1000 * v.numbers, unit="s")).mask(v.gaps),
    "seconds": lambda v: pd.Series(pd.to_timedelta(v.codes, "s").as_unit("s")),
}
KINDS = PLAIN | ODD


class Table(NamedTuple):
    """Columns, a label of classes or of numbers, and weights."""

    X: pd.DataFrame
    y: np.ndarray
    weight: np.ndarray | None


def make_table(kinds: Mapping[str, tuple[str, int]], n: int, seed: int, classes: int, weighted: bool = False) -> Table:
    """Columns of these kinds and numbers of levels, and labels that follow them; numbers for 0 classes."""
    rng = np.random.default_rng(seed)
    columns, level = {}, 0.3 * rng.normal(size=n)
    for name, (kind, levels) in kinds.items():
        draw = Draw(rng.integers(0, levels, n), rng.normal(size=n), rng.random(n) < 0.1)
        columns[name] = KINDS[kind](draw)
        level += draw.codes % 2 + draw.numbers
    weight = rng.integers(1, 4, n) if weighted else None
    if not classes:
        return Table(pd.DataFrame(columns), level * 10.0 ** rng.integers(-3, 5) + rng.choice([0, 100]), weight)
    codes = np.digitize(level, np.quantile(level, np.arange(1, classes) / classes))
    return Table(pd.DataFrame(columns), np.array(["u", "v", "w"])[codes], weight)


def tables(kinds: Mapping[str, Any], names: list[str], weighted: st.SearchStrategy[bool]) -> st.SearchStrategy[Table]:
    columns = st.tuples(st.sampled_from([*kinds]), st.sampled_from([4, 2, 30, 200]))
    return st.builds(
        make_table,
        st.dictionaries(st.sampled_from(names), columns, min_size=1, max_size=6),
        st.integers(60, 900),
        st.integers(0, 2**32 - 1),
        st.sampled_from([2, 3, 0]),
        weighted,
    )
