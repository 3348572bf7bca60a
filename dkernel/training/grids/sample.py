"""The fit of grids to rows of the reservoir, in memory: pure functions that run on a worker."""

from functools import cache

import numpy as np

from dkernel.model.local.binning import Binning, add_bin_scores, add_sums
from dkernel.model.local.grid_machine import coarse_to_fine
from dkernel.model.local.grids import GRID_GROUP, FixedPoint, bits_of, join_steps
from dkernel.numerics.array_types import F32, F64
from dkernel.training.grids.inputs import relevances
from dkernel.training.grids.settings import GRID_MIDDLE, GRID_RIDGES, best_grids, grid_gamma
from dkernel.training.selection.descent import Place
from dkernel.training.selection.evaluation import FitValidationSplit, StageScores
from dkernel.training.selection.sampled_stages import SampleProblem, StageTrial, mean_loss
from dkernel.training.selection.stage_settings import RaceFindings

CORRELATION_ROWS = 4096  # rows that the correlations of the grids of a group are estimated from
FEW_RACE_ROWS = 2048  # with more rows the race fits more grids; a whole fit has up to 1,024
RACE_GRIDS = 64, 128  # up to FEW_RACE_ROWS and beyond


def learn_relevances(problem: SampleProblem, split: FitValidationSplit, threads: int) -> F64:
    """Learn the relevances of the inputs of grids."""
    return relevances(split.X, problem.targets.of(split.y), problem.inputs, problem.scaling, threads)


def try_grids(
    problem: SampleProblem,
    split: FitValidationSplit,
    rows: int,
    start: StageScores,
    relevance: F64,
    place: Place | None,
) -> StageTrial:
    """Fit grids to the residual of a global stage, with the best settings near `place`."""
    inputs, Y = problem.inputs, problem.targets.of(split.y[:rows])
    n_grids = RACE_GRIDS[rows > FEW_RACE_ROWS]
    weight = None if split.weight is None else split.weight[:rows]
    X, X_judged = inputs(split.X[:rows]), inputs(split.X_judged)

    @cache
    def losses(place: Place) -> F64:
        gamma = grid_gamma(relevance, inputs.categorical, place)
        binning = coarse_to_fine(gamma, inputs.categorical, n_grids, bits_of(rows), problem.seed)
        scores = _grid_scores(problem, binning, GRID_RIDGES[place[2]], X, X_judged, Y, weight, start)
        return problem.losses(split, scores)

    best = best_grids(mean_loss(losses, split), place or GRID_MIDDLE, len(relevance))
    return StageTrial(losses(best), RaceFindings(best, relevance))


def _grid_scores(
    problem: SampleProblem,
    binning: Binning,
    ridge: float,
    X: F32,
    X_judged: F32,
    Y: F32,
    weight: F64 | None,
    start: StageScores,
) -> F32:
    """Fit each group of grids by one round; return the scores of the rows that judge."""
    fitted, judged = start.fitted.copy(), start.judged.copy()
    loss, n, outputs = problem.loss, len(Y), Y.shape[1]
    fixed = FixedPoint.of(problem.bound, None if weight is None else float(weight.sum()))
    few = np.ones(min(n, CORRELATION_ROWS)) if weight is None else weight[:CORRELATION_ROWS]
    bins = GRID_GROUP, binning.n_bins
    for first in range(0, binning.n_grids, GRID_GROUP):
        part = binning.part(first, first + GRID_GROUP)
        codes = part.codes(X.T)
        residual = -loss.derivative(Y, fitted) / np.float32(loss.curvature)
        table = np.zeros((*bins, outputs + 1), np.int64)
        sums = np.zeros((*bins, 1), np.int64) if fixed.packs(outputs) else table
        add_sums(codes, fixed.rows(residual, weight), sums)
        if fixed.packs(outputs):
            fixed.unpack(sums, table)
        nothing, seen = np.zeros((*bins, outputs), np.float32), np.ascontiguousarray(codes[:, :CORRELATION_ROWS])
        change = join_steps(nothing, table, fixed, ridge * binning.n_grids, seen, few)
        add_bin_scores(codes, change, fitted)
        part.add_scores(X_judged.T, change, judged)
    return judged
