"""Reads one part of a file on a worker: its rows without the rejected ones, their counts, their blocks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from dkernel.data.block import Block, UncheckedBlock, as_whole_label, cut_blocks
from dkernel.data.encoding import TableCounts
from dkernel.data.encoding.label_means import has_weight, n_copies
from dkernel.data.file_schema import FilePart, ReadColumns
from dkernel.data.paths import File
from dkernel.data.readers.folder_keys import parse_keys, with_keys, without_keys
from dkernel.data.rejected_rows import FilteredRows, cut_good_rows
from dkernel.errors import DataError, UnsupportedError
from dkernel.numerics.validation import RowDescriber

_OF_FORMATS = ("zarr", "h5py")  # packages that few need


def format_module(name: str) -> Any:
    """The module that reads a format; a DKernelError where a package that it needs is not installed."""
    try:
        return import_module(f"dkernel.data.readers.{name}")
    except ModuleNotFoundError as error:
        if error.name not in _OF_FORMATS:
            raise
        raise UnsupportedError(
            f"Reading {name} files needs the package {error.name}, which is missing: pip install {error.name}."
        ) from None


def count_part(file: File, part: FilePart, columns: ReadColumns) -> TableCounts:
    """The counts of the features in one part; runs on a worker."""
    file.check()
    rows = read_file_part(file, part, columns, partial(describe_file_row, file.name, part.first_row))
    return TableCounts.of(rows.X, columns.encoded or {}, rows.label, rows.weight, part.number)


def count_weights(
    file: File, part: FilePart, columns: ReadColumns, steps: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The rows of positive weight, and the copies, in each step of one part; runs on a worker.

    Parameters
    ----------
    steps : rows of each step
    """
    file.check()
    alone = replace(columns, features=(str(columns.weight),), label=None, weight=None, kept=(), encoded=None)
    weights = read_file_part(
        file, part, replace(alone, dtype="float64"), partial(describe_file_row, file.name, part.first_row)
    )
    rows = np.delete(np.arange(part.rows), part.without)
    each = np.split(weights.X[:, 0], np.searchsorted(rows, np.cumsum(steps)[:-1]))
    return tuple((int(np.count_nonzero(has_weight(some))), n_copies(some)) for some in each)


def read_unit(
    file: File,
    part: FilePart,
    columns: ReadColumns,
    rows: tuple[int, ...],
    excluded: Sequence[int] = (),
    reason: str = "",
) -> tuple[Block, ...]:
    """The blocks of one unit, checked; runs on a worker.

    Read again with `excluded`, the numbers of some rows of the blocks, they are without these, for this `reason`.
    """
    file.check()
    describe = partial(describe_file_row, file.name, part.first_row)
    first = None if columns.label is None else part.number
    try:
        try:
            if excluded:
                raise DataError(reason)
            raw = read_file_part(file, part, columns, describe).encode(columns.encoding, columns.dtype, first)
            describe_remaining = _describe_remaining(describe, part)
            blocks = cut_blocks(raw, rows, columns.layout, describe_remaining, columns.label, columns.weight)
        except DataError:
            if not (columns.quarantine or excluded):
                raise
            valid = valid_rows(file, part, columns, describe)
            valid = replace(valid, raw=valid.raw.encode(columns.encoding, columns.dtype, first))
            blocks = cut_good_rows(valid, rows, columns, describe, (file.name, part.first_row), excluded, reason)
    except FileNotFoundError as error:
        raise file.error_of_missing(error) from None
    if file.local:
        file.check()  # it may have changed while it was read
    return blocks


def read_file_part(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> UncheckedBlock:
    """The rows of one part that are not left out, with the columns that the names of the file's folders hold."""
    if part.without:
        valid = valid_rows(file, part, columns, describe)
        raw = valid.raw.take(~np.isin(valid.rows, part.without))
    else:
        raw = format_module(file.format).read_part(file, part, without_keys(columns), describe)
        raw = _with_kept_types(with_keys(raw, parse_keys(file.name), columns, file.name), columns, file.name)
    if columns.label is None or raw.label is None or columns.kinds[columns.label] != "whole":
        return raw
    return replace(raw, label=as_whole_label(raw.label, _describe_remaining(describe, part), columns.label))


def valid_rows(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> FilteredRows:
    """The rows of one part that can be read, and why the others cannot."""
    reader, in_file = format_module(file.format), without_keys(columns)
    valid: FilteredRows
    if hasattr(reader, "read_valid"):
        valid = reader.read_valid(file, part, in_file, describe)
    else:  # arrays: whether their numbers are finite is seen later
        valid = FilteredRows(reader.read_part(file, part, in_file, describe), np.arange(part.rows), {})
    raw = with_keys(valid.raw, parse_keys(file.name), columns, file.name)
    return replace(valid, raw=_with_kept_types(raw, columns, file.name))


def _with_kept_types(raw: UncheckedBlock, columns: ReadColumns, name: str) -> UncheckedBlock:
    """The rows with the kept columns in the one type that they have in the parts of all files."""
    if raw.kept is None or not columns.kept_types:
        return raw
    table = raw.kept
    for number, field in enumerate(table.schema):
        kind = columns.kept_types.get(field.name, field.type)
        try:
            table = table.set_column(number, field.with_type(kind), table.column(number).cast(kind))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{name}: the kept column {field.name!r} is of type {field.type}, and not all of its values have an "
                f"equal one of type {kind}, as other files need it ({error}). Convert it, or leave it out."
            ) from None
    return replace(raw, kept=table)


def _describe_remaining(describe: RowDescriber, part: FilePart) -> RowDescriber:
    """Describe a row by its number among those that are not left out."""
    if not part.without:
        return describe
    rows = np.delete(np.arange(part.rows), part.without)
    return lambda row: describe(int(rows[row]))


def describe_file_row(name: str, first_row: int, row: int) -> str:
    """The name of a row in messages."""
    return f"{name}, row {first_row + row + 1}"
