"""The stages of a fit before its solver, each a function with a frozen result; a search uses some of them too."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features import FeatureMap, NystromMap, by_landmarks
from dkernel.linear.losses import LOSSES, Loss, loss_named
from dkernel.linear.solvers.psgd import PSGD
from dkernel.model import ScaledComponents
from dkernel.problem.finite_check import LOOKED_AT, check_products
from dkernel.problem.objective import Problem
from dkernel.problem.reservoir_split import ReservoirSplit, split_reservoir
from dkernel.problem.sizes import LEAST_COMPONENTS, Sizes
from dkernel.problem.targets import Targets, doubtful_task, make_targets, resolve_task
from dkernel.recipe import CONSTANT, Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.selection.landmark_selection import landmarks_of
from dkernel.selection.model_selection import select_model
from dkernel.solving.driver import SolverResult
from dkernel.solving.sgd_setup import (
    SMALL_EPOCHS,
    WARM_EPOCHS,
    Prepared,
    SampleEvaluator,
    alpha_path,
    alpha_paths,
    evaluate_candidates,
    prepare,
    warm_start,
)
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.exchangeability import exchangeable
from dkernel.streaming.schedule import Schedule, bundle_size, cut_pieces, interleaved, shuffled
from dkernel.streaming.shared_folder import check_shared
from dkernel.streaming.shuffle import folder_of, rewrite_shuffled
from dkernel.streaming.survey import Survey, SurveyResult
from dkernel.training.job import Job
from dkernel.training.local_stage import worth_trying

CONVERGED = 100  # passes of a polish that goes to the optimum, at most


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes, counts and targets of the labels.

    Parameters
    ----------
    recipe : with a task, and a number for alpha="C=..."
    counts : weight of each class
    """

    recipe: Recipe
    targets: Targets
    counts: dict[Any, float]


@dataclass(frozen=True, eq=False)
class PosedProblem:
    """The problem to be solved.

    Parameters
    ----------
    recipe : with all that the choice has settled
    split : of the reservoir's rows, those of landmarks among them
    weights : of the features in a learned metric, None without one
    alpha : that the choice has found best, None where it judged nothing
    """

    recipe: Recipe
    problem: Problem
    labels: Labels
    split: ReservoirSplit
    weights: NDArray[Any] | None
    alpha: float | None = None


@dataclass(frozen=True, eq=False)
class Ready:
    """Solver and start, made from the sample.

    Parameters
    ----------
    evaluator : of the problem that knows no holdout
    sample_path : alpha -> loss on rows outside the sample, where several were tried
    """

    prepared: Prepared
    evaluator: SampleEvaluator
    sample_path: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rounds:
    """The order of the rows.

    Parameters
    ----------
    schedules : one a pass; none for a solver without rounds
    feed : of the rows in that order
    why : of an order that is not the usual one, for the model
    """

    schedules: Sequence[Schedule]
    feed: BlockReader
    why: dict[str, str] = field(default_factory=dict)


def read_survey(job: Job, feed: BlockReader) -> SurveyResult:
    """One reading: figures of the columns, the labels, and the reservoir."""

    def read() -> SurveyResult:
        job.progress.phase("survey", job.source.n_rows)
        statistic = Survey(job.recipe.seed, job.sizes.n, job.sizes.reservoir)
        pieces, key = cut_pieces(job.units), f"{job.key}-survey"
        return feed.fold(statistic, pieces, key, job.progress, journal=job.journal, name="survey")

    return job.journal.stage("survey", read)


def learn_labels(job: Job, survey: SurveyResult) -> Labels:
    """Task, classes or centre and width, and alpha where it is a cost."""
    kind = {"b": "bool", "i": "int", "f": "float", "U": "text"}[survey.reservoir.y.dtype.kind]
    recipe = job.recipe.replace(task=resolve_task(job.recipe, kind))
    if said := doubtful_task(job.recipe, recipe.task, kind, survey.labels):
        job.note("task", said)
    targets, counts = make_targets(recipe, survey, job.source.label, job.sizes.n)
    if recipe.cost is not None:
        learned = 1 - job.sizes.holdout / job.sizes.n
        weight = learned * targets.weight(recipe.class_weight, counts, survey.weight)
        job.note("alpha", f"{1 / (recipe.cost * weight):.4g}: 1 / (C n), C = {recipe.cost:g}")
        recipe = recipe.replace(alpha=1 / (recipe.cost * weight))
    return Labels(recipe, targets, counts)


