"""Shuffle of sorted data that do not fit in memory: they are rewritten once to scratch, in the order of the rounds.

The rows of a chunk are stored in the order of its interleaved pieces. The pieces keep their numbers and rows, so the
sums, and the model's bytes, are those of the same data interleaved in memory.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import Delayed

from dkernel.data.block import Block
from dkernel.data.scratch import Scratch, save_array
from dkernel.data.source import Source, Unit
from dkernel.numerics.rows import arrays_of, rows_from
from dkernel.persistence.journal import Journal
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import RowRange, RowSlice, Schedule


@contextmanager
def scratch_folder(scratch: Scratch) -> Iterator[Path]:
    """A folder for one run, removed with all that is in it."""
    if scratch.given is not None:
        Path(scratch.given).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".dkernel-", dir=scratch.given or scratch.beside) as folder:
        yield Path(folder)


def folder_of(journal: Journal, scratch: Scratch, opened: ExitStack) -> Path:
    """A folder for rows, which outlives a run that has a checkpoint; that of others goes when `opened` is closed."""
    return journal.scratch(scratch.given) or opened.enter_context(scratch_folder(scratch))


def rewrite_shuffled(
    feed: BlockReader, schedule: Schedule, folder: Path, key: str, progress: Any, journal: Journal | None = None
) -> tuple[Source, Schedule]:
    """The source again, one unit a piece, and the schedule that finds the same pieces there.

    Parameters
    ----------
    folder : seen by every worker and by this process
    journal : of a run that may find the copy which a run before it has made in the same folder
    """
    inside: dict[int, list[RowSlice]] = {}
    for piece in schedule.pieces:
        inside.setdefault(piece.place.unit, []).append(piece)

    def write() -> dict[str, Any]:
        written = feed.each(
            write_unit, f"{key}-rewrite-{folder.name}", progress, lambda unit: (str(folder), inside.get(unit, []))
        )
        places = [place for unit in written for place in unit]
        return {"places": places, "files": _files(folder)}

    copy = (journal or Journal()).stage("rewrite", write, lambda copy: copy["files"] == _files(folder))
    units: list[Unit] = []
    moved: dict[int, RowSlice] = {}
    for number, path, start, stop in copy["places"]:
        name = f"dkernel-scratch-{key}-{folder.name}-{number}"  # another run of this fit has another folder
        task = Delayed(name, {name: (read_piece, path, start, stop)})  # type: ignore[no-untyped-call]
        moved[number] = RowSlice(number, RowRange(len(units), 0, 0, stop - start), stop - start, 0)
        units.append(Unit((stop - start,), task, path))
    turns = tuple(tuple(replace(piece, place=moved[piece.number].place) for piece in turn) for turn in schedule.rounds)
    return replace(feed.source, units=tuple(units)), Schedule(turns, schedule.order)


def _files(folder: Path) -> dict[str, int]:
    """The files of the copy and their bytes: a copy that someone has touched is made again."""
    return {path.name: path.stat().st_size for path in sorted(folder.glob("chunk-*.npy"))}


def write_unit(blocks: Sequence[Block], folder: str, pieces: Sequence[RowSlice]) -> list[tuple[int, str, int, int]]:
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
                for part, held in arrays_of(values[order]).items():
                    save_array(str(_file(path, name, part)), held)
        at = 0
        for piece in mine:
            found.append((piece.number, path, at, at + piece.n))
            at += piece.n
    return found


def read_piece(path: str, start: int, stop: int) -> tuple[Block, ...]:
    """The rows of one piece, as the one block of a unit; runs on a worker."""

    def load(name: str, part: str) -> Any:
        file = _file(path, name, part)
        return np.load(file, mmap_mode="r") if file.exists() else None

    return (Block(*(rows_from(partial(load, name), start, stop) for name in ("X", "y", "weight"))),)


def _file(path: str, name: str, part: str) -> Path:
    """The file of one of the arrays that a field of the blocks is saved as."""
    return Path(f"{path}-{name}-{part}.npy" if part else f"{path}-{name}.npy")
