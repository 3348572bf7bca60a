"""Reads one part of a file on a worker: its rows without the rejected ones, their counts, their blocks."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from dkernel.data.block import Block, UncheckedBlock, as_whole_label, cut_blocks
from dkernel.data.encoding import TableCounts
from dkernel.data.file_schema import FilePart, ReadColumns
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import read_texts
from dkernel.data.readers.folder_keys import parse_keys, with_keys, without_keys
from dkernel.data.rejected_rows import FilteredRows, RejectedRow, find_bad_values, find_largest
from dkernel.errors import DataError, UnsupportedError
from dkernel.leaf_table import LEAF_OF_FORMAT, load_leaf
from dkernel.numerics.validation import RowDescriber

_OF_FORMATS = ("zarr", "h5py")  # packages that few need


def format_module(name: str) -> Any:
    """The module that reads a format; a DKernelError where a package that it needs is not installed."""
    try:
        if name in LEAF_OF_FORMAT:
            return load_leaf(LEAF_OF_FORMAT[name], name, f"Reading {name} files")
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
    rows = read_file_part(file, part, columns)
    return TableCounts.of(rows.X, columns.encoded or {}, rows.label, rows.weight, part.number)


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
    describe = _describe_rows(file, part)
    first = None if columns.label is None else part.number
    try:
        try:
            if excluded:
                raise DataError(reason)
            raw = read_file_part(file, part, columns).encode(columns.encoding, columns.dtype, first)
            blocks = cut_blocks(raw, rows, columns.layout, describe, columns.label, columns.weight)
        except DataError:
            if not (columns.quarantine or excluded):
                raise
            filtered = filter_part(file, part, columns)
            raw = filtered.raw.encode(columns.encoding, columns.dtype, first)
            bad = {row: find_largest(raw.X, row, reason, columns) for row in excluded}
            filtered = replace(filtered, raw=raw).without(bad)
            blocks = cut_blocks(filtered.raw, _shares(rows, len(filtered.rows)), columns.layout, describe)
            listed = filtered.list_rejected(file.name, part.first_row)
            blocks = (replace(blocks[0], refused=listed), *blocks[1:])
    except FileNotFoundError as error:
        raise file.error_of_missing(error) from None
    if file.local:
        file.check()  # it may have changed while it was read
    return blocks


def _shares(rows: Sequence[int], good: int) -> tuple[int, ...]:
    """The chunks filled from the front with the rows that are left; one chunk at least, even an empty one."""
    shares = []
    for n in rows:
        shares.append(min(n, good))
        good -= shares[-1]
    return tuple(n for n in shares if n) or (0,)


def read_file_part(file: File, part: FilePart, columns: ReadColumns) -> UncheckedBlock:
    """The rows of one part that are not left out, with the columns that the names of the file's folders hold."""
    raw = _read_rows(file, part, columns)
    if columns.label is None or raw.label is None or columns.kinds[columns.label] != "whole":
        return raw
    return replace(raw, label=as_whole_label(raw.label, _describe_rows(file, part), columns.label))


def _read_rows(file: File, part: FilePart, columns: ReadColumns) -> UncheckedBlock:
    """The same, with a label that may be no whole number where other files have these."""
    reader = format_module(file.format)
    raw = reader.read_part(file, part, without_keys(columns), _describe_rows(file, part))
    if not hasattr(reader, "find_bad_rows"):  # arrays, which are read as a whole and have no texts of their own
        if part.without:
            raw = raw.take(~np.isin(np.arange(part.rows), part.without))
        if isinstance(raw.X, pa.Table):
            raw = replace(raw, X=read_texts(raw.X, without_keys(columns), _describe_rows(file, part)))
    raw = with_keys(raw, parse_keys(file.name), columns, file.name)
    return _with_kept_types(raw, columns, file.name)


def filter_part(file: File, part: FilePart, columns: ReadColumns, classes: Sequence[Any] | None = None) -> FilteredRows:
    """The rows of one part that a fit or a score can use, and why it cannot use the others.

    Parameters
    ----------
    classes : of a model that the rows are for; None where any label is good
    """
    reader, refused, lines = format_module(file.format), dict[int, RejectedRow](), None
    if hasattr(reader, "find_bad_rows"):  # of arrays every row can be read
        refused, lines = reader.find_bad_rows(file, part, without_keys(columns))
    raw = _read_rows(file, replace(part, without=tuple(sorted(refused))), columns)
    rows = np.setdiff1d(np.arange(part.rows), list(refused))
    if len(raw.X) != len(rows):
        raise DataError(
            f"{_describe_rows(file, part)(0)}: {len(raw.X) + len(refused)} rows were read where {part.rows} were "
            "counted: the file changed or is damaged."
        )
    return FilteredRows(raw, rows, refused, lines).without(find_bad_values(raw, columns, classes))


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


def _describe_rows(file: File, part: FilePart) -> RowDescriber:
    """What says where a row of a part stands, by its number among those that are not left out."""
    describe = file.describe_rows(part.first_row)
    if not part.without:
        return describe
    rows = np.setdiff1d(np.arange(part.rows), part.without)
    return lambda row: describe(int(rows[row]))
