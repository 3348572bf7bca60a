"""Zarr: an array of two dimensions, or a group of arrays such as X and y; parts are aligned with the stored chunks.

A chunk that is not stored reads as the array's fill value: that is how Zarr writes chunks that hold nothing else.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.damage import explain_damage
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.leaves.arrays.array_file import Member, member, raw_of_members, table_of_members
from dkernel.numerics.validation import RowDescriber


def read_schema(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """Shapes, types and chunks, from the metadata."""
    return [table_of_members(file, _members(file), request.exclude) for file in files]


def read_part(file: File, part: FilePart, columns: ReadColumns, _: RowDescriber) -> UncheckedBlock:
    """The rows of one part."""
    opened, inside = _open(file), list[str]()
    name = f"{file.name}, rows {part.first_row + 1} to {part.first_row + part.rows}"

    def fetch(key: str, first: int, stop: int) -> NDArray[Any]:
        array = opened[key] if key else opened
        inside.extend(_chunk_files(array, first, stop))
        with explain_damage(name, "a chunk is truncated or damaged"):
            return np.asarray(array[first:stop])

    block = raw_of_members(part, columns, fetch)
    file.check(inside)
    return block


def _chunk_files(array: Any, first: int, stop: int) -> Iterator[str]:
    """The files in the store that hold these rows of an array, and what describes it."""
    yield os.path.join(array.path, "zarr.json" if array.metadata.zarr_format == 3 else ".zarray")
    steps = array.shards or array.chunks
    rows = range(first // steps[0], -(-stop // steps[0]))
    others = (range(-(-n // step)) for n, step in zip(array.shape[1:], steps[1:], strict=True))
    for index in itertools.product(rows, *others):
        yield os.path.join(array.path, array.metadata.encode_chunk_key(index))


def _open(file: File) -> Any:
    with _explain(file):
        return zarr.open(file.path, mode="r", storage_options=dict(file.options) or None)


def _explain(file: File) -> AbstractContextManager[None]:
    return explain_damage(
        file.name,
        "this is not a Zarr store, or a damaged one",
        AttributeError,
        LookupError,
        TypeError,
        FileNotFoundError,
    )


def _members(file: File) -> list[Member]:
    opened = _open(file)
    with _explain(file):
        arrays = [("", opened)] if isinstance(opened, zarr.Array) else sorted(opened.arrays())
        return [member(key, array.shape, array.dtype, array.chunks, array.attrs) for key, array in arrays]
