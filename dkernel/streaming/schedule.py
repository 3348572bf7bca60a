"""Pieces and rounds. They depend on the chunk layout and the seed alone, and not on memory or workers.

A chunk is cut into equal pieces of at most PIECE_ROWS rows. A round is a fixed share of the pieces. There are two
orders: "chunks" takes the pieces chunk by chunk, in an order of the units that the seed draws, so that a source larger
than memory is read once a pass; "interleaved" is for data that are sorted, and gives every round a share of every
chunk, that is every step-th row of it.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import CHUNK_BYTES
from dkernel.numerics.random_streams import stream
from dkernel.numerics.tiling import PIECE_ROWS

Numbers = NDArray[np.int64]
Schedule = Sequence["Partition"]
"""The pieces of each round of a pass, in the order of their numbers."""

LEAST_PIECE_ROWS = 64  # a quarter of a tile: smaller pieces would be mostly padding
SMALL_BYTES = 256 * 2**20  # bytes of a source whose units can all be held at one time
LEAST_UNITS = 4  # units that are mixed at least, so that a round has rows of several workers


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


class ChunkCut(NamedTuple):
    """A chunk, and how it is cut.

    Parameters
    ----------
    unit, block, n : the block that is the chunk, and its rows
    parts : number of pieces; a chunk with fewer rows has one piece for each row
    first, number, chunk : global number of its first row, number of its first piece, and its own number
    strided : a piece takes rows of the chunk at equal steps in place of neighbours
    stored : the rows are stored piece after piece
    """

    unit: int
    block: int
    n: int
    parts: int
    first: int
    number: int
    chunk: int
    strided: bool
    stored: bool = False

    def piece(self, k: int) -> RowSlice:
        """Piece k of the chunk."""
        n, parts = self.n, self.parts
        start, stop, step = (k, n, parts) if self.strided else (n * k // parts, n * (k + 1) // parts, 1)
        rows = len(range(start, stop, step))
        place = RowRange(self.unit, self.block, start, stop, step)
        if self.stored:
            before = k * (n // parts) + min(k, n % parts)
            place = RowRange(self.unit, self.block, before, before + rows)
        return RowSlice(self.number + k, place, rows, self.first + start, step, self.chunk)


class ChunkPieces(Sequence[RowSlice]):
    """Pieces of a chunk by their numbers in it: each is made when it is asked for, and only the numbers are sent."""

    __slots__ = ("cut", "numbers")

    def __init__(self, cut: ChunkCut, numbers: range | Numbers | bytes) -> None:
        self.cut, self.numbers = cut, np.frombuffer(numbers, "<u4") if isinstance(numbers, bytes) else numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: Any) -> Any:
        return ChunkPieces(self.cut, self.numbers[i]) if isinstance(i, slice) else self.cut.piece(int(self.numbers[i]))

    def __reduce__(self) -> Any:
        numbers = self.numbers if isinstance(self.numbers, range) else self.numbers.astype("<u4").tobytes()
        return ChunkPieces, (self.cut, numbers)

    def rows(self) -> Numbers:
        """Rows of each piece."""
        k, n, parts = _as_array(self.numbers), self.cut.n, self.cut.parts
        return (n - k + parts - 1) // parts if self.cut.strided else n * (k + 1) // parts - n * k // parts


class Partition(Sequence[RowSlice]):
    """Pieces of a source by their numbers, all of them or some; each is made when it is asked for.

    A hundred million rows are some fifty thousand pieces, which would take 15 MB: the memory of the client may not grow
    with the rows, nor its work.

    Parameters
    ----------
    units : rows of the chunks of each unit
    parts, strided : number of pieces of each chunk, and what they are: see `ChunkCut`
    """

    def __init__(self, units: Sequence[Sequence[int]], parts: Sequence[int], strided: bool) -> None:
        chunks = [(unit, block, n) for unit, rows in enumerate(units) for block, n in enumerate(rows)]
        counts = [min(n, k) for (_, _, n), k in zip(chunks, parts, strict=True)]
        firsts, bounds = accumulate((n for _, _, n in chunks), initial=0), [0, *accumulate(counts)]
        places = enumerate(zip(chunks, parts, firsts, bounds, strict=False))
        self._cuts = [ChunkCut(*at, k, first, number, i, strided) for i, (at, k, first, number) in places]
        self._bounds = np.array(bounds)
        self.numbers: range | Numbers = range(bounds[-1])

    def part(self, numbers: range | Numbers) -> "Partition":
        """The pieces with these numbers, in their order."""
        part = copy(self)
        part.numbers = numbers
        return part

    def stored(self) -> "Partition":
        """The same pieces of a source whose rows are stored piece after piece."""
        stored = copy(self)
        stored._cuts = [cut._replace(stored=True) for cut in self._cuts]
        return stored

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self.part(_as_array(self.numbers)[i])
        number = int(self.numbers[i])
        cut = self._cuts[int(self._chunk_of(np.array(number)))]
        return cut.piece(number - cut.number)

    def _chunk_of(self, numbers: Numbers) -> Numbers:
        return np.searchsorted(self._bounds, numbers, side="right") - 1

    def chunks(self) -> list[ChunkPieces]:
        """The pieces of each chunk that has some, in the order of the chunks' first pieces."""
        if isinstance(self.numbers, range):
            counts = np.diff(self._bounds).tolist()
            return [ChunkPieces(cut, range(count)) for cut, count in zip(self._cuts, counts, strict=True) if count]
        _, firsts, inverse = np.unique(self._chunk_of(self.numbers), return_index=True, return_inverse=True)
        order = np.argsort(firsts[inverse], kind="stable")
        numbers, ascend = self.numbers[order], bool((np.diff(self.numbers) > 0).all())
        heads = np.flatnonzero(np.diff(firsts[inverse][order], prepend=-1)).tolist()
        chunk_of = self._chunk_of(numbers[heads]).tolist()
        chunks = []
        for head, end, chunk in zip(heads, [*heads[1:], len(numbers)], chunk_of, strict=True):
            cut, some = self._cuts[chunk], numbers[head:end]
            first, last = int(some[0]) - cut.number, int(some[-1]) - cut.number
            run = ascend and last - first == end - head - 1
            chunks.append(ChunkPieces(cut, range(first, last + 1) if run else some - cut.number))
        return chunks

    def by_unit(self) -> dict[int, list[ChunkPieces]]:
        """Unit -> its chunks that have pieces."""
        units: dict[int, list[ChunkPieces]] = {}
        for pieces in self.chunks():
            units.setdefault(pieces.cut.unit, []).append(pieces)
        return units

    def units(self) -> dict[int, int]:
        """Unit -> number of its pieces."""
        return {unit: sum(map(len, chunks)) for unit, chunks in self.by_unit().items()}

    def rows(self) -> Numbers:
        """Rows of each piece, chunk by chunk."""
        return np.concatenate([some.rows() for some in self.chunks()])


