"""HDF5: a dataset of two dimensions for the features, datasets of one value a row by name; parts follow the chunks."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.damage import explain_damage
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.errors import DataError
from dkernel.leaves.arrays.array_file import Member, member, raw_of_members, table_of_members
from dkernel.numerics.validation import RowDescriber


def read_schema(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """Shapes, types and chunks, from the file's directory."""
    tables = []
    for file in files:
        with _open(file) as opened:
            tables.append(table_of_members(file, _members(file, opened), request.exclude))
    return tables


def read_part(file: File, part: FilePart, columns: ReadColumns, _: RowDescriber) -> UncheckedBlock:
    """The rows of one part."""
    with _open(file) as opened:

        def fetch(key: str, first: int, stop: int) -> NDArray[Any]:
            return np.asarray(opened[key][first:stop])

        return raw_of_members(part, columns, fetch)


@contextmanager
def _open(file: File) -> Iterator[Any]:
    with explain_damage(file.name, "the file is truncated, damaged or no HDF5", KeyError), ExitStack() as stack:
        opened = file.path if file.local else stack.enter_context(file.open())
        yield stack.enter_context(h5py.File(opened, "r"))


def _members(file: File, opened: Any) -> list[Member]:
    members: list[Member] = []

    def visit(name: str, item: Any) -> None:
        if "pandas_type" in item.attrs:
            raise DataError(
                f"{file.name}: {name!r} is a table in the form of PyTables, which pandas alone reads. Write it as "
                f"Parquet: pandas.read_hdf({file.name!r}, {name!r}).to_parquet('rows.parquet')."
            )
        if isinstance(item, h5py.Dataset) and item.shape:
            text = h5py.check_string_dtype(item.dtype) is not None
            members.append(member(name, item.shape, "T" if text else item.dtype, item.chunks, item.attrs))

    opened.visititems(visit)
    return members
