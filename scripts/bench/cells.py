"""Real data sets: the default machine, the same with cells, and LightGBM, in one table.

Whole fits with everything chosen but what the options say, on threads. The error is the share of wrong labels in
percent, or the root mean square error in deviations of the labels.

    python scripts/bench/cells.py
    python scripts/bench/cells.py --sets kin40k letter --rows 2048 --trees 500
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import DATA, finish, folder, load, measured

from dkernel import KernelClassifier, KernelRegressor

NUMBERS = ("kin40k", "california")  # sets of a regression
POSITIVE = {"covtype": 2}  # label against the rest


def rows_of(data: Path, name: str, rows: int | None) -> tuple[NDArray[Any], ...]:
    """Training and test rows."""
    place = folder(data, name)
    (X, y), (X_test, y_test) = (load(place / f"{part}.parquet") for part in ("train", "test"))
    if name in POSITIVE:
        y, y_test = y == POSITIVE[name], y_test == POSITIVE[name]
    return X[:rows], y[:rows], X_test, y_test


def error(name: str, found: NDArray[Any], truth: NDArray[Any], deviation: float) -> float:
    """Of predictions of the test rows."""
    if name in NUMBERS:
        return float(np.sqrt(np.mean((found - truth) ** 2)) / deviation)
    return float(100 * np.mean(found != truth))


def machine(name: str, data: tuple[NDArray[Any], ...], **settings: Any) -> dict[str, Any]:
    """Line of a kernel machine."""
    X, y, X_test, y_test = data
    kind = KernelRegressor if name in NUMBERS else KernelClassifier
    with measured() as fit:
        found = kind(**settings).fit(X, y)
    with measured() as prediction:
        wrong = error(name, found.predict(X_test), y_test, float(np.std(y)) if name in NUMBERS else 1.0)
    return row(name, settings.get("local", "none"), wrong, fit.seconds, len(X_test) / prediction.seconds)


def trees(name: str, data: tuple[NDArray[Any], ...], n: int, threads: int) -> dict[str, Any]:
    """LightGBM's line."""
    import lightgbm

    X, y, X_test, y_test = data
    kind = lightgbm.LGBMRegressor if name in NUMBERS else lightgbm.LGBMClassifier
    with measured() as fit:
        found = kind(n_estimators=n, num_leaves=255, n_jobs=threads, verbose=-1).fit(X, y)
    with measured() as prediction:
        wrong = error(name, found.predict(X_test), y_test, float(np.std(y)) if name in NUMBERS else 1.0)
    return row(name, f"LightGBM {n} x 255", wrong, fit.seconds, len(X_test) / prediction.seconds)


def row(name: str, model: str, wrong: float, seconds: float, rate: float) -> dict[str, Any]:
    print(f"{name}, {model}: {wrong:.4g}, {seconds:.1f} s", file=sys.stderr)
    return {"data": name, "model": model, "error": wrong, "fit_s": seconds, "predict_rows_s": rate}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--sets", nargs="*", default=["letter", "magic", "california", "kin40k", "covtype"])
    options.add_argument("--rows", type=int, help="the first rows only")
    options.add_argument("--stages", nargs="*", default=["none", "auto", "cells"], help="of the kernel machines")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=2, help="LightGBM's")
    options.add_argument("--trees", type=int, nargs="*", default=[], help="LightGBM's; nothing for none")
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    table = []
    for name in o.sets:
        data = rows_of(o.data, name, o.rows)
        table += [trees(name, data, n, o.threads) for n in o.trees]
        table += [machine(name, data, local=stage, random_state=o.seed) for stage in o.stages]
    finish("cells on real data", table, o.json, options=vars(o) | {"data": ""})


if __name__ == "__main__":
    main()
