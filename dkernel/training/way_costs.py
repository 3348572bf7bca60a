"""What each way of a fit costs at its full size: what a race of the ways weighs their errors against."""

from dataclasses import replace

from dkernel.cost import Cost, core_seconds
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.selection.ways import Way, WayCost
from dkernel.solving.catalogue import SOLVER_CLASSES
from dkernel.solving.setup_cost import setup_flops
from dkernel.training.local_stage import LOCAL_STAGES


def way_cost(way: Way, sizes: Sizes, recipe: Recipe, outputs: int) -> WayCost:
    """The cost of the stages of a way, at the full size of the fit.

    Parameters
    ----------
    sizes : of the fit, with the components that a kernel would have

    Examples
    --------
    >>> sizes = Sizes.of(100_000, 28, Recipe())
    >>> [round(way_cost(way, sizes, Recipe(), 1).seconds) for way in (Way("linear"), Way())]
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
    if way.local == "none":
        return WayCost(core_seconds(costs))
    local = LOCAL_STAGES[way.local].cost(sizes.n, sizes.p, recipe, outputs)
    return WayCost(core_seconds([*costs, local]), local.readings)
