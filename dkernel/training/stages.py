"""The stages of a fit before its solver, each a function with a frozen result; a search uses some of them too."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from dkernel.data.block import Block
from dkernel.features import FeatureMap, NystromMap, by_landmarks
from dkernel.losses.losses import LOSSES, Loss, parse_loss
from dkernel.losses.scoring import check_scoring
from dkernel.model.model import ScaledComponents
from dkernel.model.recipe import Recipe
from dkernel.solvers.finite_check import CHECKED_ROWS, check_products
from dkernel.solvers.fit_problem import FitProblem, FitRun, Setup
from dkernel.solvers.full_batch import MOST_PASSES
from dkernel.solvers.objective import Problem
from dkernel.solvers.reservoir_split import ReservoirSplit, split_reservoir
from dkernel.solvers.sgd_round import PSGD
from dkernel.solvers.sgd_setup import load_or_prepare, prepare_fit
from dkernel.solvers.sizes import LEAST_COMPONENTS, Sizes
from dkernel.solvers.targets import Targets, doubtful_task, make_targets, resolve_task
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.exchangeability import exchangeable
from dkernel.streaming.schedule import Schedule, bundle_size, cut_pieces, interleave_order, shuffle_order
from dkernel.streaming.shuffle import store_shuffled
from dkernel.streaming.survey import Survey, SurveyResult
from dkernel.training.local_stages import LOCAL_STAGES, learns_rest
from dkernel.training.planning.stage_costs import way_cost
from dkernel.training.request import FitRequest
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.landmark_selection import landmarks_of
from dkernel.training.selection.local_stage import RaceProblem
from dkernel.training.selection.model_selection import Choice, select_model
from dkernel.training.selection.ways import Way


@dataclass(frozen=True, eq=False)
class FitData:
    """What is known of the data once they are read.

    Parameters
    ----------
    recipe : as it was asked for, with the task of these labels and a number for alpha="C=..."
    counts : weight of each class
    """

    survey: SurveyResult
    recipe: Recipe
    targets: Targets
    counts: dict[Any, float]


def read_survey(request: FitRequest, run: FitRun, reader: BlockReader) -> SurveyResult:
    """Read the data once: figures of the columns, the labels, and the reservoir."""

    def read() -> SurveyResult:
        run.progress.phase("survey", request.source.n_rows)
        statistic = Survey(request.recipe.seed, request.sizes.n, request.sizes.reservoir)
        pieces, key = cut_pieces(request.units), f"{run.key}-survey"
        return reader.fold(statistic, pieces, key, run.progress, journal=run.journal, name="survey")

    return run.journal.stage("survey", read)


def learn_labels(request: FitRequest, run: FitRun, survey: SurveyResult) -> FitData:
    """Settle the task, the classes or the centre and width of the label, and alpha if a cost was given."""
    kind = {"b": "bool", "i": "int", "f": "float", "U": "text"}[survey.reservoir.y.dtype.kind]
    sizes, recipe = request.sizes, request.recipe.replace(task=resolve_task(request.recipe, kind))
    if caution := doubtful_task(request.recipe, recipe.task, kind, survey.labels):
        run.note("task", caution)
    targets, counts = make_targets(recipe, survey, request.source.label, sizes.n)
    loss = parse_loss(recipe.loss).of(targets.outputs)
    check_scoring(recipe.scoring, targets.classes is not None, loss.probable)
    if recipe.cost is not None:
        learned = 1 - sizes.holdout / sizes.n
        weight = learned * targets.weight(recipe.class_weight, counts, survey.weight)
        run.note("alpha", f"{1 / (recipe.cost * weight):.4g}: 1 / (C n), C = {recipe.cost:g}")
        recipe = recipe.replace(alpha=1 / (recipe.cost * weight))
    return FitData(survey, recipe, targets, counts)


def split_rows(request: FitRequest, survey: SurveyResult, sizes: Sizes) -> ReservoirSplit:
    """Divide the reservoir into holdout, landmarks and samples."""
    split = split_reservoir(survey.reservoir, sizes)
    return split if request.validation is None else replace(split, holdout=request.validation)


def _settle_sizes(request: FitRequest, run: FitRun, survey: SurveyResult, chosen: SelectedModel) -> Sizes:
    """Settle the number of components and of passes, and report them."""
    sizes, why = _limit_components(request, chosen)
    if chosen.loss is not None:  # the features themselves, few numbers that are cheap to take to their optimum
        sizes = replace(sizes, polish=request.solver.in_passes(MOST_PASSES))
    recipe = request.recipe
    landmarks = len(split_rows(request, survey, sizes).landmarks.X)
    if text := _describe_components(request, sizes, request.features_of(chosen), landmarks, why):
        run.note("n_components", text)
    if recipe.passes == "auto" and sizes.passes > 1:
        run.note("passes", f"{sizes.passes}: {sizes.n / sizes.components:.0f} rows per component are few")
    if recipe.polish == "auto" and sizes.polish:
        run.note("polish", f"{sizes.polish} passes, which are cheap compared with the setup")
    return sizes


def _limit_components(request: FitRequest, chosen: SelectedModel) -> tuple[Sizes, str]:
    """Sizes with no more components than are enough for the choice, and the reason if they are fewer."""
    recipe, sizes = request.recipe, request.sizes
    most = sizes.components
    enough = most if chosen.enough is None else max(chosen.enough, LEAST_COMPONENTS)
    why = f"{most:,} would lower the loss by some 1 % at most"
    if chosen.loss is None and "way" in chosen.why and learns_rest(recipe.local_stage):
        enough, why = min(enough, LEAST_COMPONENTS), f"{recipe.local_stage} learn the rest"
    if not recipe.components_open or enough >= most:
        return sizes, ""
    return Sizes.of(sizes.n, sizes.p, recipe.replace(n_components=enough)), why


def _describe_components(request: FitRequest, sizes: Sizes, features: str, n_landmarks: int, why: str) -> str:
    """The number of components with its reason; an empty text if the number was given and is kept.

    Parameters
    ----------
    n_landmarks : landmarks that there are
    """
    exact, landmarks, asked = request.solver.in_memory, by_landmarks(features), sizes.components
    auto = request.recipe.n_components == "auto"
    which = "all different rows" if exact else _describe_rows(request, sizes)
    if landmarks and request.landmarks is None and n_landmarks < asked:
        return f"{n_landmarks:,}: {which}" if auto else f"{n_landmarks:,}: {which}; {asked:,} were asked for"
    if why:
        return f"{asked:,}: {why}"
    if not auto or request.recipe.constant_map:
        return ""
    return f"{asked:,}: {which}" if exact and landmarks else f"{asked:,}, by rows and by what the setup may cost"


def _describe_rows(request: FitRequest, sizes: Sizes) -> str:
    """The rows that landmarks are taken from."""
    purpose = "measure the step" if request.solver.in_rounds else "judge alphas"
    others = ["the holdout"] * bool(sizes.holdout) + [f"{sizes.held:,} that {purpose}"] * bool(sizes.held)
    return " ".join(["all rows", *["except " + " and ".join(others)] * bool(others)])


def choose_model(
    request: FitRequest,
    run: FitRun,
    data: FitData,
    split: ReservoirSplit,
    ways: Sequence[Way] = (),
    stage: str = "choose",
    reached: float = inf,
) -> SelectedModel:
    """Choose kernel, scaling and metric, and of several ways the best ones, by the sample where they are open.

    Parameters
    ----------
    reached : loss on the holdout of grids alone, where they are fitted already; else infinite
    """
    if request.chosen is not None:
        return request.chosen
    targets, recipe = data.targets, data.recipe
    loss = parse_loss(recipe.loss).of(targets.outputs).judged_by(recipe.scoring)
    run.progress.phase("choose scale and gamma")
    choice = Choice(
        recipe,
        data.survey,
        split.fitted,
        targets,
        loss,
        components=request.sizes.components,
        flops=request.plan.flops,
        drawing=request.drawing(request.features),
        encoding=request.source.encoding,
        joint=_joint_loss(request, data),
        ways={way: way_cost(way, request.sizes, recipe, targets.outputs) for way in ways},
        problem=_race_problem(request, data, split, loss) if len(ways) > 1 else None,
        stages=LOCAL_STAGES,
        reached=reached,
    )
    chosen = run.journal.stage(stage, lambda: select_model(choice, run.executor, f"{run.key}-{stage}"))
    rows = chosen.scaling.apply(split.fitted.X[:CHECKED_ROWS], recipe.dtype)
    check_products(chosen.kernel, rows, request.source.columns)
    return chosen


def _race_problem(request: FitRequest, data: FitData, split: ReservoirSplit, loss: Loss) -> RaceProblem:
    """What the fits of a race get beside rows."""
    known = data.survey, request.source, data.recipe, data.targets, split.fitted
    return RaceProblem(loss, data.targets, {word: stage.prepare(*known) for word, stage in LOCAL_STAGES.items()})


def _joint_loss(request: FitRequest, data: FitData) -> Loss | None:
    """The loss of all classes at once that the choice may take, where the machine is open and goes to its optimum."""
    recipe, sizes = data.recipe, request.sizes
    is_open = recipe.loss == recipe.features == recipe.n_components == "auto" and recipe.landmarks == "uniform"
    ends = request.solver.reaches_optimum(recipe.polish == "auto" and sizes.polish > 0)
    if not (is_open and ends) or recipe.rank or recipe.curve or request.landmarks is not None:
        return None
    several = data.targets.classes is not None and data.targets.outputs > 1
    return LOSSES["softmax"] if several and sizes.p <= sizes.components else None


def pose_problem(
    request: FitRequest, run: FitRun, data: FitData, chosen: SelectedModel, sizes: Sizes, reader: BlockReader
) -> FitProblem:
    """Make the problem of the rows with this kernel, scaling and map."""
    for name, why in chosen.why.items():
        run.note(name, why)
    recipe, targets, split = data.recipe, data.targets, split_rows(request, data.survey, sizes)
    map, split = _make_map(request, run, data, chosen, sizes, split)
    alpha = recipe.alpha
    if chosen.loss is not None and alpha == "auto" and request.solver.in_rounds:
        assert chosen.alpha is not None
        alpha = chosen.alpha  # it was chosen on the same components, at their optimum
    loss = parse_loss(chosen.loss or recipe.loss).of(targets.outputs).judged_by(recipe.scoring)
    weights = targets.weights_of(recipe.class_weight, data.counts)
    columns, coordinates = ScaledComponents(chosen.scaling, map), map.coordinates()
    return FitProblem(
        run=run,
        problem=Problem(columns, loss, targets, weights, recipe.seed, split.threshold),
        coordinates=coordinates,
        split=split,
        sizes=sizes,
        reader=reader,
        alpha=alpha,
        near=chosen.alpha,
        dtype=recipe.dtype,
        patience=recipe.patience,
        watched=bool(run.callback or recipe.patience or request.validation is not None),
        setup=Setup(PSGD([], [], coordinates.metric, loss, targets.outputs)),
    )


def _make_map(
    request: FitRequest, run: FitRun, data: FitData, chosen: SelectedModel, sizes: Sizes, split: ReservoirSplit
) -> tuple[FeatureMap, ReservoirSplit]:
    recipe, kernel, scaling = data.recipe, chosen.kernel, chosen.scaling
    drawing = request.drawing(request.features_of(chosen))
    if drawing is not None:
        map = drawing.map(kernel, sizes.components)
        run.note("features", map.text)
        if recipe.n_components == "auto" and map.n_components < sizes.components:
            run.note("n_components", f"{map.n_components:,}: the kernel has no more")
        return map, split
    if request.landmarks is not None:
        return NystromMap(kernel, scaling.apply(request.landmarks), recipe.rank), split

    def select() -> tuple[Any, Block, Block]:
        Z, chosen_split = landmarks_of(recipe, kernel, scaling, split, sizes, data.targets)
        return Z, chosen_split.landmarks, chosen_split.sample

    if recipe.landmarks == "uniform":
        Z, landmarks, sample = select()
    else:
        run.progress.phase("choose landmarks")
        Z, landmarks, sample = run.journal.stage("landmarks", select)
    return NystromMap(kernel, Z, recipe.rank), replace(split, landmarks=landmarks, sample=sample)


def prepare_problem(
    request: FitRequest, run: FitRun, data: FitData, chosen: SelectedModel, reader: BlockReader
) -> FitProblem:
    """The problem as its solver gets it: with settled sizes, the setup, and the order of the rows."""
    sizes = _settle_sizes(request, run, data.survey, chosen)
    fit = _with_setup(request, pose_problem(request, run, data, chosen, sizes, reader))
    schedules, reader, order = choose_order(request, run, data.survey, sizes, reader)
    return replace(fit, schedules=schedules, reader=reader, order=order)


def _with_setup(request: FitRequest, fit: FitProblem) -> FitProblem:
    """The problem with preconditioners, the safe step, and a start fitted to the sample, for solvers that need them."""
    fit.run.progress.phase("prepare")
    if not request.solver.prepared:
        return fit
    flops, in_rounds = request.plan.flops, request.solver.in_rounds
    return replace(
        fit, setup=load_or_prepare(fit, fit.run.journal, "prepare", lambda: prepare_fit(fit, flops, in_rounds))
    )


def choose_order(
    request: FitRequest, run: FitRun, survey: SurveyResult, sizes: Sizes, reader: BlockReader
) -> tuple[Sequence[Schedule], BlockReader, str]:
    """The pieces of each round, one schedule a pass, the reader of them, and the order if it is not the usual one.

    Sorted data are interleaved. If they are not kept in memory, each worker first stores what it reads on its disk.
    """
    if not request.solver.in_rounds:
        return (), reader, ""
    verdict = exchangeable(survey)
    rounds, passes, units = sizes.rounds, sizes.passes, request.units
    if verdict.alike:
        bundle = bundle_size(units, request.source.row_bytes)
        return [shuffle_order(units, rounds, request.recipe.seed, epoch, bundle) for epoch in range(passes)], reader, ""
    schedule = interleave_order(units, rounds)
    # The order does not name the disk: that depends on the memory at hand, of which the model knows nothing.
    order = f"interleaved: {verdict.why}"
    if reader.keep:
        run.note("order", order)
    else:
        run.note("order", f"stored once on disk, {order}")
        run.progress.phase("store interleaved", request.source.n_rows)
        reader, schedule = store_shuffled(reader, schedule, run.place(f"{run.key}-shuffled"), run.progress)
    return [schedule] * passes, reader, order