def _as_array(numbers: range | Numbers) -> Numbers:
    return np.arange(numbers.start, numbers.stop) if isinstance(numbers, range) else numbers


def join_rounds(rounds: Schedule) -> Partition:
    """The pieces of these rounds, one round after the other."""
    return rounds[0].part(np.concatenate([_as_array(turn.numbers) for turn in rounds]))


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
    by_unit = {
        unit: np.concatenate([some.cut.number + _as_array(some.numbers) for some in chunks])
        for unit, chunks in cut.by_unit().items()
    }
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


def bundles(units: Sequence[Sequence[int]], seed: int, epoch: int, bundle: int, rounds: int) -> list[list[int]]:
    """The numbers of the units that `shuffle_order` mixes with each other in this pass, or in a round of it if that has
    several bundles, in its order.

    Examples
    --------
    >>> bundles([[4096]] * 5, seed=0, epoch=0, bundle=2, rounds=32), bundles([[4096]] * 5, 0, 0, bundle=2, rounds=2)
    ([[4, 1], [0, 2], [3]], [[4, 1], [0, 2, 3]])
    """
    mixed = _bundles(units, stream(seed, "order", epoch), bundle)
    if len(mixed) <= rounds:
        return mixed
    ends = [round(sum(map(len, mixed)) * i / rounds / bundle) for i in range(rounds)]
    return [list(chain.from_iterable(mixed[first:last])) for first, last in pairwise([*ends, len(mixed)])]


def _bundles(units: Sequence[Sequence[int]], rng: np.random.Generator, bundle: int) -> list[list[int]]:
    some = [unit for unit, rows in enumerate(units) if sum(rows)]
    order = [some[i] for i in rng.permutation(len(some))]
    return [order[start : start + bundle] for start in range(0, len(order), bundle)]


def _deal(cut: Partition, queue: Numbers, rounds: int) -> Schedule:
    """Cut the queue into `rounds` rounds with nearly equal numbers of rows."""
    ends = np.cumsum(cut.rows()[queue])
    total, out, at = int(ends[-1]), [], 0
    for i in range(1, rounds + 1):
        stop = int(np.searchsorted(ends, total * i / rounds - 0.5)) + 1 if i < rounds else len(queue)
        if stop > at:
            out.append(queue[at:stop])
            at = stop
    return [cut.part(np.sort(numbers)) for numbers in out]


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
    turn = np.concatenate([(_as_array(some.numbers) + some.cut.chunk) % rounds for some in cut.chunks()])
    turns = (np.flatnonzero(turn == i) for i in range(rounds))
    return [cut.part(mine) for mine in turns if len(mine)]
