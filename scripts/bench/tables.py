"""Mixed tables as they come, adult (CSV) and diamonds (Parquet), beside boosted trees with native categories.

Nothing is given but the label, and the task of an integer price. Each is trained by the command and from pandas. The
error is in percent for classes, and RMSE over the label's standard deviation for regression.

    python scripts/bench/tables.py --only diamonds
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from report import DATA, finish, measured
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from dkernel import KernelClassifier, KernelRegressor

CASES = {"adult": ("income", ".csv", False), "diamonds": ("price", ".parquet", True)}


def read(path: Path) -> pd.DataFrame:
    """A table with its texts as categories."""
    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    texts = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, "category"))


def error_of(found: Any, y: pd.Series, regress: bool) -> float:
    """Percent of wrong labels, or RMSE in standard deviations."""
    if regress:
        return float(np.sqrt(np.mean((np.asarray(found) - y) ** 2)) / y.std(ddof=0))
    return float(100 * np.mean(np.asarray(found) != y.to_numpy()))


def by_command(place: Path, label: str, suffix: str, regress: bool) -> dict[str, float]:
    """Error and seconds of `dkernel train` and `dkernel evaluate`."""
    dkernel = [sys.executable, "-m", "dkernel"]
    task = ["--task", "regress"] if regress else []
    with tempfile.TemporaryDirectory() as where, measured() as fit:
        model = f"{where}/model"
        subprocess.run(
            [*dkernel, "train", f"{place}/train{suffix}", "--label", label, *task, "--out", model, "--quiet"],
            check=True,
        )
        said = subprocess.run(
            [*dkernel, "evaluate", model, f"{place}/test{suffix}", "--json", "--quiet"], check=True, capture_output=True
        )
    figures = json.loads(said.stdout)
    deviation = read(place / f"test{suffix}")[label].std(ddof=0) if regress else 1.0
    return {"error": figures["rmse"] / deviation if regress else 100 * figures["error"], "seconds": fit.seconds}


def run_one(name: str, place: Path, seed: int) -> dict[str, Any]:
    """One line of the table."""
    label, suffix, regress = CASES[name]
    learn, test = read(place / f"train{suffix}"), read(place / f"test{suffix}")
    X, y, X_test, y_test = learn.drop(columns=label), learn[label], test.drop(columns=label), test[label]
    command = by_command(place, label, suffix, regress)
    machine = (KernelRegressor if regress else KernelClassifier)(random_state=seed)
    with measured() as fit:
        machine.fit(X, y if regress else y.astype(str))
    trees: Any = HistGradientBoostingRegressor if regress else HistGradientBoostingClassifier
    with measured() as boosting:
        boosted = trees(categorical_features="from_dtype", random_state=seed).fit(X, y)
    theirs = error_of(boosted.predict(X_test), y_test, regress)
    mine = error_of(machine.predict(X_test), y_test, regress)
    return {
        "data": name,
        "command": round(command["error"], 4),
        "pandas": round(mine, 4),
        "trees": round(theirs, 4),
        "ratio": round(max(command["error"], mine) / theirs, 3),
        "seconds": round(fit.seconds, 1),
        "trees_seconds": round(boosting.seconds, 1),
    }


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--data", type=Path, default=DATA)
    ask.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    there = [name for name in args.only if (args.data / name / f"train{CASES[name][1]}").is_file()]
    if not there:
        print(
            f"skipped: {args.data} holds none of {', '.join(args.only)}; name their folder with --data", file=sys.stderr
        )
        return 0
    finish("mixed tables, defaults alone", [run_one(name, args.data / name, args.seed) for name in there], args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
