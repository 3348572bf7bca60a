"""Small data that are right, and ways to write them, for the bad inputs to spoil."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 300
NAMES = ["a", "b", "c"]
LABEL = ["--label", "label"]  # of what names no other
QUICK = ["--n-components", "32", "--gamma", "0.3", "--alpha", "1e-4", "--scale", "standard"]
QUICK += ["--kernel", "gaussian", "--metric", "identity", "--solver", "psgd", "--baselines", "off"]
SMALL = {
    "kernel": "gaussian",
    "metric": "identity",
    "n_components": 32,
    "gamma": 0.3,
    "alpha": 1e-4,
    "scale": "standard",
    "solver": "psgd",
}
LAST = (2, ROWS - 1)
FIRST = (0, 0)

Make = Callable[[Path], list[str]]
Spoil = Callable[[list[pd.DataFrame]], Any]


def frame(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Three features, and whether a row is in a ball, as text."""
    X = np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)
    return pd.DataFrame(X, columns=NAMES).assign(label=np.where((X**2).sum(axis=1) < 2.4, "in", "out"))


def arrays(rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The same as arrays: X and whether a row is in the ball."""
    data = frame(rows=rows)
    return data[NAMES].to_numpy(copy=True), (data["label"] == "in").to_numpy()


def write(data: pd.DataFrame, path: Path) -> Path:
    """A file of the format that its name ends in; an NPY file has the label as its last column."""
    if path.suffix == ".parquet":
        # Arrays keep NaN apart from missing values, which pandas does not.
        columns = {
            name: pa.array(data[name]) if data[name].dtype.name in ("category", "Int64")
            else pa.array(data[name].to_numpy(), from_pandas=name == "label")
            for name in data
        }  # fmt: skip
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".npy":
        np.save(path, data.assign(label=data["label"] == "in").to_numpy(np.float64))
    else:
        data.to_csv(path, index=False)
    return path


def one(data: pd.DataFrame, suffix: str = ".parquet", *more: str) -> Make:
    """One file, and what else the command is given."""
    return lambda folder: [str(write(data, folder / f"x{suffix}")), *more]


def text(content: str | bytes, name: str = "x.csv", *more: str) -> Make:
    """One file of these characters."""

    def make(folder: Path) -> list[str]:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return [str(folder / name), *more]

    return make


def three(suffix: str, spoil: Spoil) -> Make:
    """Three files, so three chunks, of which `spoil` has changed some."""

    def make(folder: Path) -> list[str]:
        frames = [frame(seed) for seed in range(3)]
        spoil(frames)
        for i, data in enumerate(frames):
            write(data, folder / f"part-{i}{suffix}")
        return [str(folder), *(["--task", "classify", "--label", "-1"] if suffix == ".npy" else [])]

    return make


def cell(value: Any, at: tuple[int, int], column: str = "b") -> Spoil:
    """One value in the place (part, row)."""

    def spoil(frames: list[pd.DataFrame]) -> None:
        part, row = at
        if isinstance(value, float) and column in NAMES:
            frames[part][column] = frames[part][column].astype(np.float64)
        frames[part].loc[row, column] = value

    return spoil


def with_column(**columns: Any) -> pd.DataFrame:
    """The frame with columns put in or replaced."""
    return frame().assign(**columns)
