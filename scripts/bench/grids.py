"""Forest cover, one class against the rest or all seven: components, grids on top of them, and LightGBM, in one run.

Whole fits with everything chosen but what the options say, on threads; scoring of the test rows in memory.

    python scripts/bench/grids.py
    python scripts/bench/grids.py --grids 256 1024 --trees 500 2000
    python scripts/bench/grids.py --alone --grids 1024 --loss logistic
    python scripts/bench/grids.py --alone --grids 1024 --all-classes
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import DATA, Rows, finish, forest, measured

from dkernel import Grids, KernelClassifier


def log_loss(probability: NDArray[np.float64], y: NDArray[Any], classes: NDArray[Any]) -> float:
    """Mean of -log p of the true classes, of probabilities (rows, classes) in the order of `classes`."""
    right = probability[np.arange(len(y)), np.searchsorted(classes, y)]
    return float(-np.log(np.maximum(right, 1e-15)).mean())


def trees(data: Rows, n: int, leaves: int, threads: int) -> dict[str, Any]:
    """LightGBM's line of the table."""
    import lightgbm

    X, y, X_test, y_test = data
    model = lightgbm.LGBMClassifier(n_estimators=n, num_leaves=leaves, verbose=-1, n_jobs=threads)
    with measured() as fit:
        model.fit(X, y)
    model.predict_proba(X_test[:1000])  # loads what was compiled
    with measured() as prediction:
        probability = model.predict_proba(X_test)
    wrong = model.classes_[probability.argmax(axis=1)] != y_test
    loss = log_loss(probability, y_test, model.classes_)
    return row(f"LightGBM {n} x {leaves}", fit.seconds, wrong, prediction.seconds, log_loss=loss)


def machine(data: Rows, grids: int, **settings: Any) -> dict[str, Any]:
    """Line of a kernel machine, with so many grids or none."""
    X, y, X_test, y_test = data
    local = {"local": Grids(n_grids=grids) if grids else "none"}
    with measured() as fit:
        found = KernelClassifier(**local, **settings).fit(X, y)
    found.predict(X_test[:1000])
    with measured() as prediction:
        wrong = found.predict(X_test) != y_test
    more = {"peak_MiB": fit.peak_mib}
    if hasattr(found, "predict_proba"):
        more["log_loss"] = log_loss(found.predict_proba(X_test), y_test, found.classes_)
    name = f"{found.n_components_} components" + (f" and {grids} grids" if grids else "")
    return row(name, fit.seconds, wrong, prediction.seconds, **more)


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
    options.add_argument("--grids", type=int, nargs="*", default=[0, 1024], help="0 for the global machine alone")
    options.add_argument("--components", type=int, default=1024, help="of the global machine")
    options.add_argument("--alone", action="store_true", help="no components below the grids")
    options.add_argument("--loss", default="squared_hinge")
    options.add_argument("--calibration", help="platt or isotonic, for the probabilities of a margin")
    options.add_argument("--all-classes", action="store_true")
    options.add_argument("--threads", type=int, default=2, help="LightGBM's")
    options.add_argument("--trees", type=int, nargs="*", default=[500], help="LightGBM's; nothing for none")
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    data = X, y, X_test, y_test = forest(o.data, o.rows, None if o.all_classes else 2)
    below: dict[str, Any] = {"features": "none"} if o.alone else {"n_components": o.components}
    machine((X[:5000], y[:5000], X_test[:1000], y_test[:1000]), 16, n_components=64)  # compiles
    table = [trees(data, n, 255, o.threads) for n in o.trees]
    table += [machine(data, n, loss=o.loss, calibration=o.calibration, **below) for n in o.grids]
    what = "all classes" if o.all_classes else "class 2 against the rest"
    finish(f"forest cover, {what}", table, o.json, rows_trained=len(X), options=vars(o) | {"data": ""})


if __name__ == "__main__":
    main()