def split_rows(job: Job, survey: SurveyResult) -> ReservoirSplit:
    """Divide the reservoir into holdout, landmarks and samples."""
    split = split_reservoir(survey.reservoir, job.sizes)
    return split if job.validation is None else replace(split, holdout=job.validation)


def settle_sizes(job: Job, survey: SurveyResult, chosen: SelectedModel) -> tuple[Job, ReservoirSplit]:
    """Settle the number of components, divide the rows for it, and report the sizes."""
    if chosen.loss is not None:  # the features themselves, few numbers that are cheap to take to their optimum
        polish = CONVERGED if job.solver.in_rounds else 0
        job = replace(job, features="exact", sizes=replace(job.sizes, polish=polish))
    job, why = _with_enough(job, chosen)
    if job.recipe.local == "auto":
        job = replace(
            job, plan=replace(job.plan, local=worth_trying(job.plan.local, chosen.enough is not None, chosen.rough))
        )
    split, sizes, recipe = split_rows(job, survey), job.sizes, job.recipe
    if said := _components_said(job, split, why):
        job.note("n_components", said)
    if recipe.passes == "auto" and sizes.passes > 1:
        job.note("passes", f"{sizes.passes}: {sizes.n / sizes.components:.0f} rows per component are few")
    if recipe.polish == "auto" and sizes.polish:
        job.note("polish", f"{sizes.polish} passes, which are cheap compared with the setup")
    return job, split


def _with_enough(job: Job, chosen: SelectedModel) -> tuple[Job, str]:
    """The job with no more components than the choice found to be enough, and the reason if they are fewer."""
    recipe, most = job.recipe, job.sizes.components
    enough = most if chosen.enough is None else max(chosen.enough, LEAST_COMPONENTS)
    why = f"{most:,} would lower the loss by some 1 % at most"
    if chosen.rough and recipe.local == "auto" and "cells" in job.plan.local:
        enough, why = LEAST_COMPONENTS, "each doubling nearly halves the loss, so cells learn the rest"
    is_open = recipe.n_components == "auto" and recipe.landmarks == "uniform" and not job.solver.in_memory
    if not is_open or enough >= most:
        return job, ""
    return replace(job, sizes=Sizes.of(job.sizes.n, job.sizes.p, recipe.replace(n_components=enough))), why


def _components_said(job: Job, split: ReservoirSplit, why: str) -> str:
    """The number of components with its reason; nothing of a number that was given and is kept."""
    exact, landmarks, asked = job.solver.in_memory, by_landmarks(job.features), job.sizes.components
    auto, which = job.recipe.n_components == "auto", "all different rows" if exact else "all rows except the holdout"
    if landmarks and job.given is None and len(split.landmarks.X) < asked:
        text = f"{len(split.landmarks.X):,}: {which}"
        return text if auto else f"{text}; {asked:,} were asked for"
    if why:
        return f"{asked:,}: {why}"
    if not auto or job.recipe.constant_map:
        return ""
    return f"{asked:,}: {which}" if exact and landmarks else f"{asked:,}, by rows and by what the setup may cost"


def choose_model(
    job: Job, labels: Labels, survey: SurveyResult, split: ReservoirSplit, stage: str = "choose"
) -> SelectedModel:
    """Kernel, scaling and metric, judged on the sample where they are open."""
    if job.settled is not None:
        return job.settled
    targets, recipe = labels.targets, labels.recipe
    loss = loss_named(recipe.loss).of(targets.outputs)
    job.progress.phase("choose scale and gamma")
    rest = job.plan.flops, job.executor, f"{job.key}-{stage}", job.drawing, job.source.encoding, _joint(job, labels)
    chosen = job.journal.stage(
        stage, lambda: select_model(recipe, survey, split.fitted, targets, loss, job.sizes.components, *rest)
    )
    rows = chosen.scaling.apply(split.fitted.X[:LOOKED_AT], recipe.dtype)
    check_products(chosen.kernel, rows, job.source.columns)
    return chosen


