"""Forest cover, class 2 against the rest: the global machine, grids on top of it, and LightGBM, in one run.

Whole fits with everything chosen but what the options say, on threads; scoring of the test rows in memory.

    python scripts/bench/grids.py
    python scripts/bench/grids.py --grids 256 1024 --trees 500 2000
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import DATA, finish, forest, measured

from dkernel import KernelClassifier


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
        model = lightgbm.train(settings, lightgbm.Dataset(X, y.astype(float)), num_boost_round=n)
    with measured() as prediction:
        scores = model.predict(X_test)
    return row(f"LightGBM {n} x {leaves}", fit.seconds, (scores > 0.5) != y_test, prediction.seconds)


def machine(data: tuple[Any, ...], grids: int, **settings: Any) -> dict[str, Any]:
    """Line of a kernel machine, with so many grids or none."""
    X, y, X_test, y_test = data
    local = {"local": "grids", "n_grids": grids} if grids else {}
    with measured() as fit:
        found = KernelClassifier(**local, **settings).fit(X, y)
    with measured() as prediction:
        wrong = found.predict(X_test) != y_test
    name = f"{found.n_components_} components" + (f" and {grids} grids" if grids else "")
    return row(name, fit.seconds, wrong, prediction.seconds, peak_MiB=fit.peak_mib)


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
    options.add_argument("--loss", default="squared_hinge")
    options.add_argument("--threads", type=int, default=2, help="LightGBM's")
    options.add_argument("--trees", type=int, nargs="*", default=[500], help="LightGBM's; nothing for none")
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    X, y, X_test, y_test = forest(o.data, o.rows)
    data = (X, y > 0, X_test, y_test > 0)
    machine((X[:5000], y[:5000] > 0, X_test[:1000], y_test[:1000] > 0), 16, n_components=64)  # compiles
    table = [trees(data, n, 255, o.threads) for n in o.trees]
    table += [machine(data, n, n_components=o.components, loss=o.loss) for n in o.grids]
    finish("forest cover, class 2 against the rest", table, o.json, rows_trained=len(X), options=vars(o) | {"data": ""})


if __name__ == "__main__":
    main()
