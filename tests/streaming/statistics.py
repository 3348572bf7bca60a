"""Small statistics for the tests of the reductions. Workers import this file."""

from dataclasses import dataclass

import numpy as np

from dkernel.streaming.reduction import Statistic


@dataclass(frozen=True)
class Sum(Statistic):
    """Sum of X plus what is broadcast, as floats whose rounding shows the order of the additions."""

    scale: float = 1.0

    def step(self, block, piece, broadcast):
        shift = 0.0 if broadcast is None else broadcast
        return [float((block.X[piece.range.rows] * self.scale + shift).sum(dtype=np.float32)), piece.n]

    def merge(self, left, right):
        left[0] += right[0]  # the left one may be changed: nobody else knows it
        left[1] += right[1]
        return left

    def finish(self, total):
        return tuple(total)


@dataclass(frozen=True)
class Words(Statistic):
    """The shape of the tree, as text."""

    def step(self, block, piece, broadcast):  # noqa: ARG002
        return str(piece.number)

    def merge(self, left, right):
        return f"({left} {right})"


def tree_sum(values, merge):
    """Pairs of neighbours, level by level; an odd one out is passed up: what every way to sum is held to."""
    level = list(values)
    while len(level) > 1:
        pairs = [merge(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]
