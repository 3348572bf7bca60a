"""The stages of a fit before its solver, each a function with a frozen result; a search uses some of them too."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any

from dkernel.data.block import Block
from dkernel.features import Drawing, FeatureMap, NystromMap, by_landmarks, is_complete
from dkernel.losses.losses import LOSSES, Loss, parse_loss
from dkernel.losses.scoring import check_scoring
from dkernel.model.model import ScaledComponents
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS, SolverEntry
from dkernel.solvers.budget import choice_flops
from dkernel.solvers.finite_check import CHECKED_ROWS, check_products
from dkernel.solvers.fit_problem import FitProblem, FitRun, Setup
from dkernel.solvers.full_batch import MOST_PASSES
from dkernel.solvers.objective import Objective
from dkernel.solvers.reservoir_split import ReservoirSplit, split_reservoir
from dkernel.solvers.sgd_round import PSGD
from dkernel.solvers.sgd_setup import load_or_prepare, prepare_fit
from dkernel.solvers.sizes import LEAST_COMPONENTS, Sizes
from dkernel.solvers.targets import Targets, doubtful_task, make_targets, resolve_task
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.digits import check_digits, tells_rounding
from dkernel.streaming.exchangeability import explain_order
from dkernel.streaming.row_weights import unit_of
from dkernel.streaming.schedule import Schedule, bundle_size, cut_pieces, interleave_order, shuffle_order
from dkernel.streaming.shuffle import store_shuffled
from dkernel.streaming.survey import Survey, SurveyResult
from dkernel.training.ask import Ask, resolve_map
from dkernel.training.local_stages import LOCAL_STAGES, learns_rest
from dkernel.training.selection.candidate_space import CandidateSpace
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.evaluation import FitValidationSplit
from dkernel.training.selection.judge import Judge
from dkernel.training.selection.landmark_selection import choose_landmarks
from dkernel.training.selection.model_selection import select_model
from dkernel.training.selection.race import Race
from dkernel.training.selection.rungs import LAST_RUNG, Search
from dkernel.training.selection.ways import Way


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit after the survey of its data.

    Parameters
    ----------
    recipe : recipe of the user, or of one way to fit the machine, with the task of these labels and a number for
        alpha="C=..."
    counts : weight of each class
    reader : reader of the rows
    """

    ask: Ask
    run: FitRun
    recipe: Recipe
    survey: SurveyResult
    targets: Targets
    counts: dict[Any, float]
    reader: BlockReader

    @cached_property
    def sizes(self) -> Sizes:
        """The sizes before the choice reduces the number of components."""
        source = self.ask.source
        return Sizes.of(source.n_counted, source.n_terms, self.recipe)

    @property
    def solver(self) -> SolverEntry:
        """The entry of the recipe's solver in the catalogue."""
        return SOLVERS[self.recipe.solver]

    @cached_property
    def features(self) -> str:
        """The word of FEATURES that recipe.features resolves to."""
        return resolve_map(self.ask.source, self.recipe, self.sizes, self.ask.landmarks)

    def choose_features(self, chosen: SelectedModel) -> str:
        """Return the word of FEATURES of the map, which is "exact" with a loss of all classes at once."""
        return self.features if chosen.loss is None else "exact"

    def drawing(self, features: str) -> Drawing | None:
        """Return the drawing of the map of these features; None for landmarks."""
        if by_landmarks(features):
            return None
        recipe, source = self.recipe, self.ask.source
        return Drawing(features, source.n_in, recipe.sampling, recipe.seed, source.sparse)

    def split(self, sizes: Sizes) -> ReservoirSplit:
        """Divide the reservoir into holdout, landmarks and samples."""
        split, validation = split_reservoir(self.survey.reservoir, sizes), self.ask.validation
        return split if validation is None else replace(split, holdout=validation)


def read_survey(ask: Ask, run: FitRun, reader: BlockReader) -> SurveyResult:
    """Read the data once: figures of the columns, the labels, and the reservoir."""

    def read() -> SurveyResult:
        run.progress.phase("survey", ask.source.n_rows)
        rounds = tells_rounding(ask.source)
        statistic = Survey(ask.recipe.seed, ask.plan.sizes.n, ask.plan.sizes.reservoir, rounds)
        pieces, key = cut_pieces(ask.units), f"{run.key}-survey"
        return reader.fold(statistic, pieces, key, run.progress, journal=run.journal, name="survey")

    survey: SurveyResult = run.journal.step("survey", read)
    check_digits(ask.source, survey)
    return survey