def _joint(job: Job, labels: Labels) -> Loss | None:
    """The loss of all classes at once that the choice may take, where the machine is open and goes to its optimum."""
    recipe, sizes = labels.recipe, job.sizes
    is_open = recipe.loss == recipe.features == recipe.n_components == "auto" and recipe.landmarks == "uniform"
    ends = job.solver.in_memory or (recipe.polish == "auto" and sizes.polish)
    if not (is_open and ends) or recipe.rank or recipe.calibration or job.given is not None:
        return None
    several = labels.targets.classes is not None and labels.targets.outputs > 1
    return next(each for each in LOSSES.values() if each.joint) if several and sizes.p <= sizes.components else None


def pose_problem(job: Job, labels: Labels, chosen: SelectedModel, split: ReservoirSplit) -> PosedProblem:
    """The problem that this choice makes of the rows."""
    for name, why in chosen.why.items():
        job.note(name, why)
    recipe, targets, sizes = labels.recipe, labels.targets, job.sizes
    weights = targets.weights_of(recipe.class_weight, labels.counts)
    map, split = _map(job, recipe, chosen, split, targets)
    if chosen.loss is not None and recipe.alpha == "auto" and job.solver.in_rounds:
        assert chosen.alpha is not None
        recipe = recipe.replace(alpha=chosen.alpha)  # it was chosen on the same components, at their optimum
    recipe = recipe.replace(
        loss=chosen.loss or loss_named(recipe.loss).text,
        kernel=repr(chosen.kernel),
        scale=chosen.scaling.kind,
        metric=chosen.metric,
        features=job.features,
        n_components=map.n_components,
        rounds=sizes.rounds,
        passes=sizes.passes,
        polish=sizes.polish,
    )
    columns, loss = ScaledComponents(chosen.scaling, map), loss_named(recipe.loss).of(targets.outputs)
    problem = Problem(columns, loss, targets, weights, recipe.seed, split.threshold)
    return PosedProblem(recipe, problem, labels, split, chosen.weights, chosen.alpha)


def _map(
    job: Job, recipe: Recipe, chosen: SelectedModel, split: ReservoirSplit, targets: Targets
) -> tuple[FeatureMap, ReservoirSplit]:
    kernel, scaling, drawing = chosen.kernel, chosen.scaling, job.drawing
    if drawing is not None:
        map = drawing.map(kernel, job.sizes.components)
        job.note("features", map.text)
        if recipe.n_components == "auto" and map.n_components < job.sizes.components:
            job.note("n_components", f"{map.n_components:,}: the kernel has no more")
        return map, split
    if job.given is not None:
        return NystromMap(kernel, scaling.apply(job.given), recipe.rank), split

    def select() -> tuple[Any, Block, Block]:
        Z, found = landmarks_of(recipe, kernel, scaling, split, job.sizes, targets)
        return Z, found.landmarks, found.sample

    if recipe.landmarks == "uniform":
        Z, landmarks, sample = select()
    else:
        job.progress.phase("choose landmarks")
        Z, landmarks, sample = job.journal.stage("landmarks", select)
    return NystromMap(kernel, Z, recipe.rank), replace(split, landmarks=landmarks, sample=sample)


def prepare_solver(job: Job, posed: PosedProblem) -> Ready:
    """The preconditioners, the safe step, and a start fitted to the sample, for a solver that begins with them."""
    job.progress.phase("prepare")
    problem = posed.problem
    coordinates = problem.components.map.coordinates()
    evaluator = SampleEvaluator(job.executor, f"{job.key}-prepare", replace(problem, threshold=-1), coordinates)
    if not job.solver.prepared:
        nothing = PSGD([], [], coordinates.metric, problem.loss, problem.targets.outputs)
        return Ready(Prepared(nothing, np.zeros(0), {}), evaluator)

    def compute() -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
        # Metric and loss are made again.
        prepared, path = _prepared(job, posed, evaluator.at_home())
        parts = {name: getattr(prepared.solver, name) for name in ("preconditioners", "alphas", "outputs", "shares")}
        return parts, {name: getattr(prepared, name) for name in ("start", "facts", "certificate")}, path

    solver, rest, path = job.journal.stage("prepare", compute)
    return Ready(Prepared(PSGD(metric=coordinates.metric, loss=problem.loss, **solver), **rest), evaluator, path)


