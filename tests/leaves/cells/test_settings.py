"""The search for the settings of cells."""

import pytest

from dkernel.leaves.cells.settings import MIDDLE_CELLS, SIZES, best_cells, best_cells_anywhere, search_cells
from dkernel.training.selection.descent import SettingIndex


def valley(setting: SettingIndex) -> float:
    """A loss that is least at width 3 and ridge 1, in a narrow valley: a wider kernel wants a smaller ridge."""
    width, ridge, *rest = setting
    return 10.0 * (width + ridge - 4) ** 2 + (width - 3) ** 2 + sum(rest)


@pytest.mark.parametrize("start", [(1, 3, 0, 0), (0, 4, 1, 0), (4, 0, 0, 1)])
def test_cells_are_found_along_a_valley(start: SettingIndex) -> None:
    assert best_cells(valley, start) == (3, 1, 0, 0)


def test_the_search_from_the_middle_finds_the_end_of_a_valley() -> None:
    assert valley((*MIDDLE_CELLS, 0, 0)) < valley((3, 2, 0, 0))  # neither the width alone gains
    assert valley((*MIDDLE_CELLS, 0, 0)) < valley((2, 1, 0, 0))  # nor the ridge
    assert best_cells_anywhere(valley) == (3, 1, 0, 0)


def test_a_search_of_cells_asks_for_few_settings() -> None:
    asked = []

    def loss(setting: SettingIndex) -> float:
        asked.append(setting)
        return float(sum(setting))

    assert best_cells(loss, (0, 0, 0, 0)) == (0, 0, 0, 0)
    assert set(asked) == {(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)}
    assert all(0 <= at < size for setting in asked for at, size in zip(setting, SIZES, strict=True))


def test_a_metric_of_its_own_is_followed_by_another_width():
    def loss(setting: SettingIndex) -> float:
        width, ridge, smoothness, rounds = setting
        return ridge + smoothness + abs(width - (5 if rounds else 1)) + (0.0 if rounds else 5.0)

    assert best_cells(loss, (1, 0, 0, 0)) == (5, 0, 0, 1)


def test_another_ridge_is_followed_by_another_width():
    def loss(setting: SettingIndex) -> float:
        width, ridge, *rest = setting
        return abs(width - (3 if ridge < 2 else 1)) + 2.5 * ridge + sum(rest)

    assert best_cells(loss, (1, 2, 0, 0)) == (3, 0, 0, 0)


@pytest.mark.parametrize(
    ("effort", "before", "found"),
    [("normal", 0.0, (1, 3, 0, 0)), ("normal", 100.0, (3, 1, 0, 0)), ("high", 0.0, (3, 1, 0, 0))],
)
def test_cells_of_a_race_that_gain_nothing_end_the_search(effort: str, before: float, found: SettingIndex) -> None:
    assert search_cells(valley, (1, 3, 0, 0), effort, before) == found
    assert search_cells(valley, None, "normal", before) == (3, 1, 0, 0)
