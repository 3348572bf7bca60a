"""Pieces and rounds. They depend on the chunk layout and the seed alone, and not on memory or workers.

A chunk is cut into equal pieces of at most PIECE_ROWS rows. A round is a fixed share of the pieces. There are two
orders: "chunks" takes the pieces chunk by chunk, in an order of the units that the seed draws, so that a source larger
than memory is read once a pass; "interleaved" is for data that are sorted, and gives every round a share of every
chunk, that is every step-th row of it.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import CHUNK_BYTES
from dkernel.numerics.random_streams import stream
from dkernel.numerics.tiling import PIECE_ROWS

Numbers = NDArray[np.int64]
Schedule = Sequence[tuple["RowSlice", ...]]
"""The pieces of each round of a pass, in the order of their numbers."""

LEAST_PIECE_ROWS = 64  # a quarter of a tile: smaller pieces would be mostly padding
SMALL_BYTES = 256 * 2**20  # bytes of a source whose units can all be held at one time
LEAST_UNITS = 4  # units that are mixed at least, so that a round has rows of several workers
TURNS = 4  # rounds whose pieces are kept at one time


@dataclass(frozen=True, slots=True)
class RowRange:
    """Range of rows: rows start, start + step, ... before stop of block `block` of unit `unit`."""

    unit: int
    block: int
    start: int
    stop: int
    step: int = 1

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop, self.step)


@dataclass(frozen=True, slots=True)
class RowSlice:
    """Some rows of one chunk.

    Parameters
    ----------
    number : its position in the fixed order of sums
    range : range of its rows in the source
    n : number of its rows
    first, step : their global row numbers are first, first + step, ...
    chunk : number of the chunk they came from
    """

    number: int
    range: RowRange
    n: int
    first: int
    step: int = 1
    chunk: int = 0

    @classmethod
    def whole(cls, n: int) -> "RowSlice":
        """All n rows of a block in memory."""
        return cls(0, RowRange(0, 0, 0, n), n, 0)


class Partition(Sequence[RowSlice]):
    """The pieces of a source by their numbers; each is made when it is asked for.

    A hundred million rows are some fifty thousand pieces, which would take 15 MB: the memory of the client may not grow
    with the rows.

    Parameters
    ----------
    units : rows of the chunks of each unit
    parts : number of pieces of each chunk; a chunk with fewer rows has one piece for each row
    strided : a piece takes rows of its chunk at equal steps in place of neighbours
    """

    def __init__(self, units: Sequence[Sequence[int]], parts: Sequence[int], strided: bool) -> None:
        self._chunks = [(unit, block, n) for unit, rows in enumerate(units) for block, n in enumerate(rows)]
        self._parts, self._strided = list(parts), strided
        ends = [0, *accumulate(n for _, _, n in self._chunks)]
        self._firsts = ends[:-1]
        counts = (min(n, k) for (_, _, n), k in zip(self._chunks, parts, strict=True))
        self._numbers = [0, *accumulate(counts)]

    def __len__(self) -> int:
        return self._numbers[-1]

    @overload
    def __getitem__(self, number: int) -> RowSlice: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[RowSlice, ...]: ...
    def __getitem__(self, number: int | slice) -> RowSlice | tuple[RowSlice, ...]:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        number %= len(self)
        chunk = bisect_right(self._numbers, number) - 1
        (unit, block, n), parts, k = self._chunks[chunk], self._parts[chunk], number - self._numbers[chunk]
        start, stop, step = (k, n, parts) if self._strided else (n * k // parts, n * (k + 1) // parts, 1)
        rows = RowRange(unit, block, start, stop, step)
        return RowSlice(number, rows, len(range(start, stop, step)), self._firsts[chunk] + start, step, chunk)

    def by_chunk(self) -> list[tuple[int, Numbers]]:
        """Unit of each chunk, and numbers of its pieces."""
        pairs = zip(self._chunks, self._numbers[:-1], self._numbers[1:], strict=True)
        return [(unit, np.arange(first, last)) for (unit, _, _), first, last in pairs]

    def rows(self) -> Numbers:
        """Rows of each piece."""
        counts = np.diff(self._numbers)
        k = np.arange(len(self)) - np.repeat(self._numbers[:-1], counts)
        n, parts = np.repeat([n for _, _, n in self._chunks], counts), np.repeat(self._parts, counts)
        return np.asarray((n - k + parts - 1) // parts if self._strided else n * (k + 1) // parts - n * k // parts)


class _Rounds(Schedule):
    """The pieces of each round, made when they are asked for; those of the last few rounds are kept."""

    def __init__(self, cut: Partition, turns: Sequence[Numbers]) -> None:
        self._cut, self._turns = cut, [np.sort(numbers) for numbers in turns]
        self._made: dict[int, tuple[RowSlice, ...]] = {}

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, i: int) -> tuple[RowSlice, ...]: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[tuple[RowSlice, ...], ...]: ...
    def __getitem__(self, i: int | slice) -> tuple[RowSlice, ...] | tuple[tuple[RowSlice, ...], ...]:
        if isinstance(i, slice):
            return tuple(self[k] for k in range(*i.indices(len(self))))
        numbers = self._turns[i]
        if i not in self._made:
            while len(self._made) >= TURNS:
                self._made.pop(next(iter(self._made)))
            self._made[i] = tuple(self._cut[number] for number in numbers.tolist())
        return self._made[i]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def cut_pieces(units: Sequence[Sequence[int]], rounds: int = 1, strided: bool = False) -> Partition:
    """Cut a source into pieces in row order: ceil(rows / size) equal parts of each chunk.

    Parameters
    ----------
    units : rows of the chunks of each unit
    rounds : least number of pieces; a source of few rows is cut into smaller pieces for it
    strided : a piece takes rows of its chunk, which may be sorted, at equal steps in place of neighbours

    Examples
    --------
    >>> [piece.n for piece in cut_pieces([[3000], [10]])]
    [1500, 1500, 10]
    """
    total = sum(n for rows in units for n in rows)
    size = min(PIECE_ROWS, max(LEAST_PIECE_ROWS, -(-total // rounds)))
    return Partition(units, [-(-n // size) for rows in units for n in rows], strided)


def bundle_size(units: Sequence[Sequence[int]], row_bytes: int) -> int:
    """Number of units that are mixed with each other: all units of a small source, else about CHUNK_BYTES.

    A round should find its rows in several units, since the blocks of one unit are on one worker. Two bundles are in
    memory at a time. The rule uses sizes alone, since the order, and so the bits, may not depend on the memory.

    Examples
    --------
    >>> bundle_size([[131072]] * 92, 112)
    4
    """
    sizes = [sum(rows) * row_bytes for rows in units]
    if sum(sizes) <= SMALL_BYTES:
        return max(1, len(units))
    return max(LEAST_UNITS, CHUNK_BYTES // max(1, max(sizes)))


def shuffle_order(units: Sequence[Sequence[int]], rounds: int, seed: int, epoch: int, bundle: int = 1) -> Schedule:
    """Make the order "chunks": draw an order of the bundles, mix the pieces of each bundle, and cut equal rounds.

    The pieces of a unit are shuffled, and spread evenly over its bundle. So a round has equal shares of all units of a
    bundle, and about equal shares of all workers.

    Examples
    --------
    >>> [len(r) for r in shuffle_order([[4096], [4096]], 2, seed=0, epoch=0)]
    [2, 2]
    """
    cut = cut_pieces(units, rounds, strided=True)
    by_unit: dict[int, Numbers] = {}
    for unit, numbers in cut.by_chunk():
        by_unit[unit] = np.concatenate([by_unit.get(unit, numbers[:0]), numbers])
    rng = stream(seed, "order", epoch)
    queue: list[Numbers] = []
    for mixed in _bundles(units, rng, bundle):
        inside, turns = [], []
        for unit in mixed:
            mine = by_unit[unit]
            inside.append(mine[rng.permutation(len(mine))])
            turns.append((np.arange(len(mine)) + rng.random()) / len(mine))
        queue.append(np.concatenate(inside)[np.argsort(np.concatenate(turns), kind="stable")])
    return _deal(cut, np.concatenate(queue), rounds)


def bundles(units: Sequence[Sequence[int]], seed: int, epoch: int, bundle: int) -> list[list[int]]:
    """The numbers of the units that `shuffle_order` mixes with each other in this pass, in its order.

    Examples
    --------
    >>> bundles([[4096]] * 5, seed=0, epoch=0, bundle=2)
    [[4, 1], [0, 2], [3]]
    """
    return _bundles(units, stream(seed, "order", epoch), bundle)


def _bundles(units: Sequence[Sequence[int]], rng: np.random.Generator, bundle: int) -> list[list[int]]:
    some = [unit for unit, rows in enumerate(units) if sum(rows)]
    order = [some[i] for i in rng.permutation(len(some))]
    return [order[start : start + bundle] for start in range(0, len(order), bundle)]


def _deal(cut: Partition, queue: Numbers, rounds: int) -> _Rounds:
    """Cut the queue into `rounds` rounds with nearly equal numbers of rows."""
    ends = np.cumsum(cut.rows()[queue])
    total, out, at = int(ends[-1]), [], 0
    for i in range(1, rounds + 1):
        stop = int(np.searchsorted(ends, total * i / rounds - 0.5)) + 1 if i < rounds else len(queue)
        if stop > at:
            out.append(queue[at:stop])
            at = stop
    return _Rounds(cut, out)


def interleave_order(units: Sequence[Sequence[int]], rounds: int) -> Schedule:
    """Make the order "interleaved": each round takes every step-th row of every chunk, with its own start.

    Examples
    --------
    >>> schedule = interleave_order([[6], [6]], 3)
    >>> [[(p.first, p.step, p.n) for p in r] for r in schedule]
    [[(0, 3, 2), (8, 3, 2)], [(1, 3, 2), (6, 3, 2)], [(2, 3, 2), (7, 3, 2)]]
    """
    # The step is the same for a chunk with fewer rows than rounds; some rounds have no row of it.
    cut = Partition(units, [rounds * -(-n // (rounds * PIECE_ROWS)) for rows in units for n in rows], strided=True)
    turn = np.concatenate([(np.arange(len(mine)) + chunk) % rounds for chunk, (_, mine) in enumerate(cut.by_chunk())])
    turns = (np.flatnonzero(turn == i) for i in range(rounds))
    return _Rounds(cut, [mine for mine in turns if len(mine)])
