"""One fit, from a source to a model: survey, choice of scale and gamma, preconditioner, solver, local stage."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.data.scratch import Scratch
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.execution.base import Executor
from dkernel.local import binning, grids, inputs
from dkernel.numerics import thin_linalg
from dkernel.numerics.fused import gradient, products, scores
from dkernel.numerics.sparse_rows import named
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import CompiledLoop, load_beside
from dkernel.persistence.checkpoint import Checkpoint
from dkernel.problem.targets import doubtful_task
from dkernel.recipe import Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.solving.driver import Callback, Context, SolverResult, solve, solver_class
from dkernel.solving.full_batch import Polish
from dkernel.solving.sgd_setup import SampleEvaluator
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.fingerprint import digest
from dkernel.streaming.progress import Progress
from dkernel.streaming.survey import SurveyResult
from dkernel.training.build_model import build_model
from dkernel.training.cautions import cautions
from dkernel.training.cell_stage import learns_label
from dkernel.training.checks import check_together, checked, with_solver
from dkernel.training.job import Job
from dkernel.training.local_stage import fit_local, local_pieces, residual_context
from dkernel.training.memory_plan import Plan
from dkernel.training.missing_values import with_missing_values
from dkernel.training.result import LocalStage, TrainResult
from dkernel.training.stages import (
    PosedProblem,
    Ready,
    Rounds,
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


def plan(source: Source, recipe: Recipe, executor: Executor) -> dict[str, Any]:
    """Plan of `train`: its memory, work and steps; of the rows only the first unit is read, to count the classes."""
    check_together(source, recipe)
    recipe = with_solver(recipe.for_columns(source.columns), source)
    return Plan.of(source, recipe, executor, _outputs(source, recipe)).as_dict()


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
    source: Source, recipe: Recipe, executor: Executor, *, progress: Progress | None = None,
    scratch: Scratch | str | None = None, landmarks: Any = None, checkpoint: Checkpoint | None = None,
    chosen: SelectedModel | None = None, validation: Block | None = None, callback: Callback | None = None,
) -> TrainResult:  # fmt: skip
    """Fit a model; the same bytes for every executor.

    Parameters
    ----------
    source : with a label
    scratch : folder for rows on disk: those of cells, and all of data that are sorted and do not fit in memory
    landmarks : an array of them (c, p) in the units of the source, instead of the recipe's rule
    checkpoint : folder of the progress, from which a stopped fit continues to the same model
    chosen : kernel and scaling that a search has settled, in place of a choice on the sample
    validation : rows to judge by, in place of a holdout: then all rows of the source are learned from
    callback : called with each line of the history, after each round of the passes; where it returns True they end
    """
    if source.label is None:
        raise DataError("The data have no label to learn: open the source with one.")

    def run(source: Source, recipe: Recipe) -> TrainResult:
        source, recipe = checked(source, recipe, executor, chosen, validation)
        with one_blas_thread(), progress or Progress("none") as shown:
            job = Job.of(source, recipe, executor, shown, scratch, landmarks, chosen, validation, callback)
            return _run(job, checkpoint)

    return with_missing_values(run, source, recipe, checkpoint, progress)


def _run(job: Job, checkpoint: Checkpoint | None) -> TrainResult:
    """The result, from the checkpoint if that has it; resources opened on the way are closed."""
    with silent_overflow(), ExitStack() as opened:
        if checkpoint is not None:
            kept = checkpoint.opened(job.identity, job.plan.checkpoint_bytes, job.progress)
            job = replace(job, journal=opened.enter_context(kept))
        found = job.journal.found("result")
        if found is not None:
            job.progress.message("the checkpoint holds the result: nothing was done")
            job.journal.tidy()
        else:
            found = _stages(job, opened)
            job.journal.finish(found)
            found = {**found, "resumed": job.journal.resumed}
        return TrainResult(**{"resumed": "its result", **found}, plan=job.plan.as_dict())


def _stages(job: Job, opened: ExitStack) -> dict[str, Any]:
    """The stages of the fit, in their order."""
    source = job.source
    feed = BlockReader(job.executor, source, job.plan.kept)
    try:
        load_beside(_loops(job))
        survey = read_survey(job, feed)
        data = digest(source.n_rows, (*named(source.columns), source.label or ""), survey.sums)
        labels = learn_labels(job, survey)
        job = job.for_outputs(labels.targets.outputs)
        for name, text in (*source.notes.items(), *cautions(survey, labels.counts, source, labels.targets)):
            job.note(name, text)
        chosen = choose_model(job, labels, survey, split_rows(job, survey))
        job, split = settle_sizes(job, survey, chosen)
        posed = pose_problem(job, labels, chosen, split)
        ready = prepare_solver(job, posed)
        rounds = choose_order(job, survey, feed, opened)
        feed = rounds.feed
        outcome = _solve(job, posed, ready, rounds)
        local = _local(job, posed, ready, rounds, survey, outcome)
    finally:
        feed.close()
    job.progress.phase("finish")
    if local is not None and local.start is not None:
        posed, ready, outcome = without_components(job, posed, ready, outcome, local.start)
    recipe = posed.recipe.replace(alpha=outcome.alpha)
    if recipe.local == "auto":
        recipe = recipe.replace(local="none" if local is None or local.machine is None else local.machine.kind)
    return {
        "model": build_model(job, replace(posed, recipe=recipe), ready, outcome, data, rounds.why, local),
        "history": [*outcome.history, *(local.history if local else ())],
        "chosen": job.chosen,
        "holdout": posed.split.holdout if len(posed.split.holdout.X) else None,
        "sample": posed.split.fitted,
        "sample_path": ready.sample_path,
    }


def _loops(job: Job) -> tuple[CompiledLoop, ...]:
    """The compiled loops that a usual fit needs, in the order of the stages: the choice waits for the first alone."""
    if not job.solver.in_rounds or job.drawing is not None or job.source.objects:
        return ()
    local = (*inputs.LOOPS, *binning.LOOPS, *grids.LOOPS) if "grids" in job.plan.local else ()
    return (products.WALKS["exp2"], *thin_linalg.LOOPS, gradient.WALKS["exp2"], scores.WALKS["exp2"], *local)


def _solve(job: Job, posed: PosedProblem, ready: Ready, rounds: Rounds) -> SolverResult:
    """The coefficients: by the recipe's solver, and a polish where one is asked for."""
    evaluator = SampleEvaluator(job.executor, f"{job.key}-fit", posed.problem, ready.evaluator.coordinates)
    rows, recipe = posed.split.holdout, posed.recipe
    holdout = (job.executor.keep(rows, f"{job.key}-holdout"), len(rows.X)) if len(rows.X) else None
    watched = bool(job.callback or recipe.patience or job.validation is not None)
    context = Context(
        recipe, job.sizes, ready.prepared, evaluator, ready.evaluator, rounds.feed, rounds.schedules,
        posed.split.sample, holdout, job.progress, job.journal, job.callback, watched, posed.alpha,
    )  # fmt: skip
    outcome = solve(solver_class(recipe.solver)(context), job.journal, job.callback)
    context.release()
    if recipe.alpha == "auto":
        job.note("alpha", format_alpha(outcome.alpha, outcome.tried, ready.sample_path))
    if recipe.polish:
        outcome = solve(Polish(context, outcome), job.journal, job.callback)
        context.release()
    if holdout is not None:
        job.executor.release(holdout[:1])
    return outcome


def _local(
    job: Job, posed: PosedProblem, ready: Ready, rounds: Rounds, survey: SurveyResult, outcome: SolverResult
) -> LocalStage | None:
    """The local stage, where one is asked for."""
    recipe, problem, feed = posed.recipe.replace(alpha=outcome.alpha), posed.problem, rounds.feed
    if not job.plan.local:
        return None
    weighted = job.source.weight is not None or problem.class_weights is not None
    weight = problem.targets.weight(recipe.class_weight, posed.labels.counts, survey.weight) if weighted else None
    pieces = local_pieces(job.units, rounds.schedules[0].rounds if feed.source is not job.source else ())
    start = ready.evaluator.coefficients(outcome.v)
    context = residual_context(
        problem, start, feed, pieces, posed.split, survey, weight, job.key, job.progress, job.journal, job.scratch.given
    )
    context = replace(context, alone=learns_label(job.recipe))
    found = fit_local(job.plan.local, context, survey, recipe, job.sizes.n, job.callback)
    job.note("local", found.why)
    return found


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
