"""Choice of the kernel, scale, gamma and metric that a recipe leaves open: candidates judged on reservoir rows.

Every candidate is fitted by ridge regression on a few components, of landmarks or drawn as in the fit. One Gram matrix
gives the whole path of alpha, and the loss of the fit judges the candidate on validation rows. The rungs of `rungs.py`
say which candidates are fitted, on how many components and rows, and which of them go on. The choice may take a share
of the fit's predicted flops, never a time.
"""

from collections.abc import Sequence
from dataclasses import replace

from dkernel.model.recipe import Recipe
from dkernel.streaming.cost import Cost
from dkernel.training.selection.candidate_space import GAMMA_FACTORS, gamma_is_open, usable_kernels
from dkernel.training.selection.candidates import SelectedModel
from dkernel.training.selection.evaluation import Fidelity
from dkernel.training.selection.judge import Trial
from dkernel.training.selection.reasons import explain_choice
from dkernel.training.selection.rungs import LAST_RUNG, RUNGS, OpenWords, Search
from dkernel.training.selection.ways import Way


def select_model(search: Search, ways: Sequence[Way]) -> SelectedModel:
    """Choose kernel and scaling, with numbers instead of "auto", "median" and "scale".

    Parameters
    ----------
    ways : ways to fit the machine; the choice takes one or two of several
    """
    first, race = search.candidates[0], search.race
    if race is None and len(search.candidates) == 1 and search.space.choose_metric(first) == "identity":
        return SelectedModel(first.kernel, first.scaling, {}, ways=tuple(ways))
    with search.judge:
        selected = _selected_model(search, climb(search))
    if race is None:
        return replace(selected, ways=tuple(ways))
    return replace(selected, ways=race.ways_to_fit(), findings=race.findings)


def climb(search: Search) -> Trial:
    """Climb the rungs that are open; return the best candidate of the last one."""
    leaders: list[Trial] = []
    for rung in RUNGS:
        left_out = rung.of_kernel and leaders and search.race is not None and not search.race.has_kernel
        if not left_out and rung.is_open(search, leaders):
            leaders = rung.climb(search, leaders, rung.fidelity)
    return leaders[0]


def _selected_model(search: Search, best: Trial) -> SelectedModel:
    candidate = best.candidate
    why = {} if search.race is None else {"way": search.race.explain()}
    if search.joint is not None:
        return replace(search.joint, why=why | search.joint.why)
    why |= explain_choice(search, best)
    return SelectedModel(
        candidate.kernel,
        candidate.scaling,
        why,
        candidate.metric,
        candidate.weights,
        enough=search.enough,
        reached=search.loss_of(best),
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
