"""The settings of cells: their sizes, and the axes of a search, its start and its moves."""

from collections.abc import Callable
from math import inf

from dkernel.leaves.cells.cells import SMOOTHNESS, CellSettings
from dkernel.leaves.cells.parameters import Cells
from dkernel.model.recipe import Recipe
from dkernel.training.selection.descent import SettingIndex, descend

# Cells of 2,048, 4,096 and 8,192 rows have errors of 3.9, 3.4 and 3.7 % on covtype without overlap, and the work grows
# with their square. Bands with half as many rows as the cell lower 3.20 to 2.66 %, as three partitions do.
CELL_ROWS = 4096
OVERLAP = 0.5  # the bands of a cell have this share of its rows

# Axes of cells. A search tries one setting after the other, from the middle outwards while the loss falls.
CELL_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
CELL_RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # each is ten times the one before
SIZES = (len(CELL_WIDTHS), len(CELL_RIDGES), len(SMOOTHNESS), 2)
MIDDLE_CELLS = (2, 2)  # the width 1 and the ridge 1e-2 are tried first
# Moves along one axis each:
WIDTH_OF_CELLS, RIDGE_OF_CELLS, SMOOTHNESS_OF_CELLS, OWN_METRIC = (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)
# A wide kernel needs a smaller ridge than a narrow one: the best width for a ridge and the best ridge for this width
# are often not the best pair.
WIDTH_WITH_RIDGE = (1, -1, 0, 0)
# A rough kernel needs a smaller ridge than a smooth one, so a search finds a ridge for each smoothness first. Then it
# repeats these moves until none of them gains.
CELL_MOVES = (WIDTH_OF_CELLS, OWN_METRIC, RIDGE_OF_CELLS, WIDTH_WITH_RIDGE)


def cell_sizes(recipe: Recipe) -> tuple[int, float, int]:
    """Return the rows of a cell, the share of them in its bands, and the number of partitions into cells."""
    cells = recipe.settings(Cells)
    rows = CELL_ROWS if isinstance(cells.rows, str) else cells.rows
    overlap = OVERLAP if isinstance(cells.overlap, str) else cells.overlap
    automatic = 2 if recipe.effort == "high" else 1
    return rows, overlap, automatic if isinstance(cells.partitions, str) else cells.partitions


def cell_settings(setting: SettingIndex) -> CellSettings:
    """Return the settings of cells at this index."""
    return CellSettings(CELL_WIDTHS[setting[0]], CELL_RIDGES[setting[1]], list(SMOOTHNESS)[setting[2]], setting[3])


def best_cells(loss: Callable[[SettingIndex], float], start: SettingIndex) -> SettingIndex:
    """Search the setting with the smallest loss of cells near `start`, the best of fewer rows."""
    return _local_minimum(loss, descend(loss, start, SIZES, (SMOOTHNESS_OF_CELLS,)))


def best_cells_anywhere(loss: Callable[[SettingIndex], float]) -> SettingIndex:
    """Descend from the middle of each smoothness; return the best local minimum of the grid of settings."""
    starts = (
        descend(loss, (*MIDDLE_CELLS, smoothness, 0), SIZES, (RIDGE_OF_CELLS,)) for smoothness in range(len(SMOOTHNESS))
    )
    return _local_minimum(loss, min(starts, key=loss))


def search_cells(
    loss: Callable[[SettingIndex], float], start: SettingIndex | None, effort: str, before: float = inf
) -> SettingIndex:
    """Search the setting with the smallest loss of cells on the rows of a fit.

    If the setting of a race gains nothing, no others are tried unless the effort is high: on eleven sets either it
    gains four standard errors, or no setting beside it gains two (scripts/bench/CHOICES.md).

    Parameters
    ----------
    start : the best setting of a race, beside which to search; None for a search anywhere
    effort : effort of the recipe; a high one searches both beside `start` and anywhere
    before : loss without cells; infinite if they stay in any case
    """
    if start is None:
        return best_cells_anywhere(loss)
    if effort == "high":
        return min(best_cells(loss, start), best_cells_anywhere(loss), key=loss)
    return start if loss(start) >= before else best_cells(loss, start)


def _local_minimum(loss: Callable[[SettingIndex], float], setting: SettingIndex) -> SettingIndex:
    """Repeat the moves until none gains: an own metric, or another ridge, needs another width."""
    while (further := descend(loss, setting, SIZES, CELL_MOVES)) != setting:
        setting = further
    return setting