def learn_labels(ask: Ask, run: FitRun, survey: SurveyResult, reader: BlockReader) -> Fit:
    """Settle the task, the classes or the centre and width of the label, and alpha if a cost was given."""
    kind = {"b": "bool", "i": "int", "f": "float", "U": "text"}[survey.reservoir.y.dtype.kind]
    sizes, recipe = ask.plan.sizes, ask.recipe.replace(task=resolve_task(ask.recipe, kind))
    if caution := doubtful_task(ask.recipe, recipe.task, kind, survey.labels):
        run.note("task", caution)
    targets, counts = make_targets(recipe, survey, ask.source.label, sizes.n)
    loss = parse_loss(recipe.loss).of(targets.outputs)
    check_scoring(recipe.scoring, targets.classes is not None, loss.probable)
    if recipe.cost is not None:
        learned = 1 - sizes.holdout / sizes.n
        of_class = targets.read_class_weights(recipe.class_weight, counts)
        # C is that of each weight as it was given, in whatever unit.
        given = targets.weigh_rows(of_class, counts, survey.weight) / (unit_of(ask.source) or 1.0)
        weight = learned * given
        run.note("alpha", f"{1 / (recipe.cost * weight):.4g}: 1 / (C n), C = {recipe.cost:g}")
        recipe = recipe.replace(alpha=1 / (recipe.cost * weight))
    return Fit(ask, run, recipe, survey, targets, counts, reader)


def _settle_sizes(fit: Fit, chosen: SelectedModel) -> Sizes:
    """Settle the number of components and of passes, and report them."""
    (sizes, why), recipe, run = _limit_components(fit, chosen), fit.recipe, fit.run
    if chosen.loss is not None:  # the map is exact, and its few coefficients are cheap to take to their optimum
        sizes = replace(sizes, polish=fit.solver.in_passes(MOST_PASSES))
    landmarks = len(fit.split(sizes).landmarks.X)
    if text := _describe_components(fit, sizes, fit.choose_features(chosen), landmarks, why):
        run.note("n_components", text)
    if recipe.passes == "auto" and sizes.passes > 1:
        run.note("passes", f"{sizes.passes}: {sizes.n / sizes.components:.0f} rows per component are few")
    if recipe.polish == "auto" and sizes.polish:
        run.note("polish", f"{sizes.polish} passes, which are cheap compared with the setup")
    return sizes


def _limit_components(fit: Fit, chosen: SelectedModel) -> tuple[Sizes, str]:
    """Return sizes with no more components than are enough by the choice, and the reason if they are fewer."""
    recipe, sizes = fit.recipe, fit.sizes
    most = sizes.components
    enough = most if chosen.enough is None else chosen.enough
    why = f"{most:,} would lower the loss by some 1 % at most"
    if chosen.loss is None and "way" in chosen.why and learns_rest(recipe.local_stage):
        enough, why = min(enough, LEAST_COMPONENTS), f"{recipe.local_stage} learn the rest"
    if not recipe.components_open or enough >= most:
        return sizes, ""
    return Sizes.of(sizes.n, sizes.p, recipe.replace(n_components=enough)), why


def _describe_components(fit: Fit, sizes: Sizes, features: str, n_landmarks: int, why: str) -> str:
    """Describe the number of components and its reason; the text is empty if the number was given and is kept.

    Parameters
    ----------
    n_landmarks : number of available landmarks
    """
    exact, landmarks, asked = fit.solver.in_memory, by_landmarks(features), sizes.components
    auto = fit.recipe.n_components == "auto"
    which = "all different rows" if exact else _describe_rows(fit, sizes)
    if landmarks and fit.ask.landmarks is None and n_landmarks < asked:
        return f"{n_landmarks:,}: {which}" if auto else f"{n_landmarks:,}: {which}; {asked:,} were asked for"
    if why:
        return f"{asked:,}: {why}"
    if not auto or fit.recipe.constant_map:
        return ""
    return f"{asked:,}: {which}" if exact and landmarks else f"{asked:,}, by rows and by what the setup may cost"


