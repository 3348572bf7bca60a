"""Shuffle of sorted data that do not fit in memory: each worker stores the rows that it reads in the order of rounds.

The rows of a chunk are on the local disk of its worker, in the order of its interleaved pieces. No other process has to
see them, and rows that are lost with a worker are read and stored again. The pieces keep their numbers and rows, so the
sums, and the model's bytes, are the same as for data that are interleaved in memory.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.numerics.rows import split_into_arrays
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import ChunkPieces, Schedule, join_rounds
from dkernel.streaming.stored_rows import DiskFolder, StoredBlock, StoredRows


def store_shuffled(
    reader: BlockReader, schedule: Schedule, disk: DiskFolder, progress: Any
) -> tuple[BlockReader, Schedule]:
    """Store the rows; return their reader, and the schedule with the same pieces in the stored blocks."""
    cut = join_rounds(schedule)
    inside = cut.part(np.sort(cut.numbers)).by_unit()
    handles, _ = reader.leave_each(
        store_unit, f"{disk.run}-store", progress, lambda unit: (disk, inside.get(unit, [])), len
    )
    stored = cut.stored()
    return reader.with_stored(handles), [stored.part(turn.numbers) for turn in schedule]


def store_unit(blocks: Sequence[Block], disk: DiskFolder, chunks: Sequence[ChunkPieces]) -> tuple[StoredBlock, ...]:
    """Store the rows of a unit in the order of its pieces, in one block for each chunk; runs on a worker."""
    stored = []
    for number, block in enumerate(blocks):
        pieces = chain.from_iterable(some for some in chunks if some.cut.block == number)
        mine = [np.arange(block.rows)[piece.range.rows] for piece in pieces]
        order = np.concatenate([np.empty(0, np.int64), *mine])
        values = {"X": block.X, "y": block.y, "weight": block.weight}
        fields = {
            name: {part: StoredRows(arrays, disk) for part, arrays in split_into_arrays(rows[order]).items()}
            for name, rows in values.items()
            if rows is not None
        }
        stored.append(StoredBlock(fields))
    return tuple(stored)
