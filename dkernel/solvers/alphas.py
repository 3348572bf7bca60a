"""Which alphas a fit looks at, and which of them go through its passes."""

from collections.abc import Sequence

import numpy as np

from dkernel.solvers.batch_methods import LOSS_ROUNDING
from dkernel.solvers.sizes import passes_dominate

ALPHA_PATH = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""alpha="auto" looks at these on the sample."""
MIDDLE_ALPHA = ALPHA_PATH[len(ALPHA_PATH) // 2]  # the only alpha if outputs are many and the choice has none

NEAR_RHO = 4  # alphas of a large source are at most this many times ρ
# The path ends at the first alpha that is this many times the choice's. More components mostly need the same alpha or
# a smaller one, but a path that ends at the choice's own has 25 times the squared error of a smooth function (2,000
# rows).
ABOVE = 9.0
MOST_HEADS = 64  # alphas times outputs; a round of more takes longer than one of a single head
# A smaller holdout cannot tell two alphas apart, so the sample's choice stands. Fits of a small source come nearer to
# their optima, and 250 rows tell the losses of neighbours apart.
ENOUGH_HOLDOUT, FEW_HOLDOUT = 1000, 250
SHARE = 0.25  # heads for noisy labels take this share of the step
MOMENTUM_STEPS = 16.0  # heads for clean labels go this many steps with momentum
FEW_OUTPUTS, SOME_OUTPUTS = 4, 10  # with fewer outputs two more heads are cheap beside the columns, or one is


def count_unfinished(seen: Sequence[float], best: int) -> int:
    """Number of alphas right below the best of the path, before one whose fit to the sample has come to its end.

    At its optimum a smaller alpha has a smaller loss on the rows that it is fitted to. A fit with a larger one is not
    there, so its loss on other rows says nothing of its alpha.

    Parameters
    ----------
    seen : loss of each alpha, in ascending order, on rows that it was fitted to

    Examples
    --------
    >>> count_unfinished([0.1, 0.2, 0.3, 0.4], 2), count_unfinished([0.1, 0.2, 0.4, 0.3], 3)
    (0, 1)
    """
    least = (1 + LOSS_ROUNDING) * seen[best]
    finished = [below for below in range(best) if seen[below] <= least]
    return best - 1 - max(finished, default=-1)


def alpha_path(outputs: int, near: float | None = None) -> tuple[float, ...]:
    """The alphas that alpha="auto" looks at: fewer with many outputs, and only the choice's own with very many.

    Parameters
    ----------
    near : best alpha of few components; alphas far above it cost a factor and heads, and do not win

    Examples
    --------
    >>> alpha_path(1), alpha_path(1, 1e-7), alpha_path(26, 1e-8)
    ((1e-09, 1e-08, 1e-07, 1e-06, 1e-05, 0.0001, 0.001), (1e-09, 1e-08, 1e-07, 1e-06), (1e-09, 1e-06))
    >>> alpha_path(100, 1e-2), alpha_path(100, 1e-5), alpha_path(100)
    ((0.001,), (1e-05,), (1e-06,))
    """
    path = ALPHA_PATH[:: max(1, -(-len(ALPHA_PATH) * outputs // MOST_HEADS))]
    if len(path) == 1:
        return (min(ALPHA_PATH, key=lambda alpha: abs(np.log(alpha / (near or MIDDLE_ALPHA)))),)
    return path[: 1 + sum(alpha < ABOVE * near for alpha in path)] if near else path


def alpha_paths(
    best: int,
    alphas: Sequence[float],
    outputs: int,
    large: bool,
    holdout: int,
    unfinished: int = 0,
    exact: bool = False,
) -> list[tuple[int, float]]:
    """Numbers of alphas, each with a share of the step, to go through the passes, around the sample's best alpha.

    Parameters
    ----------
    large : whether the source is. Larger alphas converge in fewer epochs, so a longer fit, or one of many more rows,
        needs a smaller alpha than the sample (kin40k 10.8 -> 9.4 hundredths, 10,000 rows of covtype 22.2 -> 20.1 %)
    holdout : rows that will tell them apart
    unfinished : alphas right below the best one that a polish has to finish
    exact : whether they go to their optima, of which the sample's start, that stops early, says little
    """
    if exact and holdout:
        return [(j, 1.0) for j in range(len(alphas))]
    several = holdout >= (ENOUGH_HOLDOUT if large else FEW_HOLDOUT)
    paths = [(best - 1, 1.0)] if large else [(best, 1.0)]
    if several and outputs <= FEW_OUTPUTS:
        paths += (
            [(best - 2, 1.0), (best - 2, MOMENTUM_STEPS), (best, SHARE)]
            if large
            else [(best - 1, 1.0), (best - 2, 1.0)]
        )
    elif several and outputs <= SOME_OUTPUTS:
        paths += [(best - 1, SHARE if large else 1.0)]
    paths += [(best - 1 - j, 1.0) for j in range(unfinished)]
    return sorted({(min(max(j, 0), len(alphas) - 1), share) for j, share in paths})


def worth_trying(alphas: Sequence[float], rho: float, n: int, sample: int) -> Sequence[float]:
    """The alphas of the path that may win for a source of n rows: with many rows none that is far above ρ."""
    if not passes_dominate(n, sample) or len(alphas) == 1:
        return alphas
    few = [alpha for alpha in alphas if alpha <= NEAR_RHO * rho]
    return few or alphas[:1]
