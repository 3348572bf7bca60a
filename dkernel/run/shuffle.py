"""Sorted data that do not fit in memory: rewritten once to scratch, so that every round finds its rows together.

The rows of a chunk are stored in the order of its interleaved pieces. The pieces keep their numbers and rows, so the
sums, and the model's bytes, are those of the same data interleaved in memory.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import Delayed

from dkernel.data.block import Block
from dkernel.data.source import Source, Unit
from dkernel.errors import DataError
from dkernel.run.feed import Feed
from dkernel.run.pieces import Piece, Place, Schedule

__all__ = ["rewritten", "scratch_folder"]


@contextmanager
def scratch_folder(scratch: str | None) -> Iterator[Path]:
    """A folder for one run, removed with all that is in it."""
    if scratch is not None:
        Path(scratch).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dkernel-", dir=scratch) as folder:
        yield Path(folder)


def rewritten(feed: Feed, schedule: Schedule, folder: Path, key: str, progress: Any) -> tuple[Source, Schedule]:
    """The source again, one unit a piece, and the schedule that finds the same pieces there.

    Parameters
    ----------
    folder : seen by every worker and by this process
    """
    inside: dict[int, list[Piece]] = {}
    for piece in schedule.pieces:
        inside.setdefault(piece.place.unit, []).append(piece)
    written = feed.each(
        write_unit, f"{key}-rewrite-{folder.name}", progress, lambda unit: (str(folder), inside.get(unit, []))
    )
    units: list[Unit] = []
    moved: dict[int, Piece] = {}
    for places in written:
        for number, path, start, stop in places:
            name = f"dkernel-scratch-{key}-{folder.name}-{number}"  # another run of this fit has another folder
            task = Delayed(name, {name: (read_piece, path, start, stop)})  # type: ignore[no-untyped-call]
            moved[number] = Piece(number, Place(len(units), 0, 0, stop - start), stop - start, 0)
            units.append(Unit((stop - start,), task, path))
    if units and not Path(units[0].place + "-X.npy").exists():
        raise DataError(
            f"The workers wrote the shuffled copy to {folder}, which this process cannot see. Give --scratch a folder "
            "that all machines share."
        )
    turns = tuple(tuple(replace(piece, place=moved[piece.number].place) for piece in turn) for turn in schedule.rounds)
    return replace(feed.source, units=tuple(units)), Schedule(turns, schedule.order)


def write_unit(blocks: Sequence[Block], folder: str, pieces: Sequence[Piece]) -> list[tuple[int, str, int, int]]:
    """The rows of a unit in the order of its pieces, one set of files a chunk; runs on a worker."""
    found = []
    for number, block in enumerate(blocks):
        mine = [piece for piece in pieces if piece.place.block == number]
        if not mine:
            continue
        path = str(Path(folder) / f"chunk-{mine[0].chunk:06d}")
        order = np.concatenate([np.arange(block.rows)[piece.place.rows] for piece in mine])
        for name, values in (("X", block.X), ("y", block.y), ("weight", block.weight)):
            if values is not None:
                np.save(f"{path}-{name}.npy", values[order])
        at = 0
        for piece in mine:
            found.append((piece.number, path, at, at + piece.n))
            at += piece.n
    return found


def read_piece(path: str, start: int, stop: int) -> tuple[Block, ...]:
    """The rows of one piece, as the one block of a unit; runs on a worker."""

    def part(name: str) -> Any:
        file = Path(f"{path}-{name}.npy")
        return np.array(np.load(file, mmap_mode="r")[start:stop]) if file.exists() else None

    return (Block(part("X"), part("y"), part("weight")),)
