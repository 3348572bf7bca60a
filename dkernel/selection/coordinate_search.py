"""Search for the smallest loss on a grid of settings, one axis at a time."""

from collections.abc import Callable, Sequence

Place = tuple[int, ...]
"""Number of a setting on each axis."""


def descend(loss: Callable[[Place], float], place: Place, sizes: Place, axes: Sequence[int]) -> Place:
    """Walk along each of these axes while the loss falls, upwards and then downwards; the place where the walk ends.

    Parameters
    ----------
    loss : asked again for places that were visited, so it should remember them
    sizes : settings of each axis

    Examples
    --------
    >>> descend(lambda place: (place[0] - 4) ** 2 + place[1], (2, 1), (6, 3), axes=(0, 1))
    (4, 0)
    """
    for axis in axes:
        for direction in (1, -1):
            while 0 <= place[axis] + direction < sizes[axis]:
                other = (*place[:axis], place[axis] + direction, *place[axis + 1 :])
                if not loss(other) < loss(place):
                    break
                place = other
    return place
