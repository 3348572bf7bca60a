"""Four small real data sets with the defaults alone: letter (26 classes), magic (2), kin40k, california (regression).

Nothing is set but the kind of estimator: kernel, metric, scale, gamma, alpha and the number of columns choose
themselves. The error is in percent for classes, and RMSE over the label's standard deviation for regression. Beside it
stands what scikit-learn's gradient boosting reaches with its defaults: trees are the ones to beat on tables.

    python scripts/bench/small_sets.py --only letter kin40k
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from report import DATA, finish, folder, measured, parts
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from dkernel import KernelClassifier, KernelRegressor


@dataclass(frozen=True)
class Case:
    """A data set, and whether its label is a number."""

    name: str
    regress: bool

    def model(self, seed: int) -> Any:
        """The estimator, as it comes."""
        return (KernelRegressor if self.regress else KernelClassifier)(random_state=seed)


CASES = (Case("letter", False), Case("magic", False), Case("kin40k", True), Case("california", True))


def run_one(case: Case, place: Path, seed: int) -> dict[str, Any]:
    """One line of the table."""
    X, y, X_test, y_test = parts(place)
    model = case.model(seed)
    with measured() as fit:
        model.fit(X, y)
    with measured() as prediction:
        answer = model.predict(X_test)
    trees = (HistGradientBoostingRegressor if case.regress else HistGradientBoostingClassifier)(random_state=seed)
    with measured() as boosting:
        trees.fit(X, y)
    return {
        "data": case.name,
        "rows": len(X),
        "columns": model.model_.map.n_components,
        "kernel": model.model_.recipe.kernel,
        "metric": model.model_.recipe.metric,
        **error_of(case, answer, y_test),
        "fit_s": fit.seconds,
        "fit_rows_s": len(X) / fit.seconds,
        "predict_rows_s": len(X_test) / prediction.seconds,
        "peak_mib": max(fit.peak_mib, prediction.peak_mib),
        **{f"trees_{name}": value for name, value in error_of(case, trees.predict(X_test), y_test).items()},
        "trees_fit_s": boosting.seconds,
    }


def error_of(case: Case, answer: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The error of some predictions, under its name."""
    if case.regress:
        return {"rmse/sd": float(np.sqrt(np.mean((answer - y) ** 2)) / np.std(y))}
    return {"error_%": 100 * float((answer != y).mean())}


def main(arguments: list[str] | None = None) -> int:
    names = [case.name for case in CASES]
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--data", type=Path, default=DATA)
    ask.add_argument("--only", nargs="+", choices=names, default=names)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    cases = [case for case in CASES if case.name in args.only]
    places = {case.name: folder(args.data, case.name) for case in cases}
    rows = [run_one(case, places[case.name], args.seed) for case in cases]
    finish("small data sets, defaults alone", rows, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
