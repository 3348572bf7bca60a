"""Kill a scoring run at every step that touches the disk, then run it again: a script of test_score.py.

    python -m tests.inference.score_kills FOLDER NAME old|new     prints one JSON object

The steps are the calls of the operating system that change what is on the disk; the run is killed before the first of
them, then before the second, until one run ends by itself. After every kill the destination must be as before or
complete; the next run must complete it with the same bytes and score only what was not finished.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pandas  # noqa: F401 - pyarrow and the writers would import these two again in every child
import pyarrow as pa
import zarr  # noqa: F401
from dask.base import tokenize
from dask.delayed import Delayed

from dkernel.data import Block, Source, Unit
from dkernel.data.writers import atomic
from dkernel.errors import UnsupportedError
from dkernel.inference import score as scoring
from dkernel.streaming.execution.local import SerialExecutor

STEPS = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")
ROWS = ((3, 2), (4,), (1, 0, 1))


class LinearModel:
    """Stands for a Model: the first features are the scores."""

    training_moments = None

    def __init__(self, classes, outputs=1, logistic=False, shift=0.0):
        self.classes = None if classes is None else np.asarray(classes)
        self.intercept = np.full(outputs, shift)
        self.logistic = logistic

    def scores(self, X):
        return (X[:, : len(self.intercept)] + self.intercept).astype(np.float32)

    def labels(self, S):
        return self.classes[(S[:, 0] > 0).astype(int) if S.shape[1] == 1 else S.argmax(axis=1)]

    def probabilities(self, S):
        if not self.logistic:
            raise UnsupportedError("no probabilities. Use loss='logistic'.")
        p = 1 / (1 + np.exp(-S.astype(np.float64)))
        return np.column_stack([1 - p[:, 0], p[:, 0]]) if S.shape[1] == 1 else p / p.sum(axis=1, keepdims=True)


def a_source(rows=ROWS, fingerprint="f1", text=True, seed=0):
    """Units of blocks with an id and a text column, both kept."""
    X = np.random.default_rng(seed).normal(size=(sum(map(sum, rows)), 3)).astype(np.float32)
    units, first = [], 0
    for number, sizes in enumerate(rows):
        blocks = []
        for n in sizes:
            ids = np.arange(first, first + n)
            kept = {"id": ids} | ({"name": pa.array([f'n"{i},\n' for i in ids], pa.string())} if text else {})
            blocks.append(Block(X[first : first + n], kept=pa.table(kept)))
            first += n
        # A scheduler takes equal keys for equal values, so the key names all that the blocks depend on.
        key = f"unit-{number}-{tokenize(rows, fingerprint, text, seed)}"
        units.append(Unit(sizes, Delayed(key, {key: (tuple, blocks)}), f"file{number}"))
    kept = ("id", "name") if text else ("id",)
    return Source(tuple(units), ("a", "b", "c"), kept=kept, fingerprint=fingerprint), X


def run(path: Path, kill_before: int, log: Path, shift: float = 0.0) -> int:
    """Score in a child process that dies before step `kill_before`; its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    steps = 0

    def counted(function):
        def step(*args, **kwargs):
            nonlocal steps
            steps += 1
            if steps == kill_before:
                os._exit(9)
            return function(*args, **kwargs)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    atomic._exchange = counted(atomic._exchange)
    scoring.compute_digest = lambda model: f"model {model.intercept}"
    score_part = scoring.score_part

    def logged(*args):
        with open(log, "a") as stream:
            stream.write("x")
        return score_part(*args)

    scoring.score_part = logged
    source, _ = a_source(text=path.suffix != ".npy")
    scoring.write_scores(LinearModel([0, 1], shift=shift), source, path, SerialExecutor(), overwrite=True)
    os._exit(0)


def state(path: Path) -> str:
    return "-".join(map(str, atomic.file_digest(path))) if path.exists() else "absent"


def finished(folder: Path) -> int:
    return sum(
        p.name.startswith("part-")
        for staging in folder.glob(".*staging*")
        for p in staging.rglob("part-*")
        if p.parent == staging or p.parent.name == "output"
    )


def main(folder: Path, name: str, before: str) -> dict:
    log = folder / "log"
    reference = folder / "reference"
    reference.mkdir()
    run(reference / name, 0, log)
    complete = state(reference / name)
    report: dict = {"steps": 0, "wrong": [], "reworked": [], "states": set()}
    for step in range(1, 10_000):
        place = folder / str(step)
        place.mkdir()
        path = place / name
        if before == "old":
            run(path, 0, log, shift=1.0)
        old = state(path)
        status = run(path, step, log)
        report["states"].add("complete" if state(path) == complete else "before" if state(path) == old else "partial")
        done = len(ROWS) if state(path) == complete else finished(place)
        log.write_text("")
        again = run(path, 0, log)
        left = sorted(p.name for p in place.iterdir() if p.name not in (name, f".{name}.manifest.json"))
        if status not in (0, 9) or again != 0 or state(path) != complete or left:
            report["wrong"].append([step, status, again, state(path), left])
        if len(log.read_text()) != len(ROWS) - done:
            report["reworked"].append([step, done, len(log.read_text())])
        report["steps"] = step
        if status == 0:
            return report | {"states": sorted(report["states"])}
    raise AssertionError("the run never ends")


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
