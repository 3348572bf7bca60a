"""One fit, from a source to a model: survey, choice of scale and gamma, preconditioner, solver, local stage."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any

import numpy as np

from dkernel.cost import Cost
from dkernel.data.block import Block
from dkernel.data.scratch import Scratch
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.execution.base import Executor
from dkernel.local import binning, grids, inputs
from dkernel.numerics import thin_linalg
from dkernel.numerics.fused import gradient, products, scores
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import CompiledLoop, load_beside
from dkernel.persistence.checkpoint import Checkpoint
from dkernel.problem.targets import doubtful_task
from dkernel.recipe import Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.solving.driver import SolverResult, solve, solver_class
from dkernel.solving.fit_problem import Callback, FitProblem, FitRun
from dkernel.solving.full_batch import Polish
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.progress import Progress
from dkernel.streaming.read_groups import joined
from dkernel.streaming.task_groups import group_of
from dkernel.training.build_model import build_model
from dkernel.training.cautions import cautions
from dkernel.training.cell_stage import learns_label
from dkernel.training.checks import check_together, checked, with_solver
from dkernel.training.local_stage import fit_local, local_pieces, residual_of, worth_trying
from dkernel.training.memory_plan import Plan
from dkernel.training.missing_values import with_missing_values
from dkernel.training.request import FitRequest
from dkernel.training.result import LocalStage, TrainResult
from dkernel.training.stages import (
    FitData,
    choose_model,
    choose_order,
    learn_labels,
    pose_problem,
    prepare_solver,
    read_survey,
    settle_sizes,
    split_rows,
    without_components,
)
from dkernel.validation import silent_overflow


def plan(source: Source, recipe: Recipe, executor: Executor, beside: Sequence[Cost] = ()) -> dict[str, Any]:
    """Plan of `train`: its memory, work and steps; of the rows only the first unit is read, to count the classes.

    Parameters
    ----------
    beside : costs of what a command does after the fit
    """
    check_together(source, recipe)
    source = joined(source)
    recipe = with_solver(recipe.for_columns(source.columns), source)
    return Plan.of(source, recipe, executor, _outputs(source, recipe), beside).as_dict()


def _outputs(source: Source, recipe: Recipe) -> int:
    """Scores of a row, one for each of several classes: as many as the labels of the first unit show.

    Raises
    ------
    DataError
        for whole numbers that `train` would not take for classes
    """
    numbers = recipe.task == "regress" or (source.label_kind == "float" and recipe.task != "classify")
    if source.label is None or numbers or recipe.positive is not None:
        return 1
    labels = np.unique(source.first_labels())
    doubtful_task(recipe, "classify", "int" if labels.dtype.kind == "i" else "text", labels.tolist())
    return len(labels) if len(labels) > 2 else 1


def train(
    source: Source,
    recipe: Recipe,
    executor: Executor,
    *,
    progress: Progress | None = None,
    scratch: Scratch | str | None = None,
    landmarks: Any = None,
    checkpoint: Checkpoint | None = None,
    chosen: SelectedModel | None = None,
    validation: Block | Callable[[Source, Recipe], Block] | None = None,
    callback: Callback | None = None,
) -> TrainResult:
    """Fit a model; the same bytes for every executor.

    Parameters
    ----------
    source : with a label
    scratch : folder for rows on disk: those of cells, and all of data that are sorted and do not fit in memory
    landmarks : an array of them (c, p) in the units of the source, instead of the recipe's rule
    checkpoint : folder of the progress, from which a stopped fit continues to the same model
    chosen : kernel and scaling that a search has settled, in place of a choice on the sample
    validation : rows to judge by, in place of a holdout: then all rows of the source are learned from; or what reads
        them, with the encoding that the source has by then
    callback : called with each line of the history, after each round of the passes; where it returns True they end
    """
    if source.label is None:
        raise DataError("The data have no label to learn: open the source with one.")

    def fit(source: Source, recipe: Recipe) -> TrainResult:
        judges = validation(source, recipe) if callable(validation) else validation
        source, recipe = checked(source, recipe, executor, chosen, judges)
        with one_blas_thread(), progress or Progress("none") as shown:
            request = FitRequest.of(source, recipe, executor, landmarks, chosen, judges)
            executor.group = lambda: group_of(shown.now)
            run = FitRun(executor, request.key, shown, callback=callback, scratch=Scratch.of(scratch))
            return _resume_or_fit(request, run, checkpoint)

    return with_missing_values(fit, source, recipe, checkpoint, progress)


def _resume_or_fit(request: FitRequest, run: FitRun, checkpoint: Checkpoint | None) -> TrainResult:
    """The result, from the checkpoint if that has it; resources opened on the way are closed."""
    with silent_overflow(), ExitStack() as opened:
        if checkpoint is not None:
            kept = checkpoint.opened(request.identity, request.plan.checkpoint_bytes, run.progress)
            run.journal = opened.enter_context(kept)
        result = run.journal.stored("result")
        if result is not None:
            run.progress.message("the checkpoint holds the result: nothing was done")
            run.journal.tidy()
        else:
            result = _fit(request, run)
            run.journal.finish(result)
            result = {**result, "resumed": run.journal.resumed}
        return TrainResult(**{"resumed": "its result", **result}, plan=request.plan.as_dict())


def _fit(request: FitRequest, run: FitRun) -> dict[str, Any]:
    """The stages of the fit, in their order."""
    source = request.source
    reader = BlockReader(run.executor, source, request.plan.kept)
    try:
        load_beside(_loops(request))
        survey = read_survey(request, run, reader)
        data = learn_labels(request, run, survey)
        stages = request.local_stages(run.executor, data.targets.outputs)
        for name, text in (*source.notes.items(), *cautions(survey, data.counts, source, data.targets)):
            run.note(name, text)
        chosen = choose_model(request, run, data, split_rows(request, survey, request.sizes))
        sizes = settle_sizes(request, run, survey, chosen, stages)
        problem = prepare_solver(request, pose_problem(request, run, data, chosen, sizes, reader))
        schedules, reader, order = choose_order(request, run, survey, sizes, reader)
        problem = replace(problem, schedules=schedules, reader=reader)
        outcome = _solve(request, problem)
        if request.recipe.local == "auto":
            stages = worth_trying(stages, chosen.enough is not None, chosen.rough)
        local = _fit_local(request, data, problem, outcome, stages) if stages else None
    finally:
        reader.close()
    run.progress.phase("finish")
    if local is not None and local.start is not None:
        chosen, problem, outcome = without_components(request, chosen, problem, outcome, local.start)
    return {
        "model": build_model(request, data, chosen, problem, outcome, order, local),
        "history": [*outcome.history, *(local.history if local else ())],
        "chosen": run.chosen,
        "holdout": problem.split.holdout if len(problem.split.holdout.X) else None,
        "sample": problem.split.fitted,
        "sample_path": problem.setup.sample_path,
    }


def _loops(request: FitRequest) -> tuple[CompiledLoop, ...]:
    """The compiled loops that a usual fit needs, in the order of the stages: the choice waits for the first alone."""
    if not request.solver.in_rounds or request.drawing(request.features) is not None or request.source.objects:
        return ()
    local = (*inputs.LOOPS, *binning.LOOPS, *grids.LOOPS) if "grids" in request.plan.local else ()
    return (products.WALKS["exp2"], *thin_linalg.LOOPS, gradient.WALKS["exp2"], scores.WALKS["exp2"], *local)


def _solve(request: FitRequest, problem: FitProblem) -> SolverResult:
    """The coefficients: by the recipe's solver, and a polish where one is asked for."""
    run = problem.run
    with closing(solver_class(request.recipe.solver)(problem)) as solver:
        outcome = solve(solver, run.journal, run.callback)
    if problem.alpha == "auto":
        run.note("alpha", format_alpha(outcome.alpha, outcome.tried, problem.setup.sample_path))
    if problem.sizes.polish:
        with closing(Polish(problem, outcome)) as polish:
            outcome = solve(polish, run.journal, run.callback)
    return outcome


