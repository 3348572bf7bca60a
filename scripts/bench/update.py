"""Seconds and test error of an update with one row in a hundred, beside those of a refit of all rows, on made data.

Nothing is given but the local stage. A line for each seed: CPU seconds of the refit, of the update and their ratio, the
mean squared error of the old model, of the refit and of the updated model, and half a standard error of the refit's.
A refit chooses again, which moves its error by more than so few rows do; tests/training/test_update.py compares with a
refit that keeps the choices.

    python scripts/bench/update.py
    python scripts/bench/update.py --stages cells --rows 100000 --seeds 1
"""

from itertools import product

import numpy as np
from report import finish, measure_block, parser

from dkernel import KernelRegressor

TESTED = 10_000


def make_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ten columns, three of which do not matter, and a label with a kink, a step and a product."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 10)).astype(np.float32)
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + np.abs(X[:, 2]) + 0.5 * (X[:, 3] > X[:, 4]) + X[:, 5] * X[:, 6]
    return X, y + 0.2 * rng.normal(size=n)


def main() -> None:
    """Print a line for each stage and seed."""
    ask = parser(__doc__)
    ask.add_argument("--stages", nargs="*", choices=["grids", "cells"], default=["grids", "cells"])
    ask.add_argument("--rows", type=int, default=50_000, help="rows of the old model")
    ask.add_argument("--seeds", type=int, default=3)
    o = ask.parse_args()
    X_test, y_test = make_rows(TESTED, 1_000_000)
    lines = []
    for stage, seed in product(o.stages, range(o.seeds)):
        X, y = make_rows(o.rows + o.rows // 100, seed)
        old, new = slice(0, o.rows), slice(o.rows, None)
        with measure_block() as whole:
            refit = KernelRegressor(local=stage, random_state=seed).fit(X, y)
        machine = KernelRegressor(local=stage, random_state=seed).fit(X[old], y[old])
        lines.append({"stage": stage, "seed": seed, "refit_s": whole.cpu})
        if machine.model_.local is None:  # no local stage was kept
            continue
        before = np.square(machine.predict(X_test) - y_test).mean()
        with measure_block() as update:
            machine.partial_fit(X[new], y[new], old=X[old])
        errors = np.square(refit.predict(X_test) - y_test)
        lines[-1] |= {"update_s": update.cpu, "ratio": update.cpu / whole.cpu, "old": before, "refit": errors.mean()}
        lines[-1] |= {"update": np.square(machine.predict(X_test) - y_test).mean()}
        lines[-1] |= {"half se": 0.5 * errors.std() / TESTED**0.5}
    finish("updates beside refits", lines, o.json)


if __name__ == "__main__":
    main()
