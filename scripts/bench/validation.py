"""What the checks of every block cost, as a share of the training, in one run.

    python scripts/bench/validation.py [--rows 200000] [--features 28] [--components 512] [--json]

The checks are what a reader calls for every block of every pass: `cut_blocks`, of which all but the slicing is checking
(two dimensions, width, type, every number finite and within the dtype, every label there, no negative weight). They are
run once over each block for each of the readings of a fit, the survey's and one a pass, and set beside the fit.
"""

import argparse
import time
from itertools import pairwise

import numpy as np
from report import finish

from dkernel.data import from_arrays
from dkernel.data.block import UncheckedBlock, chunk_limit, cut_blocks, cut_evenly
from dkernel.execution.local import SerialExecutor
from dkernel.recipe import Recipe
from dkernel.training.fit import train

LIMIT = 0.03


def seconds_of_checks(X: np.ndarray, y: np.ndarray, rows: tuple[int, ...], readings: int) -> float:
    """Seconds of checking every block so often."""
    columns = tuple(map(str, range(X.shape[1])))
    edges = np.cumsum([0, *rows])
    began = time.perf_counter()
    for _ in range(readings):
        for first, stop in pairwise(edges):
            part = slice(first, stop)
            cut_blocks(UncheckedBlock(X[part], y[part]), (int(stop - first),), (columns, "label", None), "float32", str)
    return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--features", type=int, default=28)
    options.add_argument("--components", type=int, default=512)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.rows, given.features), dtype=np.float32)
    y = (X[:, :3] ** 2).sum(axis=1) < 2.4
    recipe = Recipe(n_components=given.components, gamma=0.05, alpha=1e-6, scale="standard")
    train(from_arrays(X[:5000], y[:5000]), recipe, SerialExecutor())  # compiles the tiles
    began = time.perf_counter()
    train(from_arrays(X, y), recipe, SerialExecutor())
    fit = time.perf_counter() - began
    checks = seconds_of_checks(X, y, cut_evenly(len(X), chunk_limit(X.shape[1])), 1 + recipe.passes)
    row = {"rows": given.rows, "features": given.features, "components": given.components, "fit_s": fit}
    finish(
        "Checks of every block, as a share of the training",
        [{**row, "checks_s": checks, "share": checks / fit, "within": checks / fit <= LIMIT}],
        given.json,
        limit=LIMIT,
    )


if __name__ == "__main__":
    main()