def _describe_rows(fit: Fit, sizes: Sizes) -> str:
    purpose = "measure the step" if fit.solver.in_rounds else "judge alphas"
    others = ["the holdout"] * bool(sizes.holdout)
    others += [f"{sizes.leverage_rows:,} that {purpose}"] * bool(sizes.leverage_rows)
    return " ".join(["all rows", *["except " + " and ".join(others)] * bool(others)])


def choose_model(
    fit: Fit, ways: Sequence[Way] = (), step: str = "choose", tried: Sequence[Way] = (), reached: float = inf
) -> SelectedModel:
    """Choose kernel, scaling, metric and the best of several ways on the sample, as far as they are open.

    Parameters
    ----------
    tried : ways among these that are fitted in any case
    reached : loss on the holdout of grids alone if they are fitted already, else infinite
    """
    if fit.ask.chosen is not None:
        return fit.ask.chosen
    targets, recipe, run, source = fit.targets, fit.recipe, fit.run, fit.ask.source
    rows = fit.split(fit.sizes).fitted
    run.progress.phase("choose scale and gamma")

    def select() -> SelectedModel:
        drawing = fit.drawing(fit.features)
        space = CandidateSpace(recipe, fit.survey, rows, drawing, source.encoding)
        loss = parse_loss(recipe.loss).of(targets.outputs).judged_by(recipe.scoring)
        judge = Judge(
            FitValidationSplit.of(loss, targets, rows, LAST_RUNG),
            space.p,
            fit.sizes.components,
            # An exact map has the same kernel as landmarks, and its number of components is not open.
            None if drawing is None or is_complete(drawing.features) else drawing,
            choice_flops(recipe, fit.ask.plan.flops),
            run.executor,
            f"{run.key}-{step}",
            run.progress.advance,
        )
        race = _make_race(fit, judge, rows, ways, tuple(tried), reached) if len(ways) > 1 else None
        search = Search(space, judge, space.candidates(), race=race, joint_loss=_joint_loss(fit))
        return select_model(search, ways)

    chosen = run.journal.step(step, select)
    few = chosen.scaling.apply(rows.X[:CHECKED_ROWS], recipe.dtype)
    check_products(chosen.kernel, few, source.columns, fit.solver.in_memory)
    return chosen


def _make_race(fit: Fit, judge: Judge, rows: Block, ways: Sequence[Way], tried: Sequence[Way], reached: float) -> Race:
    recipe, targets = fit.recipe, fit.targets
    known = fit.survey, fit.ask.source, recipe, targets, rows
    stages = {way.local: LOCAL_STAGES[way.local] for way in ways if way.local != "none"}
    prepared = {word: stage.prepare(*known) for word, stage in stages.items()}
    raced = [way for way in ways if way not in tried]
    return Race(judge, fit.sizes.n, raced, tried, stages, prepared, reached)


def _joint_loss(fit: Fit) -> Loss | None:
    """Return the joint loss that the choice may take; None unless the machine is open and reaches its optimum."""
    recipe, sizes = fit.recipe, fit.sizes
    is_open = recipe.loss == recipe.features == recipe.n_components == "auto" and recipe.landmarks == "uniform"
    ends = fit.solver.reaches_optimum(recipe.polish == "auto" and sizes.polish > 0)
    if not (is_open and ends) or fit.ask.landmarks is not None:
        return None
    several = fit.targets.classes is not None and fit.targets.outputs > 1
    return LOSSES["softmax"] if several and sizes.p <= sizes.components else None


