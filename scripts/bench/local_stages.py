"""Real data sets: kernel machines without and with a local stage, beside LightGBM, in one table.

Whole fits with everything chosen but what the options say, on threads; the test rows are predicted in memory. The error
is the share of wrong labels in percent, or the root mean square error in deviations of the labels.

    python scripts/bench/local_stages.py
    python scripts/bench/local_stages.py --sets kin40k letter --stages "cells(rows=2048)" --trees 500
    python scripts/bench/local_stages.py --sets "covtype 2" --stages --grids 256 1024 --alone --loss logistic
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from report import Rows, boosted_trees, error_of, finish, folder, forest, measure_block, parser, parts

from dkernel import KernelClassifier, KernelRegressor

SETS = ("letter", "magic", "california", "kin40k", "covtype", "covtype 2")
NUMBERS = ("kin40k", "california")  # sets of a regression


def rows_of(data: Path, name: str, rows: int | None) -> Rows:
    """The first rows to train on, and all test rows; of "covtype 2" class 2 against the rest."""
    if name == "covtype 2":
        return forest(data, rows)
    X, y, X_test, y_test = parts(folder(data, name))
    return X[:rows], y[:rows], X_test, y_test


def log_loss(machine: Any, X: NDArray[Any], y: NDArray[Any]) -> float:
    """Mean of -log p of the true classes."""
    right = machine.predict_proba(X)[np.arange(len(y)), np.searchsorted(machine.classes_, y)]
    return float(-np.log(np.maximum(right, 1e-15)).mean())


def line(name: str, model: str, machine: Any, rows: Rows) -> dict[str, Any]:
    """The line of a machine."""
    X, y, X_test, y_test = rows
    with measure_block() as fit:
        machine.fit(X, y)
    machine.predict(X_test[:1000])  # loads what was compiled
    with measure_block() as prediction:
        answers = machine.predict(X_test)
    found = {"data": name, "model": model, "error": error_of(answers, y_test, name in NUMBERS), "fit_s": fit.seconds}
    found |= {"predict_rows_s": len(X_test) / prediction.seconds, "peak_mib": fit.peak_mib}
    if hasattr(machine, "predict_proba"):
        found["log_loss"] = log_loss(machine, X_test, y_test)
    print(f"{name}, {model}: {found['error']:.4g}, {fit.seconds:.1f} s", file=sys.stderr)
    return found


def main() -> None:
    """Print the table."""
    options = parser(__doc__, data=True)
    options.add_argument("--sets", nargs="+", choices=SETS, default=[name for name in SETS if name != "covtype"])
    options.add_argument("--rows", type=int, help="the first rows only")
    options.add_argument("--stages", nargs="*", default=["none", "auto", "cells"], help="values of local")
    options.add_argument("--grids", type=int, nargs="*", default=[], help="numbers of grids, more values of local")
    options.add_argument("--components", type=int, help="of the global machine")
    options.add_argument("--alone", action="store_true", help="no components below the local stage")
    options.add_argument("--loss", default="auto")
    options.add_argument("--calibration", default="auto", help="temperature: for probabilities of every loss")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=2, help="LightGBM's")
    options.add_argument("--trees", type=int, nargs="*", default=[], help="LightGBM's; nothing for none")
    o = options.parse_args()
    given: dict[str, Any] = {"features": "none"} if o.alone else {"n_components": o.components or "auto"}
    table = []
    for name in o.sets:
        rows, regress = rows_of(o.data, name, o.rows), name in NUMBERS
        for n in o.trees:
            table.append(line(name, f"LightGBM {n} x 255", boosted_trees(regress, n, 255, o.threads), rows))
        for stage in [*o.stages, *(f"grids(n_grids={n})" for n in o.grids)]:
            settings = {**given, "loss": o.loss, "local": stage, "random_state": o.seed}
            settings |= {} if regress else {"calibration": o.calibration}
            table.append(line(name, stage, (KernelRegressor if regress else KernelClassifier)(**settings), rows))
    finish("local stages on real data", table, o.json, options=vars(o) | {"data": ""})


if __name__ == "__main__":
    main()
