"""The fit of grids to rows of the reservoir, in memory: pure functions that run on a worker."""

from dkernel.model.local.grid_machine import GridSettings
from dkernel.training.grids.search import GridRows, GridTrials, first_settings, search_settings
from dkernel.training.selection.descent import Place
from dkernel.training.selection.evaluation import Fidelity, FitValidationSplit, StageScores
from dkernel.training.selection.sampled_stages import SampleProblem, StageTrial, constant_scores

RACE_GRIDS = 128  # with more for more rows their curve would look steep


def learn_grid_settings(problem: SampleProblem, split: FitValidationSplit, threads: int) -> GridSettings:
    """Learn the settings of grids, without a global stage before them."""
    trials = _trials(problem, split, constant_scores(split, problem.targets, len(split.X)), threads)
    return search_settings(trials, first_settings(problem.inputs, problem.scaling))[0]


def try_grids(
    problem: SampleProblem,
    split: FitValidationSplit,
    rows: int,
    start: StageScores,
    settings: GridSettings,
    place: Place | None,  # noqa: ARG001 - the settings are those of all samples
) -> StageTrial:
    """Fit grids to the residual of a global stage."""
    few = split.part(Fidelity(0, rows, len(split.X_judged)))
    return StageTrial(problem.losses(split, _trials(problem, few, start).fit(settings, RACE_GRIDS)[0]))


def _trials(problem: SampleProblem, split: FitValidationSplit, start: StageScores, threads: int = 1) -> GridTrials:
    of, inputs = problem.targets.of, problem.inputs
    rows = GridRows(inputs(split.X), of(split.y), start.fitted, split.weight)
    judged = GridRows(inputs(split.X_judged), of(split.y_judged), start.judged, split.weight_judged)
    return GridTrials(problem.loss, problem.bound, inputs, problem.seed, rows, judged, threads)
