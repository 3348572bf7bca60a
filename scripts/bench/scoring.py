"""Scoring from file to file, beside the bare rate of the tiles and scikit-learn's pipeline on the same files.

*tiles*: `Model.scores` on rows in memory, one thread, times the workers. *dkernel*: `dkernel score`, Parquet to Parquet
and NPY to NPY, by --workers processes: rows/s of the phase that reads, scores and writes, and of the whole command with
its start and end. *scikit-learn*: StandardScaler, Nystroem or RBFSampler and a linear model of as many columns, chunk
by chunk from the same NPY file into another, with as many BLAS threads: in single precision, as the file is, and in
doubles, as a pipeline computes that was fitted to what numpy and pandas read by default. The model has coefficients
that mean nothing.

    python scripts/bench/scoring.py
    python scripts/bench/scoring.py --rows 200000 --components 1024 --repeats 1
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from commands import make_files, measured
from numpy.typing import NDArray
from report import finish, parser
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from dkernel.features import FeatureMap, FourierMap, NystromMap, Scaling
from dkernel.kernels import Gaussian
from dkernel.model.model import Model
from dkernel.model.model_file import save
from dkernel.model.recipe import Recipe

CHUNK = 8192
FITTED = 10_000
GAMMA = 0.02


def model_of(which: str, X: NDArray[np.float32], y: NDArray[Any], D: int, names: tuple[str, ...]) -> Model:
    """A model of this map."""
    kernel, p = Gaussian(gamma=GAMMA), X.shape[1]
    scaling = Scaling.of(
        "standard", *(getattr(X.astype(np.float64), what)(axis=0) for what in ("mean", "var", "min", "max"))
    )
    if which == "nystrom":
        map: FeatureMap = NystromMap(kernel, scaling.apply(X[:D]))
    else:
        map = FourierMap.draw(kernel, p, D, 0, "orthogonal")
    coef = np.random.default_rng(1).normal(size=(map.n_components, 1))
    recipe = Recipe(kernel=repr(kernel), features=which, n_components=D, scale="standard", metric="identity",
                    task="classify", alpha=1e-6)  # fmt: skip
    return Model(recipe, scaling, map, coef, np.zeros(1), np.unique(y), names, "label")


def tiles_rate(model: Model, X: NDArray[np.float32], repeats: int) -> float:
    """Rows/s of one thread's own time."""
    found = []
    for _ in range(repeats + 1):
        start = time.thread_time()
        model.scores(X)
        found.append(time.thread_time() - start)
    return len(X) / min(found[1:])


def time_scoring(model: Path, data: Path, out: Path, args: argparse.Namespace) -> tuple[float, float]:
    """Seconds of the phase and of the command."""
    command = [sys.executable, "-Pm", "dkernel", "score", str(model), str(data), "--out", str(out), "--write", "score"]
    extra = ["--allow-extra", "--overwrite", "--quiet", "--json", "--workers", str(args.workers)]
    out.unlink(missing_ok=True)  # the same command on what is complete does nothing
    # Memory is not asked for, and to look for it five times a second would take 3 % of two cores.
    note = measured.measure([*command, *extra, "--memory-limit", "2GiB"], interval=60.0)
    if note["status"]:
        raise SystemExit(f"{' '.join(map(str, note['command']))}: exit code {note['status']}")
    record = json.loads(Path(f"{out}.run.json").read_text())
    return record["phases"]["score"], float(str(note["seconds"]))


def twin(which: str, X: NDArray[np.float32], y: NDArray[Any], D: int) -> Any:
    """scikit-learn's pipeline with the same map, fitted to a few rows."""
    transformer = (
        Nystroem(gamma=GAMMA, n_components=D, random_state=0)
        if which == "nystrom"
        else RBFSampler(gamma=GAMMA, n_components=D, random_state=0)
    )
    linear = SGDClassifier(alpha=1e-6, max_iter=1, tol=None, random_state=0)
    return make_pipeline(StandardScaler(), transformer, linear).fit(X, y)


def pipeline_rate(pipeline: Any, dtype: str, data: Path, out: Path, rows: int) -> float:
    """Rows/s of scikit-learn, of the first `rows` of the files, NPY to NPY."""
    start, done = time.perf_counter(), 0
    written = np.lib.format.open_memmap(out, mode="w+", dtype=np.float64, shape=(rows,))
    for file in sorted(data.glob("*.npy")):
        held = np.load(file, mmap_mode="r")
        for first in range(0, len(held), CHUNK):
            part = held[first : first + CHUNK, :-1][: rows - done]
            if len(part):
                written[done : done + len(part)] = pipeline.decision_function(part.astype(dtype))
                done += len(part)
    written.flush()
    return done / (time.perf_counter() - start)


def lines(place: Path, which: str, D: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """What each of them does with one map."""
    data = {form: make_files(place, form, args.rows) for form in ("npy", "parquet")}
    rows = np.load(next(iter(sorted(data["npy"].glob("*.npy")))), mmap_mode="r")[:FITTED]
    X, y = np.ascontiguousarray(rows[:, :-1]), rows[:, -1].astype(int)
    found: list[dict[str, Any]] = []
    digits = tuple(str(j) for j in range(28))
    names = {"npy": digits, "parquet": tuple(f"x{j:02d}" for j in range(28))}
    bare = args.workers * tiles_rate(model_of(which, X, y, D, digits), X, args.repeats)
    found.append({"map": which, "D": D, "who": f"tiles x {args.workers}", "rows/s": bare, "of tiles_%": 100.0})
    for form in ("npy", "parquet"):
        path, out = place / "model.safetensors", place / f"scores.{form}"
        save(model_of(which, X, y, D, names[form]), path)
        seconds = [time_scoring(path, data[form], out, args) for _ in range(args.repeats)]
        phase, whole = (min(s[i] for s in seconds) for i in (0, 1))
        found.append({
            "map": which, "D": D, "who": f"dkernel, {form}", "rows/s": args.rows / phase,
            "of tiles_%": 100 * args.rows / phase / bare, "command rows/s": args.rows / whole,
        })  # fmt: skip
        out.unlink()
    for dtype in ("float32", "float64"):
        rows_there = min(args.rows, args.sklearn_rows)
        with threadpool_limits(args.workers):
            rate = pipeline_rate(twin(which, X.astype(dtype), y, D), dtype, data["npy"], place / "twin.npy", rows_there)
        found.append(
            {"map": which, "D": D, "who": f"scikit-learn, {dtype}", "rows/s": rate, "of tiles_%": 100 * rate / bare}
        )
        for line in found[1:3]:
            line[f"times {dtype}"] = line["rows/s"] / rate
    return found


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, default=4_000_000)
    ask.add_argument("--sklearn-rows", type=int, default=400_000, help="at most so many for scikit-learn")
    ask.add_argument("--components", type=int, nargs="+", default=[1024, 4096])
    ask.add_argument("--maps", nargs="+", choices=["nystrom", "fourier"], default=["nystrom", "fourier"])
    ask.add_argument("--workers", type=int, default=2)
    ask.add_argument("--repeats", type=int, default=2)
    ask.add_argument("--place", type=Path, help="folder for the data; a temporary one when it is not given")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        place = args.place or Path(scratch)
        found = [line for which in args.maps for D in args.components for line in lines(place, which, D, args)]
        shutil.rmtree(scratch, ignore_errors=True)
    finish(f"scoring, {args.rows:,} rows x 28, {args.workers} workers", found, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
