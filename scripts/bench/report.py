"""What the benchmarks share: options, a measured block, the data folder, an error, a table and one JSON object."""

import argparse
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

__all__ = [
    "DATA",
    "ROOT",
    "Measured",
    "Rows",
    "boosted_trees",
    "error_of",
    "finish",
    "folder",
    "forest",
    "load",
    "machine",
    "markdown",
    "measure_block",
    "parser",
    "parts",
]

Rows = tuple[NDArray[np.float32], NDArray[Any], NDArray[np.float32], NDArray[Any]]


@dataclass
class Measured:
    """Seconds of a block, CPU seconds of the process, and the most memory that it and its children had."""

    seconds: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0


def parser(text: str, *, data: bool = False) -> argparse.ArgumentParser:
    """The parser of a script with this docstring: it has --json, and --data where real data sets are read."""
    options = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", action="store_true", help="print the JSON line alone")
    if data:
        options.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    return options


@contextmanager
def measure_block() -> Iterator[Measured]:
    """Fill a `Measured` while the block runs."""
    from dkernel.cli.memory_usage import PeakMemory  # earlier packages that are compared have it elsewhere

    result, memory = Measured(), PeakMemory(0.2)
    with memory:
        start, cpu = time.perf_counter(), time.process_time()
        yield result
        result.seconds, result.cpu = time.perf_counter() - start, time.process_time() - cpu
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


def boosted_trees(regress: bool, trees: int, leaves: int, threads: int = 1, seed: int = 0) -> Any:
    """An estimator of LightGBM."""
    import lightgbm

    kind = lightgbm.LGBMRegressor if regress else lightgbm.LGBMClassifier
    return kind(n_estimators=trees, num_leaves=leaves, n_jobs=threads, random_state=seed, verbose=-1)


def error_of(found: Any, truth: Any, regress: bool = False) -> float:
    """Percent of wrong labels; of numbers the root mean square error over their standard deviation."""
    found, truth = np.asarray(found), np.asarray(truth)
    if regress:
        return float(np.sqrt(np.mean(np.square(found - truth))) / np.std(truth))
    return 100 * float(np.mean(found != truth))


def machine(package: Path = ROOT) -> dict[str, object]:
    """What the figures were measured on, and at which commit of the package."""
    commit = subprocess.run(
        ["git", "-C", str(package), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
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


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


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
