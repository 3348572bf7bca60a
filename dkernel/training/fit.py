"""One fit, from a source to a model: survey, choice of scale and gamma, preconditioner, solver, local stage."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
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
from dkernel.solvers.fit_problem import Callback, FitRun
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.targets import doubtful_task
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.base import Call, Executor
from dkernel.streaming.progress import Progress, phase_group
from dkernel.streaming.read_groups import join_units
from dkernel.training.ask import Ask, check_together, plan_fit, settle_source, with_solver
from dkernel.training.build_model import build_model
from dkernel.training.cautions import cautions
from dkernel.training.checkpoint import Checkpoint
from dkernel.training.divide_rows import divide_source
from dkernel.training.local_stages import LOCAL_STAGES
from dkernel.training.reopening import with_reopened
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.ways import open_ways
from dkernel.training.stages import learn_labels, read_survey
from dkernel.training.trial import WayTrial
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
    if source.label is None or numbers:
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
            shown.plan(ask.plan.seconds)
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
    best = WayTrial(known, ways, opened).run()
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
