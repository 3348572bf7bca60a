"""Budgets: the predicted flops that the parts of a fit may cost, by its effort and its limit of seconds.

Seconds become flops by a constant speed, never by a clock or by the machine, so the same words give the same model.
"""

from math import inf

from dkernel.recipe import Recipe
from dkernel.recipe_checks import EFFORTS

CORE = 15e9  # flops of a second of a core of today, as plans state it
SPEED = 2 * CORE  # of a second of max_seconds
CHOICE = 0.2  # of the global stage's flops: what the choice of kernel, scale and gamma may take
LEAST_CHOICE = 1e11  # that no fit is too small for: a second or two
LOCAL = 3.0  # times the global stage's flops: what each local stage of local="auto" may take
# Of a limit: what the global stage may take where its size is open, and the choice. The rest is the local stage's.
GLOBAL_PART, CHOICE_PART = 0.5, 0.25


def limit_of(recipe: Recipe) -> float:
    """Flops that a fit may take.

    Examples
    --------
    >>> limit_of(Recipe()), limit_of(Recipe(max_seconds=10))
    (inf, 300000000000.0)
    """
    return inf if recipe.max_seconds is None else SPEED * recipe.max_seconds


def choice_flops(recipe: Recipe, flops: float) -> float:
    """Flops that the choice may take, beside so many of the global stage.

    Examples
    --------
    >>> [choice_flops(Recipe(effort=effort), 1e12) / 1e9 for effort in EFFORTS]
    [50.0, 200.0, 800.0]
    """
    return min(EFFORTS[recipe.effort] * max(CHOICE * flops, LEAST_CHOICE), CHOICE_PART * limit_of(recipe))


def local_flops(recipe: Recipe, flops: float, others: float = 0.0) -> float:
    """Flops that a local stage may take, beside so many of the global stage, those of the choice, and of others."""
    left = limit_of(recipe) - flops - choice_flops(recipe, flops) - others
    return min(EFFORTS[recipe.effort] * LOCAL * flops, left)
