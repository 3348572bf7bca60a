"""Seconds and errors of the plain command and the plain estimator, beside trees and machines of scikit-learn.

Each fit is a process of its own. The command is `dkernel train TRAIN --label NAME --out MODEL`, and its seconds are
those of the whole process; the others' are those of `fit` with the rows in memory. CPU seconds are of all cores. The
error is that of the test rows, in percent for classes and RMSE over the label's standard deviation for numbers, with
its standard error over the rows. A fit that the folder holds is not made again.

    python scripts/bench/plain.py
    python scripts/bench/plain.py --sets magic kin40k --ways command "LightGBM 300 x 63"
    python scripts/bench/plain.py --package ../other-checkout --folder before
    python scripts/bench/plain.py --regret --seeds 5

The regret of a set is the error of the plain command over that of the way with the least one, both means over the
same seeds on the same test rows. Its standard error is that of the paired difference of the two, over the rows. A way
whose error of the first seed is a quarter more than the least is fitted to no other seed, and is not compared.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from report import ROOT, boosted_trees, finish, machine, parser

REAL = {
    "letter": ("label", False), "magic": ("label", False), "california": ("label", True), "kin40k": ("label", True),
    "adult": ("income", False), "diamonds": ("price", True), "banana": ("label", False),
    "covtype": ("label", False), "covtype 2": ("label", False),
}  # fmt: skip
"""Name -> its label, and whether that is a number."""
MADE = ("made 2,000", "made 10,000", "shifted engine", "shifted series")
SETS = (*MADE, *REAL)
OPTIONS = {
    "command": [],
    "low": ["--effort", "low"],
    "high": ["--effort", "high"],
    "components": ["--local", "none"],
    "components, grids": ["--local", "grids"],
    "components, cells": ["--local", "cells"],
    "grids": ["--features", "none", "--local", "grids"],
    "cells": ["--features", "none", "--local", "cells"],
    "identity": ["--metric", "identity"],
}
"""Name -> options of the command beside its data, its label and its model."""
SINGLE = ("components", "components, grids", "components, cells", "grids", "cells")
"""The ways among which the plain command chooses."""
BAD_DATA = 65  # exit code
MOST_EXACT = 20_000  # rows of an exact machine
TEST_ROWS = 20_000  # of made data
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
    texts = [name for name in whole if not pd.api.types.is_numeric_dtype(whole[name])]
    X = whole.astype(dict.fromkeys(texts, "category"))
    return Table(X[:n], y[:n], X[n:], y[n:], regress)


def make_rows(name: str, rows: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to train on and to test on of a made set, with the column `label`."""
    makers: dict[str, Callable[[int], tuple[NDArray[Any], NDArray[Any]]]] = {
        "shifted engine": engine,
        "shifted series": series,
    }
    X, y = makers.get(name, smooth)(rows + TEST_ROWS)
    whole = pd.DataFrame(X.astype(np.float32), columns=[f"x{j}" for j in range(X.shape[1])]).assign(label=y)
    # Of a series the rows to train on are its first stretch, in any order.
    return whole[:rows].sample(frac=1.0, random_state=0), whole[rows:]


