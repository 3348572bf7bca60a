"""Shuffle of sorted data that do not fit in memory: each worker stores the rows that it reads in the order of rounds.

The rows of a chunk are on the local disk of its worker, in the order of its interleaved pieces. No other process has to
see them, and rows that are lost with a worker are read and stored again. The pieces keep their numbers and rows, so the
sums, and the model's bytes, are the same as for data that are interleaved in memory.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.numerics.rows import split_into_arrays
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import RowRange, RowSlice, Schedule
from dkernel.streaming.stored_rows import DiskFolder, StoredBlock, StoredRows


def store_shuffled(
    reader: BlockReader, schedule: Schedule, disk: DiskFolder, progress: Any
) -> tuple[BlockReader, Schedule]:
    """Store the rows; return their reader, and the schedule with the same pieces in the stored blocks."""
    inside: dict[int, list[RowSlice]] = {}
    pieces = sorted(chain.from_iterable(schedule), key=attrgetter("number"))
    for piece in pieces:
        inside.setdefault(piece.range.unit, []).append(piece)
    handles, _ = reader.leave_each(
        store_unit, f"{disk.run}-store", progress, lambda unit: (disk, inside.get(unit, [])), len
    )
    moved: dict[int, RowRange] = {}
    ends: dict[tuple[int, int], int] = {}
    for piece in pieces:
        home = piece.range.unit, piece.range.block
        start = ends.get(home, 0)
        ends[home] = start + piece.n
        moved[piece.number] = RowRange(*home, start, start + piece.n)
    turns = tuple(tuple(replace(piece, range=moved[piece.number]) for piece in turn) for turn in schedule)
    return reader.with_stored(handles), turns


def store_unit(blocks: Sequence[Block], disk: DiskFolder, pieces: Sequence[RowSlice]) -> tuple[StoredBlock, ...]:
    """Store the rows of a unit in the order of its pieces, in one block for each chunk; runs on a worker."""
    stored = []
    for number, block in enumerate(blocks):
        mine = [np.arange(block.rows)[piece.range.rows] for piece in pieces if piece.range.block == number]
        order = np.concatenate([np.empty(0, np.int64), *mine])
        values = {"X": block.X, "y": block.y, "weight": block.weight}
        fields = {
            name: {part: StoredRows(arrays, disk) for part, arrays in split_into_arrays(rows[order]).items()}
            for name, rows in values.items()
            if rows is not None
        }
        stored.append(StoredBlock(fields))
    return tuple(stored)
