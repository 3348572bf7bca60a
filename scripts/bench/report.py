"""What every benchmark here shares: a measured block, the data folder, one table and one JSON object at the end."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from data import DATA, ROOT, advice
from numpy.typing import NDArray

from dkernel.diagnostics.memory_usage import PeakMemory

__all__ = ["DATA", "ROOT", "Measured", "Rows", "finish", "folder", "forest", "load", "machine", "measured", "parts"]

Rows = tuple[NDArray[np.float32], NDArray[Any], NDArray[np.float32], NDArray[Any]]


@dataclass
class Measured:
    """Seconds of a block and the most memory that the process and its children had in it."""

    seconds: float = 0.0
    peak_mib: float = 0.0


@contextmanager
def measured() -> Iterator[Measured]:
    """Fill a `Measured` while the block runs."""
    result, memory = Measured(), PeakMemory(0.2)
    with memory:
        start = time.perf_counter()
        yield result
        result.seconds = time.perf_counter() - start
    result.peak_mib = memory.peak / 2**20


def folder(data: Path, name: str) -> Path:
    """The data set's folder; where it is absent, say how to fetch it and end with 1: no figure can be drawn."""
    found = data / name
    if not (found / "train.parquet").is_file():
        print(advice(data, [name]), file=sys.stderr)
        raise SystemExit(1)
    return found


def load(path: Path) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """X (rows, columns) float32 and the label column of one Parquet file."""
    table = pq.read_table(path)
    X = np.column_stack([table[name].to_numpy() for name in table.column_names if name != "label"])
    return np.ascontiguousarray(X, dtype=np.float32), table["label"].to_numpy()


def parts(place: Path) -> Rows:
    """X and y to train on, X and y to test on."""
    return *load(place / "train.parquet"), *load(place / "test.parquet")


def forest(data: Path, rows: int | None = None, one: int | None = 2) -> Rows:
    """The first rows of forest cover to train on, all of its others to test on; class `one` against the rest."""
    X, y, X_test, y_test = parts(folder(data, "covtype"))
    if one is not None:
        y, y_test = y == one, y_test == one
    return X[:rows], y[:rows], X_test, y_test


def machine() -> dict[str, object]:
    """What the figures were measured on, and at which commit."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return {
        "cpus": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "commit": commit,
    }


def finish(title: str, rows: Sequence[dict[str, Any]], json_only: bool, **facts: object) -> None:
    """Print the rows as a table, then everything as one line of JSON (`json_only`: that line alone)."""
    if not json_only:
        print(title)
        print(_table(rows))
    print(json.dumps({"title": title, **facts, **machine(), "rows": list(rows)}))


def _table(rows: Sequence[dict[str, Any]]) -> str:
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [heads, *([_cell(row.get(head)) for head in heads] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in cells)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
