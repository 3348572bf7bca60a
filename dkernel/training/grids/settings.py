"""The settings of grids: the axes of a search, where it begins and how it goes on."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dkernel.training.selection.descent import Place, descend

WIDER, SIZE_STEPS = 2.0, 3  # the factor between two widths, and steps either way from the width 1
GRID_RIDGES = (1e-2, 1e-1, 1.0)  # the ridges that are tried, the middle one first
GRID_MIDDLE = (0, SIZE_STEPS, 1)  # relevances without categories, the width 1 and the ridge in the middle
RELEVANCES_OF_GRIDS, WIDTH_OF_GRIDS = (1, 0, 0), (0, 1, 0)  # moves


def grid_width(place: Place) -> float:
    """The width of grids at a place."""
    return float(WIDER ** (place[1] - SIZE_STEPS))


def grid_gamma(relevances: NDArray[np.float64], categorical: NDArray[np.bool_], place: Place) -> NDArray[np.float64]:
    """gamma of each input of the grids at a place; that of a category is the same everywhere."""
    gamma = relevances[place[0]]
    return np.asarray(np.where(categorical, gamma, gamma * grid_width(place)), np.float64)


def best_grids(loss: Callable[[Place], float], start: Place, seen: int) -> Place:
    """Search the place of the smallest loss of grids: the relevances first, then the width, then all ridges.

    Parameters
    ----------
    seen : rows of relevances
    """
    sizes = seen, 2 * SIZE_STEPS + 1, len(GRID_RIDGES)
    which, step, _ = descend(loss, start, sizes, (RELEVANCES_OF_GRIDS, WIDTH_OF_GRIDS))
    order = sorted(range(len(GRID_RIDGES)), key=lambda ridge: ridge != start[2])
    return min(((which, step, ridge) for ridge in order), key=loss)


def best_width(loss: Callable[[Place], float], start: Place) -> Place:
    """Search a better width of grids near `start`, the best place of fewer rows."""
    return descend(loss, start, (start[0] + 1, 2 * SIZE_STEPS + 1, len(GRID_RIDGES)), (WIDTH_OF_GRIDS,))
