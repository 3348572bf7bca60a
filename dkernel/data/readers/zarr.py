"""Zarr: an array of two dimensions, or a group of arrays such as X and y; parts are aligned with the stored chunks.

A chunk that is not stored reads as the array's fill value: that is how Zarr writes chunks that hold nothing else.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.data.readers.array_file import Member, member, raw_of_members, table_of_members
from dkernel.errors import DamagedFileError, DataError
from dkernel.numerics.validation import RowDescriber


def read_schema(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """Shapes, types and chunks, from the metadata."""
    return [table_of_members(file, _members(_open(file)), request.exclude) for file in files]


def read_part(file: File, part: FilePart, columns: ReadColumns, _: RowDescriber) -> UncheckedBlock:
    """The rows of one part."""
    opened, inside = _open(file), list[str]()

    def fetch(key: str, first: int, stop: int) -> NDArray[Any]:
        array = opened[key] if key else opened
        inside.extend(_chunk_files(array, first, stop))
        return np.asarray(array[first:stop])

    try:
        block = raw_of_members(part, columns, fetch)
        file.check(inside)
        return block
    except (OSError, ValueError, RuntimeError) as error:
        if isinstance(error, DataError) or getattr(error, "errno", None) is not None:
            raise  # with a number it is the disk's or the network's trouble: reading again may help
        rows = f"rows {part.first_row + 1} to {part.first_row + part.rows}"
        raise DamagedFileError(f"{file.name}, {rows}: a chunk is truncated or damaged ({error}).") from None


def _chunk_files(array: zarr.Array, first: int, stop: int) -> Iterator[str]:
    """The files in the store that hold these rows of an array, and what describes it."""
    yield os.path.join(array.path, "zarr.json" if array.metadata.zarr_format == 3 else ".zarray")
    steps = array.shards or array.chunks
    rows = range(first // steps[0], -(-stop // steps[0]))
    others = (range(-(-n // step)) for n, step in zip(array.shape[1:], steps[1:], strict=True))
    for index in itertools.product(rows, *others):
        yield os.path.join(array.path, array.metadata.encode_chunk_key(index))


def _open(file: File) -> Any:
    try:
        return zarr.open(file.path, mode="r", storage_options=dict(file.options) or None)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{file.name}: this is not a Zarr store, or a damaged one ({error}).") from None


def _members(opened: Any) -> list[Member]:
    if isinstance(opened, zarr.Array):
        return [_member("", opened)]
    return [_member(key, array) for key, array in sorted(opened.arrays())]


def _member(key: str, array: Any) -> Member:
    return member(key, array.shape, array.dtype, array.chunks[0] if array.chunks else 1, array.attrs)
