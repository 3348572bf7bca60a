"""Budgets: the predicted flops that each part of a fit may take, by its effort and its limit of seconds.

Seconds become flops by constant speeds, never by a clock or by the machine, so the same words give the same model.
"""

from collections.abc import Iterable
from math import inf

from dkernel.model.parameters import EFFORTS
from dkernel.model.recipe import Recipe
from dkernel.streaming.cost import SPEEDS, Cost, core_seconds

CHOICE = 0.2  # share of the global stage's flops that the choice of kernel, scale and gamma may take
LEAST_CHOICE = 1e11  # flops that the choice may always take, some seconds
# Seconds of one core that it may always take: those of cells of ten thousand rows, which leave 12.7 % of a smooth rule
# with noise wrong where grids leave 13.1 %.
LEAST_LOCAL = 7.0
LOCAL_SHARE = 3.0  # times the global stage's seconds at these speeds: what each local stage of local="auto" may take
MODEL_BYTES = 64 * 2**20  # of a default model, twice that of more than LARGE_ROWS; of large data a hundredth of theirs
LARGE_ROWS = 10**6  # beyond, structure that only many rows show takes larger models
CORES = 2  # whose seconds max_seconds counts, on every machine
# Shares of a limit for the global stage, where its size is open, and for the choice; the local stage has the rest.
GLOBAL_PART, CHOICE_PART = 0.5, 0.25


def default_model_bytes(n: int, p: int, effort: str = "normal") -> int:
    """Most bytes of a model of n rows of p numbers if the recipe sets none: a hundredth of theirs, or MODEL_BYTES.

    A high effort may have four times as many.

    Examples
    --------
    >>> [default_model_bytes(n, 28) // 2**20 for n in (10**6, 10**7, 10**9)]
    [64, 128, 1068]
    >>> default_model_bytes(10**6, 28, "high") // 2**20
    256
    """
    return int(max(EFFORTS[effort], 1.0)) * max(MODEL_BYTES << (n > LARGE_ROWS), 4 * n * p // 100)


def limit_model_bytes(recipe: Recipe, n: int, p: int) -> int:
    """Most bytes of the model: the recipe's number, or the default."""
    return default_model_bytes(n, p, recipe.effort) if recipe.max_model_size is None else recipe.max_model_size


def core_seconds_limit(recipe: Recipe) -> float:
    """Seconds of one core that a fit may take.

    Examples
    --------
    >>> core_seconds_limit(Recipe()), core_seconds_limit(Recipe(max_seconds=10))
    (inf, 20.0)
    """
    return inf if recipe.max_seconds is None else CORES * recipe.max_seconds


def global_flops(recipe: Recipe) -> float:
    """Flops that the global stage may take where the number of its components is open."""
    return GLOBAL_PART * core_seconds_limit(recipe) * SPEEDS["global"]


def choice_flops(recipe: Recipe, flops: float) -> float:
    """Flops that the choice may take, beside those of the global stage.

    Examples
    --------
    >>> [choice_flops(Recipe(effort=effort), 1e12) / 1e9 for effort in EFFORTS]
    [50.0, 200.0, 800.0]
    """
    flops_of_effort = EFFORTS[recipe.effort] * max(CHOICE * flops, LEAST_CHOICE)
    return min(flops_of_effort, CHOICE_PART * core_seconds_limit(recipe) * SPEEDS["choice"])


def local_seconds(recipe: Recipe, others: Iterable[Cost], ends_early: bool) -> float:
    """Seconds of one core that a local stage may take, beside the other stages.

    Parameters
    ----------
    ends_early : whether its cost is a limit that it reaches only while the holdout gains
    """
    others = list(others)
    beside = LOCAL_SHARE * core_seconds(other for other in others if other.part == "global")
    effort = EFFORTS[recipe.effort]
    most = inf if ends_early else max(effort * beside, max(effort, 1.0) * LEAST_LOCAL)
    return min(most, core_seconds_limit(recipe) - core_seconds(others))
