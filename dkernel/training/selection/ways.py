"""The ways to fit a machine: a global stage and a local one on its residual, each a recipe of its own."""

from collections.abc import Collection
from dataclasses import dataclass

from dkernel.model.recipe import Recipe
from dkernel.model.serialization import stored
from dkernel.model.solver_table import SOLVERS

# If none of these parameters is given, the whole machine is open: a fit may take other ways than components.
OPEN = ("kernel", "gamma", "features", "landmarks", "n_components", "alpha")


@stored("Way")
@dataclass(frozen=True)
class Way:
    """A way to fit a machine.

    Parameters
    ----------
    features : features of the global stage: "kernel" for those of the recipe and the choice, or "none"
    local : "none" or the word of a local stage
    """

    features: str = "kernel"
    local: str = "none"

    @property
    def text(self) -> str:
        """The way in words.

        Examples
        --------
        >>> Way("kernel", "cells").text, Way("none", "grids").text
        ('components + cells', 'grids')
        """
        first = "components" if self.features == "kernel" else "none"
        return " + ".join(name for name in (first, self.local) if name != "none")

    def of(self, recipe: Recipe) -> Recipe:
        """Return the recipe of this way alone."""
        local = recipe.local_as(self.local)
        if self.features == "none":
            return recipe.replace(features="none", metric="identity", local=local)
        return recipe.replace(local=local)


COMPONENTS, GRIDS_ALONE = Way(), Way("none", "grids")


def is_open(recipe: Recipe) -> bool:
    """True if the recipe leaves the whole machine open."""
    return SOLVERS[recipe.solver].in_rounds and all(getattr(recipe, name) == getattr(Recipe, name) for name in OPEN)


def open_ways(recipe: Recipe, stages: Collection[str]) -> tuple[Way, ...]:
    """Return the ways that a recipe leaves open, the simplest first; several run a race.

    `stages` are the local stages that the budget allows. A stage that is named may learn the label alone. With "auto"
    only grids may: cells alone gain nothing beside the other ways (scripts/bench/CHOICES.md).

    Examples
    --------
    >>> [way.text for way in open_ways(Recipe(), ["grids", "cells"])]
    ['components', 'grids', 'components + grids', 'components + cells']
    >>> [way.text for way in open_ways(Recipe(local="cells"), ["cells"])]
    ['cells', 'components + cells']
    >>> [way.text for way in open_ways(Recipe(local="grids", gamma=0.5), ["grids"])]
    ['components + grids']
    """
    behind = tuple(Way(local=word) for word in stages)
    if not is_open(recipe) or recipe.metric not in ("auto", "identity"):
        return behind or (Way(),)
    if recipe.local == "auto":
        return Way(), *[GRIDS_ALONE] * (GRIDS_ALONE.local in stages), *behind
    return (*[Way("none", word) for word in stages], *behind) or (Way(),)
