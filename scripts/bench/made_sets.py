"""Rows of made sets to train on and to test on, whose rules are known."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from make_data import Law, names

MADE = {
    "made 2,000": 2_000, "made 10,000": 10_000, "shifted engine": 12_000, "shifted series": 12_000,
    "events": 100_000, "noisy": 300_000, "hands": 500_000,
}  # fmt: skip
"""Name -> rows to train on."""
TEST_ROWS = 20_000


def make_rows(name: str, rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to train on and to test on of a made set, with the column `label`."""
    makers: dict[str, Callable[[int], pd.DataFrame]] = {
        "shifted engine": engine,
        "shifted series": series,
        "events": events,
        "noisy": noisy,
        "hands": hands,
    }
    whole = makers.get(name, smooth)(rows + TEST_ROWS)
    # Of a series the rows to train on are its first stretch, in any order.
    return whole[:rows].sample(frac=1.0, random_state=0), whole[rows:]


def numbered(X: NDArray[Any], y: NDArray[Any]) -> pd.DataFrame:
    """Columns x0, x1, ... and the label."""
    return pd.DataFrame(X.astype(np.float32), columns=[f"x{j}" for j in range(X.shape[1])]).assign(label=y)


def smooth(n: int) -> pd.DataFrame:
    """Ten numbers, of which four say the class by a smooth rule, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    rule = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.square(X[:, 3]) - 0.5
    return numbered(X, (rule + 0.5 * rng.standard_normal(n) > 0).astype(np.int64))


def walk(rng: np.random.Generator, n: int, memory: float) -> NDArray[np.float64]:
    """A series of variance 1 whose neighbours have the correlation `memory`."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], rng.standard_normal(n)))


def engine(n: int) -> pd.DataFrame:
    """A cylinder fails in one of ten turns, more often at the edge of load and speed, which drift."""
    rng = np.random.default_rng(1)
    speed, load = (walk(rng, n, 0.9997) for _ in range(2))
    cylinder = np.arange(n) % 10
    usual = np.sin(2 * np.pi * cylinder / 10 + speed) + 0.5 * speed * load
    fails = rng.random(n) < 1 / (1 + np.exp(4.0 - 1.2 * np.maximum(load + speed, 0)))
    turn = usual - fails * (0.8 + 0.4 * np.cos(cylinder)) + 0.1 * rng.standard_normal(n)
    lags = [np.roll(turn, k) for k in range(-2, 6)]
    return numbered(np.column_stack([np.eye(10)[cylinder], speed, load, *lags]), fails.astype(np.int64))


def series(n: int) -> pd.DataFrame:
    """The next value of a series with a drifting level is beyond an edge that few rows to train on reach."""
    rng = np.random.default_rng(2)
    level, cause = walk(rng, n + 12, 0.9995), walk(rng, n + 12, 0.9)
    value = level + np.sin(3 * cause) * (1 + 0.5 * level) + 0.2 * rng.standard_normal(n + 12)
    lags = np.column_stack([np.roll(each, k) for each in (value, cause) for k in range(1, 9)])[12:]
    return numbered(lags, (value[12:] > np.quantile(value[: n // 2], 0.93)).astype(np.int64))


def events(n: int) -> pd.DataFrame:
    """Journeys between 220 places in half a year, and whether they were late.

    That depends on the hour, on the place of departure, on its day and on three hours of that day, and on the day of
    the other place. So a thousand rows tell of the hour alone, and a million of single days.
    """
    rng = np.random.default_rng(3)
    places, days, hours = 220, 181, 3
    often = np.arange(1, places + 1) ** -0.9
    start, goal = rng.choice(places, (2, n), p=often / often.sum())
    day, hour = rng.integers(0, days, n), 5 + 18 * rng.beta(2, 2, n)
    score = 0.12 * (hour - 6) - 2.2 + rng.normal(0, 0.3, places)[start]
    score += rng.normal(0, 0.9, (places, days))[start, day] + rng.normal(0, 0.6, (places, days))[goal, day]
    score += rng.normal(0, 0.7, (places, days, 24 // hours))[start, day, hour.astype(int) // hours]
    where = rng.random((places, 2)) * [4000, 2000]  # km
    names_of = np.array([f"place {i}" for i in range(places)])
    return pd.DataFrame(
        {
            "departure": pd.Timestamp("2001-01-01") + pd.to_timedelta(day * 1440 + (60 * hour).astype(int), "min"),
            "distance": np.hypot(*(where[start] - where[goal]).T).round() + 60,
            "start": names_of[start],
            "goal": names_of[goal],
            "label": (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int64),
        }
    )


def noisy(n: int) -> pd.DataFrame:
    """Rows of `make_data.py`, one label of ten wrong."""
    X, y = Law().rows(0, n)
    return pd.DataFrame(X, columns=names(X.shape[1])).assign(label=y.astype(np.int64))


def hands(n: int) -> pd.DataFrame:
    """Rank and suit of five cards, and how many pairs of these are alike in one of both, in ten classes."""
    rng = np.random.default_rng(4)
    ranks, suits = rng.integers(1, 14, (n, 5)), rng.integers(1, 5, (n, 5))
    pairs = np.triu_indices(5, 1)
    alike = sum((cards[:, pairs[0]] == cards[:, pairs[1]]).sum(axis=1) for cards in (ranks, suits))
    return numbered(np.hstack([ranks, suits]), np.clip(alike - 1, 0, 9).astype(np.int64))
