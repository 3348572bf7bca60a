"""Seconds and test error of an update with one row in a hundred, beside those of a refit of all rows, on made data.

Nothing is given but the local stage. A line for each seed: CPU seconds of the refit, of the update and their ratio, the
mean squared error of the old model, of the refit and of the updated model, and half a standard error of the refit's.
A refit chooses again, which moves its error by more than so few rows do; tests/training/test_update.py compares with a
refit that keeps the choices.

    python scripts/bench/update.py
    python scripts/bench/update.py --stages cells --rows 100000 --seeds 1
"""

import argparse
import sys
import time

import numpy as np

from dkernel import KernelRegressor

TESTED = 10_000


def made(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ten columns, three of which do not matter, and a label with a kink, a step and a product."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 10)).astype(np.float32)
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + np.abs(X[:, 2]) + 0.5 * (X[:, 3] > X[:, 4]) + X[:, 5] * X[:, 6]
    return X, y + 0.2 * rng.normal(size=n)


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each stage and seed."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--stages", nargs="*", choices=["grids", "cells"], default=["grids", "cells"])
    ask.add_argument("--rows", type=int, default=50_000, help="rows of the old model")
    ask.add_argument("--seeds", type=int, default=3)
    o = ask.parse_args(arguments)
    X_test, y_test = made(TESTED, 1_000_000)
    names = "".join(f"{name:>10}" for name in ("old", "refit", "update", "half se"))
    print(f"{'stage':<7}{'seed':>5}{'refit':>9}{'update':>9}{'ratio':>7}{names}")
    for stage in o.stages:
        for seed in range(o.seeds):
            X, y = made(o.rows + o.rows // 100, seed)
            old, new = slice(0, o.rows), slice(o.rows, None)
            start = time.process_time()
            refit = KernelRegressor(local=stage, random_state=seed).fit(X, y)
            whole = time.process_time() - start
            machine = KernelRegressor(local=stage, random_state=seed).fit(X[old], y[old])
            if machine.model_.local is None:
                print(f"{stage:<7}{seed:>5}   no local stage was kept")
                continue
            before = np.square(machine.predict(X_test) - y_test).mean()
            start = time.process_time()
            machine.partial_fit(X[new], y[new], old=X[old])
            some = time.process_time() - start
            errors = np.square(refit.predict(X_test) - y_test)
            after = np.square(machine.predict(X_test) - y_test).mean()
            half = 0.5 * errors.std() / TESTED**0.5
            line = f"{stage:<7}{seed:>5}{whole:>8.2f}s{some:>8.2f}s{some / whole:>7.3f}"
            print(f"{line}{before:>10.5f}{errors.mean():>10.5f}{after:>10.5f}{half:>10.5f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
