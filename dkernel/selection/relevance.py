"""Relevance of the features: how much a function that is fitted to some rows changes along each of them."""

import numpy as np
from numpy.typing import NDArray

from dkernel.linear.losses import loss_named
from dkernel.local.cells import CellSettings, fit_cell, relearned

F64 = NDArray[np.float64]

ROWS = 2500  # 4,000 rows of forest cover give the same numbers, give or take a tenth, in four times the time
ROUNDS = 3  # of the metric: the third changes little
SLOPES = 1000  # rows whose gradients are averaged
RIDGE = 1e-2  # a share of k(x, x), since labels have noise


def relevance(X: F64, Y: F64) -> F64:
    """Root of the mean squared derivative along each feature, of mean square 1; float64 (p,).

    The function is a kernel ridge regression with an exponential kernel, as a cell has, in a metric that is learned
    from its own gradients (Radhakrishnan and others 2024).

    Parameters
    ----------
    X : standardised rows (n, p);  Y : targets (n, outputs)
    """
    rows, targets = (np.ascontiguousarray(each[:ROWS], np.float32) for each in (X, Y))
    if not rows.shape[1] or len(rows) < 2:
        return np.ones(rows.shape[1])
    root, weight = np.eye(rows.shape[1], dtype=np.float32), np.ones(len(rows))
    for _ in range(ROUNDS):
        cell = fit_cell(
            rows, root, loss_named("squared"), targets, np.zeros_like(targets), weight, CellSettings(1.0, RIDGE)
        )
        root = relearned(cell, rows[:SLOPES])
    diagonal = np.diag(root.astype(np.float64) @ root)
    mean = float(diagonal.mean())
    return np.sqrt(diagonal / mean) if mean > 0 else np.ones(len(diagonal))
