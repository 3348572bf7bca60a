"""NPY and uncompressed NPZ: the header says where the rows lie; a part is read by its byte range, local or remote."""

import ast
import math
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.damage import explain_damage
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.data.scratch_copies import NO_NPZ
from dkernel.errors import DataError
from dkernel.leaves.arrays.array_file import Member, is_run, matrix_columns, member, raw_of_members, table_of_members
from dkernel.numerics.validation import RowDescriber

_MAGIC = b"\x93NUMPY"
_STRIP = 2**18  # bytes
_MOST_HEADER = 2**20  # bytes: records of 50,000 columns need as many
_LOCAL_HEADER = 30  # bytes of a zip member's own header before its name


@dataclass(frozen=True)
class _Array:
    """One stored array: `offset` is where its numbers begin in the file."""

    shape: tuple[int, ...]
    dtype: np.dtype
    column_major: bool
    offset: int


def read_schema(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """Shapes and types, from the headers."""
    return [_look(file, request) for file in files]


def read_part(file: File, part: FilePart, columns: ReadColumns, _: RowDescriber) -> UncheckedBlock:
    """The rows of one part."""
    with file.open() as opened:
        arrays = _arrays(file, opened)
        fields = arrays[""].dtype.names if list(arrays) == [""] else None
        if fields:
            records = _rows(file, opened, arrays[""], part.first_row, part.first_row + part.rows)
            return raw_of_members(part, columns, lambda key, _first, _stop: records[key])
        split = None if part.extra is None else _split(file, opened, arrays[part.extra], part, columns)
        return raw_of_members(
            part, columns, lambda key, first, stop: _rows(file, opened, arrays[key], first, stop), *(split or ())
        )


def _look(file: File, request: ReadOptions) -> FileSchema:
    with file.open() as opened:
        arrays = _arrays(file, opened)
    members: list[Member] = []
    for key, array in arrays.items():
        if array.dtype.hasobject and key not in request.exclude:
            raise DataError(
                f"{file.name}: the array{f' {key!r}' if key else ''} holds Python objects, which only unpickling could "
                "read, and that runs code: store numbers, or text of fixed width, or exclude the array."
            )
        if array.dtype.names and len(array.shape) == 1 and not key:
            members += [
                member(name, array.shape + array.dtype[name].shape, array.dtype[name].base)
                for name in array.dtype.names
            ]
        else:
            members.append(member(key, array.shape, array.dtype))
    return table_of_members(file, members, request.exclude)


def _arrays(file: File, opened: BinaryIO) -> dict[str, _Array]:
    if file.suffix == ".npy":
        return {"": _header(file, opened, 0, file.size)}
    arrays = {}
    with explain_damage(file.name, NO_NPZ):
        with zipfile.ZipFile(opened) as archive:
            infos = archive.infolist()
        for info in infos:
            opened.seek(info.header_offset)
            head = opened.read(_LOCAL_HEADER)
            name_length, extra_length = struct.unpack("<HH", head[26:30])
            start = info.header_offset + _LOCAL_HEADER + name_length + extra_length
            arrays[info.filename.removesuffix(".npy")] = _header(file, opened, start, start + info.file_size)
    return arrays


def _header(file: File, opened: BinaryIO, start: int, stop: int) -> _Array:
    """The array whose NPY form is the bytes start .. stop - 1 (numpy's format, versions 1 to 3)."""
    opened.seek(start)
    head = opened.read(8)
    if head[:6] != _MAGIC or len(head) < 8 or head[6] not in (1, 2, 3):
        raise DataError(f"{file.name}: the file is not an NPY array, or a damaged one (it begins with {head!r}).")
    width, code = (2, "<H") if head[6] == 1 else (4, "<I")
    raw_length = opened.read(width)
    length = struct.unpack(code, raw_length)[0] if len(raw_length) == width else 0
    if length > _MOST_HEADER:
        raise DataError(
            f"{file.name}: the header of the NPY array has {length:,} bytes, which none needs: it is damaged."
        )
    try:
        text = opened.read(length).decode("utf-8" if head[6] == 3 else "latin-1")
        said: dict[str, Any] = ast.literal_eval(text.strip())
        dtype = np.lib.format.descr_to_dtype(said["descr"])
        shape, column_major = tuple(said["shape"]), bool(said["fortran_order"])
        if not all(type(n) is int and n >= 0 for n in shape) or not dtype.itemsize:
            raise ValueError(shape)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):  # of deep brackets
        raise DataError(f"{file.name}: the header of the NPY array is truncated or damaged.") from None
    offset = start + 8 + width + length
    needed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and offset + needed > stop:
        raise DataError(
            f"{file.name}: the file is truncated: an array {shape} of {dtype} needs {needed} bytes, "
            f"{max(0, stop - offset)} are there."
        )
    return _Array(shape, dtype, column_major and len(shape) > 1, offset)


def _rows(file: File, opened: BinaryIO, array: _Array, first: int, stop: int) -> NDArray[Any]:
    """Rows first .. stop - 1 of a stored array, in memory of their own."""
    rows, rest = stop - first, array.shape[1:]
    if not array.column_major:
        width = int(np.prod(rest, dtype=np.int64))
        out = np.empty((rows, *rest), dtype=array.dtype)
        _read_into(file, opened, array.offset + first * width * array.dtype.itemsize, out.reshape(-1).view(np.uint8))
        return out
    columns = np.empty((rest[0], rows), dtype=array.dtype)
    for j in range(rest[0]):
        offset = array.offset + (j * array.shape[0] + first) * array.dtype.itemsize
        _read_into(file, opened, offset, columns[j].view(np.uint8))
    return columns.T


def _split(
    file: File, opened: BinaryIO, array: _Array, part: FilePart, columns: ReadColumns
) -> tuple[NDArray[Any], dict[str, NDArray[Any]]] | None:
    """The features as the block that they will be, and the other columns to read, of a matrix of rows that has both.

    A strip of rows at a time, which stays in cache: the part is in memory once, and not as it is stored and as a block.
    None where reading it as a whole takes no copy, or cannot be spared one, or is one request to a store.
    """
    if not file.local or array.column_major or len(array.shape) != 2 or array.dtype != columns.dtype:
        return None
    width = array.shape[1]
    numbers = matrix_columns(columns.features, width)
    if not numbers or len(numbers) == width or not is_run(numbers):
        return None
    named = [name for name in (columns.label, columns.weight, *columns.kept) if name is not None and name.isdigit()]
    others = {name: np.empty(part.rows, array.dtype) for name in named if int(name) < width}
    X = np.empty((part.rows, len(numbers)), array.dtype)
    step = max(1, _STRIP // (width * array.dtype.itemsize))
    strip = np.empty((min(step, part.rows), width), array.dtype)
    for first in range(0, part.rows, step):
        rows = strip[: part.rows - first]
        offset = array.offset + (part.first_row + first) * width * array.dtype.itemsize
        _read_into(file, opened, offset, rows.reshape(-1).view(np.uint8))
        X[first : first + step] = rows[:, numbers[0] : numbers[-1] + 1]
        for name, column in others.items():
            column[first : first + step] = rows[:, int(name)]
    return X, others


def _read_into(file: File, opened: BinaryIO, offset: int, out: NDArray[np.uint8]) -> None:
    opened.seek(offset)
    view, done = out.data, 0
    while done < len(view):
        n = opened.readinto(view[done:])  # type: ignore[attr-defined]
        if not n:
            raise DataError(f"{file.name}: the file ends {len(view) - done} bytes too early: it is truncated.")
        done += n
