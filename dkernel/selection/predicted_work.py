"""The cost of the choice of kernel, scale, gamma and metric, predicted from sizes before it runs."""

from dkernel.cost import Cost
from dkernel.recipe import Recipe
from dkernel.selection.candidate_space import GAMMA_FACTORS, gamma_is_open, usable_kernels
from dkernel.selection.evaluation import Fidelity
from dkernel.selection.rungs import GRID_RUNG, LAST_RUNG, RUNGS, OpenWords


def choice_cost(recipe: Recipe, p: int, rows: int, components: int, drawn: bool, budget: float) -> Cost:
    """Cost of the choice; parameters as of `choice_work`."""
    flops = choice_work(recipe, p, rows, components, drawn, budget)
    return Cost("choice", flops, task_bytes=choice_bytes(rows, components) if flops else 0)


def choice_work(recipe: Recipe, p: int, rows: int, components: int, drawn: bool, budget: float) -> float:
    """Predicted flops of the choice: its rungs as they usually go, the later ones within the budget.

    Parameters
    ----------
    rows : of the sample
    components : of the fit to come
    drawn : whether its components are drawn
    """
    kernels = usable_kernels(recipe, p)
    is_open = any(gamma_is_open(recipe, kernel) for kernel in kernels)
    candidates = len(kernels) * (2 if recipe.scale == "auto" else 1) * (len(GAMMA_FACTORS) if is_open else 1)
    learns = recipe.metric not in ("auto", "identity") or (is_open and recipe.metric == "auto")
    if candidates == 1 and not learns:
        return 0.0
    judged = min(LAST_RUNG.judged, max(1, rows // 3))
    fitted = min(LAST_RUNG.rows, max(1, rows - judged))

    def flops_of_fit(fidelity: Fidelity) -> float:
        within = Fidelity(
            min(fidelity.components, components, fitted), min(fidelity.rows, fitted), min(fidelity.judged, judged)
        )
        return sum(within.flops(kernel, p, drawn) for kernel in kernels) / len(kernels)

    words = OpenWords(candidates, len(kernels), is_open, learns)
    first, second, *later = (rung.usual_fits(words) * flops_of_fit(rung.fidelity) for rung in RUNGS)
    if fitted > GRID_RUNG.rows and first + second <= budget:
        first += second
    # A fidelity is halved until it is within what is left, so half of that is spent.
    return first + min(sum(later), max(0.0, budget - first) / 2)


def choice_bytes(rows: int, components: int) -> int:
    """Bytes of a candidate at the last rung: covariance, metric, a copy of it, a factor, and the components of the
    rows that judge it.

    Parameters
    ----------
    rows : of the sample
    components : of the fit to come
    """
    c = min(LAST_RUNG.components, components, rows)
    return 32 * c * c + 4 * c * min(LAST_RUNG.judged, max(1, rows // 3))
