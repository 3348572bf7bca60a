"""Finds the bad rows of data with a label before the fit, so that all chunks of the fit have known sizes."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dkernel.data.block import chunk_limit
from dkernel.data.encoded_columns import AT_ONCE
from dkernel.data.file_parts import filter_part, read_file_part
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions, divide
from dkernel.data.paths import File
from dkernel.data.rejected_rows import (
    REJECTS,
    SHOWN_ROWS,
    describe_bad_rows,
    find_bad_values,
    rows_of_csv,
    to_csv,
)
from dkernel.errors import DataError, DKernelWarning


def without_bad_rows(
    tables: Sequence[FileSchema], columns: ReadColumns, request: ReadOptions
) -> tuple[list[FileSchema], pa.Table]:
    """The tables without their bad rows, and the list of these; a DataError where there are more than are allowed."""
    columns = _to_look_at(columns, request)
    tasks, owners = [], []
    for number, table in enumerate(tables):
        for part, _ in divide(table, chunk_limit(len(columns.features), 8)):
            tasks.append(table.file.task(list_bad_rows, part, columns, request.classes))
            owners.append(number)
    rows: list[list[int]] = [[] for _ in tables]
    lists = [REJECTS.empty_table()]
    for first in range(0, len(tasks), AT_ONCE):
        results = request.compute(*tasks[first : first + AT_ONCE])
        for number, (bad, listed) in zip(owners[first : first + AT_ONCE], results, strict=True):
            rows[number] += bad
            lists.append(listed)
        _check(pa.concat_tables(lists), request.max_bad_rows)
    good = [replace(table, left_out=tuple(bad)) for table, bad in zip(tables, rows, strict=True)]
    rejected = pa.concat_tables(lists)
    if len(rejected) == sum(table.rows for table in tables):
        raise DataError(_describe(rejected, "every row is bad"))
    if len(rejected):
        warnings.warn(_describe(rejected, "left out"), DKernelWarning, stacklevel=3)
    return good, rejected


def _to_look_at(columns: ReadColumns, request: ReadOptions) -> ReadColumns:
    """The columns as they are read to look for bad rows: a missing value is allowed where an encoding may fill it."""
    dtype = "float32" if columns.dtype == "auto" else columns.dtype
    columns = replace(columns, dtype=dtype, strict=request.missing == "error")
    if request.encoding is not None:
        return replace(columns, encoding=request.encoding if columns.encoded else None)
    plain = columns.encoded is None and not columns.objects and isinstance(columns.features, tuple)
    if plain and not columns.strict:
        return replace(columns, encoded=dict.fromkeys(columns.features, "number"))
    return columns


def _check(rejected: pa.Table, allowed: int) -> None:
    if len(rejected) > allowed:
        why = f"and max_bad_rows={allowed} allows no more"
        raise DataError(_describe(rejected, why, "Correct or remove these rows, or allow more."))


def _describe(rejected: pa.Table, why: str, advice: str = "") -> str:
    return describe_bad_rows(rows_of_csv(to_csv(rejected.slice(0, SHOWN_ROWS))), len(rejected), why, advice)


def list_bad_rows(
    file: File, part: FilePart, columns: ReadColumns, classes: Sequence[Any] | None
) -> tuple[list[int], pa.Table]:
    """The numbers in the file of the bad rows of one part, and the list of them; runs on a worker.

    Parameters
    ----------
    classes : of a model that the rows are for; None where any label is good
    """
    file.check()
    try:
        if not find_bad_values(read_file_part(file, part, columns), columns, classes):
            return [], REJECTS.empty_table()
    except DataError:
        pass  # read again, row by row
    filtered = filter_part(file, part, columns, classes)
    numbers = [part.first_row + row for row in sorted(filtered.refused)]
    return numbers, filtered.list_rejected(file.name, part.first_row)