def _prepared(job: Job, posed: PosedProblem, evaluator: SampleEvaluator) -> tuple[Prepared, dict[str, float]]:
    split, alpha, outputs, sizes = posed.split, posed.recipe.alpha, posed.problem.targets.outputs, job.sizes
    alphas = (float(alpha),) if alpha != "auto" else alpha_path(outputs, posed.alpha)
    prepared, path = prepare(evaluator, split, alphas, sizes.n, job.plan.flops, sizes.polish > 0), {}
    solver, best = prepared.solver, 0
    if len(solver.alphas) > 1:
        # The alphas worth a place in the passes, judged on rows that the sample does not hold.
        block = evaluator.executor.keep(split.unseen, f"{job.key}-judge-unseen")
        found = evaluate_candidates(evaluator, block, len(split.unseen.X), prepared.start, "alphas")
        evaluator.executor.release([block])
        losses = (found.loss / found.weight).tolist()
        path = {f"{a:g}": loss for a, loss in zip(solver.alphas, losses, strict=True)}
        best = int(np.argmin(found.loss))
    exact = not job.solver.in_rounds
    paths = alpha_paths(best, solver.alphas, outputs, sizes.large, len(split.holdout.X), exact)
    heads = np.concatenate([np.arange(j * outputs, (j + 1) * outputs) for j, _ in paths])
    solver, start = solver.only(paths), np.ascontiguousarray(prepared.start[:, heads])
    if not sizes.large and sizes.polish < SMALL_EPOCHS:
        start = warm_start(evaluator, solver, start, split.sample, range(WARM_EPOCHS, SMALL_EPOCHS))
    return replace(prepared, solver=solver, start=start), path


def without_components(
    job: Job, posed: PosedProblem, ready: Ready, outcome: SolverResult, start: NDArray[np.float32]
) -> tuple[PosedProblem, Ready, SolverResult]:
    """The global stage of features="none", a constant, in place of the one that was fitted."""
    job.note("features", "none: cells that learn the label have the smaller loss on the holdout")
    recipe = posed.recipe.replace(features="none", kernel=CONSTANT, gamma="auto", metric="identity", n_components=1)
    drawing = replace(job, features="none").drawing
    assert drawing is not None
    components = ScaledComponents(posed.problem.components.scaling, drawing.map(recipe.kernels[0], 1))
    problem, coordinates = replace(posed.problem, components=components), components.map.coordinates()
    evaluator = replace(ready.evaluator, problem=problem, coordinates=coordinates)
    nothing = PSGD([], [], coordinates.metric, problem.loss, problem.targets.outputs)
    v = np.concatenate([np.zeros((1, len(start))), start[None].astype(np.float64)])
    return (
        replace(posed, recipe=recipe, problem=problem, weights=None),
        replace(ready, prepared=Prepared(nothing, np.zeros(0), {}), evaluator=evaluator),
        replace(outcome, v=v, variance=None, facts={}),
    )


def choose_order(job: Job, survey: SurveyResult, feed: BlockReader, opened: ExitStack) -> Rounds:
    """The pieces of each round; data that are sorted are interleaved, after one rewriting where they are not kept.

    Parameters
    ----------
    opened : what is closed at the end of the fit
    """
    if not job.solver.in_rounds:
        return Rounds((), feed)
    verdict = exchangeable(survey)
    rounds, passes = job.sizes.rounds, job.sizes.passes
    if verdict.alike:
        bundle = bundle_size(job.units, job.source.row_bytes)
        return Rounds([shuffled(job.units, rounds, job.recipe.seed, epoch, bundle) for epoch in range(passes)], feed)
    schedule = interleaved(job.units, rounds)
    # The reason does not name a rewriting: that depends on the memory at hand, of which the model knows nothing.
    why = {"order": f"interleaved: {verdict.why}"}
    if feed.keep:
        job.note("order", f"interleaved: {verdict.why}")
        return Rounds([schedule] * passes, feed, why)
    job.note("order", f"rewritten once to scratch, interleaved: {verdict.why}")
    job.progress.phase("rewrite to scratch", job.source.n_rows)
    folder = folder_of(job.journal, job.scratch, opened)
    check_shared(job.executor, folder, "The data are sorted and larger than the workers' memory, so they are rewritten")
    source, schedule = rewrite_shuffled(feed, schedule, folder, job.key, job.progress, job.journal)
    feed.close()
    return Rounds([schedule] * passes, BlockReader(job.executor, source, keep=False), why)
