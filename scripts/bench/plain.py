"""Seconds and errors of the plain command and the plain estimator, beside trees and machines of scikit-learn.

Each fit is a process of its own. The command is `dkernel train TRAIN --label NAME --out MODEL`, and its seconds are
those of the whole process; the others' are those of `fit` with the rows in memory. CPU seconds are of all cores. The
error is that of the test rows, in percent for classes and RMSE over the label's standard deviation for numbers, with
its standard error over the rows. A fit that the folder holds is not made again.

    python scripts/bench/plain.py
    python scripts/bench/plain.py --sets magic kin40k --ways command "LightGBM 300 x 63"
    python scripts/bench/plain.py --package ../other-checkout --folder before
    python scripts/bench/plain.py --regret --seeds 2 --folder now

The regret (`regret.py`) is that of the sets of `REGRET`, of some of which the first rows only are taken. A way whose
error of the first seed is a quarter more than the least of the folder is fitted to no other seed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from made_sets import MADE, make_rows
from numpy.typing import NDArray
from regret import TABLE, TREES, Errors, compare
from regret import summarize as summarize_regrets
from report import ROOT, boosted_trees, finish, machine, parser

REAL = {
    "letter": ("label", False), "magic": ("label", False), "california": ("label", True), "kin40k": ("label", True),
    "adult": ("income", False), "diamonds": ("price", True), "banana": ("label", False),
    "covtype": ("label", False), "covtype 2": ("label", False),
}  # fmt: skip
"""Name -> its label, and whether that is a number."""
PUBLIC = {
    "concrete": True, "airfoil": True, "chess": False, "pollen": True, "skillcraft": True, "spambase": False,
    "waveform_40": False, "churn": False, "sml": True, "phoneme": False, "page_blocks": False, "optdigits": False,
    "parkinsons": True, "wind": True, "twonorm": False, "cpu_act": True, "puma8NH": True, "pendigits": False,
    "nursery": False, "fried": True, "BNG_echoMonths": True,
}  # fmt: skip
"""Name -> whether its label is a number; the sets that the rules of the choice were made on, and judged on since."""
TABLES = {
    "2dplanes": True, "BNG_lowbwt": True, "amazon": False, "avila": False, "bank": False, "coil2000": False,
    "connect_4": False, "credit": False, "dna": False, "eeg": False, "gasturbine": True, "hotel": True, "htru2": False,
    "insteval": True, "kchouse": True, "keggundirected": True, "krkopt": False, "metro": True, "poker": False,
    "power": True, "retirement": True, "shoppers": False, "texture": False,
}  # fmt: skip
"""The same for the tables of texts, dates and holes; `regret.json` has none of them."""
SETS = (*MADE, *REAL, *PUBLIC, *TABLES)
REGRET = (*PUBLIC, *REAL, "events", "noisy", "hands", *TABLES)
LARGE = ("covtype", "covtype 2", "kin40k", "adult", "diamonds", "events", "noisy", "hands", *TABLES)
"""Sets of which exact machines are not fitted."""
FIRST_ROWS = {"covtype": 100_000, "covtype 2": 100_000}
"""Of these sets the regret takes the first rows only, so that all ways end in minutes."""
OPTIONS = {
    "command": [],
    "low": ["--effort", "low"],
    "high": ["--effort", "high"],
    "components": ["--local", "none"],
    "components, grids": ["--local", "grids"],
    "components, cells": ["--local", "cells"],
    "grids": ["--features", "none", "--local", "grids"],
    "cells": ["--features", "none", "--local", "cells"],
    "linear": ["--kernel", "linear", "--local", "none"],
    "linear, grids": ["--kernel", "linear", "--local", "grids"],
    "identity": ["--metric", "identity"],
}
"""Name -> options of the command beside its data, its label and its model."""
SINGLE = ("components", "components, grids", "components, cells", "grids", "cells", "linear", "linear, grids")
"""Single ways: those among which the plain command chooses, and those of earlier ones."""
BAD_DATA = 65  # exit code
MOST_EXACT = 20_000  # rows of an exact machine
HOPELESS = 1.25  # times the least error of the first seed


# --- data


@dataclass(frozen=True)
class Table:
    """A set: tables with their texts as categories, and labels."""

    X: pd.DataFrame
    y: NDArray[Any]
    X_test: pd.DataFrame
    y_test: NDArray[Any]
    regress: bool


def read_table(folder: Path, label: str, regress: bool) -> Table:
    """The set of a folder that holds train.* and test.*."""
    paths = [next(iter(sorted(folder.glob(f"{part}.*")))) for part in ("train", "test")]
    parts = [pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path) for path in paths]
    n, whole = len(parts[0]), pd.concat(parts, ignore_index=True)
    y = whole.pop(label).to_numpy(dtype=np.float64 if regress else None)
    y = y if regress else y.astype(str)
    texts = [name for name in whole if whole[name].dtype.kind not in "iufbM"]
    X = whole.astype(dict.fromkeys(texts, "category"))
    return Table(X[:n], y[:n], X[n:], y[n:], regress)


def files(data: Path, name: str, rows: int | None, folder: Path) -> tuple[Path, Path, str, bool]:
    """The files to train on and to test on, the label's name, and whether it is a number."""
    if name in MADE:
        parts, label, regress = make_rows(name, rows or MADE[name]), "label", False
    else:
        label, regress = REAL.get(name) or ("label", (PUBLIC | TABLES)[name])
        paths = [next(iter(sorted(folder_of(data, name).glob(f"{part}.*")))) for part in ("train", "test")]
        if rows is None and name != "covtype 2":
            return paths[0], paths[1], label, regress
        read = [pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path) for path in paths]
        if name == "covtype 2":
            read = [part.assign(label=(part[label] == 2).astype(np.int64)) for part in read]
        parts = read[0][: rows or len(read[0])], read[1]
    (folder / name).mkdir(parents=True, exist_ok=True)
    for part, rows_of in zip(("train", "test"), parts, strict=True):
        rows_of.to_parquet(folder / name / f"{part}.parquet", index=False)
    return folder / name / "train.parquet", folder / name / "test.parquet", label, regress


