"""The fit of cells to rows of the reservoir, in memory: pure functions that run on a worker."""

from functools import cache

import numpy as np

from dkernel.model.local.cell_machine import CellInputs
from dkernel.model.local.cells import Cell, fit_cell, learn_root_of_cells
from dkernel.numerics.array_types import F32, F64
from dkernel.training.cells.settings import best_cells_anywhere, cell_settings
from dkernel.training.selection.descent import Place
from dkernel.training.selection.evaluation import FitValidationSplit, StageScores
from dkernel.training.selection.sampled_stages import SampleProblem, StageTrial, mean_loss
from dkernel.training.selection.stage_settings import RaceFindings

MOST_CELL_ROWS = 2048  # of one cell: 4,096 rows take five times as long, more than the rest of the race
METRIC_ROWS = 2048  # rows that the metric of cells is learned on, the fewest of a fit


def learn_cell_metric(problem: SampleProblem, split: FitValidationSplit, threads: int) -> F32:
    """Learn the root of the metric of cells."""
    X, Y = cell_inputs(problem)(split.X[:METRIC_ROWS]), problem.targets.of(split.y[:METRIC_ROWS])
    return learn_root_of_cells(X, Y, threads)


def cell_inputs(problem: SampleProblem) -> CellInputs:
    """Inputs of cells: standard scores. The root of the metric is 0 for a constant feature."""
    return CellInputs(problem.scaling.shift, problem.scaling.factor)


def try_cells(
    problem: SampleProblem, split: FitValidationSplit, rows: int, start: StageScores, root: F32, place: Place | None
) -> StageTrial:
    """Fit one cell of all rows to the residual of a global stage, with the settings of `place`, or the best of half."""
    spread = np.flatnonzero(root.any(axis=0))
    inputs, own = cell_inputs(problem), np.ascontiguousarray(root[np.ix_(spread, spread)])
    X, X_judged = (np.ascontiguousarray(inputs(block)[:, spread]) for block in (split.X[:rows], split.X_judged))
    Y = problem.targets.of(split.y[:rows])
    weight = np.ones(rows) if split.weight is None else split.weight[:rows] / split.weight[:rows].mean()

    @cache
    def losses(place: Place, n: int) -> F64:
        cell: Cell = fit_cell(X[:n], own, problem.loss, Y[:n], start.fitted[:n], weight[:n], cell_settings(place))
        return problem.losses(split, (start.judged + cell.scores(X_judged)).astype(np.float32))

    best = place or best_cells_anywhere(mean_loss(lambda place: losses(place, rows // 2), split))
    return StageTrial(losses(best, rows), RaceFindings(best))
