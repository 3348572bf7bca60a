"""Random tables whose columns have odd types of pandas and Arrow, odd names and odd values."""

import datetime as dt
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

NAMES = ("a b", "x=1", "label", "score", "__index_level_0__", "d.year", "x=missing", "0", "None", "a,b", 'q"q', "%s",
         "weight", "fold", "X", "日本", "a/b", "a\\b", "#", "{}", "remainder", "home__type", "-1")  # fmt: skip
LINES = ("l\n1", "l\r\n2", 'q"', "c,d", " a", "a ", "", "A")
DAY = dt.date(2020, 1, 1)


def _with_gaps(values: list, gaps: np.ndarray, dtype: object) -> pd.Series:
    return pd.Series([None if gap else value for value, gap in zip(values, gaps, strict=True)], dtype=dtype)


class Draw(NamedTuple):
    """What a column is made of, (n,) each: codes, numbers, and where values are missing."""

    codes: np.ndarray
    numbers: np.ndarray
    gaps: np.ndarray


# Kind -> a column.
KINDS = {
    "number": lambda v: v.numbers,
    "far": lambda v: v.numbers * 1e30,
    "bytes": lambda v: v.codes.astype(np.uint8),
    "nullable numbers": lambda v: _with_gaps(list(v.numbers), v.gaps, "Float64"),
    "nullable truth": lambda v: _with_gaps(list(v.codes % 2 == 0), v.gaps, "boolean"),
    "whole numbers of Arrow": lambda v: _with_gaps(v.codes.tolist(), v.gaps, pd.ArrowDtype(pa.int32())),
    "objects": lambda v: pd.Series(v.codes.tolist(), dtype=object),
    "decimals": lambda v: _with_gaps([Decimal(k) / 4 for k in v.codes.tolist()], v.gaps, object),
    "levels that never came": lambda v: pd.Categorical([f"v{k}" for k in v.codes], [f"v{k}" for k in range(300)]),
    "ordered numbers": lambda v: pd.Categorical(v.codes, sorted(set(v.codes.tolist())), ordered=True),
    "string": lambda v: _with_gaps([f"s{k}" for k in v.codes], v.gaps, "string"),
    "padded": lambda v: pd.Series([f"{k:03d}" for k in v.codes], dtype=object),
    "lines": lambda v: _with_gaps([LINES[k % len(LINES)] for k in v.codes], v.gaps, object),
    "dates": lambda v: _with_gaps([DAY + dt.timedelta(k) for k in v.codes.tolist()], v.gaps, object),
    "dates of Arrow": lambda v: pd.Series(
        [DAY + dt.timedelta(k) for k in v.codes.tolist()], dtype=pd.ArrowDtype(pa.date32())
    ),
    "years 1 to 9999": lambda v: pd.Series([dt.datetime(1 + k * 49, 2, 28) for k in v.codes.tolist()]).astype(
        "datetime64[us]"
    ),
    "zone": lambda v: pd.Series(pd.Timestamp("2021-03-27 22:00", tz="Europe/Paris") + pd.to_timedelta(v.codes, "h")),
    "nanoseconds": lambda v: pd.Series(pd.to_timedelta(1000 * v.numbers, unit="s")).mask(v.gaps),
    "seconds": lambda v: pd.Series(pd.to_timedelta(v.codes, "s").as_unit("s")),
}


def odd_table(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray | None]:
    """Columns, a label of two classes or of numbers, and of every fourth table weights."""
    rng = np.random.default_rng([seed, 7])
    n = int(rng.integers(60, 900))
    columns, level = {}, np.zeros(n)
    names = rng.permutation(NAMES).tolist()
    for name in names[: int(rng.integers(1, 6))]:
        codes, numbers = rng.integers(0, int(rng.choice([2, 4, 30, 200])), n), rng.normal(size=n)
        draw = Draw(codes, numbers, rng.random(n) < rng.choice([0.0, 0.1]))
        columns[name] = KINDS[str(rng.choice([*KINDS]))](draw)
        level += codes % 2 + numbers
    weight = rng.integers(1, 4, n) if seed % 4 == 1 else None
    y = np.where(level > np.median(level), "yes", "no") if seed % 3 else level + 0.1 * rng.normal(size=n)
    return pd.DataFrame(columns), y, weight
