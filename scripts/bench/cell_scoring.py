"""Scoring from file to file by a model of cells, beside a landmark model with as many landmarks as a cell has rows.

Both are trained by `dkernel train` on forest cover, seven classes, and score its training file by `dkernel score` with
--workers processes. Error: wrong labels of the test file in percent; rows/s: those of the phase that reads, scores and
writes, the best of --repeats.

    python scripts/bench/cell_scoring.py
    python scripts/bench/cell_scoring.py --partitions 1 3
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from report import DATA, finish, folder

from dkernel.persistence.model_file import load_model


def run(*words: object) -> dict[str, Any]:
    """The record of a command that writes to its --out."""
    command = [sys.executable, "-m", "dkernel", *map(str, words), "--quiet", "--json", "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    record: dict[str, Any] = json.loads(Path(f"{words[words.index('--out') + 1]}.run.json").read_text())
    return record


def line(name: str, data: Path, place: Path, settings: tuple[object, ...], o: argparse.Namespace) -> dict[str, Any]:
    """One model: its training, its error and its rate."""
    model, out, few = place / "model", place / "scores.parquet", ("--workers", o.workers)
    trained = run("train", data / "train.parquet", "--label", "label", "--out", model, *few, *settings)
    found = subprocess.run(
        [sys.executable, "-m", "dkernel", "evaluate", str(model), str(data / "test.parquet"), "--json", "--quiet"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    phases = []
    for _ in range(o.repeats):
        out.unlink(missing_ok=True)  # the same command on what is complete does nothing
        phases.append(run("score", model, data / "train.parquet", "--out", out, *few))
    machine, rows = load_model(model), trained["rows_in"]
    return {
        "model": name, "components": machine.map.n_components,
        "rows of a cell": None if machine.local is None else float(np.diff(machine.local.ends, prepend=0).mean()),
        "train_s": trained["seconds"]["total"], "MiB": model.stat().st_size / 2**20,
        "error_%": 100 * (1 - json.loads(found.stdout)["accuracy"]),
        "rows/s": rows / min(record["phases"]["score"] for record in phases),
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--partitions", type=int, nargs="+", default=[1])
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    data, table = folder(o.data, "covtype"), []
    with tempfile.TemporaryDirectory() as place:
        for partitions in o.partitions:
            settings = ("--local", f"cells(partitions={partitions})", "--scratch", place)
            table.append(line(f"cells, {partitions} partition(s)", data, Path(place), settings, o))
        landmarks = round(table[0]["rows of a cell"])
        settings = ("--local", "none", "--features", "nystrom", "--n-components", landmarks)
        table.append(line("landmarks", data, Path(place), settings, o))
    for found in table[:-1]:
        found["of the landmarks' rate"] = found["rows/s"] / table[-1]["rows/s"]
    finish("scoring by cells", table, o.json, options=vars(o) | {"data": ""})


if __name__ == "__main__":
    main()