def _fit_local(
    request: FitRequest,
    data: FitData,
    problem: FitProblem,
    outcome: SolverResult,
    stages: Sequence[str],
) -> LocalStage:
    """The best of the local stages."""
    run, class_weights = problem.run, problem.problem.class_weights
    weighted = request.source.weight is not None or class_weights is not None
    weight = data.targets.weight(data.recipe.class_weight, data.counts, data.survey.weight) if weighted else None
    pieces = local_pieces(request.units, problem.schedules[0].rounds if problem.reader.on_disk else ())
    residual = residual_of(problem, outcome.v, pieces, data.survey, weight, learns_label(data.recipe))
    local = fit_local(stages, residual, data.survey, data.recipe)
    run.note("local", local.why)
    return local


def format_alpha(alpha: float, tried: Mapping[str, float], sample: Mapping[str, float]) -> str:
    """The choice of alpha, and by how much it won over the next.

    Parameters
    ----------
    tried, sample : alpha -> loss, of the fit and of the start that was fitted to the sample

    Examples
    --------
    >>> format_alpha(1e-5, {"1e-05": 0.25, "0.0001": 0.5}, {})
    '1e-05, the best of 2 from 1e-05 to 0.0001: loss 0.25, runner-up 0.0001 0.5'
    >>> format_alpha(1e-5, {"1e-05": 0.25}, {"1e-05": 0.5, "0.0001": 1.0})
    '1e-05, the best of 2 from 1e-05 to 0.0001 on the sample: loss 0.5, runner-up 0.0001 1'
    """
    own, where = f"{alpha:g}", ""
    if len(tried) < 2:
        tried, where = sample, " on the sample"
    others = {each: loss for each, loss in tried.items() if each != own}
    if own not in tried or not others:
        return f"{own}, chosen on the sample"
    alphas, best = sorted(tried, key=float), min(others, key=others.__getitem__)
    said = f"{own}, the best of {len(alphas)} from {alphas[0]} to {alphas[-1]}{where}: loss {tried[own]:.4g}"
    return f"{said}, runner-up {best} {others[best]:.4g}"
