"""What each way of a fit costs at its full size: what a race of the ways weighs their errors against."""

from collections.abc import Mapping
from dataclasses import replace

from dkernel.cost import Cost
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.solving.driver import solver_class
from dkernel.solving.setup_cost import setup_flops
from dkernel.training.local_stage import LOCAL_STAGES

WAYS: Mapping[str, tuple[str, str]] = {
    "linear": ("linear", "none"),
    "linear + grids": ("linear", "grids"),
    "cells": ("none", "cells"),
    "components": ("components", "none"),
    "components + grids": ("components", "grids"),
    "components + cells": ("components", "cells"),
}
"""Way -> its global part and its local stage."""


def way_cost(way: str, sizes: Sizes, recipe: Recipe, outputs: int) -> tuple[Cost, ...]:
    """Costs of the stages of a way, at the full size of the fit; `core_seconds` adds up their seconds.

    Parameters
    ----------
    sizes : of the fit, with the components that "components" would have

    Examples
    --------
    >>> from dkernel.cost import core_seconds
    >>> sizes = Sizes.of(100_000, 28, Recipe())
    >>> [round(core_seconds(way_cost(way, sizes, Recipe(), 1))) for way in ("linear", "components")]
    [0, 21]
    """
    part, local = WAYS[way]
    components = {"none": 1, "linear": sizes.p, "components": sizes.components}[part]
    of_global = sizes if part == "components" else Sizes.of(sizes.n, sizes.p, recipe.replace(n_components=components))
    solve = solver_class(recipe.solver).cost(of_global, outputs, 0)
    prepared = part != "none" and SOLVERS[recipe.solver].prepared
    costs = [Cost(flops=setup_flops(of_global, recipe) if prepared else 0.0), solve]
    if part == "none":  # the mean of the label, which the survey knows
        costs = [replace(cost, flops=0.0, readings=0) for cost in costs]
    if local != "none":
        costs.append(LOCAL_STAGES[local].cost(sizes.n, sizes.p, recipe.replace(local=local), outputs))
    return tuple(costs)
