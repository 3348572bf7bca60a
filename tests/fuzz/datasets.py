"""Data for the settings: made sets of many shapes, samples of the real ones, weights with zeros, and files of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tests.streaming.sources import rings, waves

REAL = Path(__file__).parents[3] / "shared" / "data"
REAL_SETS = ("banana", "magic", "letter", "covtype", "california", "kin40k")
LABEL, WEIGHT = "label", "weight"
TEST_ROWS = 150


@dataclass(frozen=True)
class Dataset:
    """Rows to learn from, rows to answer for, and what kind of label they have."""

    X: pd.DataFrame
    y: pd.Series
    weight: np.ndarray | None
    test: pd.DataFrame
    regresses: bool

    def write(self, path: Path, group: int) -> None:
        """A Parquet file of the training rows, in row groups of so many."""
        columns: dict[str, Any] = {name: self.X[name].to_numpy() for name in self.X}
        columns[LABEL] = pa.array(self.y)
        if self.weight is not None:
            columns[WEIGHT] = self.weight
        pq.write_table(pa.table(columns), path, row_group_size=group)

    def write_test(self, path: Path) -> None:
        pq.write_table(pa.Table.from_pandas(self.test, preserve_index=False), path)


def _one_hot(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    level = rng.integers(60, size=n)
    return np.eye(60, dtype=np.float32)[level], level % 7 > 2


def _offset(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X, y = rings(n, int(rng.integers(1000)))
    return X.astype(np.float64) + 1e9, y


def _spread(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Columns of sizes from 1e-9 to 1e9, one of them constant."""
    X, y = rings(n, int(rng.integers(1000)), p=7)
    return np.column_stack([X * 10.0 ** np.arange(-9, 12, 3)[:7], np.full(n, 5.0)]), y


def _tails(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.standard_t(2, size=(n, 4)).astype(np.float32)
    return X, np.abs(X[:, 0]) + X[:, 1] > 1


def _counts(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.poisson(3.0, size=(n, 8))
    return X, X[:, 0] * X[:, 1] > X[:, 2] + 5


def _copies(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Few different rows, each there many times."""
    X, y = rings(min(n, 9), int(rng.integers(1000)))
    which = np.r_[np.arange(len(X)), rng.integers(len(X), size=n - len(X))]
    return X[which], y[which]


def _line(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    x = rng.uniform(-3, 3, size=(n, 1))
    return x, np.sin(3 * x[:, 0])


def _wide(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X = rng.standard_normal((n, 120)).astype(np.float32)
    return X, X[:, :3].sum(axis=1) > 0


def _stamps(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Targets like times: little variation against their size."""
    X, y = waves(n, int(rng.integers(1000)))
    return X, 1.7e9 + y


def _money(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    X, y = waves(n, int(rng.integers(1000)))
    return X, np.rint(100 * y).astype(np.int64)


MADE: dict[str, tuple[Callable[[int, np.random.Generator], tuple[Any, Any]], bool]] = {
    "rings": (lambda n, rng: rings(n, int(rng.integers(1000))), False),
    "five rings": (lambda n, rng: rings(n, int(rng.integers(1000)), classes=5), False),
    "one-hot": (_one_hot, False),
    "offset": (_offset, False),
    "spread": (_spread, False),
    "tails": (_tails, False),
    "counts": (_counts, False),
    "copies": (_copies, False),
    "wide": (_wide, False),
    "waves": (lambda n, rng: waves(n, int(rng.integers(1000))), True),
    "line": (_line, True),
    "stamps": (_stamps, True),
    "money": (_money, True),
}
WEIGHTS = ("none", "ones", "random", "counts", "few zeros", "many zeros", "a class of zeros", "tiny")
LABELS = ("as they are", "text", "bool")


def dataset(name: str, rows: int, weights: str, labels: str, seed: int) -> Dataset:
    """A set of at most so many rows, with weights and labels of these kinds."""
    rng = np.random.default_rng(seed)
    X, y, regresses = _real(name, rows, rng) if name in REAL_SETS else _made(name, rows, rng)
    if not regresses and labels != "as they are":
        y = pd.Series([f"{value}!" for value in y]) if labels == "text" else pd.Series(y == y.iloc[0])
    train = slice(0, len(X) - TEST_ROWS)
    y = y.iloc[train].rename(LABEL)
    test = X.iloc[train.stop :].reset_index(drop=True)
    return Dataset(X.iloc[train], y, _weights(weights, y, rng), test, regresses)


def _made(name: str, rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series, bool]:
    make, regresses = MADE[name]
    X, y = make(rows + TEST_ROWS, rng)
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])]), pd.Series(y), regresses


def _real(name: str, rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, pd.Series, bool]:
    frame = pd.read_parquet(REAL / name / "train.parquet")
    rows = min(rows, len(frame) - TEST_ROWS)
    frame = frame.iloc[np.sort(rng.choice(len(frame), rows + TEST_ROWS, replace=False))].reset_index(drop=True)
    regresses = name in ("california", "kin40k")
    return frame.drop(columns=LABEL), frame[LABEL], regresses


def _weights(kind: str, y: pd.Series, rng: np.random.Generator) -> np.ndarray | None:
    n = len(y)
    zeros = {"few zeros": 0.1, "many zeros": 0.95}
    if kind == "none":
        return None
    if kind == "ones":
        return np.ones(n)
    if kind == "counts":
        return rng.integers(0, 4, size=n).astype(np.float64)
    if kind == "tiny":
        return 1e-6 * rng.random(n)
    if kind == "a class of zeros":
        return np.where(y == y.iloc[0], 0.0, 1.0)
    return rng.random(n) * (rng.random(n) >= zeros.get(kind, 0.0))
