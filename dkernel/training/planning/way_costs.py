"""What each way of a fit costs at its full size: what a race of the ways weighs their errors against."""

from dataclasses import replace

from dkernel.data.source import Source
from dkernel.model.recipe import Recipe
from dkernel.solvers.budget import CORES
from dkernel.solvers.catalogue import SOLVER_CLASSES
from dkernel.solvers.setup_cost import setup_flops
from dkernel.solvers.sizes import LEAST_COMPONENTS, Sizes
from dkernel.streaming.cost import Cost, core_seconds
from dkernel.streaming.row_memory import HELD_SHARE
from dkernel.streaming.survey import reading_seconds
from dkernel.training.local_stages import local_cost
from dkernel.training.selection.ways import Way, WayCost

USUAL_MEMORY = CORES * 2**30  # of the workers that the plain command is promised to do with


def repeated_seconds(source: Source) -> float:
    """Seconds of one core for each reading after the first: none of rows that are in memory or have room there.

    What has room is decided by USUAL_MEMORY, so that the memory of a machine changes no choice.
    """
    return 0.0 if source.in_memory or source.nbytes <= HELD_SHARE * USUAL_MEMORY else reading_seconds(source)


def way_cost(way: Way, sizes: Sizes, recipe: Recipe, outputs: int, reading: float = 0.0) -> WayCost:
    """The cost of the stages of a way, at the full size of the fit.

    Parameters
    ----------
    sizes : of the fit, with the components that a kernel would have
    reading : seconds of one core for each reading of the files, 0 where the rows stay in memory

    Examples
    --------
    >>> sizes, grids = Sizes.of(100_000, 28, Recipe()), Way("none", "grids")
    >>> [round(way_cost(way, sizes, Recipe(), 1).seconds) for way in (Way(), grids)]
    [21, 2]
    >>> round(way_cost(grids, sizes, Recipe(), 1, reading=1.0).seconds)
    35
    """
    recipe = way.of(recipe)
    of_kernel, of_global = sizes.components, sizes
    if recipe.components_open and way.learns_rest:
        of_kernel = min(of_kernel, LEAST_COMPONENTS)
    components = of_kernel if way.features == "kernel" else 1
    if components != sizes.components:
        of_global = Sizes.of(sizes.n, sizes.p, recipe.replace(n_components=components))
    costs = [Cost(flops=setup_flops(of_global, recipe)), SOLVER_CLASSES[recipe.solver].cost(of_global, outputs, 0)]
    if way.features == "none":  # the mean of the label, which the survey knows
        costs = [replace(cost, flops=0.0, readings=0) for cost in costs]
    local_readings = 0
    if way.local != "none":
        costs.append(local_cost(way.local, of_global, recipe, outputs))
        local_readings = costs[-1].readings
    seconds = core_seconds(costs)
    if reading:  # of many rows a local stage takes more seconds than budgets count
        seconds += sum(cost.more_seconds + reading * cost.readings for cost in costs)
    return WayCost(seconds, local_readings, reading)
