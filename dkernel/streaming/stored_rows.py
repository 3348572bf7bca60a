"""Rows on the local disk of the process that made them, for later tasks. No other process has to see the file.

The file has no name, so the system deletes it after the last use of its rows, or at the end of the process.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary, finalize

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.writers.atomic import explain_os_errors
from dkernel.numerics.rows import load_rows
from dkernel.streaming.execution.in_task import local_folder
from dkernel.streaming.schedule import RowRange, RowSlice


@dataclass(frozen=True)
class DiskFolder:
    """The file of a run in each process.

    Parameters
    ----------
    folder : folder to write to; None for the local folder of each worker, or else the folder for temporary files
    run : key of the run
    """

    folder: str | None
    run: str


class StoredRows:
    """An array on disk, whose slices are read. Another process gets it as an array, and writes it to its own disk.

    Examples
    --------
    >>> rows = StoredRows(np.arange(10.0), DiskFolder(None, "some-run"))
    >>> rows[3:5]
    array([3., 4.])
    """

    def __init__(self, rows: NDArray[Any], disk: DiskFolder) -> None:
        self.disk, self.dtype, self.shape = disk, rows.dtype, rows.shape
        self._file = _open_file(disk)
        self._first = self._file.append(np.ascontiguousarray(rows))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        values = np.empty((max(0, stop - start), *self.shape[1:]), self.dtype)
        if values.size:
            self._file.read(self._first + start * (values.nbytes // len(values)), values)
        return values

    def __reduce__(self) -> Any:
        return type(self), (self[:], self.disk)


@dataclass(frozen=True, eq=False)
class StoredBlock:
    """The rows of a chunk on the local disk, in the order of its pieces.

    Parameters
    ----------
    fields : field of the block -> the arrays that it is stored as, by name
    """

    fields: Mapping[str, Mapping[str, StoredRows]]

    def read(self, piece: RowSlice) -> tuple[Block, RowSlice]:
        """Read the rows of a piece; return them as a block, and the piece of all rows of this block."""
        start, stop = piece.range.start, piece.range.stop
        fields = {name: load_rows(arrays.get, start, stop) for name, arrays in self.fields.items()}
        return Block(**fields), replace(piece, range=RowRange(0, 0, 0, piece.n))


def load_piece(block: Block | StoredBlock, piece: RowSlice) -> tuple[Block, RowSlice]:
    """The block with the rows of a piece, and their range in it."""
    return block.read(piece) if isinstance(block, StoredBlock) else (block, piece)


class _RowFile:
    """A file without a name, to which the tasks of a process append."""

    def __init__(self, folder: str) -> None:
        self.folder, self._end, self._lock = Path(folder), 0, Lock()
        with explain_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed with this object
        finalize(self, self._file.close)

    def append(self, rows: NDArray[Any]) -> int:
        """Write these rows at the end of the file; return the position of their first byte."""
        with self._lock:
            first, self._end = self._end, self._end + rows.nbytes
        rest, at = _view_bytes(rows), first
        with explain_os_errors(self.folder):
            while len(rest):  # a system call moves 2 GiB at most
                written = os.pwrite(self._file.fileno(), rest, at)
                rest, at = rest[written:], at + written
        return first

    def read(self, first: int, rows: NDArray[Any]) -> None:
        """Fill `rows` with the bytes from this position on."""
        rest = _view_bytes(rows)
        while len(rest):
            count = os.preadv(self._file.fileno(), [rest], first)
            if not count:
                raise OSError(f"{self.folder}: rows that were written cannot be read")
            rest, first = rest[count:], first + count


def _view_bytes(rows: NDArray[Any]) -> memoryview:
    return memoryview(rows.reshape(-1).view(np.uint8).data)


_files: WeakValueDictionary[DiskFolder, _RowFile] = WeakValueDictionary()
_lock = Lock()


def _open_file(disk: DiskFolder) -> _RowFile:
    with _lock:
        if (file := _files.get(disk)) is None:
            file = _files[disk] = _RowFile(disk.folder or local_folder())
        return file