def folder_of(data: Path, name: str) -> Path:
    """Where the files of a set are that is not made."""
    if name in REAL:
        return data / name.split()[0]
    return data / ("public" if name in PUBLIC else "tables") / name


def with_dates_as_numbers(X: pd.DataFrame) -> pd.DataFrame:
    """Dates as the seconds and a calendar, as dkernel takes them, for those that take none."""
    found = X.select_dtypes(exclude="datetime")
    for name in X.columns.difference(found.columns):
        at = X[name].dt
        parts = {"seconds": at.as_unit("s").astype(np.int64), "year": at.year, "month": at.month, "day": at.weekday}
        parts["hour"] = at.hour + at.minute / 60
        found = found.assign(**{f"{name} {part}": numbers for part, numbers in parts.items()})
    return found


# --- ways


def trees(leaves: int, count: int) -> Callable[[Table, int], Any]:
    return lambda data, seed: boosted_trees(data.regress, count, leaves, seed=seed)


def boosting(data: Table, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingRegressor if data.regress else HistGradientBoostingClassifier
    return kind(categorical_features="from_dtype", random_state=seed)


def exact(data: Table, seed: int) -> Any:
    """SVC, or kernel ridge regression with C and gamma of their defaults on standard scores."""
    from sklearn.compose import TransformedTargetRegressor, make_column_transformer
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC

    texts = list(data.X.select_dtypes("category"))
    encoded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts), remainder=StandardScaler()
    )
    if not data.regress:
        return make_pipeline(encoded, SVC(C=10, random_state=seed))
    ridge = make_pipeline(encoded, KernelRidge(kernel="rbf", alpha=0.1))
    return TransformedTargetRegressor(ridge, transformer=StandardScaler())


def plain(data: Table, seed: int) -> Any:
    from dkernel import KernelClassifier, KernelRegressor

    return (KernelRegressor if data.regress else KernelClassifier)(random_state=seed)


