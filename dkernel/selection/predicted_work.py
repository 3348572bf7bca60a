"""The work of the choice of kernel, scale, gamma and metric, predicted from sizes before it runs."""

from dkernel.kernels import Laplacian
from dkernel.recipe import Recipe
from dkernel.selection.bandwidth import requested
from dkernel.selection.evaluation import Fidelity
from dkernel.selection.model_selection import FIRST, GRID, LAST, MOST_L1, SECOND, THIRD

JUDGED_AGAIN = 10  # candidates of the second level: the finalists and their neighbours
LEARNED = 6  # candidates of the third level for each kernel: three widths and the turns of the metric
SUMS = 4  # sums of two kernels


def choice_work(recipe: Recipe, p: int, rows: int, components: int, drawn: bool, budget: float) -> float:
    """Predicted flops of the choice: its levels as they usually go, the later ones within the budget.

    Parameters
    ----------
    rows : of the sample
    components : of the fit to come
    drawn : whether its components are drawn
    """
    kernels = recipe.kernels
    kernels = tuple(k for k in kernels if len(kernels) == 1 or p <= MOST_L1 or not isinstance(k, Laplacian))
    is_open = any("auto" in {requested(recipe, word) for word in kernel.placeholders} for kernel in kernels)
    scales = 2 if recipe.scale == "auto" else 1
    candidates = len(kernels) * scales * (len(GRID) if is_open else 1)
    learns = recipe.metric not in ("auto", "identity") or (is_open and recipe.metric == "auto")
    if candidates == 1 and not learns:
        return 0.0
    judged = min(LAST.judged, max(1, rows // 3))
    fitted = min(LAST.rows, max(1, rows - judged))

    def each(level: Fidelity) -> float:
        within = Fidelity(min(level.components, components, fitted), min(level.rows, fitted), min(level.judged, judged))
        return sum(within.flops(kernel, p, drawn) for kernel in kernels) / len(kernels)

    first, second = candidates * each(FIRST), min(candidates, JUDGED_AGAIN) * each(SECOND)
    if fitted > FIRST.rows and first + second <= budget:
        first += second
    later = (LEARNED * learns + SUMS * (len(kernels) > 1)) * len(kernels) * each(THIRD) + 2 * is_open * each(LAST)
    # A level is halved until it is within what is left, so half of that is spent.
    return first + min(later, max(0.0, budget - first) / 2)


def choice_bytes(rows: int, components: int) -> int:
    """Bytes of a candidate at the last level: covariance, metric, a copy of it, a factor, and the components of the
    rows that judge it.

    Parameters
    ----------
    rows : of the sample
    components : of the fit to come
    """
    c = min(LAST.components, components, rows)
    return 32 * c * c + 4 * c * min(LAST.judged, max(1, rows // 3))