def smooth(n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Ten numbers, of which four say the class by a smooth rule, with noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    rule = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * np.square(X[:, 3]) - 0.5
    return X, (rule + 0.5 * rng.standard_normal(n) > 0).astype(np.int64)


def walk(rng: np.random.Generator, n: int, memory: float) -> NDArray[np.float64]:
    """A series of variance 1 whose neighbours have the correlation `memory`."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], rng.standard_normal(n)))


def engine(n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A cylinder fails in one of ten turns, more often at the edge of load and speed, which drift."""
    rng = np.random.default_rng(1)
    speed, load = (walk(rng, n, 0.9997) for _ in range(2))
    cylinder = np.arange(n) % 10
    usual = np.sin(2 * np.pi * cylinder / 10 + speed) + 0.5 * speed * load
    fails = rng.random(n) < 1 / (1 + np.exp(4.0 - 1.2 * np.maximum(load + speed, 0)))
    turn = usual - fails * (0.8 + 0.4 * np.cos(cylinder)) + 0.1 * rng.standard_normal(n)
    lags = [np.roll(turn, k) for k in range(-2, 6)]
    return np.column_stack([np.eye(10)[cylinder], speed, load, *lags]), fails.astype(np.int64)


def series(n: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The next value of a series with a drifting level is beyond an edge that few rows to train on reach."""
    rng = np.random.default_rng(2)
    level, cause = walk(rng, n + 12, 0.9995), walk(rng, n + 12, 0.9)
    value = level + np.sin(3 * cause) * (1 + 0.5 * level) + 0.2 * rng.standard_normal(n + 12)
    lags = np.column_stack([np.roll(each, k) for each in (value, cause) for k in range(1, 9)])[12:]
    return lags, (value[12:] > np.quantile(value[: n // 2], 0.93)).astype(np.int64)


def files(data: Path, name: str, rows: int | None, folder: Path) -> tuple[Path, Path, str, bool]:
    """The files to train on and to test on, the label's name, and whether it is a number."""
    if name in MADE:
        count = int(name.split()[1].replace(",", "")) if name.startswith("made") else 12_000
        parts, label, regress = make_rows(name, rows or count), "label", False
    else:
        label, regress = REAL[name]
        paths = [next(iter(sorted((data / name.split()[0]).glob(f"{part}.*")))) for part in ("train", "test")]
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
    """The line of a fit, and the errors of the test rows in a file beside; runs in a process of its own."""
    line: dict[str, Any] = {}
    if way in OPTIONS:
        import dkernel

        model, data = dkernel.load(out.with_suffix(".model")), read(train, test, label, regress)
        line["chosen"] = {key: str(model.chosen_[key]) for key in ("way", "local") if key in model.chosen_}
    else:
        data = read(train, test, label, regress)
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


def mean_error(errors: NDArray[np.float64], regress: bool) -> float:
    """The error of test rows whose parts of it these are."""
    return float(np.sqrt(errors.mean()) if regress else 100 * errors.mean())


def run_one(way: str, name: str, paths: tuple[Path, Path, str, bool], seed: int, package: Path, out: Path) -> None:
    """Make a fit and write its line."""
    train, test, label, regress = paths
    line: dict[str, Any] = {}
    if way in OPTIONS:
        took = command(way, train, label, regress, seed, package, out.with_suffix(".model"))
        if took is None:
            return
        line = dict(took)
    words = [sys.executable, __file__, "--one", way, str(train), str(test), label, str(int(regress)), str(seed)]
    done = subprocess.run(
        [*words, str(out)], env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True, check=True
    )
    line |= json.loads(done.stdout.splitlines()[-1])
    out.with_suffix(".model").unlink(missing_ok=True)
    errors = np.load(out.with_suffix(".npy"))
    error, spread = mean_error(errors, regress), float(errors.std() / len(errors) ** 0.5)
    own = spread / (2 * error) if regress else 100 * spread
    out.write_text(json.dumps({"set": name, "way": way, "seed": seed, **line, "error": error, "se": own, **machine()}))
    print(f"{name}, {way}, seed {seed}: {error:.4g} ± {own:.2g}, {line['cpu']:.1f} CPU s", file=sys.stderr)


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


def regrets(folder: Path, sets: list[str], seeds: int) -> list[dict[str, Any]]:
    """For each set the error of the command over that of the best single way, and their geometric mean at the end."""
    rows: list[dict[str, Any]] = []
    for name in sets:
        made = {way: row_errors(folder, name, way, seeds) for way in ("command", *SINGLE)}
        errors = {
            way: np.mean(list(of.values()), axis=0)
            for way, of in made.items()
            if of and of.keys() == made["command"].keys()
        }
        if "command" not in errors or len(errors) < 2:
            continue
        regress = name in REAL and REAL[name][1]
        means = {way: mean_error(each, regress) for way, each in errors.items()}
        best = min((way for way in means if way != "command"), key=means.__getitem__)
        apart = errors["command"] - errors[best]
        spread = float(apart.std() / len(apart) ** 0.5) * (1 / (2 * means[best]) if regress else 100)
        rows.append({"set": name, "seeds": len(made["command"]), "command": means["command"], "best": best})
        rows[-1] |= {"its error": means[best], "regret": means["command"] / means[best], "se": spread / means[best]}
    if rows:
        mean = float(np.exp(np.mean([np.log(row["regret"]) for row in rows])))
        rows.append({"set": "geometric mean", "regret": mean})
    return rows


def row_errors(folder: Path, name: str, way: str, seeds: int) -> dict[int, NDArray[np.float64]]:
    """The errors of the test rows by the seeds that were fitted."""
    paths = {seed: path_of(folder, name, way, seed).with_suffix(".npy") for seed in range(seeds)}
    return {seed: np.load(path) for seed, path in paths.items() if path.exists()}


def is_hopeless(folder: Path, name: str, way: str) -> bool:
    """True if a way was far from the best with the first seed, or could not be fitted."""
    found = {each: path_of(folder, name, each, 0) for each in ("command", *SINGLE)}
    errors = {each: json.loads(path.read_text())["error"] for each, path in found.items() if path.exists()}
    return way in SINGLE and not errors.get(way, float("inf")) <= HOPELESS * min(errors.values())


def path_of(folder: Path, name: str, way: str, seed: int) -> Path:
    return folder / f"{name}-{way}-{seed}.json".replace(" ", "_").replace(",", "")


def main(arguments: list[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["--one"]:
        way, train, test, label, regress, seed, out = words[1:]
        print(json.dumps(fit_one(way, Path(train), Path(test), label, regress == "1", int(seed), Path(out))))
        return 0
    ask = parser(__doc__, data=True)
    ask.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    ask.add_argument("--ways", nargs="+", choices=WAYS, default=list(USUAL))
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--rows", type=int, help="the first rows only")
    ask.add_argument("--package", type=Path, default=ROOT, help="checkout whose dkernel is fitted")
    ask.add_argument("--folder", type=Path, default=Path("plain"), help="of the fits that were made")
    ask.add_argument("--regret", action="store_true", help="the command beside each single way")
    args = ask.parse_args(words)
    args.folder.mkdir(parents=True, exist_ok=True)
    ways = ["command", *SINGLE] if args.regret else args.ways
    there = [name for name in args.sets if name in MADE or (args.data / name.split()[0]).is_dir()]
    for name in there:
        paths = files(args.data, name, args.rows, args.folder / "data")
        for seed, way in product(range(args.seeds), ways):
            out = path_of(args.folder, name, way, seed)
            large = (name.startswith("covtype") or name in ("kin40k", "adult", "diamonds")) and not args.rows
            left_out = args.regret and seed > 0 and is_hopeless(args.folder, name, way)
            left_out |= way == "SVC or ridge" and (large or (args.rows or 0) > MOST_EXACT)
            if not out.exists() and not left_out:
                run_one(way, name, paths, seed, args.package, out)
    table_rows = (
        regrets(args.folder, there, args.seeds) if args.regret else summarize(args.folder, there, ways, args.seeds)
    )
    finish("nothing given", table_rows, args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
