"""The search of a choice: where it ends, and what it asks for on the way."""

from math import inf

import numpy as np
import pytest

from dkernel.training.selection.descent import descend, until_worse


@pytest.mark.parametrize(
    ("losses", "share", "seen"),
    [
        ([3.0, 2.0, 2.0, 1.0], 1.0, 3),  # as good is not better
        ([1.0, 0.99, 0.5], 0.98, 2),  # a hundredth is not clearly better
        ([1.0, 0.97, 0.5], 0.98, 3),
        ([inf, inf, 2.0, 3.0, 1.0], 1.0, 4),
        ([], 1.0, 0),
    ],
)
def test_a_path_is_followed_until_the_loss_is_worse(losses, share, seen):
    path = iter(losses)
    assert list(until_worse(path, float, share)) == losses[:seen]
    assert list(path) == losses[seen:]  # nobody has asked for these


def test_the_loss_before_a_path_ends_it_at_once():
    assert list(until_worse([2.0, 1.0], float, least=1.5)) == [2.0]


@pytest.mark.parametrize("seed", range(5))
def test_a_descent_ends_where_a_loop_in_words_ends(seed):
    sizes, moves = (4, 5, 3), ((1, 0, 0), (0, 1, 0), (1, -1, 0), (0, 0, 1))
    losses = np.random.default_rng(seed).integers(0, 12, sizes)
    place = np.array(sizes) // 2
    for move in moves:
        for step in (np.array(move), -np.array(move)):
            other = place + step
            while (other >= 0).all() and (other < sizes).all() and losses[tuple(other)] < losses[tuple(place)]:
                place, other = other, other + step
    start = tuple(size // 2 for size in sizes)
    assert descend(lambda at: float(losses[at]), start, sizes, moves) == tuple(place)
