"""Coverage and width of intervals, and size of sets, beside LightGBM with the same conformal step, on 20 sets.

Each seed draws rows to learn from, rows to calibrate on and rows to test, and makes the noise of the sets that are made
anew. The rows to calibrate on are the `eval_set` of dkernel, so they choose too; few rows are solved exactly, and their
folds calibrate.
LightGBM has two quantiles and their conformal step (Romano, Patterson and Candes 2019), or the probabilities of classes
and the same step as dkernel. `limit` is what the mean coverage may be off: 2 % from 1,000 rows on, else two deviations
of the mean of Beta laws. `flat` is the width of dkernel's intervals if all were equally wide.

    python scripts/bench/intervals.py --seeds 5
    python scripts/bench/intervals.py --sets kin40k made-wave --rows 400 --seeds 5
    python scripts/bench/intervals.py --plain --seeds 5         nothing is given but the holdout
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from plain import REAL, read_table
from report import parser

from dkernel import KernelClassifier, KernelRegressor

Rows = tuple[Any, NDArray[Any], Any, NDArray[Any]]
COVERAGE = 0.9
CALIBRATED = 1250  # rows of the holdout: from 1,000 on the law is that of the mean
TESTED = 5000
QUICK = {"kernel": "gaussian", "n_components": 256, "local": "none"}
NOISES: dict[str, Callable[[Any, Any], Any]] = {
    "even": lambda X, rng: 0.3 * rng.normal(size=len(X)),
    "wave": lambda X, rng: (0.05 + 0.5 * np.abs(X[:, 1])) * rng.normal(size=len(X)),
    "step": lambda X, rng: np.where(X[:, 0] > 0, 1.0, 0.1) * rng.normal(size=len(X)),
    "heavy": lambda X, rng: 0.2 * rng.standard_t(3, size=len(X)),
    "skew": lambda X, rng: 0.3 * (rng.exponential(size=len(X)) - 1.0) * (1 + np.abs(X[:, 2])),
    "level": lambda X, rng: 0.3 * np.abs(np.sin(2 * X[:, 0]) + X[:, 1]) * rng.normal(size=len(X)),
    "none": lambda X, rng: 0.0 * rng.normal(size=len(X)),
}
"""Noise of sets of numbers that are made: y = sin(2 x0) + x1 + noise."""
SETS = tuple(name for name in REAL if name != "covtype 2")
CLASSES = {"two": 2, "three": 3, "six": 6, "rare": 2, "blur": 4}
"""Classes of sets that are made: rings about the origin, with noise."""


def make_set(name: str, n: int, seed: int) -> Rows:
    """A set that is made."""
    rng = np.random.default_rng([seed, len(name), *name.encode()])
    X = rng.uniform(-2, 2, size=(n + TESTED, 4))
    if name in NOISES:
        y = np.sin(2 * X[:, 0]) + X[:, 1] + NOISES[name](X, rng)
    else:
        s = np.linalg.norm(X[:, :3], axis=1) + (0.6 if name == "blur" else 0.2) * rng.normal(size=len(X))
        cuts = [0.95] if name == "rare" else np.linspace(0, 1, CLASSES[name] + 1)[1:-1]
        y = np.digitize(s, np.quantile(s, cuts))
    return X[:n], y[:n], X[n:], y[n:]


def real(name: str, data: Path, n: int, seed: int) -> Rows:
    """Rows of a real set, drawn by the seed from all of them."""
    whole = read_table(data / name, *REAL[name])
    X, y = pd.concat([whole.X, whole.X_test], ignore_index=True), np.concatenate([whole.y, whole.y_test])
    order = np.random.default_rng(seed).permutation(len(X))[: n + TESTED]
    return X.iloc[order[:n]], y[order[:n]], X.iloc[order[n:]], y[order[n:]]


def ours(rows: Rows, seed: int, plain: bool, few: bool) -> dict[str, float]:
    """Coverage and mean width, or size, of dkernel; the rows to calibrate on are the last of those to learn from."""
    X, y, X_test, y_test = rows
    regress = y.dtype.kind == "f"
    machine = (KernelRegressor if regress else KernelClassifier)(random_state=seed, **({} if plain else QUICK))
    if few:
        machine.fit(X, y)
    else:
        judges = _part(X, slice(-CALIBRATED, None)), y[-CALIBRATED:]
        machine.fit(_part(X, slice(-CALIBRATED)), y[:-CALIBRATED], eval_set=judges)
    n = machine.model_.conformal.rows
    if not regress:
        return {"rows": n, **of_sets(machine.predict_set(X_test, COVERAGE), machine.classes_, y_test)}
    found = {"rows": n, **of_ends(*machine.predict_interval(X_test, COVERAGE).T, y_test)}
    if not few:
        machine.model_ = replace(machine.model_, conformal=None)
        low, high = machine.conformalize(*judges).predict_interval(X_test, COVERAGE).T
        found["flat"] = float(np.mean(high - low))
    return found


def trees(rows: Rows, seed: int) -> dict[str, float]:
    """The same of LightGBM, which learns from the rows that are not calibrated on."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    X, y, X_test, y_test = rows
    parts = _part(X, slice(-CALIBRATED)), _part(X, slice(-CALIBRATED, None)), X_test
    own, y_own = y[:-CALIBRATED], y[-CALIBRATED:]
    settings = {"random_state": seed, "verbose": -1, "n_jobs": 1}
    if y.dtype.kind != "f":
        machine = LGBMClassifier(**settings).fit(parts[0], own)
        P, P_test = machine.predict_proba(parts[1]), machine.predict_proba(parts[2])
        scores = 1 - P[np.arange(len(P)), np.searchsorted(machine.classes_, y_own)]
        return of_sets(1 - P_test <= quantile(scores), machine.classes_, y_test)
    ends = []
    for share in ((1 - COVERAGE) / 2, (1 + COVERAGE) / 2):
        machine = LGBMRegressor(objective="quantile", alpha=share, **settings).fit(parts[0], own)
        ends.append([machine.predict(part) for part in parts[1:]])
    (low, low_test), (high, high_test) = ends
    q = quantile(np.maximum(low - y_own, y_own - high))
    return of_ends(low_test - q, high_test + q, y_test)


