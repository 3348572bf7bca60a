"""What a plan states beside what the run takes: seconds and memory of 20 different fits, each in a process of its own.

    python scripts/bench/plans.py [--only NAME ...] [--json]

Memory is to be stated within a factor of 1.5. Seconds are those of all cores from the plan to the baselines, beside
those of a usual core, which no machine is: their ratio is shown, not judged. The peak is that of the process by the
kernel's own count (Linux), which no sample misses and which knows nothing of pages that other processes share.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from report import finish, parser

from dkernel.data.collections.arrays import from_arrays
from dkernel.inference.baselines import baselines, baselines_cost
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.training.fit import plan, train

MEMORY = 1.5

# Rows, features, classes (0 for a number), and what is given.
FITS: dict[str, tuple[int, int, int, dict[str, Any]]] = {
    "2,000 rows": (2_000, 10, 2, {}),
    "10,000 rows": (10_000, 20, 2, {}),
    "a number": (20_000, 8, 0, {}),
    "12 classes": (15_000, 16, 12, {}),
    "50,000 rows": (50_000, 28, 2, {}),
    "landmarks given": (300_000, 28, 2, {"n_components": 1000, "gamma": 0.05, "alpha": 1e-6, "local": "none"}),
    "fourier": (200_000, 28, 2, {"features": "fourier", "n_components": 4096, "gamma": 0.05, "alpha": 1e-6}),
    "normal equations": (100_000, 28, 0, {"solver": "normal", "n_components": 2000, "gamma": 0.05}),
    "grids": (100_000, 12, 2, {"local": "grids"}),
    "cells": (30_000, 8, 0, {"local": "cells"}),
    "5,000 rows": (5_000, 8, 0, {}),
    "100,000 rows": (100_000, 10, 0, {}),
    "4 classes": (40_000, 12, 4, {}),
    "500 features": (8_000, 500, 2, {}),
    "linear": (50_000, 100, 2, {"kernel": "linear"}),
    "laplacian": (10_000, 10, 2, {"kernel": "laplacian"}),
    "full batch": (50_000, 20, 2, {"solver": "lbfgs", "n_components": 1000, "gamma": 0.05}),
    "components given": (50_000, 10, 0, {"n_components": 2000}),
    "no local stage": (20_000, 20, 2, {"alpha": 1e-5, "local": "none"}),
    "low effort": (20_000, 20, 2, {"effort": "low"}),
}


def rows(n: int, p: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a quadratic form with noise, cut into classes of one size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    value = (X[:, : p // 2] ** 2).sum(axis=1) + X[:, 0] * X[:, -1] + rng.standard_normal(n)
    if not classes:
        return X, value.astype(np.float64)
    return X, np.searchsorted(np.quantile(value, np.linspace(0, 1, classes + 1)[1:-1]), value)


def one(name: str) -> dict[str, Any]:
    """The plan of a fit and what its run took, as the first of its process."""
    n, p, classes, given = FITS[name]
    X, y = rows(n, p, classes)
    recipe = Recipe(loss="squared_hinge" if classes else "squared", **given)
    source, executor = from_arrays(X, y), ThreadsExecutor(os.cpu_count() or 1)
    stated = plan(source, recipe, executor, [baselines_cost(n, p, "linear")])
    began = time.process_time()
    result = train(source, recipe, executor)
    baselines(result)
    cpu, fitted = time.process_time() - began, result.model.recipe
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 2**10
    here = stated["client_bytes"] + stated["worker_bytes"]
    return {
        "fit": name, "components": fitted.n_components, "stated_s": stated["core_seconds"],
        "cpu_s": cpu,
        "times": cpu / stated["core_seconds"],
        "stated_mib": here / 2**20,
        "peak_mib": peak,
        "memory_times": here / 2**20 / peak,
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=list(FITS), default=list(FITS))
    options.add_argument("--child", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        print(json.dumps(one(given.child)))
        return
    found = []
    for name in given.only:
        run = subprocess.run([sys.executable, __file__, "--child", name], stdout=subprocess.PIPE, text=True, check=True)
        found.append(json.loads(run.stdout.splitlines()[-1]))
    large = [row["fit"] for row in found if not 1 / MEMORY <= row["memory_times"] <= MEMORY]
    finish("Plans beside runs", found, given.json, memory_off=large)


if __name__ == "__main__":
    main()