FITS: dict[str, Callable[[Table, int], Any]] = {
    "estimator": plain, "LightGBM 300 x 63": trees(63, 300), "LightGBM 500 x 255": trees(255, 500),
    "LightGBM 2,000 x 255": trees(255, 2000),
    "HistGradientBoosting": boosting, "SVC or ridge": exact,
}  # fmt: skip
WAYS = (*OPTIONS, *FITS)
USUAL = ("command", "estimator", "LightGBM 300 x 63", "HistGradientBoosting", "SVC or ridge")


def command(
    way: str, train: Path, label: str, regress: bool, seed: int, package: Path, model: Path
) -> dict[str, float] | None:
    """Seconds and CPU seconds of the whole command; None where a single way refuses the set."""
    words = [sys.executable, "-P", "-m", "dkernel", "train", str(train), "--label", label, "--out", str(model)]
    words += ["--task", "regress"] if regress else []  # a label of whole numbers may be classes
    words += [*OPTIONS[way], "--seed", str(seed), "--progress", "none", "--overwrite"]
    start = time.perf_counter()
    process = subprocess.Popen(
        words, env={**os.environ, "PYTHONPATH": str(package)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status and way in SINGLE and os.waitstatus_to_exitcode(status) == BAD_DATA:
        return None  # too few rows for this way
    if status:
        raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}")
    return {"seconds": time.perf_counter() - start, "cpu": usage.ru_utime + usage.ru_stime}


def fit_one(way: str, train: Path, test: Path, label: str, regress: bool, seed: int, out: Path) -> dict[str, Any]:
    """The line of a fit, and the errors of the test rows in a file beside; what it fits has a process of its own."""
    line: dict[str, Any] = {}
    if way in OPTIONS:
        import dkernel

        model, data = dkernel.load(out.with_suffix(".model")), read(train, test, label, regress)
        line["chosen"] = {key: str(model.chosen_[key]) for key in ("way", "local") if key in model.chosen_}
    else:
        data = read(train, test, label, regress)
        if way != "estimator":
            data = replace(data, X=with_dates_as_numbers(data.X), X_test=with_dates_as_numbers(data.X_test))
        model = FITS[way](data, seed)
        start, before = time.perf_counter(), os.times()
        model.fit(data.X, data.y)
        after = os.times()
        line = {"seconds": time.perf_counter() - start, "cpu": sum(after[:4]) - sum(before[:4])}
    answer = np.asarray(model.predict(data.X_test))
    if regress:
        errors = np.square((answer.astype(np.float64) - data.y_test) / np.std(data.y_test))
    else:
        errors = (answer.astype(str) != data.y_test).astype(np.float64)
    np.save(out.with_suffix(".npy"), errors)
    return line


def read(train: Path, test: Path, label: str, regress: bool) -> Table:
    """A set as the estimators take it."""
    with tempfile.TemporaryDirectory() as folder:
        for part, path in (("train", train), ("test", test)):
            (Path(folder) / f"{part}{path.suffix}").symlink_to(path.resolve())
        return read_table(Path(folder), label, regress)


def run_one(way: str, name: str, paths: tuple[Path, Path, str, bool], seed: int, package: Path, out: Path) -> None:
    """Make a fit and write its line."""
    train, test, label, regress = paths
    if way in OPTIONS:
        took = command(way, train, label, regress, seed, package, out.with_suffix(".model"))
        if took is None:
            return
        line = dict(took) | fit_one(way, train, test, label, regress, seed, out)
    else:
        words = [sys.executable, __file__, "--one", way, str(train), str(test), label, str(int(regress)), str(seed)]
        surroundings = {**os.environ, "PYTHONPATH": str(package)}
        done = subprocess.run([*words, str(out)], env=surroundings, capture_output=True, text=True, check=True)
        line = json.loads(done.stdout.splitlines()[-1])
    out.with_suffix(".model").unlink(missing_ok=True)
    found = Errors(np.load(out.with_suffix(".npy")), 1, regress)
    line |= {"set": name, "way": way, "seed": seed, "regress": regress}
    line |= {"error": found.mean, "se": found.standard_error, **machine(package)}
    out.write_text(json.dumps(line))
    print(
        f"{name}, {way}, seed {seed}: {line['error']:.4g} ± {line['se']:.2g}, {line['cpu']:.1f} CPU s", file=sys.stderr
    )


def summarize(folder: Path, sets: list[str], ways: list[str], seeds: int) -> list[dict[str, Any]]:
    """The table: means over the seeds, and CPU seconds as a ratio to LightGBM's."""
    rows: list[dict[str, Any]] = []
    for name in sets:
        found = {}
        for way in ways:
            paths = [path_of(folder, name, way, seed) for seed in range(seeds)]
            lines = [json.loads(path.read_text()) for path in paths if path.exists()]
            if lines:
                found[way] = {key: float(np.mean([line[key] for line in lines])) for key in ("seconds", "cpu")}
                found[way] |= {key: float(np.mean([line[key] for line in lines])) for key in ("error", "se")}
        against = found.get("LightGBM 500 x 255" if name == "covtype 2" else "LightGBM 300 x 63")
        for way, means in found.items():
            ratios = {f"{key} / trees": means[key] / against[key] for key in ("cpu", "error")} if against else {}
            rows.append({"set": name, "way": way, **means, **ratios})
    return rows


def is_hopeless(folder: Path, name: str, way: str) -> bool:
    """True if a way was far from the best with the first seed, could not be fitted, or takes no chance."""
    found = {each: path_of(folder, name, each, 0) for each in ("command", *SINGLE)}
    errors = {each: json.loads(path.read_text())["error"] for each, path in found.items() if path.exists()}
    return way in TREES or (way in SINGLE and not errors.get(way, float("inf")) <= HOPELESS * min(errors.values()))


def path_of(folder: Path, name: str, way: str, seed: int) -> Path:
    return folder / f"{name}-{way}-{seed}.json".replace(" ", "_").replace(",", "")


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--one"]:
        way, train, test, label, regress, seed, out = words[1:]
        print(json.dumps(fit_one(way, Path(train), Path(test), label, regress == "1", int(seed), Path(out))))
        return 0
    ask = parser(__doc__, data=True)
    ask.add_argument("--sets", nargs="+", choices=SETS)
    ask.add_argument("--ways", nargs="+", choices=WAYS)
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--rows", type=int, help="the first rows only")
    ask.add_argument("--package", type=Path, default=ROOT, help="checkout whose dkernel is fitted")
    ask.add_argument("--folder", type=Path, default=Path("plain"), help="of the fits that were made")
    ask.add_argument("--regret", nargs="?", const="", metavar="KEPT", help="compare with regret.json and its fits")
    args = ask.parse_args(words)
    args.folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(args.package))  # the package that wrote a model reads it
    regret = args.regret is not None
    ways = args.ways or (["command"] if regret else USUAL)
    sets = args.sets or (REGRET if regret else (*MADE, *REAL))
    there = [name for name in sets if name in MADE or folder_of(args.data, name).is_dir()]
    for name in there:
        rows = args.rows or (FIRST_ROWS.get(name) if regret else None)
        paths = files(args.data, name, rows, args.folder / "data")
        for seed, way in product(range(args.seeds), ways):
            out = path_of(args.folder, name, way, seed)
            large = name in LARGE and not rows
            left_out = regret and seed > 0 and is_hopeless(args.folder, name, way)
            left_out |= way == "SVC or ridge" and (large or (rows or 0) > MOST_EXACT)
            if not out.exists() and not left_out:
                run_one(way, name, paths, seed, args.package, out)
    if not regret:
        finish("nothing given", summarize(args.folder, there, ways, args.seeds), args.json)
        return 0
    table = json.loads(TABLE.read_text())["sets"] if TABLE.exists() else {}
    found = compare(args.folder, Path(args.regret) if args.regret else None, table)
    finish("beside the best way of 82a4d3dd", [*found, *summarize_regrets(found)], args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
