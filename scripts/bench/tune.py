"""A search over 64 candidates: dkernel's race over all rows, and scikit-learn's halving on a sample in the same time.

Three lines: one fit with everything chosen on the sample; the race with the fit of its winner, `times_a_fit` being its
time in units of the first line's; and HalvingRandomSearchCV over 64 candidates of an SVC, on the largest sample for
which it ends in the time of the race.

    python scripts/bench/tune.py                                  covtype, 60,000 rows
    python scripts/bench/tune.py --rows 0 --components 0             all of it, size by itself
    python scripts/bench/tune.py --made 10000000 --components 0      ten million made rows, in chunks
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from report import error_of, finish, folder, measure_block, parser, parts
from scipy.stats import loguniform
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - the search hides behind it
from sklearn.model_selection import HalvingRandomSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dkernel import KernelClassifier, Tuner

CANDIDATES = 64
CHUNK = 131_072


def covtype(place: Path, rows: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Some rows of the train file, the most frequent class against all others; and of the test file."""
    X, y, X_test, y_test = parts(place)
    chosen = np.random.default_rng(seed).permutation(len(X))[: rows or len(X)]
    return X[chosen], y[chosen], X_test[:50_000], y_test[:50_000]


def make_rows(rows: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Rows of 28 columns whose class is a ring in a few of them, made chunk by chunk as they are read."""
    source = da.random.default_rng(seed).standard_normal((rows, 28), chunks=(CHUNK, 28)).astype(np.float32)
    fresh = np.random.default_rng(seed + 1).standard_normal((50_000, 28)).astype(np.float32)
    return source, ring(source), fresh, ring(fresh)


def ring(X: Any) -> Any:
    """The label of made rows."""
    return (((X[:, :4] ** 2).sum(axis=1) + X[:, 4] * X[:, 5]) > 3.5).astype(np.int64)


def halving(X: Any, y: Any, X_test: Any, y_test: Any, seconds: float, seed: int) -> dict[str, Any]:
    """The search on samples that double, as far as the time goes."""
    best: dict[str, Any] = {}
    size = 1000
    machine = make_pipeline(StandardScaler(), SVC(cache_size=500))
    space = {"svc__gamma": loguniform(1e-3, 1e1), "svc__C": loguniform(1e-1, 1e4)}
    spent = 0.0
    while size <= len(X):
        with measure_block() as m, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = HalvingRandomSearchCV(
                machine, space, n_candidates=CANDIDATES, factor=2, min_resources=max(100, size // 32),
                max_resources=size, cv=3, random_state=seed,
            ).fit(np.asarray(X[:size]), np.asarray(y[:size]))  # fmt: skip
        spent = m.seconds
        if best and spent > seconds:
            break
        best = {"search": "HalvingRandomSearchCV(SVC)", "rows": size, "seconds": spent, "peak_mib": m.peak_mib}
        best["error_%"] = error_of(search.predict(X_test), y_test)
        if 4 * spent > seconds:  # of twice the rows an SVC takes some four times as long
            break
        size *= 2
    return best


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__, data=True)
    ask.add_argument("--rows", type=int, default=60_000, help="of covtype; 0 for all")
    ask.add_argument("--made", type=int, default=0, help="so many made rows instead")
    ask.add_argument("--components", type=int, default=2048, help="of the model; 0 for its own choice")
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args(arguments)
    if args.made:
        X, y, X_test, y_test = make_rows(args.made, args.seed)
    else:
        X, y, X_test, y_test = covtype(folder(args.data, "covtype"), args.rows, args.seed)
    size = args.components or "auto"
    machine = KernelClassifier("gaussian", n_components=size, random_state=args.seed)
    machine.fit(X[:2000], y[:2000])  # what is compiled and imported once is no part of either time
    with measure_block() as fit:
        machine.fit(X, y)
    rows = [{"search": "none: one fit", "rows": len(X), "seconds": fit.seconds, "peak_mib": fit.peak_mib,
             "error_%": error_of(machine.predict(X_test), y_test)}]  # fmt: skip
    with measure_block() as race:
        tuner = Tuner(KernelClassifier("gaussian", n_components=size, random_state=args.seed)).fit(X, y)
    line = {"search": f"dkernel: {len(tuner.leaderboard_)} candidates", "rows": len(X), "seconds": race.seconds}
    rows.append({**line, "peak_mib": race.peak_mib, "error_%": error_of(tuner.predict(X_test), y_test)})
    rows[-1]["times_a_fit"] = race.seconds / fit.seconds
    if not args.made:
        rows.append(halving(X, y, X_test, y_test, race.seconds, args.seed))
    finish("a search over 64 candidates", rows, args.json, best=tuner.best_params_)
    return 0


if __name__ == "__main__":
    sys.exit(main())
