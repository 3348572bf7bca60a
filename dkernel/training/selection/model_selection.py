"""Choice of the kernel, scale, gamma and metric that a recipe leaves open: candidates judged on reservoir rows.

Every candidate is fitted by ridge regression on a few components, of landmarks or drawn as in the fit. One Gram matrix
gives the whole path of alpha, and the loss of the fit judges the candidate on validation rows. The rungs of `rungs.py`
say which candidates are fitted, on how many components and rows, and which of them go on. The choice may take a share
of the fit's predicted flops, never a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.features import Drawing, is_complete
from dkernel.losses.losses import Loss
from dkernel.model.recipe import Recipe
from dkernel.solvers.budget import choice_flops
from dkernel.solvers.targets import Targets
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.survey import SurveyResult
from dkernel.training.selection.candidate_space import GAMMA_FACTORS, CandidateSpace, gamma_is_open, usable_kernels
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.evaluation import Fidelity, FitValidationSplit
from dkernel.training.selection.judge import Judge, Trial
from dkernel.training.selection.local_stage import RaceObjective, Stage
from dkernel.training.selection.race import Race
from dkernel.training.selection.reasons import explain_choice
from dkernel.training.selection.rungs import LAST_RUNG, RUNGS, OpenWords, Search
from dkernel.training.selection.ways import Way


@dataclass(frozen=True, eq=False)
class Choice:
    """Data and limits of a choice.

    Parameters
    ----------
    rows : rows of the reservoir, in the order of hashes
    components, flops : number of components of the fit, and the predicted flops of its other stages
    drawing : drawing of the fit's map, None for landmarks; kernels without such a map are left out if others remain
    encoding : encoding of the columns of a table; a category is one column, and keeps its unit
    joint : loss of all classes at once, which a linear kernel may have instead of `loss`
    ways : way to fit the machine -> its core seconds; the choice takes one or two ways
    objective, stages : objective of the local stages of these ways, and the stages by their words
    reached : loss on the holdout of grids alone if they are fitted already, else infinite
    """

    recipe: Recipe
    survey: SurveyResult
    rows: Block
    targets: Targets
    loss: Loss
    components: int
    flops: float
    drawing: Drawing | None = None
    encoding: Encoding | None = None
    joint: Loss | None = None
    ways: Mapping[Way, float] = field(default_factory=dict)
    objective: RaceObjective | None = None
    stages: Mapping[str, Stage] = field(default_factory=dict)
    reached: float = inf


def select_model(choice: Choice, executor: Executor, key: str) -> SelectedModel:
    """Choose kernel and scaling, with numbers instead of "auto", "median" and "scale"."""
    recipe, survey, rows, loss = choice.recipe, choice.survey, choice.rows, choice.loss
    drawing, ways, objective = choice.drawing, choice.ways, choice.objective
    space = CandidateSpace(recipe, survey, rows, drawing, choice.encoding)
    candidates = space.candidates()
    if len(ways) < 2 and len(candidates) == 1 and space.choose_metric(candidates[0]) == "identity":
        return SelectedModel(candidates[0].kernel, candidates[0].scaling, {}, ways=tuple(ways))
    # An exact map has the same kernel as landmarks, and its number of components is not open.
    drawn = None if drawing is None or is_complete(drawing.features) else drawing
    split, budget = FitValidationSplit.of(rows, LAST_RUNG), choice_flops(recipe, choice.flops)
    with Judge(split, loss, choice.targets, space.p, choice.components, drawn, budget, executor, key) as judge:
        race = None
        if objective is not None:
            race = Race(judge, objective, int(survey.moments.n), recipe.effort, ways, choice.stages, choice.reached)
        search = Search(space, judge, candidates, race=race, joint_loss=choice.joint)
        selected = _selected_model(search, climb(search))
    if race is None:
        return replace(selected, ways=tuple(ways))
    fallback = race.fallback(search.enough or choice.components)
    return replace(selected, ways=race.ways_to_fit(), fallback=fallback, findings=race.findings)


def climb(search: Search) -> Trial:
    """Climb the rungs that are open; return the best candidate of the last one."""
    leaders: list[Trial] = []
    for rung in RUNGS:
        left_out = rung.of_kernel and leaders and search.race is not None and not search.race.has_kernel
        if not left_out and rung.is_open(search, leaders):
            leaders = rung.climb(search, leaders, rung.fidelity)
    return leaders[0]


def _selected_model(search: Search, best: Trial) -> SelectedModel:
    """Return the best candidate, or the linear kernel with a joint loss, with the reasons."""
    candidate, joint = best.candidate, search.joint
    why = {} if search.race is None else {"way": search.race.explain()}
    if joint is not None:
        why |= {"loss": joint.explain(candidate, search.judge.loss)}
        linear = joint.candidate
        return SelectedModel(linear.kernel, linear.scaling, why, alpha=joint.alpha, loss=joint.loss.text)
    why |= explain_choice(search, best)
    return SelectedModel(
        candidate.kernel,
        candidate.scaling,
        why,
        candidate.metric,
        candidate.weights,
        enough=search.enough,
        alpha=best.result.alpha,
    )


def choice_cost(recipe: Recipe, p: int, rows: int, components: int, drawn: bool, budget: float) -> Cost:
    """Return the cost of a choice from sizes: its rungs with their usual fits, the later ones within the budget.

    At the last rung a candidate has a covariance, a metric, a copy of it, a factor, and the components of the rows that
    judge it.

    Parameters
    ----------
    rows : number of rows of the sample
    components : number of components of the fit
    drawn : whether its components are drawn
    """
    kernels = usable_kernels(recipe, p)
    is_open = any(gamma_is_open(recipe, kernel) for kernel in kernels)
    candidates = len(kernels) * (2 if recipe.scale == "auto" else 1) * (len(GAMMA_FACTORS) if is_open else 1)
    learns = recipe.metric not in ("auto", "identity") or (is_open and recipe.metric == "auto")
    if candidates == 1 and not learns:
        return Cost("choice")
    judged = min(LAST_RUNG.judged, max(1, rows // 3))
    fitted = min(LAST_RUNG.rows, max(1, rows - judged))

    def flops_of_fit(fidelity: Fidelity) -> float:
        within = Fidelity(
            min(fidelity.components, components, fitted), min(fidelity.rows, fitted), min(fidelity.judged, judged)
        )
        return sum(within.flops(kernel, p, drawn) for kernel in kernels) / len(kernels)

    words = OpenWords(candidates, len(kernels), is_open, learns)
    first, *later = (rung.usual_fits(words) * flops_of_fit(rung.fidelity) for rung in RUNGS)
    # A fidelity is halved until it is within the rest of the budget, so half of the rest is spent.
    flops, most = first + min(sum(later), max(0.0, budget - first) / 2), min(LAST_RUNG.components, components, rows)
    return Cost("choice", flops, task_bytes=32 * most**2 + 4 * most * judged)