def quantile(scores: NDArray[Any]) -> float:
    """The ceil(coverage (n + 1))-th smallest."""
    return float(np.sort(scores)[int(np.ceil(COVERAGE * (len(scores) + 1))) - 1])


def of_ends(low: Any, high: Any, y: Any) -> dict[str, float]:
    """Coverage and mean width of intervals."""
    return {"covered": float(np.mean((low <= y) & (y <= high))), "size": float(np.mean(np.maximum(high - low, 0)))}


def of_sets(found: Any, classes: Any, y: Any) -> dict[str, float]:
    """Coverage and mean size of sets."""
    own = found[np.arange(len(y)), np.searchsorted(classes, y)]
    return {"covered": float(own.mean()), "size": float(found.sum(axis=1).mean())}


def _part(X: Any, rows: slice) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def limit(n: float, seeds: int) -> float:
    """What the mean coverage of some seeds may be off."""
    law = 2 * np.sqrt(COVERAGE * (1 - COVERAGE) / (n + 2) + COVERAGE * (1 - COVERAGE) / TESTED) / np.sqrt(seeds)
    return max(0.02, float(law)) if n >= 1000 else float(law)


def main(arguments: list[str] | None = None) -> int:
    """Print a line a set; 1 where a mean coverage is off by more than its limit."""
    names = [*(f"made-{name}" for name in (*NOISES, *CLASSES)), *SETS]
    ask = parser(__doc__, data=True)
    ask.add_argument("--sets", nargs="*", choices=names, default=names, metavar="NAME", help=", ".join(names))
    ask.add_argument("--rows", type=int, default=4250, help="rows to learn from and to calibrate on")
    ask.add_argument("--seeds", type=int, default=5)
    ask.add_argument("--plain", action="store_true", help="nothing is given, in place of 256 components")
    o = ask.parse_args(arguments)
    few, off = o.rows < 2 * CALIBRATED, 0
    print(f"{'set':<13}{'rows':>6}{'covered':>9}{'limit':>7}{'size':>9}{'flat':>9}   LightGBM{'covered':>8}{'size':>9}")
    for name in o.sets:
        mine, others = [], []
        for seed in range(o.seeds):
            drawn = make_set(name[5:], o.rows, seed) if name.startswith("made-") else real(name, o.data, o.rows, seed)
            mine.append(ours(drawn, seed, o.plain, few))
            others.append({} if few else trees(drawn, seed))
        mean = {key: float(np.mean([each[key] for each in mine])) for key in mine[0]}
        other = {key: float(np.mean([each[key] for each in others])) for key in others[0]}
        allowed = limit(mean["rows"], o.seeds)
        wrong = abs(mean["covered"] - COVERAGE) > allowed
        off += wrong
        flat = f"{mean['flat']:9.3g}" if "flat" in mean else f"{'':>9}"
        beside = f"{'':>11}{100 * other['covered']:7.1f} %{other['size']:9.3g}" if other else ""
        mark = "   off" if wrong else ""
        line = f"{name:<13}{mean['rows']:6.0f}{100 * mean['covered']:7.1f} %{100 * allowed:5.1f} %{mean['size']:9.3g}"
        print(f"{line}{flat}{beside}{mark}", flush=True)
    print(f"{len(o.sets) - off} of {len(o.sets)} sets are covered as they should be")
    return int(off > 0)


if __name__ == "__main__":
    sys.exit(main())
