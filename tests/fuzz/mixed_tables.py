"""Random tables of numbers, dates, categories and missing values: every way to predict them says the same."""

import numpy as np
import pandas as pd

KINDS = ("number", "whole", "truth", "category", "many", "date", "missing", "offset", "constant", "copy", "tails")


def table(seed: int, least: int = 60, most: int = 1500) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns of random kinds, and labels of two or three classes, or numbers, which follow some of them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(least, most))
    columns: dict[str, object] = {}
    level = np.zeros(n)
    for j in range(int(rng.integers(1, 7))):
        kind = str(rng.choice(KINDS))
        columns[f"{kind}{j}"], part = _column(kind, columns, n, rng)
        level += part
    level += rng.choice([0.0, 0.3, 1.0]) * rng.normal(size=n)
    task = rng.choice(["two", "three", "numbers"])
    if task == "numbers":
        return pd.DataFrame(columns), level * 10.0 ** rng.integers(-3, 5) + rng.choice([0, 100]) + rng.normal(size=n)
    codes = np.digitize(level + 1e-9 * rng.normal(size=n), np.quantile(level, [0.5] if task == "two" else [0.33, 0.66]))
    codes[:3] = 0, 1, 2 * (task == "three")
    return pd.DataFrame(columns), np.array(["u", "v", "w"])[codes]


def _column(kind: str, before: dict[str, object], n: int, rng: np.random.Generator) -> tuple[object, np.ndarray]:
    """The values of a column, and what the label has of it."""
    x = rng.normal(size=n)
    if kind == "whole":
        x = rng.integers(0, int(rng.choice([3, 20, 1000])), n)
        return x, x % 3 - 1.0
    if kind == "truth":
        return x < -0.3, 1.0 * (x < -0.3)
    if kind in ("category", "many"):
        codes = rng.integers(0, 4 if kind == "category" else 150, n)
        return pd.Series([f"k{code}" for code in codes], dtype=object), 1.0 * (codes % 3 == 0)
    if kind == "date":
        days = rng.integers(0, 1000, n)
        return pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D"), np.sin(days / 50)
    if kind == "missing":
        return np.where(rng.random(n) < 0.2, np.nan, x), x
    if kind == "offset":
        return 1e9 + 1e3 * x, 0.0 * x
    if kind == "constant":
        return np.full(n, 3.0), 0.0 * x
    if kind == "copy" and before:
        return next(iter(before.values())), 0.0 * x
    return (np.exp(2 * x), x / 3) if kind == "tails" else (x, np.sin(2 * x))
