"""Searches for the settings of local stages."""

from dkernel.selection.stage_settings import best_cells


def test_cells_are_searched_until_no_walk_gains():
    """Width and ridge are in a valley along which each can go one step at a time."""

    def loss(place):
        width, ridge, *_ = place
        return 10 * max(abs(width - ridge) - 1, 0) - width - ridge

    assert best_cells(loss, (2, 2, 0, 0)) == (5, 5, 0, 0)
