"""The search for the settings of a local stage: the axes of settings, and where a search begins and goes on them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dkernel.model.local.cells import SMOOTHNESS, CellSettings
from dkernel.model.serialization import stored
from dkernel.training.selection.descent import Place, descend

WIDER, SIZE_STEPS = 2.0, 3  # the factor between two widths, and steps either way from the width 1
GRID_RIDGES = (1e-2, 1e-1, 1.0)  # the ridges that are tried, the middle one first
GRID_MIDDLE = (0, SIZE_STEPS, 1)  # relevances without categories, the width 1 and the ridge in the middle
RELEVANCES_OF_GRIDS, WIDTH_OF_GRIDS = (1, 0, 0), (0, 1, 0)  # moves

# Axes of cells. A search tries one setting after the other, from the middle outwards while the loss falls.
CELL_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CELL_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # each is ten times the one before
SIZES = (len(CELL_WIDTHS), len(CELL_RIDGES), len(SMOOTHNESS), 2)
MIDDLE_CELLS = (2, 2)  # the width 1 and the ridge 1e-2 are tried first
# The moves of one setting each:
WIDTH_OF_CELLS, RIDGE_OF_CELLS, SMOOTHNESS_OF_CELLS, OWN_METRIC = (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)
# A wide kernel needs a smaller ridge than a narrow one: the best width for a ridge and the best ridge for this width
# are often not the best pair.
WIDTH_WITH_RIDGE = (1, -1, 0, 0)
# A rough kernel needs a smaller ridge than a smooth one, so a search finds a ridge for each smoothness first. Then it
# repeats these moves until none of them gains.
CELL_MOVES = (WIDTH_OF_CELLS, OWN_METRIC, RIDGE_OF_CELLS, WIDTH_WITH_RIDGE)


@stored("RaceFindings")
@dataclass(frozen=True, eq=False)
class RaceFindings:
    """Settings that a race has learned for a local stage on a sample.

    Parameters
    ----------
    place : of the best settings, where the search on more rows begins
    relevances : of the inputs of grids
    """

    place: Place | None = None
    relevances: NDArray[np.float64] | None = None


NOTHING = RaceFindings()


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


def cell_settings(place: Place) -> CellSettings:
    """The settings of the cells at a place."""
    return CellSettings(CELL_WIDTHS[place[0]], CELL_RIDGES[place[1]], list(SMOOTHNESS)[place[2]], place[3])


def best_width(loss: Callable[[Place], float], start: Place) -> Place:
    """Search a better width of grids near `start`, the best place of fewer rows."""
    return descend(loss, start, (start[0] + 1, 2 * SIZE_STEPS + 1, len(GRID_RIDGES)), (WIDTH_OF_GRIDS,))


def best_cells(loss: Callable[[Place], float], start: Place) -> Place:
    """Search the place of the smallest loss of cells near `start`, the best of fewer rows."""
    return _local_minimum(loss, descend(loss, start, SIZES, (SMOOTHNESS_OF_CELLS,)))


def best_cells_anywhere(loss: Callable[[Place], float]) -> Place:
    """Descend from the middle of each smoothness; return the best local minimum of the grid of settings."""
    starts = (
        descend(loss, (*MIDDLE_CELLS, smoothness, 0), SIZES, (RIDGE_OF_CELLS,)) for smoothness in range(len(SMOOTHNESS))
    )
    return _local_minimum(loss, min(starts, key=loss))


def best_place(
    loss: Callable[[Place], float],
    start: Place | None,
    near: Callable[[Callable[[Place], float], Place], Place],
    anywhere: Callable[[Callable[[Place], float]], Place],
    effort: str,
) -> Place:
    """Search the settings of a local stage on the rows of a fit.

    Parameters
    ----------
    start : the best place of a race, beside which `near` searches; without one `anywhere` does
    effort : of the recipe; with a high one both search
    """
    ends = [] if start is None else [near(loss, start)]
    if start is None or effort == "high":
        ends.append(anywhere(loss))
    return min(ends, key=loss)


def _local_minimum(loss: Callable[[Place], float], place: Place) -> Place:
    """Move until no move gains: a metric of its own, or another ridge, needs another width."""
    while (further := descend(loss, place, SIZES, CELL_MOVES)) != place:
        place = further
    return place
