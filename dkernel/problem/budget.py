"""Budgets: what the parts of a fit may cost in predicted flops, by its effort and its limit of seconds.

Seconds become flops by constant speeds, never by a clock or by the machine, so the same words give the same model.
"""

from collections.abc import Mapping
from math import inf

from dkernel.parameters import EFFORTS
from dkernel.recipe import Recipe

CHOICE = 0.2  # share of the global stage's flops that the choice of kernel, scale and gamma may take
LEAST_CHOICE = 1e11  # flops that the choice may always take, some seconds
LEAST_LOCAL = 1.0  # second of one core that it may always take: less than a process takes to start
LOCAL = 3.0  # times the global stage's seconds at these speeds: what each local stage of local="auto" may take
# Counted flops that a core of today does in a second, by the part of a fit: products of tiles and Cholesky factors in
# float32 are near its roof, exponentials in float64 and walks through tables are not.
SPEEDS: Mapping[str, float] = {"survey": 15e9, "choice": 15e9, "global": 45e9, "grids": 12e9, "cells": 36e9}
CORES = 2  # whose seconds max_seconds counts, on every machine
# Shares of a limit for the global stage, where its size is open, and for the choice; the local stage has the rest.
GLOBAL_PART, CHOICE_PART = 0.5, 0.25


def core_seconds(work: Mapping[str, float]) -> float:
    """Seconds that one core is predicted to take for the flops of each part.

    Examples
    --------
    >>> core_seconds({"global": 9e10, "choice": 3e10})
    4.0
    """
    return sum(flops / SPEEDS[part] for part, flops in work.items())


def limit_of(recipe: Recipe) -> float:
    """Seconds of one core that a fit may take.

    Examples
    --------
    >>> limit_of(Recipe()), limit_of(Recipe(max_seconds=10))
    (inf, 20.0)
    """
    return inf if recipe.max_seconds is None else CORES * recipe.max_seconds


def global_flops(recipe: Recipe) -> float:
    """Flops that the global stage may take where the number of its components is open."""
    return GLOBAL_PART * limit_of(recipe) * SPEEDS["global"]


def choice_flops(recipe: Recipe, flops: float) -> float:
    """Flops that the choice may take, beside so many of the global stage.

    Examples
    --------
    >>> [choice_flops(Recipe(effort=effort), 1e12) / 1e9 for effort in EFFORTS]
    [50.0, 200.0, 800.0]
    """
    wanted = EFFORTS[recipe.effort] * max(CHOICE * flops, LEAST_CHOICE)
    return min(wanted, CHOICE_PART * limit_of(recipe) * SPEEDS["choice"])


def affords(recipe: Recipe, kind: str, work: Mapping[str, float]) -> bool:
    """True if a local stage stays within its budget, beside the work of the other parts."""
    own, others = (core_seconds({part: work[part]}) for part in (kind, "global"))
    return own <= EFFORTS[recipe.effort] * max(LOCAL * others, LEAST_LOCAL) and core_seconds(work) <= limit_of(recipe)
