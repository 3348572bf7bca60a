"""The update of grids: one more sweep, in which old rows hold the grids where they are."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import UnsupportedError
from dkernel.losses.smoothing import smooth_loss
from dkernel.model.local.binning import add_bin_scores, add_sums, number_bins
from dkernel.model.local.grid_machine import GridMachine
from dkernel.model.local.grids import GRID_GROUP, FixedPoint, join_steps
from dkernel.model.model import Model
from dkernel.numerics.array_types import F32
from dkernel.streaming.execution.base import Executor
from dkernel.training.grids.fit import RESIDUAL_WIDTHS
from dkernel.training.grids.sample import CORRELATION_ROWS
from dkernel.training.new_rows import NewRows

LIGHT = 8  # an old row weighs at most an eighth of the penalty of a coefficient
RESIDUALS = 4.0  # times the largest residual at first, up to which a residual counts


def update_grid_machine(
    machine: GridMachine,
    model: Model,
    rows: NewRows,
    ridge: float,
    old: Block | None,
    executor: Executor,  # noqa: ARG001 - all rows are here
) -> GridMachine:
    """Make one more sweep, in which the target is 0 for old rows and the residual of the model for new rows."""
    if old is None or not len(old.X):
        raise UnsupportedError(
            "Grids do not keep which rows their bins have, and new ones alone would move them too far. Give rows of "
            "the training too, all or a sample: dkernel update MODEL NEW --old OLD, or partial_fit(X, y, old=X_old)."
        )
    (n_grids, n_bins, outputs), loss = machine.coef.shape, model.loss
    n, penalty = int(model.facts["rows"]), ridge * n_grids
    held = _sample_old(old.X, n, penalty)
    first_new = len(held)
    X = np.ascontiguousarray(np.hstack([machine.inputs(held), machine.inputs(rows.X)]))
    weight = np.concatenate([np.full(first_new, n / first_new), rows.weight])
    smooth = smooth_loss(loss, RESIDUAL_WIDTHS[-1])
    S = rows.S + (machine.scores(rows.X) / machine.unit).astype(np.float32)
    moved = np.zeros((X.shape[1], outputs), np.float32)

    def residual() -> F32:
        residuals = -moved
        residuals[first_new:] = -smooth.derivative(rows.Y, S + moved[first_new:]) / np.float32(smooth.curvature)
        return residuals

    fixed = FixedPoint.of(RESIDUALS * max(float(np.abs(residual()).max()), 1e-30), float(weight.sum()))
    some, coef = slice(None, None, max(1, X.shape[1] // CORRELATION_ROWS)), machine.coef.copy()
    share = weight[some] * (weight.sum() / weight[some].sum())
    for first in range(0, n_grids, GRID_GROUP):
        codes, bins = number_bins(machine.binning.part(first, first + GRID_GROUP).codes(X.T), n_bins)
        sums = np.zeros((len(bins), max(map(len, bins)), outputs + 1), np.int64)
        add_sums(codes, fixed.rows(residual(), weight), sums)
        none = np.zeros((*sums.shape[:2], outputs), np.float32)
        change = join_steps(none, sums, fixed, penalty, np.ascontiguousarray(codes[:, some]), share)
        add_bin_scores(codes, change, moved)
        for grid, (own, by) in enumerate(zip(bins, change, strict=True), first):
            coef[grid, own] += by[: len(own)]
    return replace(machine, coef=coef)


def _sample_old(old: NDArray[Any], n: int, penalty: float) -> NDArray[Any]:
    """Take as few old rows as are needed to know how many rows a bin has, compared with the penalty of its coefficient.

    Parameters
    ----------
    old : rows of the training, all of its n rows or a uniform sample
    """
    most = min(penalty / LIGHT * len(old) / n, len(old) / CORRELATION_ROWS)
    return old[:: max(1, int(most))]