def pose_problem(fit: Fit, chosen: SelectedModel, sizes: Sizes) -> FitProblem:
    """Make the problem of the rows with this kernel, scaling and map."""
    for name, why in chosen.why.items():
        fit.run.note(name, why)
    recipe, targets = fit.recipe, fit.targets
    map, split = _make_map(fit, chosen, sizes)
    alpha = recipe.alpha
    if chosen.loss is not None and alpha == "auto" and fit.solver.in_rounds:
        assert chosen.alpha is not None
        alpha = chosen.alpha  # it was chosen on the same components, at their optimum
    loss = parse_loss(chosen.loss or recipe.loss).of(targets.outputs).judged_by(recipe.scoring)
    weights = targets.weigh_classes(recipe.class_weight, fit.counts)
    columns, coordinates = ScaledComponents(chosen.scaling, map), map.coordinates()
    return FitProblem(
        run=fit.run,
        objective=Objective(columns, loss, targets, weights, recipe.seed, split.threshold),
        coordinates=coordinates,
        split=split,
        sizes=sizes,
        recipe=recipe,
        reader=fit.reader,
        alpha=alpha,
        near=chosen.alpha,
        watched=bool(fit.run.callback or fit.ask.validation is not None),
        setup=Setup(PSGD([], [], coordinates.metric, loss, targets.outputs)),
    )


def _make_map(fit: Fit, chosen: SelectedModel, sizes: Sizes) -> tuple[FeatureMap, ReservoirSplit]:
    recipe, kernel, scaling, run, split = fit.recipe, chosen.kernel, chosen.scaling, fit.run, fit.split(sizes)
    drawing, given = fit.drawing(fit.choose_features(chosen)), fit.ask.landmarks
    if drawing is not None:
        map = drawing.map(kernel, sizes.components)
        run.note("features", map.text)
        if recipe.n_components == "auto" and map.n_components < sizes.components:
            run.note("n_components", f"{map.n_components:,}: the kernel has no more")
        return map, split
    if given is not None:
        return NystromMap(kernel, scaling.apply(given)), split

    choose = partial(choose_landmarks, recipe, kernel, scaling, split, sizes, fit.targets)
    if recipe.landmarks == "uniform":
        Z, sample = choose()
    else:
        run.progress.phase("choose landmarks")
        Z, sample = run.journal.step("landmarks", choose)
    return NystromMap(kernel, Z), replace(split, sample=sample)


def prepare_problem(fit: Fit, chosen: SelectedModel) -> FitProblem:
    """Make the problem for its solver, with settled sizes, the setup, and the order of the rows."""
    sizes = _settle_sizes(fit, chosen)
    problem = _with_setup(fit, pose_problem(fit, chosen, sizes))
    schedules, reader, order = choose_order(fit, sizes)
    return replace(problem, schedules=schedules, reader=reader, order=order)


def _with_setup(fit: Fit, problem: FitProblem) -> FitProblem:
    """Return the problem with preconditioners, the safe step and a start on the sample, for solvers that need them."""
    fit.run.progress.phase("prepare")
    if not fit.solver.prepared:
        return problem
    flops, in_rounds = fit.ask.plan.flops, fit.solver.in_rounds
    setup = load_or_prepare(problem, fit.run.journal, "prepare", lambda: prepare_fit(problem, flops, in_rounds))
    return replace(problem, setup=setup)


def choose_order(fit: Fit, sizes: Sizes) -> tuple[Sequence[Schedule], BlockReader, str]:
    """Return one schedule of pieces for each pass, their reader, and the order if it is not the usual one.

    Sorted data are interleaved. If they are not kept in memory, each worker first stores its rows on its disk.
    """
    run, reader, source, seed = fit.run, fit.reader, fit.ask.source, fit.recipe.seed
    if not fit.solver.in_rounds:
        return (), reader, ""
    unlike = explain_order(fit.survey)
    rounds, passes, units = sizes.rounds, sizes.passes, fit.ask.units
    if not unlike:
        bundle = bundle_size(units, source.row_bytes)
        return [shuffle_order(units, rounds, seed, epoch, bundle) for epoch in range(passes)], reader, ""
    schedule = interleave_order(units, rounds)
    # The order does not name the disk: whether it is used depends on the memory, and the model must not.
    order = f"interleaved: {unlike}"
    if reader.keep:
        run.note("order", order)
    else:
        run.note("order", f"stored once on disk, {order}")
        run.progress.phase("store interleaved", source.n_rows)
        reader, schedule = store_shuffled(reader, schedule, run.disk_folder(f"{run.key}-shuffled"), run.progress)
    return [schedule] * passes, reader, order
