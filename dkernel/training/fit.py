"""One fit, from a source to a model: survey, choice of scale and gamma, preconditioner, solver, local stage."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.scratch import Scratch
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.features import by_landmarks
from dkernel.model.model import Model
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.numerics import thin_linalg
from dkernel.numerics.fused import gradient, products, scores, wide_scores
from dkernel.numerics.loops import CompiledLoop, load_beside
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.validation import silent_overflow
from dkernel.solvers.catalogue import solver_class
from dkernel.solvers.driver import SolverResult, solve
from dkernel.solvers.fit_problem import Callback, FitProblem, FitRun
from dkernel.solvers.full_batch import Polish
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.sgd_round import expand_coefficients
from dkernel.solvers.sizes import LEAST_COMPONENTS
from dkernel.solvers.targets import doubtful_task
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.cost import Cost
from dkernel.streaming.exchangeability import explain_order
from dkernel.streaming.execution.base import Call, Executor
from dkernel.streaming.progress import Progress, phase_group
from dkernel.streaming.read_groups import join_units
from dkernel.training.ask import Ask, check_together, plan_fit, settle_source, with_solver
from dkernel.training.build_model import FittedWay, build_model
from dkernel.training.cautions import cautions
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.divide_rows import divide_source
from dkernel.training.holdout_losses import find_best
from dkernel.training.local_stages import LOCAL_STAGES, fit_local, learns_rest, local_pieces
from dkernel.training.reopening import with_reopened
from dkernel.training.residual import Residual
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.race import TRIAL_ROWS
from dkernel.training.selection.ways import GRIDS_ALONE, Way, open_ways
from dkernel.training.stages import Fit, choose_model, learn_labels, prepare_problem, read_survey
from dkernel.training.uncertainty import build_folds


@dataclass(frozen=True, eq=False)
class TrainResult:
    """Model, history and figures of a fit.

    Parameters
    ----------
    history : progressive loss and accuracy of each round, and those of the holdout after each pass
    plan : predicted bytes and flops
    chosen : setting that was left open -> its choice, in words
    holdout : raw rows that no gradient used, None without a holdout
    folds : for a fit without a holdout: the model without each fold, and the numbers of the fold's rows in the sample
    sample : uniform sample of the raw rows outside the holdout; all rows for a fit without a holdout
    sample_path : alpha -> loss of the sample's solution on rows outside the sample, if several were tried
    resumed : point from which this run continued a checkpoint, None for a run from the start
    """

    model: Model
    history: list[dict[str, Any]]
    plan: dict[str, Any]
    chosen: dict[str, str]
    holdout: Block | None = None
    folds: list[tuple[Model, NDArray[np.intp]]] = field(default_factory=list)
    sample: Block | None = None
    sample_path: dict[str, float] = field(default_factory=dict)
    resumed: str | None = None

    @property
    def left_out(self) -> list[tuple[Model, Block, Block]]:
        """Models, each with raw rows that it was not fitted to, and rows that it was fitted to."""
        if self.sample is None:
            return []
        if self.holdout is not None:
            return [(self.model, self.holdout, self.sample)]
        every = np.arange(len(self.sample.X))
        return [
            (model, select_rows(self.sample, rows), select_rows(self.sample, np.setdiff1d(every, rows)))
            for model, rows in self.folds
        ]


def plan(source: Source, recipe: Recipe, executor: Executor, beside: Sequence[Cost] = ()) -> dict[str, Any]:
    """Plan the memory, work and steps of `train`; "does_not_fit" says what there is too little of, or is None.

    Only the first unit of rows is read, to count the classes, and nothing if the plan does not fit without them.

    Parameters
    ----------
    beside : costs of the steps of a command after the fit
    """
    check_together(source, recipe)
    source = join_units(source)
    recipe = with_solver(recipe.for_columns(source.columns), source)
    found = plan_fit(source, recipe, executor, after=beside)
    refusal = found.refusal()
    if refusal is None and (outputs := _outputs(source, recipe, executor)) > 1:
        found = plan_fit(source, recipe, executor, outputs, beside)
        refusal = found.refusal()
    return {**found.as_dict(), "does_not_fit": refusal}


def _outputs(source: Source, recipe: Recipe, executor: Executor) -> int:
    """Return the number of scores of a row: one for each class in the first unit if there are more than two, else 1.

    Raises
    ------
    DataError
        for whole numbers that `train` would refuse as classes
    """
    numbers = recipe.task == "regress" or (source.label_kind == "float" and recipe.task != "classify")
    if source.label is None or numbers or recipe.positive is not None:
        return 1
    first = source.units[0]
    labels = np.unique(executor.compute([Call(f"dkernel-labels-{first.task.key}", first.labels)])[0][0])
    doubtful_task(recipe, "classify", "int" if labels.dtype.kind == "i" else "text", labels.tolist())
    return len(labels) if len(labels) > 2 else 1


Validation = Block | Callable[[Source, Recipe], Block] | None
"""Validation rows, or a function that reads them with the encoding that the source has then."""


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
    validation: Validation = None,
    callback: Callback | None = None,
) -> TrainResult:
    """Fit a model; its bytes are the same for every executor.

    Parameters
    ----------
    source : source with a label
    scratch : folder for rows on disk: the rows of cells, and all rows of sorted data that do not fit in memory
    landmarks : array of landmarks (c, p) in the units of the source, instead of the recipe's rule
    checkpoint : folder with the progress, from which a stopped fit continues to the same model
    chosen : kernel and scaling that a search has chosen, instead of a choice on the sample
    validation : validation rows, instead of a holdout; then all rows of the source are learned from
    callback : called with each line of the history, after each round of the passes; if it returns True they end
    """
    if source.label is None:
        raise DataError("The data have no label to learn: open the source with one.")

    def fit(source: Source, recipe: Recipe) -> TrainResult:
        source, validation_rows, note = with_validation(source, recipe, executor, validation)
        source, recipe = settle_source(source, recipe, executor, chosen, validation_rows)
        with one_blas_thread(), progress or Progress("none") as shown:
            ask = Ask.of(source, recipe, executor, landmarks, chosen, validation_rows)
            executor.group = lambda: phase_group(shown.now)
            run = FitRun(executor, ask.key, shown, scratch=Scratch.of(scratch))
            run.listen(callback)
            if note:
                run.note("holdout", note)
            with _limit_workers(ask, run):
                return _resume_or_fit(ask, run, checkpoint)

    return with_reopened(fit, source, recipe, checkpoint, progress)


def with_validation(
    source: Source, recipe: Recipe, executor: Executor, validation: Validation
) -> tuple[Source, Block | None, str]:
    """Return the source to learn from, the validation rows, and a text about them if they are taken from the source."""
    rows = validation(source, recipe) if callable(validation) else validation
    if recipe.division is None or rows is not None:
        return source, rows, ""
    return divide_source(source, recipe, executor)


def _limit_workers(ask: Ask, run: FitRun) -> AbstractContextManager[None]:
    """Limit a fit to the part of a cluster that makes it faster; it uses all workers if these hold the rows."""
    executor, used = run.executor, ask.plan.used.slots
    there = executor.slots
    if used >= there or any(executor.holders([unit.task for unit in ask.source.units])):
        return nullcontext()
    run.progress.message(f"{used} of {there} threads of workers are used: with more, calls cost more than they save")
    return executor.using(used)


def _resume_or_fit(ask: Ask, run: FitRun, checkpoint: Checkpoint | None) -> TrainResult:
    """Return the result, from the checkpoint if it is there, and close all resources."""
    with silent_overflow(), ExitStack() as opened:
        if checkpoint is not None:
            journal = checkpoint.open(ask.identity, ask.plan.checkpoint_bytes, run.progress)
            run.journal = opened.enter_context(journal)
        result = run.journal.stored("result")
        if result is not None:
            run.progress.message("the checkpoint holds the result: nothing was done")
            run.journal.tidy()
        else:
            result = _fit(ask, run, opened)
            run.journal.finish(result)
            result = {**result, "resumed": run.journal.resumed}
        return TrainResult(**{"resumed": "its result", **result}, plan=ask.plan.as_dict())


def _fit(ask: Ask, run: FitRun, opened: ExitStack) -> dict[str, Any]:
    source = ask.source
    reader = BlockReader(run.executor, source, ask.plan.keeps_rows, ask.mixed)
    opened.callback(reader.close)
    load_beside(_compiled_loops(ask))
    survey = read_survey(ask, run, reader)
    known = learn_labels(ask, run, survey, reader)
    targets = known.targets
    warned = cautions(survey, known.counts, source, targets, ask.recipe.seed)
    settled = ask.plan_local(run.executor, targets.outputs)
    for name, text in (*source.notes.items(), *warned, *settled.untried.items()):
        run.note(name, text)
    ways = open_ways(known.recipe, settled.local)
    if len(targets.constant) == targets.outputs:  # all ways predict the same
        ways = tuple(way for way in ways if way.features == "kernel")[:1]
    best = _fit_ways(known, ways, opened)
    run.progress.phase("finish")
    problem, local, model = best.problem, best.local, build_model(best)
    folds = build_folds(model, known.targets, best.outcome)
    return {
        "model": model,
        "history": [*best.outcome.history, *(local.history if local else ())],
        "chosen": problem.run.chosen,
        "holdout": problem.split.holdout if len(problem.split.holdout.X) else None,
        "folds": folds,
        "sample": problem.split.sample if folds else problem.split.fitted,
        "sample_path": problem.setup.sample_path,
    }


def _fit_ways(known: Fit, ways: Sequence[Way], opened: ExitStack) -> FittedWay:
    """Fit the ways of a trial and those that a race adds, and return the best on the holdout.

    Grids alone come first: they cost least, and a small sample does not show what they learn from all of many rows.
    """
    fitted: list[FittedWay] = []
    run, sizes, effort = known.run, known.sizes, known.recipe.effort
    notes = dict(run.chosen)
    few = sizes.n <= TRIAL_ROWS
    in_turn = few or not explain_order(known.survey)  # of many rows only one way may change the order
    judged = len(known.split(sizes).holdout.X) > 0 and in_turn and len(ways) > 1

    def fit(ways: Sequence[Way], chosen: SelectedModel | None = None) -> None:
        if fitted and (run.stopped.is_set() or not in_turn):  # a callback ends the whole fit
            return
        run_of_way, way = run, ways[0]
        if way.features != "kernel" or fitted:
            name = f"{way.features}-rest" if way.features == "kernel" and learns_rest(way.local) else way.features
            name += "-few" if chosen is not None and chosen.enough == LEAST_COMPONENTS else ""
            run_of_way = replace(run, key=f"{run.key}-{name}", journal=run.journal.within(name), chosen=dict(notes))
        fitted.append(_fit_way(replace(known, run=run_of_way), chosen, ways, opened))

    def is_tried(way: Way) -> bool:
        return way == GRIDS_ALONE or (few and effort != "low" and (effort == "high" or not learns_rest(way.local)))

    if judged and GRIDS_ALONE in ways:
        fit([GRIDS_ALONE])
    gain = any(each.machine is not None for each in fitted)
    why = "grids"
    if not gain or effort != "low":
        left = [way for way in ways if gain or not fitted or way != GRIDS_ALONE]
        tried = tuple(way for way in left if judged and is_tried(way))
        chosen = choose_model(known, left, tried=tried, reached=fitted[0].holdout["loss"] if gain else inf)
        chosen = chosen if chosen.ways or fitted else replace(chosen, ways=tuple(left))  # a search chooses no way
        by_stage: dict[tuple[str, bool], list[Way]] = {}
        for way in chosen.ways:  # ways with the same global stage and number of components share it
            by_stage.setdefault((way.features, learns_rest(way.local)), []).append(way)
        for together in by_stage.values():
            # All components take most of the seconds of a trial: they are fitted where few are not clearly beaten.
            trial = gain and together[0] in tried and together[0].features == "kernel"
            fit(together, replace(chosen, enough=LEAST_COMPONENTS) if trial else chosen)
            loses = trial and fitted[0].losses.is_better(fitted[-1].losses)
            if trial and not loses and sizes.components > LEAST_COMPONENTS != chosen.enough:
                fit(together, chosen)
        if not any(each.learns for each in fitted) and any(way.features == "kernel" for way in left):
            fit([way for way in left if way.features == "kernel"][:1], chosen)
        why = chosen.why.get("way", "")
    best = fitted[_find_best(fitted)]
    if len(fitted) > 1 or GRIDS_ALONE in ways:
        losses = ", ".join(f"{each.holdout['loss']:.4g} of {each.text}" for each in fitted if each.holdout)
        best.problem.run.note("way", "; ".join(filter(None, (why, losses and f"losses on the holdout {losses}"))))
    return best


def _find_best(fitted: Sequence[FittedWay]) -> int:
    """Return the number of the best way; of equals one with components comes first, and cells last."""
    learned = [i for i, each in enumerate(fitted) if each.learns] or list(range(len(fitted)))
    recipes = [each.fit.recipe for each in fitted]
    order = sorted(learned, key=lambda i: (learns_rest(recipes[i].local_stage), recipes[i].constant_map))
    return order[find_best([fitted[i].losses for i in order])] if len(order) > 1 else order[0]


def _fit_way(known: Fit, chosen: SelectedModel | None, ways: Sequence[Way], opened: ExitStack) -> FittedWay:
    """Fit a global stage and the local stages that these ways have after it, and keep the best of these.

    Parameters
    ----------
    chosen : choice of a race; None before it
    """
    stages, features = [way.local for way in ways], ways[0].features
    way = Way(features, "auto" if len(ways) > 1 else stages[0])
    fit = replace(known, recipe=way.of(known.recipe))
    if features != "kernel":
        choice = choose_model(fit)
        if chosen is not None:
            choice = replace(choice, why=choice.why | {"way": chosen.why["way"]}, findings=chosen.findings)
        chosen = choice
    assert chosen is not None
    problem = prepare_problem(fit, chosen)
    opened.callback(problem.reader.close)
    outcome = _solve(fit, problem)
    problem = replace(problem, setup=problem.setup.without_factors())  # no later stage needs them
    findings = {way.local: chosen.findings.get(way) for way in ways if way.local != "none"}
    residual = _make_residual(fit, problem, outcome)
    local = fit_local(residual, findings) if findings else None
    if local is not None:
        residual.run.note("local", local.why)
    return FittedWay(" or ".join(way.text for way in ways), fit, chosen, outcome, residual, local)


def _compiled_loops(ask: Ask) -> tuple[CompiledLoop, ...]:
    """Return the compiled loops of a usual fit, in the order of the stages; the choice waits only for the first."""
    drawn = not by_landmarks(ask.features)
    if drawn or not SOLVERS[ask.recipe.solver].in_rounds or ask.source.objects:
        return ()
    local = [loop for kind in ask.plan.local for loop in LOCAL_STAGES[kind].loops]
    return (
        products.product_walks["exp2"],
        *thin_linalg.LINALG_LOOPS,
        gradient.gradient_walks["exp2"],
        scores.score_walks["exp2"],
        wide_scores.WALKS["gaussian"],
        *local,
    )


def _solve(fit: Fit, problem: FitProblem) -> SolverResult:
    """Run the solver of the recipe, and then the polish if the sizes have one."""
    run = problem.run
    with closing(solver_class(fit.recipe.solver)(problem)) as solver:
        outcome = solve(solver, run)
    if problem.sizes.polish:
        with closing(Polish(problem, outcome)) as polish:
            outcome = solve(polish, run)
    if problem.alpha == "auto":
        run.note("alpha", format_alpha(outcome.alpha, outcome.tried, problem.setup.sample_path))
    return outcome


def _make_residual(fit: Fit, problem: FitProblem, outcome: SolverResult) -> Residual:
    of_class = problem.objective.class_weights
    weighted = fit.ask.source.weight is not None or of_class is not None
    weight = fit.targets.weigh_rows(of_class, fit.counts, fit.survey.weight) if weighted else None
    pieces = local_pieces(fit.ask.units, problem.schedules[0] if problem.reader.on_disk else ())
    return Residual(problem, fit.survey, expand_coefficients(problem.coordinates, outcome.v), pieces, weight)


def format_alpha(alpha: float, tried: Mapping[str, float], sample: Mapping[str, float]) -> str:
    """Describe the choice of alpha, with its loss and that of the runner-up.

    Parameters
    ----------
    tried, sample : alpha -> loss, for the fit and for the start that was fitted to the sample

    Examples
    --------
    >>> format_alpha(1e-5, {"1e-05": 0.25, "0.0001": 0.5}, {})
    '1e-05, the best of 2 from 1e-05 to 0.0001: loss 0.25, runner-up 0.0001 0.5'
    >>> format_alpha(1e-5, {"1e-05": 0.25}, {"1e-05": 0.5, "0.0001": 1.0})
    '1e-05, the best of 2 from 1e-05 to 0.0001 on the sample: loss 0.5, runner-up 0.0001 1'
    """
    name, where = f"{alpha:g}", ""
    if len(tried) < 2:
        tried, where = sample, " on the sample"
    others = {each: loss for each, loss in tried.items() if each != name}
    if name not in tried or not others:
        return f"{name}, chosen on the sample"
    alphas, best = sorted(tried, key=float), min(others, key=others.__getitem__)
    said = f"{name}, the best of {len(alphas)} from {alphas[0]} to {alphas[-1]}{where}: loss {tried[name]:.4g}"
    return f"{said}, runner-up {best} {others[best]:.4g}"
