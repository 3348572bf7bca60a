"""Landmark rules: what each leaves of the kernel, the test error of a fit, and the time to choose, on two data sets.

The same recipe five times, with another rule each: Gaussian kernel, standard columns, one pass. `left` is the trace
certificate of the model, the share of k(x, x) that the landmarks do not reach, on rows that the fit did not learn from.

    python scripts/bench/landmarks.py
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from report import error_of, finish, folder, markdown, parser, parts

from dkernel import KernelClassifier, KernelRegressor
from dkernel.features import Scaling
from dkernel.features.landmarks import RULES, select_landmarks
from dkernel.kernels import Gaussian
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.sizes import CANDIDATES

SETS = {"letter": (0.1, False), "kin40k": (0.2, True)}


def run_set(place: Path, name: str, landmarks: int, seed: int) -> list[dict[str, Any]]:
    """A line for each rule."""
    gamma, regress = SETS[name]
    X, y, X_test, y_test = parts(place)
    scaling = Scaling.of("standard", X.mean(axis=0), X.var(axis=0), X.min(axis=0), X.max(axis=0))
    order = np.random.default_rng(seed).permutation(len(X))[:CANDIDATES]
    pool = scaling.apply(X[order])
    lines = []
    for rule in RULES:
        if regress and rule == "stratified":
            continue
        codes = None if regress else np.unique(y[order], return_inverse=True)[1]
        with one_blas_thread():
            start = time.perf_counter()
            select_landmarks(rule, Gaussian(gamma=gamma), pool, landmarks, seed, codes)
            seconds = time.perf_counter() - start
        settings: dict[str, Any] = {
            "kernel": Gaussian(gamma=gamma), "n_components": landmarks, "scale": "standard", "landmarks": rule,
            "random_state": seed,
        }  # fmt: skip
        machine = KernelRegressor(**settings) if regress else KernelClassifier(**settings)
        machine.fit(X, y)
        error = error_of(machine.predict(X_test), y_test, regress)
        facts = machine.model_.facts["certificate"]
        lines.append({
            "data": name, "rule": rule, "landmarks": landmarks, "left": facts["trace_share"],
            "effective rank": facts["effective_rank"], "test error": error, "seconds to choose": seconds,
        })  # fmt: skip
    return lines


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """The table of dkernel/features/README.md: a line a rule, the data sets side by side."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    heads = ["rule", *(f"{name}: {what}" for name in names for what in ("left", "test", "seconds"))]
    lines = []
    for rule in RULES:
        cells = [rule]
        for name in names:
            found = next((row for row in rows if (row["data"], row["rule"]) == (name, rule)), None)
            if found is None:
                cells += ["", "", ""]
                continue
            test = f"{found['test error']:.3f} sd" if SETS[name][1] else f"{found['test error']:.1f} %"
            cells += [f"{found['left']:.4f}", test, f"{found['seconds to choose']:.2f}"]
        lines.append(cells)
    return markdown(heads, lines)


def main() -> None:
    """Measure and print."""
    ask = parser(__doc__, data=True)
    ask.add_argument("--only", nargs="+", default=list(SETS), choices=list(SETS))
    ask.add_argument("--landmarks", type=int, default=500)
    ask.add_argument("--seed", type=int, default=0)
    options = ask.parse_args()
    rows = []
    for name in options.only:
        rows += run_set(folder(options.data, name), name, options.landmarks, options.seed)
    if not options.json:
        print(as_markdown(rows))
    finish("landmark rules", rows, options.json)


if __name__ == "__main__":
    main()
