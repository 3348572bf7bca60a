"""Forest cover, class 2 against the rest: grids alone, in memory, beside LightGBM, and what a row and grid costs.

The fit is the plain loop over groups of grids with the functions of `dkernel.local`; a training command for it does not
exist yet. The widths of the features come from gradients of a ridge regression on 6,000 rows. One-hot groups of columns
are one category each.

    python scripts/bench/grids.py --grids 1024
    python scripts/bench/grids.py --grids 256 --sweeps 4 --trees 2000
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from report import DATA, finish, forest, measured

from dkernel import Exponential
from dkernel.local.binning import Binning
from dkernel.local.grids import add_scores, add_sums, fixed_point, joined, to_fixed
from dkernel.numerics.random_streams import stream
from dkernel.numerics.threads import one_blas_thread
from dkernel.selection.metric_learning import gradient_moment, metric_root

TILE = 8192  # rows whose codes are looked up while the table of a grid is in the cache
SAMPLE = 16_384  # rows that tell the correlations of the grids of a group
NUMBERS, GROUPS = 10, (10, 14)  # of forest cover: features that are numbers, first columns of the one-hot groups


def relevance(X: NDArray[Any], y: NDArray[Any], rounds: int = 3) -> NDArray[np.float64]:
    """Root of the mean squared derivative of a fitted function along each feature, of mean square 1."""
    X = X.astype(np.float64)
    root = np.eye(X.shape[1])
    for _ in range(rounds):
        Z = X @ root
        some = Z[:1000]
        kernel = Exponential(length=float(np.median(np.sqrt(((some[:, None] - some[None]) ** 2).sum(axis=2)))))
        K = kernel(Z, Z)
        K[np.diag_indices_from(K)] += 1e-2
        coef = scipy.linalg.cho_solve(scipy.linalg.cho_factor(K), y[:, None])
        moment = root @ gradient_moment(kernel, Z[:2000], Z, coef) @ root.T
        root = metric_root(moment, diagonal=False)
    return np.sqrt(np.diag(root @ root) / np.mean(np.diag(root @ root)))


class Fit:
    """A fit of grids to rows in memory, on threads."""

    def __init__(self, binning: Binning, X: NDArray[np.float32], y: NDArray[np.float32], ridge: float, threads: int):
        self.binning, self.X, self.y, self.ridge, self.threads = binning, X, y[:, None], ridge, threads
        self.coef = np.zeros((binning.n_grids, binning.n_bins, 1), np.float32)
        self.scores = np.zeros((len(X), 1), np.float32)
        self.seconds: Counter[str] = Counter()
        self.sample = np.sort(stream(0, "bench").choice(len(X), min(SAMPLE, len(X)), replace=False))

    def sweep(self, group: int) -> None:
        """Every group once."""
        with ThreadPoolExecutor(self.threads) as pool:
            for first in range(0, self.binning.n_grids, group):
                self._round(self.binning.part(first, first + group), first, pool)

    def _round(self, some: Binning, first: int, pool: ThreadPoolExecutor) -> None:
        coef = self.coef[first : first + some.n_grids]
        k = fixed_point(4.0, len(self.X))
        tiles = [slice(at, min(at + TILE, len(self.X))) for at in range(0, len(self.X), TILE)]
        codes = [np.empty((some.n_grids, tile.stop - tile.start), np.uint32) for tile in tiles]

        def sums(thread: int) -> NDArray[np.int64]:
            table = np.zeros((some.n_grids, some.n_bins, 2), np.int64)
            for i in range(thread, len(tiles), self.threads):
                start = time.perf_counter()
                some.codes(self.X[tiles[i]], codes[i])
                coded = time.perf_counter()
                residual = self.y[tiles[i]] - self.scores[tiles[i]]
                add_sums(codes[i], np.hstack([to_fixed(residual, k), np.full(residual.shape, 1 << k)]), table)
                self.seconds["codes"] += coded - start
                self.seconds["sums"] += time.perf_counter() - coded
            return table

        table = np.ldexp(sum(pool.map(sums, range(self.threads))).astype(np.float64), -k)
        start = time.perf_counter()
        rows = np.full(len(self.sample), len(self.X) / len(self.sample))
        ridge = self.ridge * self.binning.n_grids
        change = joined(coef, table[..., :1], table[..., 1], ridge, some.codes(self.X[self.sample]), rows)
        coef += change
        self.seconds["joining"] += time.perf_counter() - start

        def look_up(thread: int) -> None:
            for i in range(thread, len(tiles), self.threads):
                start = time.perf_counter()
                add_scores(codes[i], change, self.scores[tiles[i]])
                self.seconds["scores"] += time.perf_counter() - start

        list(pool.map(look_up, range(self.threads)))

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        scores = np.zeros((len(X), 1), np.float32)
        for first in range(0, self.binning.n_grids, 16):
            add_scores(self.binning.part(first, first + 16).codes(X), self.coef[first : first + 16], scores)
        return scores[:, 0]


def compact(X: NDArray[np.float32]) -> NDArray[np.float32]:
    """The numbers, then each one-hot group as one column of codes."""
    ends = (*GROUPS[1:], X.shape[1])
    groups = [X[:, first:last].argmax(axis=1) for first, last in zip(GROUPS, ends, strict=True)]
    return np.column_stack([X[:, :NUMBERS], *groups]).astype(np.float32)


def trees(data: tuple[Any, ...], n: int, leaves: int, threads: int) -> dict[str, Any]:
    """LightGBM's line of the table."""
    import lightgbm

    X, y, X_test, y_test = data
    settings = {
        "objective": "binary",
        "num_leaves": leaves,
        "learning_rate": 0.1,
        "verbose": -1,
        "num_threads": threads,
    }
    with measured() as fit:
        model = lightgbm.train(settings, lightgbm.Dataset(X, (y > 0).astype(float)), num_boost_round=n)
    with measured() as prediction:
        scores = model.predict(X_test)
    return row(f"LightGBM {n} x {leaves}", fit.seconds, (scores > 0.5) != (y_test > 0), prediction.seconds)


