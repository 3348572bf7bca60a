"""Statistics, and their reduction over pieces: everything is learned from data in this way.

    result = finish(tree sum over pieces of step(zero, piece, broadcast))

The sum follows a fixed binary tree over the positions of the pieces: neighbours are merged in pairs, level by level,
and an odd one is passed up. A task computes aligned subtrees, so the bits do not depend on the workers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dkernel.data.block import Block
from dkernel.streaming.schedule import RowSlice

S = TypeVar("S")
R = TypeVar("R")


class Statistic(ABC, Generic[S, R]):
    """Sum over pieces of the data, made by one reading.

    A value is never modified once it has been merged.

    See Also
    --------
    BlockReader : Reads the data and sums a statistic.
    """

    @abstractmethod
    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> S:
        """Compute the statistic of one piece.

        Parameters
        ----------
        block : Block
            Block that holds the piece.
        piece : RowSlice
            Rows of the piece.
        broadcast : object
            Value that every piece gets.

        Returns
        -------
        object
            Statistic of the piece.
        """

    @abstractmethod
    def merge(self, left: S, right: S) -> S:
        """Merge the statistics of two neighbours.

        Parameters
        ----------
        left : object
            Statistic of the left neighbour; may be modified in place, since it is not shared.
        right : object
            Statistic of the right neighbour.

        Returns
        -------
        object
            Statistic of both.
        """

    def finish(self, total: S) -> R:
        """Make the result of the statistic of all pieces.

        Parameters
        ----------
        total : object
            Statistic of all pieces.

        Returns
        -------
        object
            Result.
        """
        return total  # type: ignore[return-value]


@dataclass(frozen=True)
class StatisticTuple(Statistic[list[Any], list[Any]]):
    """Several statistics of the same pieces: a block is read once for all of them.

    The broadcast is a sequence with the value for each of them.
    """

    parts: tuple[Statistic[Any, Any], ...]

    def step(self, block: Block, piece: RowSlice, broadcast: Sequence[Any]) -> list[Any]:
        return [part.step(block, piece, b) for part, b in zip(self.parts, broadcast, strict=True)]

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        return [part.merge(a, b) for part, a, b in zip(self.parts, left, right, strict=True)]

    def finish(self, total: list[Any]) -> list[Any]:
        return [part.finish(value) for part, value in zip(self.parts, total, strict=True)]


class TreeAccumulator(Generic[S]):
    """Sums values that come one after the other by the tree: pairs of neighbours, level by level.

    As in a binary counter there is at most one partial sum for each level. Only neighbours of the same level are
    merged, and the rest is merged from the right at the end.

    Examples
    --------
    >>> growing = TreeAccumulator(lambda x, y: f"({x}{y})")
    >>> for letter in "abcde":
    ...     growing.add(letter)
    >>> growing.total()
    '(((ab)(cd))e)'
    """

    def __init__(self, merge: Callable[[S, S], S]) -> None:
        self.merge = merge
        self._stack: list[tuple[int, S]] = []

    def add(self, value: S, level: int = 0) -> None:
        """Add the next value, or with level k the sum of the next 2^k values, which begin at a multiple of 2^k."""
        while self._stack and self._stack[-1][0] == level:
            value = self.merge(self._stack.pop()[1], value)
            level += 1
        self._stack.append((level, value))

    def total(self) -> S:
        """Return the sum; nothing can be added after this."""
        total = self._stack.pop()[1]
        while self._stack:
            total = self.merge(self._stack.pop()[1], total)
        return total


def merge_levels(nodes: Iterable[tuple[int, S]], merge: Callable[[S, S], S]) -> S:
    """Merge nodes of the tree in their order, each with its level: 0 for a value, k for the sum of 2^k of them.

    Examples
    --------
    >>> merge_levels([(1, "(ab)"), (0, "c"), (0, "d"), (0, "e")], lambda x, y: f"({x}{y})")
    '(((ab)(cd))e)'
    """
    growing = TreeAccumulator(merge)
    for level, value in nodes:
        growing.add(value, level)
    return growing.total()


def tree_nodes(first: int, last: int) -> list[tuple[int, int, int]]:
    """List the nodes of the tree that cover the values first, ..., last - 1: the first of each, its end, its level.

    Examples
    --------
    >>> tree_nodes(0, 7), tree_nodes(6, 12)
    ([(0, 4, 2), (4, 6, 1), (6, 7, 0)], [(6, 8, 1), (8, 12, 2)])
    """
    nodes = []
    while first < last:
        level = (last - first).bit_length() - 1
        if first:
            level = min(level, (first & -first).bit_length() - 1)
        nodes.append((first, first + (1 << level), level))
        first += 1 << level
    return nodes
