"""The search of a choice: along a path until the loss is worse, and along the axes of several settings in turn."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import inf
from typing import TypeVar

T = TypeVar("T")

SettingIndex = tuple[int, ...]
"""Number of a setting on each axis."""
Move = tuple[int, ...]
"""Steps on each axis."""


def until_worse(path: Iterable[T], loss: Callable[[T], float], share: float = 1.0, least: float = inf) -> Iterator[T]:
    """Yield the items of a path while the loss falls, and the first item with which it does not.

    Parameters
    ----------
    share : share of the loss before, below which the loss of an item must be
    least : loss before the path; if it is infinite the first item may have any loss

    Examples
    --------
    >>> list(until_worse([3, 1, 2, 0], loss=float))
    [3, 1, 2]
    """
    for item in path:
        yield item
        if least < inf and not loss(item) < share * least:
            return
        least = loss(item)


def descend(
    loss: Callable[[SettingIndex], float], setting: SettingIndex, sizes: SettingIndex, moves: Sequence[Move]
) -> SettingIndex:
    """Repeat each of these moves while the loss falls, forwards and then backwards; return the last setting.

    Parameters
    ----------
    loss : asked again for settings that were visited, so it should remember them
    sizes : settings of each axis

    Examples
    --------
    >>> descend(lambda setting: (setting[0] - 4) ** 2 + setting[1], (2, 1), (6, 3), moves=((1, 0), (0, 1)))
    (4, 0)
    """
    for move, direction in product(moves, (1, -1)):
        setting = min(until_worse(_path(setting, [direction * step for step in move], sizes), loss), key=loss)
    return setting


def _path(setting: SettingIndex, steps: Sequence[int], sizes: SettingIndex) -> Iterator[SettingIndex]:
    """Yield this setting and those after it, to the end of an axis."""
    while all(0 <= at < size for at, size in zip(setting, sizes, strict=True)):
        yield setting
        setting = tuple(at + step for at, step in zip(setting, steps, strict=True))
