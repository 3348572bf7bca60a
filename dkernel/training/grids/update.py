"""The update of grids: one more sweep, in which old rows keep the grids from moving."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.errors import UnsupportedError
from dkernel.losses.smoothing import smooth_loss
from dkernel.model.local.binning import add_sums
from dkernel.model.local.grid_machine import GridMachine
from dkernel.model.local.grids import FixedPoint, Tables, code_bits, group_size, learn_group
from dkernel.model.model import Model
from dkernel.numerics.array_types import F32
from dkernel.training.grids.fit import RESIDUAL_WIDTHS
from dkernel.training.grids.search import SAMPLED_ROWS
from dkernel.training.residual import ResidualRows

LIGHT = 8  # an old row weighs at most an eighth of the penalty of a coefficient
RESIDUALS = 4.0  # largest residual that counts, over the largest one before the sweep


def update_grid_machine(machine: GridMachine, model: Model, rows: ResidualRows, old: Block | None) -> GridMachine:
    """Make one more sweep, in which the target is 0 for old rows and the residual of the model for new rows."""
    ridge = float(model.facts["local"]["ridge"])
    if old is None or not len(old.X):
        raise UnsupportedError(
            "Grids do not keep which rows their bins have, and new ones alone would move them too far. Give rows of "
            "the training too, all or a sample: dkernel update MODEL NEW --old OLD, or partial_fit(X, y, old=X_old)."
        )
    binning, outputs, loss = machine.binning, len(machine.unit), model.loss
    n = int(model.facts["rows"])
    sampled = _sample_old(old.X, n, ridge)
    first_new = len(sampled)
    X = np.ascontiguousarray(np.hstack([machine.inputs(sampled), machine.inputs(rows.X)]))
    weight = np.concatenate([np.full(first_new, n / first_new), rows.weight])
    smooth = smooth_loss(loss, RESIDUAL_WIDTHS[-1])
    S = rows.scores + (machine.scores(rows.X) / machine.unit).astype(np.float32)
    moved = np.zeros((X.shape[1], outputs), np.float32)

    def residual() -> F32:
        residuals = -moved
        residuals[first_new:] = -smooth.derivative(rows.Y, S + moved[first_new:]) / np.float32(smooth.curvature)
        return residuals

    fixed = FixedPoint.of(RESIDUALS * max(float(np.abs(residual()).max()), 1e-30), float(weight.sum()))
    some, tables = slice(None, None, max(1, X.shape[1] // SAMPLED_ROWS)), []
    group = group_size(binning.n_grids, outputs, code_bits(n, outputs))
    for first in range(0, binning.n_grids, group):
        part = binning.part(first, first + group)
        sums = np.zeros((part.n_bins, outputs + 1), np.int64)
        add_sums(part.codes(X.T), part.starts, fixed.rows(residual(), weight), sums)
        change = learn_group(part, sums, fixed, ridge, X[:, some].T, weight[some])
        part.add_scores(X.T, change.coef, change.unit, moved)
        tables.append(change)
    return replace(machine, tables=machine.tables.plus(Tables.joined(tables), binning.starts))


def _sample_old(old: NDArray[Any], n: int, ridge: float) -> NDArray[Any]:
    """Take as few old rows as give the rows of a bin accurately enough beside the penalty of its coefficient.

    Parameters
    ----------
    old : training rows, all n rows or a uniform sample
    """
    most = min(ridge / LIGHT * len(old) / n, len(old) / SAMPLED_ROWS)
    return old[:: max(1, int(most))]
