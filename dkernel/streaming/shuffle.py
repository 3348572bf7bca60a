"""Shuffle of sorted data that do not fit in memory: they are rewritten once to scratch, in the order of the rounds.

The rows of a chunk are stored in the order of its interleaved pieces. The pieces keep their numbers and rows, so the
sums, and the model's bytes, are those of the same data interleaved in memory.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.scratch import save_array
from dkernel.data.source import Source, Unit
from dkernel.errors import DataError
from dkernel.numerics.object_values import decoded, encoded
from dkernel.numerics.sparse_rows import SparseRows
from dkernel.persistence.journal import Journal
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import RowRange, RowSlice, Schedule


@contextmanager
def scratch_folder(scratch: str | None) -> Iterator[Path]:
    """A folder for one run, removed with all that is in it."""
    if scratch is not None:
        Path(scratch).mkdir(parents=True, exist_ok=True)
    # Absolute: a worker has a working folder of its own.
    with tempfile.TemporaryDirectory(prefix="dkernel-", dir=scratch and os.path.abspath(scratch)) as folder:
        yield Path(folder)


def folder_of(journal: Journal, scratch: str | None, opened: ExitStack) -> Path:
    """A folder for rows, which outlives a run that has a checkpoint; that of others goes when `opened` is closed."""
    return journal.scratch(scratch) or opened.enter_context(scratch_folder(scratch))


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
        if places and not Path(places[0][1] + "-X.npy").exists():
            raise DataError(
                f"The workers wrote the shuffled copy to {folder}, which this process cannot see. Give --scratch a "
                "folder that all machines share."
            )
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
            if values is None:
                continue
            if isinstance(values, SparseRows):
                for part, held in values[order].arrays().items():
                    save_array(f"{path}-{name}-{part}.npy", held)
                save_array(f"{path}-{name}.npy", np.array([values.width]))
            elif values.dtype.kind == "O":
                data, ends = encoded(values[order])
                save_array(f"{path}-{name}-ends.npy", ends)
                save_array(f"{path}-{name}.npy", data)
            else:
                save_array(f"{path}-{name}.npy", values[order])
        at = 0
        for piece in mine:
            found.append((piece.number, path, at, at + piece.n))
            at += piece.n
    return found


def read_piece(path: str, start: int, stop: int) -> tuple[Block, ...]:
    """The rows of one piece, as the one block of a unit; runs on a worker."""

    def part(name: str) -> Any:
        file, ends = Path(f"{path}-{name}.npy"), Path(f"{path}-{name}-ends.npy")
        if (starts := Path(f"{path}-{name}-starts.npy")).exists():
            return _sparse(path, name, np.load(starts, mmap_mode="r")[start : stop + 1], int(np.load(file)[0]))
        if ends.exists():
            return _cells(np.load(file, mmap_mode="r"), np.load(ends, mmap_mode="r"), start, stop)
        return np.array(np.load(file, mmap_mode="r")[start:stop]) if file.exists() else None

    return (Block(part("X"), part("y"), part("weight")),)


def _sparse(path: str, name: str, ends: NDArray[np.int64], width: int) -> SparseRows:
    """The rows that end there."""
    at = slice(int(ends[0]), int(ends[-1]))
    data, indices = (
        np.array(np.load(f"{path}-{name}-{part}.npy", mmap_mode="r")[at]) for part in ("values", "indices")
    )
    return SparseRows(data, indices, np.array(ends) - at.start, width)


def _cells(data: NDArray[np.uint8], ends: NDArray[np.int64], start: int, stop: int) -> NDArray[Any]:
    """Rows start .. stop - 1 of encoded cells."""
    first = int(ends[start - 1, -1]) if start else 0
    some = np.array(ends[start:stop])
    return decoded(np.array(data[first : int(some[-1, -1])]), some - first)
