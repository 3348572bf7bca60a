"""What each way of a fit costs at its full size: what a race of the ways weighs their errors against."""

from dataclasses import replace

from dkernel.cost import Cost
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.selection.ways import Way
from dkernel.solving.catalogue import SOLVER_CLASSES
from dkernel.solving.setup_cost import setup_flops
from dkernel.training.local_stage import LOCAL_STAGES


def way_cost(way: Way, sizes: Sizes, recipe: Recipe, outputs: int) -> tuple[Cost, ...]:
    """Costs of the stages of a way, at the full size of the fit; `core_seconds` adds up their seconds.

    Parameters
    ----------
    sizes : of the fit, with the components that a kernel would have

    Examples
    --------
    >>> from dkernel.cost import core_seconds
    >>> sizes = Sizes.of(100_000, 28, Recipe())
    >>> [round(core_seconds(way_cost(way, sizes, Recipe(), 1))) for way in (Way("linear"), Way())]
    [0, 21]
    """
    recipe = way.of(recipe)
    components = {"none": 1, "linear": sizes.p, "kernel": sizes.components}[way.features]
    of_global = sizes
    if way.features != "kernel":
        of_global = Sizes.of(sizes.n, sizes.p, recipe.replace(n_components=components))
    solve = SOLVER_CLASSES[recipe.solver].cost(of_global, outputs, 0)
    costs = [Cost(flops=setup_flops(of_global, recipe)), solve]
    if way.features == "none":  # the mean of the label, which the survey knows
        costs = [replace(cost, flops=0.0, readings=0) for cost in costs]
    if way.local != "none":
        costs.append(LOCAL_STAGES[way.local].cost(sizes.n, sizes.p, recipe, outputs))
    return tuple(costs)