def row(name: str, seconds: float, wrong: NDArray[np.bool_], prediction: float, **more: float) -> dict[str, Any]:
    print(f"{name}: {100 * wrong.mean():.2f} %, {seconds:.1f} s", file=sys.stderr)
    return {
        "model": name,
        "error_%": 100 * wrong.mean(),
        "fit_s": seconds,
        "predict_rows_s": len(wrong) / prediction,
        **more,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--rows", type=int, help="the first rows only")
    options.add_argument("--grids", type=int, default=1024)
    options.add_argument("--group", type=int, default=16, help="grids of a round")
    options.add_argument("--bits", type=int, default=16, help="of the code of a bin")
    options.add_argument("--width", type=float, default=0.8, help="gamma of a feature of mean relevance")
    options.add_argument("--ridge", type=float, default=1e-2, help="of one grid")
    options.add_argument("--sweeps", type=int, default=1)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--trees", type=int, nargs="*", default=[500], help="LightGBM's; nothing for none")
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    X, y, X_test, y_test = forest(o.data, o.rows)
    y, y_test = (np.where(v, 1.0, -1.0).astype(np.float32) for v in (y, y_test))
    table = [trees((X, y, X_test, y_test), n, 255, o.threads) for n in o.trees]
    X, X_test = compact(X), compact(X_test)
    categorical = np.arange(X.shape[1]) >= NUMBERS
    mean, deviation = (np.where(categorical, v, f(X, axis=0)) for v, f in ((0, np.mean), (1, np.std)))
    X, X_test = (((A - mean) / deviation).astype(np.float32) for A in (X, X_test))
    warm = Fit(Binning.draw(1.0, X.shape[1], 16, o.bits), X[:2000], y[:2000], o.ridge, 1)
    warm.sweep(16)  # compiles
    with one_blas_thread(), measured() as fit:
        some = stream(0, "relevance").choice(len(X), min(6000, len(X)), replace=False)
        weights = np.ones(X.shape[1])
        weights[:NUMBERS] = relevance(X[some, :NUMBERS], y[some])
        binning = Binning.draw(o.width * weights, X.shape[1], o.grids, o.bits, 0, categorical)
        found = Fit(binning, X, y, o.ridge, o.threads)
    seconds = fit.seconds
    for sweep in range(o.sweeps):
        with one_blas_thread(), measured() as fit:
            found.sweep(o.group)
        seconds += fit.seconds
        with measured() as prediction:
            scores = found.predict(X_test)
        work = len(X) * o.grids * (sweep + 1) * 1e-9
        costs = {f"{name}_ns": spent / work for name, spent in found.seconds.items()}
        name = f"{o.grids} grids, {sweep + 1} sweep(s)"
        table.append(row(name, seconds, (scores > 0) != (y_test > 0), prediction.seconds, **costs))
    finish("forest cover, class 2 against the rest", table, o.json, rows_trained=len(X), options=vars(o) | {"data": ""})


if __name__ == "__main__":
    main()
