"""The search for the settings of grids, on rows in memory: few short fits, each of which moves all settings.

Each grid of a fit draws the inputs that it uses and the width of their intervals. So the gain of each grid on the
validation rows is a sample of the derivative of the loss by all settings, and a regression of the gains on the draws
moves all settings together. The work does not grow with the number of inputs.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dkernel.features import Scaling
from dkernel.losses.losses import Loss
from dkernel.losses.smoothing import smooth_loss
from dkernel.model.local.binning import Binning, add_sums
from dkernel.model.local.grid_machine import TABLE_ROWS, GridSettings
from dkernel.model.local.grids import COUNT_BITS, FixedPoint, Tables, code_bits, group_size, learn_group, unpack_sums
from dkernel.model.local.inputs import GridInputs
from dkernel.numerics.array_types import F32, F64, I64
from dkernel.numerics.threads import for_each
from dkernel.training.grids.fit import RESIDUAL_WIDTHS
from dkernel.training.holdout_losses import judge_rows

STEPS = 10  # short fits of a search
TRIED_GRIDS = 256  # grids of a short fit, in groups of an eighth
WHOLE_STEPS, HALVED = 6, 1.5  # whole steps of a search, and later steps in which the step size is halved
FIRST_GAMMA, RIDGE = 4.0, 10.0  # first gamma of all numbers of a grid together, and ridge of a bin
FIRST_INPUTS = 6  # first number of inputs of a grid, at most half of them
FASTER, LONGEST_STEP = 3.0, 2.0  # factor of gamma in a whole step (the odds of use have e), and most steps at once
LEAST_USED, LEAST_INPUTS = 0.05, 2  # least share of grids that use an input, or inputs of a grid; most: 1 - LEAST_USED
SURE = 3.0  # standard errors of a slope that make a whole step
SLOPE_RIDGE = 1e-2  # ridge of the regression of the gains for each grid, beside 1 for each column
MIDDLE_WIDTH = float(np.prod(RESIDUAL_WIDTHS) ** 0.5)  # width of the window that smooths a loss with kinks
SAMPLED_ROWS = 16_384  # rows that estimate the correlations of a group and its numbers of bins


@dataclass(frozen=True, eq=False)
class GridRows:
    """Rows in memory: inputs of grids as columns, targets, scores of the global stage, weights or none.

    Parameters
    ----------
    X : float32 (n_inputs, rows)
    Y, scores : float32 (rows, outputs)
    weight : float64 (rows,)
    """

    X: F32
    Y: F32
    scores: F32
    weight: F64 | None = None


@dataclass(frozen=True, eq=False)
class GridTrials:
    """Short fits of grids to some rows, judged on validation rows.

    Parameters
    ----------
    bound : largest absolute value of a residual
    threads : threads that share the rows; their number does not change the bits
    """

    loss: Loss
    bound: float
    inputs: GridInputs
    seed: int
    rows: GridRows
    judged: GridRows
    threads: int = 1

    def alone(self) -> "GridTrials":
        """Return the trials without a global stage: its scores are the mean of the targets."""
        mean = np.average(self.rows.Y, axis=0, weights=self.rows.weight).astype(np.float32)
        rows, judged = (replace(each, scores=np.tile(mean, (len(each.Y), 1))) for each in (self.rows, self.judged))
        return replace(self, rows=rows, judged=judged)

    def losses(self, scores: F32) -> F64:
        """Return the loss of each validation row for these scores."""
        return judge_rows(self.loss, self.judged.Y, scores)

    def mean_loss(self, scores: F32) -> float:
        """Return the mean loss of the validation rows."""
        return float(np.average(self.losses(scores), weights=self.judged.weight))

    def fit(
        self, settings: GridSettings, n_grids: int, share: float = 0.5, first: int = 0
    ) -> tuple[F32, Binning, list[F64]]:
        """Fit groups of grids; return the scores of the validation rows, the grids, and the gains of each group.

        Parameters
        ----------
        share : share of the best step of a group
        first : number of the first grid
        """
        rows, judged = self.rows, self.judged
        n, outputs = rows.Y.shape
        group, few = group_size(n_grids, outputs), rows.X[:, :SAMPLED_ROWS].T
        grids = settings.draw(self.inputs, n_grids, self.seed, first).for_rows(few, n, code_bits(n, outputs))
        fixed = FixedPoint.of(self.bound, None if rows.weight is None else float(rows.weight.sum()))
        weight = np.ones(len(few)) if rows.weight is None else rows.weight[:SAMPLED_ROWS]
        scores, judging, added = rows.scores.copy(), judged.scores.copy(), []
        for at in range(0, n_grids, group):
            part = grids.part(at, at + group)
            table = self._sums(part, fixed, scores)
            change = learn_group(part, table, fixed, settings.ridge, few, weight, share)
            self._add(part, change, scores)
            added.append(_outputs(part, change, judged.X))
            judging += added[-1].sum(axis=0)
        residual = self._residual(judged.Y, judging) * (1.0 if judged.weight is None else judged.weight[:, None])
        return judging, grids, [np.einsum("gic,ic->g", each, residual, optimize=True) for each in added]

    def _residual(self, Y: F32, scores: F32) -> F32:
        smooth = smooth_loss(self.loss, MIDDLE_WIDTH)
        return np.asarray(-smooth.derivative(Y, scores) / np.float32(smooth.curvature))

    def _sums(self, grids: Binning, fixed: FixedPoint, scores: F32) -> I64:
        rows, outputs = self.rows, scores.shape[1]

        def of_blocks(blocks: Sequence[slice]) -> I64:
            table = np.zeros((grids.n_bins, outputs + 1), np.int64)
            packed = np.zeros((grids.n_bins, 1), np.int64) if fixed.packs(outputs) else table
            for number, some in enumerate(blocks, 1):
                weight = None if rows.weight is None else rows.weight[some, None]
                values = fixed.rows(self._residual(rows.Y[some], scores[some]), weight)
                add_sums(grids.codes(rows.X[:, some].T), grids.starts, values, packed)
                if packed is not table and (number == len(blocks) or number * TABLE_ROWS % 2 ** (COUNT_BITS - 1) == 0):
                    unpack_sums(packed, table)
            return table

        blocks = self._blocks
        hands = [blocks[k :: self.threads] for k in range(min(self.threads, len(blocks)))]
        if len(hands) == 1:
            return of_blocks(blocks)
        with ThreadPoolExecutor(len(hands)) as pool:
            return reduce(np.add, pool.map(of_blocks, hands))

    def _add(self, grids: Binning, change: Tables, scores: F32) -> None:

        def add(some: slice) -> None:
            grids.add_scores(self.rows.X[:, some].T, change.coef, change.unit, scores[some])

        for_each(add, self._blocks, self.threads)

    @property
    def _blocks(self) -> list[slice]:
        return [slice(first, first + TABLE_ROWS) for first in range(0, len(self.rows.Y), TABLE_ROWS)]


def _outputs(grids: Binning, tables: Tables, X: F32) -> F32:
    """Return what each grid adds to the scores of rows, float32 (n_grids, rows, outputs)."""
    bins = grids.codes(X.T).astype(np.int64) + grids.starts[:-1, None]
    return np.asarray(tables.coef[bins] * tables.unit[:, None])


def first_settings(inputs: GridInputs, scaling: Scaling) -> GridSettings:
    """Return the settings that a search begins with, which are alike for all inputs.

    Parameters
    ----------
    scaling : scaling to standard scores
    """
    numbers, gamma = inputs.numbers, np.ones(inputs.n_out)
    gamma[: len(numbers)] = FIRST_GAMMA / np.clip(len(numbers), 1, 2 * FIRST_INPUTS) * scaling.factor[numbers]
    return GridSettings(gamma, np.full(inputs.n_out, min(0.5, FIRST_INPUTS / inputs.n_out)), RIDGE)


def search_settings(trials: GridTrials, settings: GridSettings, steps: int = STEPS) -> tuple[GridSettings, F32]:
    """Return the settings with the smallest loss of all steps, and the scores of the validation rows with them.

    Parameters
    ----------
    steps : number of steps, the last ones of a search
    """
    best, least = (settings, trials.judged.scores), np.inf
    for step in range(STEPS - steps, STEPS):
        # Grids of an earlier step would show only what they gain themselves.
        fitted = trials.fit(settings, TRIED_GRIDS, 1.0, (step + 1) << 32)
        if (loss := trials.mean_loss(fitted[0])) < least:
            best, least = (settings, fitted[0]), loss
        size = min(1.0, 2.0 ** ((WHOLE_STEPS - 1 - step) / HALVED))
        settings = _move(settings, *gain_slopes(*fitted[1:], trials.inputs.categorical), size)
    return best


def _move(settings: GridSettings, finer: F64, more: F64, size: float) -> GridSettings:
    gamma = settings.gamma * FASTER ** (size * np.clip(finer / SURE, -LONGEST_STEP, LONGEST_STEP))
    odds = settings.used / (1 - settings.used) * np.exp(size * np.clip(more / SURE, -1, 1))
    least = min(LEAST_USED, LEAST_INPUTS / len(gamma))
    return GridSettings(gamma, np.clip(odds / (1 + odds), least, 1 - LEAST_USED), settings.ridge)


def gain_slopes(grids: Binning, gains: Sequence[F64], categorical: NDArray[np.bool_]) -> tuple[F64, F64]:
    """Return the slopes of the gains by how finely grids divide each input, and by whether they use it.

    The slopes are in standard errors, and 0 for how finely a category is divided. They are those of a ridge regression,
    in the form whose size is the number of grids.

    Parameters
    ----------
    gains : gain of each grid, by groups
    """
    gain = np.concatenate([each - each.mean() for each in gains])
    uses = grids.inverse > 0
    finer = np.log(np.where(uses, grids.inverse, 1.0).astype(np.float64))
    finer = np.where(uses, finer - np.sum(finer, axis=0) / np.maximum(uses.sum(axis=0), 1), 0.0)
    finer[:, categorical] = 0.0
    drawn = np.hstack([finer, uses - uses.mean(axis=0)])
    varies = drawn.std(axis=0) > 1e-9
    t, B, n = np.zeros(drawn.shape[1]), drawn[:, varies], len(gain)
    if gain.std() > 0 and varies.any():
        g, B = gain / gain.std(), B / B.std(axis=0)
        ridge = SLOPE_RIDGE * n + B.shape[1]
        hat = np.linalg.solve(B @ B.T + ridge * np.eye(n), B)  # (n, columns): coef = hat'g
        coef, free = hat.T @ g, max(n - float(np.sum(hat * B)), n / 8)
        t[varies] = coef / np.sqrt(np.square(hat).sum(axis=0) * (g - B @ coef).var() * n / free)
    finer_t, more_t = np.split(t, 2)
    return finer_t, more_t
