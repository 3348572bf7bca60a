"""One fit, from a source to a model: survey, choice of scale and gamma, preconditioner, passes, holdout."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.execution.base import Executor
from dkernel.features import Drawing, FeatureMap, NystromMap, by_landmarks, features_named, features_of_sparse, words_of
from dkernel.linear.losses import loss_named
from dkernel.linear.solvers.catalogue import SOLVERS, SolverEntry
from dkernel.linear.solvers.psgd import PSGD
from dkernel.model import ScaledColumns
from dkernel.numerics.sparse_rows import named
from dkernel.numerics.threads import one_blas_thread
from dkernel.persistence.checkpoint import Checkpoint, run_of
from dkernel.persistence.journal import Journal
from dkernel.problem.finite_check import LOOKED_AT, check_products
from dkernel.problem.objective import Problem
from dkernel.problem.reservoir_roles import ReservoirSplit, split_reservoir
from dkernel.problem.sizes import Sizes
from dkernel.problem.targets import Targets, doubtful_task, make_targets, resolve_task
from dkernel.recipe import Recipe
from dkernel.selection.landmark_selection import for_given, landmarks_of
from dkernel.selection.model_selection import SelectedModel, select_model
from dkernel.solving.driver import Context, SolverResult, Told, solve, solver_class
from dkernel.solving.full_batch import Polish
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
from dkernel.streaming.fingerprint import array_digest, digest
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import RowSlice, Schedule, bundle_size, cut_pieces, interleaved, shuffled
from dkernel.streaming.shuffle import folder_of, rewrite_shuffled
from dkernel.streaming.survey import Survey, SurveyResult
from dkernel.training.build_model import build_model
from dkernel.training.checks import checked_source
from dkernel.training.local_stage import LOCAL_STAGES, local_pieces, residual_context
from dkernel.training.memory_plan import Plan
from dkernel.training.missing_values import with_missing_values
from dkernel.training.result import LocalStage, TrainResult
from dkernel.validation import silent_overflow

__all__ = ["Fit", "TrainResult", "plan", "train"]

SOME = 8  # alphas that are named one by one


def plan(source: Source, recipe: Recipe, executor: Executor) -> dict[str, Any]:
    """What `train` would need and do; nothing is read."""
    return Plan.of(source, recipe.for_columns(source.columns), executor).as_dict()


def train(
    source: Source, recipe: Recipe, executor: Executor, *, progress: Progress | None = None,
    scratch: str | None = None, landmarks: Any = None, checkpoint: Checkpoint | None = None,
    chosen: SelectedModel | None = None, validation: Block | None = None, told: Told | None = None,
) -> TrainResult:  # fmt: skip
    """Fit a model; the same bytes for every executor.

    Parameters
    ----------
    source : with a label
    scratch : folder for a shuffled copy, where data are sorted and do not fit in memory
    landmarks : an array of them (c, p) in the units of the source, instead of the recipe's rule
    checkpoint : where to keep what is done, and to go on from; the model has the bytes of a run without one
    chosen : kernel and scaling that a search has settled, in place of a choice on the sample
    validation : rows to judge by, in place of a holdout: then all rows of the source are learned from
    told : called with each line of the history, after each round of the passes; where it returns True they end
    """
    if source.label is None:
        raise DataError("The data have no label to learn: open the source with one.")

    def run(source: Source, recipe: Recipe) -> TrainResult:
        source = checked_source(source, recipe, executor, chosen, validation)
        with one_blas_thread(), progress or Progress("none") as shown:
            return Fit(source, recipe, executor, shown, scratch, landmarks, chosen, validation, told).run(checkpoint)

    return with_missing_values(run, source, recipe, checkpoint, progress)


class Fit:
    """The stages of one fit, in order; each is a method that leaves its result on self. A search uses some of them."""

    def __init__(
        self, source: Source, recipe: Recipe, executor: Executor, progress: Progress, scratch: str | None,
        landmarks: Any = None, chosen: SelectedModel | None = None, validation: Block | None = None,
        told: Told | None = None,
    ) -> None:  # fmt: skip
        self.settled, self.journal, self.validation, self.told = chosen, Journal(), validation, told
        recipe = recipe if validation is None else recipe.replace(holdout=0.0)
        self.asked = recipe.local
        recipe, self.given = for_given(recipe.for_columns(source.columns), landmarks, source)
        self.source, self.recipe, self.executor, self.progress, self.scratch = (
            source, recipe, executor, progress, scratch,
        )  # fmt: skip
        self.plan = Plan.of(source, recipe, executor)
        self.plan.check()
        self.recipe = recipe.replace(local=self.plan.local)
        self.sizes = Sizes.of(source.n_counted, source.n_terms, recipe)
        beside = [self.given] if validation is None else [self.given, validation.X, validation.y, validation.weight]
        given = "".join(array_digest(Z) for Z in beside if Z is not None)
        self.key = "dkernel-" + hashlib.sha256(f"{source.token}/{recipe.digest}{given}".encode()).hexdigest()[:16]
        self.identity = run_of(source, recipe, given)
        self.units = [unit.rows for unit in source.units]
        self.chosen: dict[str, str] = {}
        self.sample_path: dict[str, float] = {}
        _ = self.features  # refuses a kernel that has no such map before anything is read
        self.order: dict[str, str] = {}

    def run(self, checkpoint: Checkpoint | None = None) -> TrainResult:
        """The result; what was opened on the way is closed."""
        with silent_overflow(), ExitStack() as self.open:
            if checkpoint is not None:
                opened = checkpoint.opened(self.identity, self.plan.checkpoint_bytes, self.progress)
                self.journal = self.open.enter_context(opened)
            found = self.journal.found("result")
            if found is not None:
                self.progress.message("the checkpoint holds the result: nothing is left to do")
                self.journal.tidy()
            else:
                found = self._run()
                self.journal.finish(found)
                found = {**found, "resumed": self.journal.resumed}
            return TrainResult(**{"resumed": "its result", **found}, plan=self.plan.as_dict())

    def _run(self) -> dict[str, Any]:
        feed = BlockReader(self.executor, self.source, self.plan.kept)
        try:
            survey = self.journal.stage("survey", lambda: self.survey(feed))
            self.data = digest(self.source.n_rows, (*named(self.source.columns), self.source.label or ""), survey.sums)
            for name, text in self.source.told.items():
                self._note(name, text)
            targets = self.targets(survey)
            roles = split_reservoir(survey.reservoir, self.sizes)
            roles = roles if self.validation is None else replace(roles, holdout=self.validation)
            self._say_sizes(roles)
            problem, roles = self.problem(survey, targets, roles)
            prepared = self._prepare(problem, roles)
            schedules: list[Schedule] = []
            if self.solver.in_rounds:
                schedules, feed = self.schedules(survey, feed)
            outcome = self._solve(problem, prepared, roles, schedules, feed)
            local = self._local(problem, outcome, roles, survey, feed, schedules[0].rounds if schedules else ())
        finally:
            feed.close()
        self.progress.phase("finish")
        return {
            "model": build_model(self, problem, prepared, outcome, roles, local),
            "history": [*outcome.history, *(local.history if local else ())],
            "chosen": self.chosen,
            "holdout": roles.holdout if len(roles.holdout.X) else None,
            "sample": roles.fitted,
            "sample_path": self.sample_path,
        }

    def survey(self, feed: BlockReader) -> SurveyResult:
        self.progress.phase("survey", self.source.n_rows)
        statistic = Survey(self.recipe.seed, self.sizes.n, self.sizes.reservoir)
        pieces, key = cut_pieces(self.units), f"{self.key}-survey"
        return feed.fold(statistic, pieces, key, self.progress, journal=self.journal, name="survey")

    def targets(self, survey: SurveyResult) -> Targets:
        kind = {"b": "bool", "i": "int", "f": "float", "U": "text"}[survey.reservoir.y.dtype.kind]
        asked, self.recipe = self.recipe, self.recipe.replace(task=resolve_task(self.recipe, kind))
        if said := doubtful_task(asked, self.recipe.task, kind, survey.labels):
            self._note("task", said)
        targets, self.counts = make_targets(self.recipe, survey, self.source.label, self.sizes.n)
        if self.recipe.cost is not None:
            learned = 1 - self.sizes.holdout / self.sizes.n
            weight = learned * targets.weight(self.recipe.class_weight, self.counts, survey.weight)
            self._note("alpha", f"{1 / (self.recipe.cost * weight):.4g}: 1 / (C n), C = {self.recipe.cost:g}")
            self.recipe = self.recipe.replace(alpha=1 / (self.recipe.cost * weight))
        return targets

    def _say_sizes(self, roles: ReservoirSplit) -> None:
        asked, auto, exact = self.sizes.columns, self.recipe.n_components == "auto", self.solver.in_memory
        which = "all different rows" if exact else "all rows but those kept to judge by"
        if by_landmarks(self.features) and self.given is None and len(roles.landmarks.X) < asked:
            text = f"{len(roles.landmarks.X):,}: {which}"
            self._note("n_components", text if auto else f"{text}; {asked:,} were asked for")
        elif auto:
            why = f": {which}" if exact and by_landmarks(self.features) else ", by rows and by what the setup may cost"
            self._note("n_components", f"{asked:,}{why}")
        if self.recipe.passes == "auto" and self.sizes.passes > 1:
            self._note("passes", f"{self.sizes.passes}: {self.sizes.n / asked:.0f} rows per component are few")
        if self.recipe.polish == "auto" and self.sizes.polish:
            self._note("polish", f"{self.sizes.polish} passes, which are cheap beside the setup")

    @property
    def solver(self) -> SolverEntry:
        """Properties of the solver."""
        return SOLVERS[self.recipe.solver]

    @cached_property
    def features(self) -> str:
        """What recipe.features stands for here; landmarks by rule, or a rank, are wishes for a Nystrom map."""
        recipe = self.recipe
        if recipe.features == "auto" and (self.given is not None or recipe.landmarks != "uniform" or recipe.rank):
            return "nystrom"
        kernel = recipe.kernels[0].bind_columns(self.source.columns)
        if self.source.sparse:
            return features_of_sparse(kernel, self.sizes.columns, recipe.features)
        return features_named(kernel, self.sizes.p, self.sizes.columns, recipe.features, recipe.sampling)

    @property
    def drawing(self) -> Drawing | None:
        """How the map is drawn; None for landmarks."""
        recipe, sparse = self.recipe, self.source.sparse
        if by_landmarks(self.features):
            return None
        n_in = self.source.n_in if sparse else self.sizes.p
        return Drawing(self.features, n_in, recipe.sampling, recipe.form, recipe.seed, sparse)

    def _note(self, name: str, text: str) -> None:
        self.chosen[name] = text
        self.progress.choice(name, text)

    def problem(self, survey: SurveyResult, targets: Targets, roles: ReservoirSplit) -> tuple[Problem, ReservoirSplit]:
        return self.problem_of(self.settled or self.choice(survey, targets, roles), targets, roles)

    def choice(self, survey: SurveyResult, targets: Targets, roles: ReservoirSplit) -> SelectedModel:
        """Kernel, scaling and metric, judged on the sample where they are open."""
        loss = loss_named(self.recipe.loss).of(targets.outputs)
        self.progress.phase("choose scale and gamma")
        asked, wanted, key = self.recipe, self.sizes.columns, f"{self.key}-choose"
        rest = self.plan.flops, self.executor, key, self.drawing, self.source.encoding
        chosen = self.journal.stage(
            "choose", lambda: select_model(asked, survey, roles.fitted, targets, loss, wanted, *rest)
        )
        rows = chosen.scaling.apply(roles.fitted.X[:LOOKED_AT], asked.dtype)
        check_products(chosen.kernel, rows, self.source.columns)
        return chosen

    def problem_of(
        self, chosen: SelectedModel, targets: Targets, roles: ReservoirSplit
    ) -> tuple[Problem, ReservoirSplit]:
        """The problem that this choice makes of the rows."""
        self.weights = chosen.weights
        for name, why in chosen.why.items():
            self._note(name, why)
        weights = targets.weights_of(self.recipe.class_weight, self.counts)
        map, roles = self._map(chosen, roles, targets)
        self.recipe = self.recipe.replace(
            kernel=repr(chosen.kernel),
            scale=chosen.scaling.kind,
            metric=chosen.metric,
            features=self.features,
            n_components=map.n_columns,
            rounds=self.sizes.rounds,
            passes=self.sizes.passes,
            polish=self.sizes.polish,
        )
        columns, loss = ScaledColumns(chosen.scaling, map), loss_named(self.recipe.loss).of(targets.outputs)
        return Problem(columns, loss, targets, weights, self.recipe.seed, roles.threshold), roles

    def _map(self, chosen: SelectedModel, roles: ReservoirSplit, targets: Targets) -> tuple[FeatureMap, ReservoirSplit]:
        kernel = chosen.kernel
        if by_landmarks(self.features):
            if self.given is not None:
                return NystromMap(kernel, chosen.scaling.apply(self.given), self.recipe.rank), roles
            if self.recipe.landmarks == "uniform":
                Z, roles = landmarks_of(self.recipe, kernel, chosen.scaling, roles, self.sizes, targets)
            else:
                self.progress.phase("choose landmarks")
                Z, landmarks, sample = self.journal.stage("landmarks", lambda: self._landmarks(chosen, roles, targets))
                roles = replace(roles, landmarks=landmarks, sample=sample)
            return NystromMap(kernel, Z, self.recipe.rank), roles
        assert self.drawing is not None
        map = self.drawing.map(kernel, self.sizes.columns)
        self._note("features", words_of(map))
        return map, roles

    def _landmarks(self, chosen: SelectedModel, roles: ReservoirSplit, targets: Targets) -> tuple[Any, Block, Block]:
        Z, roles = landmarks_of(self.recipe, chosen.kernel, chosen.scaling, roles, self.sizes, targets)
        return Z, roles.landmarks, roles.sample

    def _prepare(self, problem: Problem, roles: ReservoirSplit) -> Prepared:
        self.progress.phase("prepare")
        inside = replace(problem, threshold=-1)
        coordinates = problem.columns.map.coordinates()
        self.bench = SampleEvaluator(self.executor, f"{self.key}-prepare", inside, coordinates)
        if not self.solver.prepared:
            return Prepared(PSGD([], [], coordinates.metric, problem.loss, problem.targets.outputs), np.zeros(0), {})
        solver, rest, self.sample_path = self.journal.stage("prepare", lambda: self._prepared(roles))
        return Prepared(PSGD(metric=coordinates.metric, loss=problem.loss, **solver), **rest)

    def _prepared(self, roles: ReservoirSplit) -> tuple[dict[str, Any], dict[str, Any], dict[str, float]]:
        """What the passes need to begin, without metric and loss, which are made again."""
        auto, outputs = self.recipe.alpha == "auto", self.bench.problem.targets.outputs
        alphas = alpha_path(outputs) if auto else (float(self.recipe.alpha),)
        bench = self.bench.at_home()
        prepared = prepare(bench, roles, alphas, self.sizes.n, self.plan.flops)
        several = len(prepared.solver.alphas) > 1
        prepared = self._fewer(bench, prepared, roles) if several else self._paths(prepared, roles, 0)
        if not self.sizes.large and self.sizes.polish < SMALL_EPOCHS:
            start = warm_start(bench, prepared.solver, prepared.start, roles.sample, range(WARM_EPOCHS, SMALL_EPOCHS))
            prepared = replace(prepared, start=start)
        parts = {name: getattr(prepared.solver, name) for name in ("preconditioners", "alphas", "outputs", "shares")}
        rest = {name: getattr(prepared, name) for name in ("start", "facts", "certificate")}
        return parts, rest, self.sample_path

    def _fewer(self, bench: SampleEvaluator, prepared: Prepared, roles: ReservoirSplit) -> Prepared:
        """The alphas worth a place in the passes, judged on rows that the sample does not hold."""
        block = bench.executor.keep(roles.unseen, f"{self.key}-judge-unseen")
        found = evaluate_candidates(bench, block, len(roles.unseen.X), prepared.start, "alphas")
        bench.executor.release([block])
        losses = (found.loss / found.weight).tolist()
        self.sample_path = {f"{a:g}": loss for a, loss in zip(prepared.solver.alphas, losses, strict=True)}
        return self._paths(prepared, roles, int(np.argmin(found.loss)))

    def _paths(self, prepared: Prepared, roles: ReservoirSplit, best: int) -> Prepared:
        """Which alphas go through the passes, with which shares of the step, around the sample's best alpha."""
        solver, outputs = prepared.solver, prepared.solver.outputs
        exact = not self.solver.in_rounds
        paths = alpha_paths(best, solver.alphas, outputs, self.sizes.large, len(roles.holdout.X), exact)
        heads = np.concatenate([np.arange(j * outputs, (j + 1) * outputs) for j, _ in paths])
        return replace(prepared, solver=solver.only(paths), start=np.ascontiguousarray(prepared.start[:, heads]))

    def schedules(self, survey: SurveyResult, feed: BlockReader) -> tuple[list[Schedule], BlockReader]:
        verdict = exchangeable(survey)
        rounds, passes = self.sizes.rounds, self.sizes.passes
        if verdict.alike:
            bundle = bundle_size(self.units, self.source.row_bytes)
            return [shuffled(self.units, rounds, self.recipe.seed, epoch, bundle) for epoch in range(passes)], feed
        schedule = interleaved(self.units, rounds)
        # Whether it took a rewriting depends on the memory at hand, of which the model knows nothing.
        self.order = {"order": f"interleaved: {verdict.why}"}
        if feed.keep:
            self._note("order", f"interleaved: {verdict.why}")
            return [schedule] * passes, feed
        self._note("order", f"rewritten once to scratch, interleaved: {verdict.why}")
        self.progress.phase("rewrite to scratch", self.source.n_rows)
        folder = folder_of(self.journal, self.scratch, self.open)
        source, schedule = rewrite_shuffled(feed, schedule, folder, self.key, self.progress, self.journal)
        feed.close()
        return [schedule] * passes, BlockReader(self.executor, source, keep=False)

    def _solve(
        self, problem: Problem, prepared: Prepared, roles: ReservoirSplit, schedules: list[Schedule], feed: BlockReader
    ) -> SolverResult:
        bench = SampleEvaluator(self.executor, f"{self.key}-fit", problem, self.bench.coordinates)
        holdout, n = None, len(roles.holdout.X)
        if n:
            holdout = self.executor.keep(roles.holdout, f"{self.key}-holdout"), n
        watched = bool(self.told or self.recipe.patience or self.validation is not None)
        context = Context(
            self.recipe, self.sizes, prepared, bench, self.bench, feed, schedules, roles.sample, holdout,
            self.progress, self.journal, self.told, watched,
        )  # fmt: skip
        outcome = self._settled(solve(solver_class(self.recipe.solver)(context), context))
        if self.recipe.polish:
            context = replace(context, recipe=self.recipe)
            outcome = solve(Polish(context, outcome), context)
        if holdout is not None:
            self.executor.release(holdout[:1])
        return outcome

    def _local(
        self, problem: Problem, outcome: SolverResult, roles: ReservoirSplit, survey: SurveyResult, feed: BlockReader,
        rounds: Sequence[tuple[RowSlice, ...]],
    ) -> LocalStage | None:  # fmt: skip
        """The local stage, where one is asked for."""
        if self.recipe.local == "none":
            return None
        weighted = self.source.weight is not None or problem.class_weights is not None
        weight = problem.targets.weight(self.recipe.class_weight, self.counts, survey.weight) if weighted else None
        pieces = local_pieces(self.units, rounds if feed.source is not self.source else ())
        start, folder = self.bench.coefficients(outcome.v), partial(folder_of, self.journal, self.scratch, self.open)
        context = residual_context(
            problem, start, feed, pieces, roles, survey, weight, self.key, self.progress, self.journal, folder
        )
        found = LOCAL_STAGES[self.recipe.local].fit(context, survey, self.recipe, self.sizes.n, self.told)
        self._note("local", found.why)
        if found.machine is None and self.asked == "auto":
            self.recipe = self.recipe.replace(local="none")
        return found

    def _settled(self, outcome: SolverResult) -> SolverResult:
        if self.recipe.alpha == "auto":
            self._note("alpha", format_alpha(outcome.alpha, outcome.tried))
        self.recipe = self.recipe.replace(alpha=outcome.alpha)
        return outcome


def format_alpha(alpha: float, tried: Sequence[float]) -> str:
    """The choice of alpha, and what it was chosen from.

    Examples
    --------
    >>> format_alpha(1e-5, [1e-5, 1e-4]), format_alpha(1e-5, [1e-5])
    ('1e-05, of 1e-05, 0.0001', '1e-05, chosen on the sample')
    """
    alphas = sorted(set(tried))
    if len(alphas) == 1:
        return f"{alphas[0]:g}, chosen on the sample"
    if len(alphas) > SOME:
        return f"{alpha:g}, of {len(alphas)} from {alphas[0]:g} to {alphas[-1]:g}"
    return f"{alpha:g}, of " + ", ".join(f"{each:g}" for each in alphas)
