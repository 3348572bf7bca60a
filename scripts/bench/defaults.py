"""Error and seconds of what is fitted when nothing is given, beside each local stage by name and beside others.

A fit of each way to each set for each seed, everything left open but the local stage. The errors of the test rows are
kept, one file a fit, so that two ways are compared row by row; a fit that the folder holds is not made again. The error
is in percent for classes and RMSE over the label's standard deviation for numbers. `against` is the difference of a
way's error to that of the default, with its standard error over the test rows, in the unit of the error (of numbers in
that of the mean squared error). scikit-learn's exact machines are fitted to up to 20,000 rows.

    python scripts/bench/defaults.py --seeds 5
    python scripts/bench/defaults.py --sets magic --ways default none --seeds 1
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from data import advice
from numpy.typing import NDArray
from report import DATA, finish, machine, measured

from dkernel import KernelClassifier, KernelRegressor

SETS = {
    "letter": ("label", False), "magic": ("label", False), "banana": ("label", False), "kin40k": ("label", True),
    "california": ("label", True), "adult": ("income", False), "diamonds": ("price", True), "covtype": ("label", False),
}  # fmt: skip
"""Name -> its label, and whether that is a number; all but covtype and banana are fitted by default."""
OURS = {"default": "auto", "none": "none", "grids": "grids", "cells": "cells"}
MOST_SVM = 20_000  # rows


@dataclass(frozen=True)
class Table:
    """A set: tables with their texts as categories, and labels."""

    X: pd.DataFrame
    y: NDArray[Any]
    X_test: pd.DataFrame
    y_test: NDArray[Any]
    regress: bool


def table(folder: Path, label: str, regress: bool, rows: int | None) -> Table:
    """The set of a folder, its first rows only where `rows` says how many."""
    paths = [next(path for path in sorted(folder.glob(f"{part}.*"))) for part in ("train", "test")]
    parts = [pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path) for path in paths]
    n = min(len(parts[0]), rows or len(parts[0]))
    whole = pd.concat([parts[0][:n], parts[1]], ignore_index=True)
    y = whole.pop(label).to_numpy(dtype=np.float64 if regress else None)
    y = y if regress else y.astype(str)
    texts = [name for name in whole if not pd.api.types.is_numeric_dtype(whole[name])]
    X = whole.astype(dict.fromkeys(texts, "category"))
    return Table(X[:n], y[:n], X[n:], y[n:], regress)


def ours(local: str) -> Callable[[Table, int], Any]:
    """An estimator with everything open but the local stage."""

    def make(data: Table, seed: int) -> Any:
        return (KernelRegressor if data.regress else KernelClassifier)(local=local, random_state=seed)

    return make


def svm(data: Table, seed: int) -> Any:  # noqa: ARG001
    from sklearn.compose import TransformedTargetRegressor, make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC, SVR

    texts = list(data.X.select_dtypes("category"))
    encoded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts), remainder=StandardScaler()
    )
    model = make_pipeline(encoded, SVR(C=10) if data.regress else SVC(C=10))
    return TransformedTargetRegressor(model, transformer=StandardScaler()) if data.regress else model


def boosting(data: Table, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if data.regress else HistGradientBoostingClassifier
    return kind(categorical_features="from_dtype", random_state=seed)


def trees(data: Table, seed: int) -> Any:
    import lightgbm

    kind = lightgbm.LGBMRegressor if data.regress else lightgbm.LGBMClassifier
    return kind(n_estimators=500, num_leaves=255, verbose=-1, n_jobs=-1, random_state=seed)


WAYS: dict[str, Callable[[Table, int], Any]] = {name: ours(local) for name, local in OURS.items()}
WAYS |= {"SVM": svm, "HistGradientBoosting": boosting, "LightGBM 500 x 255": trees}


def run_one(way: str, data: Table, seed: int) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """The line of a fit, and the errors of the test rows."""
    model = WAYS[way](data, seed)
    with measured() as fit:
        model.fit(data.X, data.y)
    answer = model.predict(data.X_test)
    if data.regress:
        errors = np.square((answer - data.y_test) / np.std(data.y_test))
    else:
        errors = (np.asarray(answer) != data.y_test).astype(np.float64)
    chosen = getattr(model, "chosen_", {}).get("local", "")
    return {"seconds": fit.seconds, "error": error_of(errors, data.regress), "local": chosen}, errors


def error_of(errors: NDArray[np.float64], regress: bool) -> float:
    return float(np.sqrt(errors.mean()) if regress else 100 * errors.mean())


def against(errors: NDArray[np.float64], default: NDArray[np.float64], regress: bool) -> str:
    """Mean difference to the default of errors (seeds, rows), and its standard error over the rows."""
    difference = (errors - default).mean(axis=0) * (1 if regress else 100)
    return f"{difference.mean():+.4f} ± {difference.std() / len(difference) ** 0.5:.4f}"


def summed_up(folder: Path, sets: list[str], ways: list[str], seeds: int) -> tuple[list[dict[str, Any]], float]:
    """The table, and the geometric mean over the sets of the default's error over the best of dkernel's."""
    rows, ratios = [], []
    for name in sets:
        found = {}
        for way in ways:
            paths = [path_of(folder, name, way, seed) for seed in range(seeds)]
            if all(path.exists() for path in paths):
                lines = [json.loads(path.read_text()) for path in paths]
                found[way] = lines, np.stack([np.load(path.with_suffix(".npy")) for path in paths])
        for way, (lines, errors) in found.items():
            row = {"set": name, "rows": lines[0]["rows"], "way": way}
            row |= {key: float(np.mean([line[key] for line in lines])) for key in ("seconds", "error")}
            row |= {"least": min(line["error"] for line in lines), "most": max(line["error"] for line in lines)}
            if "default" in found:
                row["against"] = against(errors, found["default"][1], SETS[name][1])
            rows.append(row)
        own = [float(np.mean([line["error"] for line in found[way][0]])) for way in OURS if way in found]
        if "default" in found:
            ratios.append(own[0] / min(own))
    return rows, float(np.exp(np.mean(np.log(ratios)))) if ratios else float("nan")


def path_of(folder: Path, name: str, way: str, seed: int) -> Path:
    return folder / f"{name}-{way.replace(' ', '_')}-{seed}.json"


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--data", type=Path, default=DATA)
    ask.add_argument(
        "--sets", nargs="+", choices=list(SETS), default=[s for s in SETS if s not in ("covtype", "banana")]
    )
    ask.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--rows", type=int, help="the first rows only")
    ask.add_argument("--folder", type=Path, default=Path("defaults"), help="of the fits that were made")
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    there = [name for name in args.sets if (args.data / name).is_dir()]
    if not there:
        print(advice(args.data, args.sets), file=sys.stderr)
        return 1
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in there:
        data = table(args.data / name, *SETS[name], args.rows)
        for seed, way in product(range(args.seeds), args.ways):
            path = path_of(args.folder, name, way, seed)
            if path.exists() or (way == "SVM" and len(data.y) > MOST_SVM):
                continue
            line, errors = run_one(way, data, seed)
            np.save(path.with_suffix(".npy"), errors)
            path.write_text(
                json.dumps({"set": name, "way": way, "seed": seed, "rows": len(data.y), **line, **machine()})
            )
            print(f"{name}, {way}, seed {seed}: {line['error']:.4g}, {line['seconds']:.1f} s", file=sys.stderr)
    rows, ratio = summed_up(args.folder, there, args.ways, args.seeds)
    finish("nothing given", rows, args.json, default_over_best=ratio)
    return 0


if __name__ == "__main__":
    sys.exit(main())
