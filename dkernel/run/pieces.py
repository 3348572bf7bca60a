"""Pieces and rounds: which rows stand together, a function of the chunk layout and the seed alone.

A chunk is cut into equal pieces of at most PIECE_ROWS rows. A round is a fixed share of the pieces. Two orders:
"chunks" takes the pieces chunk by chunk, in an order of the units that the seed draws, so that a source larger than
memory is read once a pass; "interleaved" gives every round a share of every chunk, every step-th row of it, for data
that are sorted. Neither memory nor workers have a say.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkernel.seeds import stream

__all__ = ["PIECE_ROWS", "Piece", "Place", "Schedule", "bundle_size", "cut_pieces", "interleaved", "shuffled"]

PIECE_ROWS = 2048
LEAST_ROWS = 64  # a quarter of a tile: smaller pieces would be mostly padding
SMALL_BYTES = 256 * 2**20
BUNDLE_BYTES = 64 * 2**20
LEAST_UNITS = 4


@dataclass(frozen=True, slots=True)  # a hundred million rows are some fifty thousand
class Place:
    """Where rows are: block `block` of unit `unit`, rows start, start + step, ... before stop."""

    unit: int
    block: int
    start: int
    stop: int
    step: int = 1

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop, self.step)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one chunk.

    Parameters
    ----------
    number : its place in the fixed order of sums
    place : where its rows are read
    n : how many they are
    first, step : their global row numbers are first, first + step, ...
    chunk : number of the chunk they came from
    """

    number: int
    place: Place
    n: int
    first: int
    step: int = 1
    chunk: int = 0


@dataclass(frozen=True)
class Schedule:
    """The pieces of each round of a pass, by number within each round; and the name of the order."""

    rounds: tuple[tuple[Piece, ...], ...]
    order: str

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(sorted((p for r in self.rounds for p in r), key=lambda p: p.number))


def _chunks(units: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    return [(unit, block, n) for unit, rows in enumerate(units) for block, n in enumerate(rows)]


def cut_pieces(units: Sequence[Sequence[int]], rounds: int = 1, strided: bool = False) -> tuple[Piece, ...]:
    """The pieces of a source in row order: ceil(rows / size) equal parts of each chunk.

    Parameters
    ----------
    units : rows of the chunks of each unit
    rounds : a source of few rows is cut finer, so that there are this many pieces
    strided : a piece takes every so many-th row of its chunk, which may be sorted, in place of neighbours

    Examples
    --------
    >>> [piece.n for piece in cut_pieces([[3000], [10]])]
    [1500, 1500, 10]
    """
    total = sum(n for rows in units for n in rows)
    size = min(PIECE_ROWS, max(LEAST_ROWS, -(-total // rounds)))
    pieces: list[Piece] = []
    first = 0
    for chunk, (unit, block, n) in enumerate(_chunks(units)):
        parts = -(-n // size)
        for k in range(parts):
            start, stop, step = (k, n, parts) if strided else (n * k // parts, n * (k + 1) // parts, 1)
            place = Place(unit, block, start, stop, step)
            rows = len(range(start, stop, step))
            pieces.append(Piece(len(pieces), place, rows, first + start, step, chunk))
        first += n
    return tuple(pieces)


def bundle_size(units: Sequence[Sequence[int]], row_bytes: int) -> int:
    """How many units are mixed with each other: all of a small source, else some that a worker or two can hold.

    A round should find its rows in several units, since the blocks of one unit are on one worker. What is held at a
    time is two bundles. The rule knows sizes alone: the order, and so the bits, may not follow the memory there is.

    Examples
    --------
    >>> bundle_size([[131072]] * 92, 112)
    4
    """
    sizes = [sum(rows) * row_bytes for rows in units]
    if sum(sizes) <= SMALL_BYTES:
        return max(1, len(units))
    return max(LEAST_UNITS, BUNDLE_BYTES // max(1, max(sizes)))


def shuffled(units: Sequence[Sequence[int]], rounds: int, seed: int, epoch: int, bundle: int = 1) -> Schedule:
    """The order "chunks": bundles of units in an order drawn for this pass, mixed pieces within, cut into equal rounds.

    The pieces of a unit come in an order drawn too, evenly spread over its bundle: a round has as much of each unit as
    of any other, and so of each worker, which have units each.

    Examples
    --------
    >>> [len(r) for r in shuffled([[4096], [4096]], 2, seed=0, epoch=0).rounds]
    [2, 2]
    """
    by_unit: dict[int, list[Piece]] = {}
    for piece in cut_pieces(units, rounds, strided=True):
        by_unit.setdefault(piece.place.unit, []).append(piece)
    rng = stream(seed, "order", epoch)
    order = [list(by_unit)[i] for i in rng.permutation(len(by_unit))]
    queue: list[Piece] = []
    for start in range(0, len(order), bundle):
        inside, turns = [], []
        for unit in order[start : start + bundle]:
            mine = by_unit[unit]
            inside += [mine[i] for i in rng.permutation(len(mine))]
            turns.append((np.arange(len(mine)) + rng.random()) / len(mine))
        queue += [inside[i] for i in np.argsort(np.concatenate(turns), kind="stable")]
    return Schedule(_dealt(queue, rounds), "chunks")


def _dealt(queue: Sequence[Piece], rounds: int) -> tuple[tuple[Piece, ...], ...]:
    """The queue in `rounds` runs of nearly equal rows, each in the order of numbers."""
    ends = np.cumsum([piece.n for piece in queue])
    total, out, at = int(ends[-1]), [], 0
    for i in range(1, rounds + 1):
        stop = int(np.searchsorted(ends, total * i / rounds - 0.5)) + 1 if i < rounds else len(queue)
        if stop > at:
            out.append(tuple(sorted(queue[at:stop], key=lambda p: p.number)))
            at = stop
    return tuple(out)


def interleaved(units: Sequence[Sequence[int]], rounds: int) -> Schedule:
    """The order "interleaved": each round takes every step-th row of every chunk, with its own start.

    Examples
    --------
    >>> schedule = interleaved([[6], [6]], 3)
    >>> [[(p.first, p.step, p.n) for p in r] for r in schedule.rounds]
    [[(0, 3, 2), (8, 3, 2)], [(1, 3, 2), (6, 3, 2)], [(2, 3, 2), (7, 3, 2)]]
    """
    turns: list[list[Piece]] = [[] for _ in range(rounds)]
    number = first = 0
    for chunk, (unit, block, n) in enumerate(_chunks(units)):
        parts = rounds * -(-n // (rounds * PIECE_ROWS))
        for k in range(min(parts, n)):
            place = Place(unit, block, k, n, parts)
            piece = Piece(number, place, len(range(k, n, parts)), first + k, parts, chunk)
            turns[(k + chunk) % rounds].append(piece)
            number += 1
        first += n
    return Schedule(tuple(tuple(turn) for turn in turns if turn), "interleaved")
