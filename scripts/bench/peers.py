"""dkernel against dask-ml on the same two workers: `Incremental(SGDClassifier)` over `RBFSampler`, one pass each.

A million rows of 28 columns whose class is the sign of a quadratic form (quadratic.py), as NPY files that both read:
of doubles, as numpy, pandas and scikit-learn make them, and of single precision, where scikit-learn's map computes in
single precision as well and its cosine is several times cheaper. dkernel computes in single precision from either.
dask-ml maps RBFSampler over the chunks of a Dask array, standardized, and feeds them one after the other to
SGDClassifier.partial_fit, which is how its documentation does it. dkernel: Gaussian kernel of the same gamma, one pass,
with Fourier features and with landmarks; `pass_s` is the pass alone, `fit_s` all of the fit: survey, setup and choice
of alpha with it. The workers are those of a LocalCluster as Dask starts it, or with --cluster dkernel those that
dkernel starts, whose stacks are looked at less often. The comparison with scikit-learn's Nystroem on covtype is
covtype.py.

    python scripts/bench/peers.py
    python scripts/bench/peers.py --dtype float32 --cluster dkernel
    python scripts/bench/peers.py --rows 100000 --components 512
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask_ml.wrappers import Incremental
from numpy.typing import NDArray
from quadratic import write_rows
from report import error_of, finish, parser
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier

from dkernel.data import open_source
from dkernel.execution.base import Executor
from dkernel.execution.connect import connect
from dkernel.recipe import Recipe
from dkernel.streaming.progress import Progress
from dkernel.training.fit import train

P = 28
TESTED = 50_000
GAMMA = 0.02


def chunk(D: int, dtype: np.dtype[Any]) -> int:
    """Rows of dask-ml's blocks, with which it was fastest here of 4,096 to 65,536: 256 MB of columns at most."""
    return min(16_384, 2**28 // (D * dtype.itemsize))


def block_of(path: str, first: int, n: int) -> NDArray[Any]:
    """Rows of one file, label and all."""
    return np.load(path, mmap_mode="r")[first : first + n].copy()


def as_dask(folder: Path, step: int) -> da.Array:
    """The rows of the files in blocks of `step` that the workers read."""
    import dask

    parts = []
    for path in sorted(folder.glob("*.npy")):
        held = np.load(path, mmap_mode="r")
        n = len(held)
        for first in range(0, n, step):
            m = min(step, n - first)
            task = dask.delayed(block_of)(str(path), first, m)
            parts.append(da.from_delayed(task, (m, P + 1), held.dtype))
    return da.concatenate(parts)


def incremental(train_rows: Path, test: NDArray[Any], D: int) -> dict[str, Any]:
    """dask-ml's line. Its columns are standard already, so it gets them as they are."""
    step = chunk(D, test.dtype)
    rows = as_dask(train_rows, step)
    X, y = rows[:, :P], rows[:, P].astype(np.int64)
    start = time.perf_counter()
    sampler = RBFSampler(gamma=GAMMA, n_components=D, random_state=0).fit(np.zeros((1, P), X.dtype))
    columns = X.map_blocks(sampler.transform, dtype=X.dtype, chunks=(X.chunks[0], (D,)))
    model = Incremental(SGDClassifier(alpha=1e-6, average=True, random_state=0), shuffle_blocks=False)
    begun = time.perf_counter()
    model.fit(columns, y, classes=[0, 1])
    end = time.perf_counter()
    found = np.concatenate([model.estimator_.predict(sampler.transform(test[i : i + step, :P]))
                            for i in range(0, len(test), step)])  # fmt: skip
    error = error_of(found, test[:, P])
    who, dtype = "dask-ml", str(X.dtype)
    return {"who": who, "dtype": dtype, "D": D, "pass_s": end - begun, "fit_s": end - start, "test_error_%": error}


def ours(
    executor: Executor, train_rows: Path, test: NDArray[Any], D: int, features: str, rounds: str | int
) -> dict[str, Any]:
    """dkernel's line."""
    recipe = Recipe(kernel=f"Gaussian(gamma={GAMMA})", features=features, n_components=D, scale="standard",
                    metric="identity", task="classify", rounds=rounds)  # fmt: skip
    start, progress = time.perf_counter(), Progress("none")
    source = open_source(train_rows, label=str(P))
    result = train(source, recipe, executor, progress=progress)
    seconds = time.perf_counter() - start
    passes = sum(s for name, s in progress.seconds().items() if name.startswith("pass"))
    error = error_of(result.model.predict(test[:, :P]), test[:, P])
    who = f"dkernel, {features}, {result.model.recipe.rounds} rounds"
    return {"who": who, "dtype": str(test.dtype), "D": D, "pass_s": passes, "fit_s": seconds, "test_error_%": error}


@contextmanager
def two_workers(cluster: str) -> Iterator[Executor]:
    """Two processes of a thread each; dask-ml finds them by the client of this process."""
    if cluster == "dkernel":
        with connect(workers=2, memory_limit="4GiB") as executor:
            yield executor
        return
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="4GiB", dashboard_address=":0") as there,
        Client(there),
        connect(scheduler=there.scheduler_address) as executor,
    ):
        yield executor


def _rounds(text: str) -> str | int:
    return text if text == "auto" else int(text)


def main(arguments: list[str] | None = None) -> int:
    ask, dtypes = parser(__doc__), ["float64", "float32"]
    ask.add_argument("--rows", type=int, default=1_000_000)
    ask.add_argument("--components", type=int, nargs="+", default=[1000, 4000])
    ask.add_argument("--rounds", type=_rounds, nargs="+", default=["auto"], help="of dkernel's pass; auto: by its rule")
    ask.add_argument("--repeats", type=int, default=2, help="turns of both; the best of each counts")
    ask.add_argument("--dtype", nargs="+", choices=dtypes, default=dtypes, help="of the files")
    ask.add_argument("--cluster", choices=("dask", "dkernel"), default="dask", help="who starts the two workers")
    ask.add_argument("--place", type=Path, help="folder for the data; a temporary one when it is not given")
    args = ask.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch, two_workers(args.cluster) as executor:
        place = args.place or Path(scratch)
        for D, dtype in itertools.product(args.components, args.dtype):
            data = write_rows(place, args.rows, dtype=dtype)
            [held] = write_rows(place, TESTED, seed=1, dtype=dtype).glob("*.npy")
            test = np.load(held)
            turns = []
            for _ in range(args.repeats):
                theirs = incremental(data, test, D)
                mine = [
                    ours(executor, data, test, D, f, rounds) for f in ("fourier", "nystrom") for rounds in args.rounds
                ]
                turns.append([theirs, *mine])
                print(f"{dtype}, D = {D}: {[round(line['pass_s'], 2) for line in turns[-1]]} s", file=sys.stderr)
            best = [{**turns[0][i], **{name: min(t[i][name] for t in turns) for name in ("pass_s", "fit_s")}}
                    for i in range(len(turns[0]))]  # fmt: skip
            for line in best[1:]:
                line["times a pass"] = best[0]["pass_s"] / line["pass_s"]
                line["times the fit"] = best[0]["fit_s"] / line["fit_s"]
            lines += best
    finish(f"dask-ml's Incremental beside dkernel, {args.rows:,} rows x {P}, 2 workers", lines, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
