"""Finds the bad rows of data with a label before the fit, so that all chunks of the fit have known sizes."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock, are_whole, chunk_limit, valid_weights
from dkernel.data.encoded_columns import AT_ONCE
from dkernel.data.encoding.tables import column_numbers
from dkernel.data.file_parts import describe_file_row, read_file_part, valid_rows
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions, divide
from dkernel.data.paths import File
from dkernel.data.rejected_rows import (
    REJECTS,
    RejectedRow,
    describe_rejected,
    list_rejected,
    not_finite,
    rows_of_csv,
    to_csv,
)
from dkernel.errors import DataError, DKernelWarning

SHOWN_ROWS = 10  # bad rows that a message lists


def without_bad_rows(
    tables: Sequence[FileSchema], columns: ReadColumns, request: ReadOptions
) -> tuple[list[FileSchema], pa.Table]:
    """The tables without their bad rows, and the list of these; a DataError where there are more than are allowed."""
    columns = _to_look_at(columns, request)
    tasks, owners = [], []
    for number, table in enumerate(tables):
        for part, _ in divide(table, chunk_limit(len(columns.features), 8)):
            tasks.append(table.file.task(find_bad_rows, part, columns, request.classes))
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
    columns = replace(columns, dtype="float32" if columns.dtype == "auto" else columns.dtype)
    if request.encoding is not None:
        return replace(columns, encoding=request.encoding if columns.encoded else None)
    plain = columns.encoded is None and not columns.objects and isinstance(columns.features, tuple)
    if plain and request.missing != "error":
        return replace(columns, encoded=dict.fromkeys(columns.features, "number"))
    return columns


def _check(rejected: pa.Table, allowed: int) -> None:
    if len(rejected) > allowed:
        raise DataError(
            _describe(rejected, f"and --max-bad-rows (max_bad_rows) allows {allowed:,}")
            + "\nCorrect or remove these rows, or allow more."
        )


def _describe(rejected: pa.Table, what: str) -> str:
    shown = describe_rejected(rows_of_csv(to_csv(rejected.slice(0, SHOWN_ROWS))))
    first = f"; the first {SHOWN_ROWS}" if len(rejected) > SHOWN_ROWS else ""
    rows = "1 bad row" if len(rejected) == 1 else f"{len(rejected):,} bad rows"
    return "\n".join([f"{rows}, {what}{first}:", *(f"  {line}" for line in shown)])


def find_bad_rows(
    file: File, part: FilePart, columns: ReadColumns, classes: Sequence[Any] | None
) -> tuple[list[int], pa.Table]:
    """The numbers in the file of the bad rows of one part, and the list of them; runs on a worker.

    Parameters
    ----------
    classes : of a model that the rows are for; None where any label is good
    """
    file.check()
    describe = partial(describe_file_row, file.name, part.first_row)
    try:
        if not _bad_values(read_file_part(file, part, columns, describe), columns, classes):
            return [], REJECTS.empty_table()
    except DataError:
        pass  # read again, row by row
    valid = valid_rows(file, part, columns, describe)
    unusable = {int(valid.rows[i]): why for i, why in _bad_values(valid.raw, columns, classes).items()}
    refused = {**unusable, **valid.refused}
    where = file.name, part.first_row
    return [part.first_row + row for row in sorted(refused)], list_rejected(valid.lines, where, refused)


def _bad_values(raw: UncheckedBlock, columns: ReadColumns, classes: Sequence[Any] | None) -> dict[int, RejectedRow]:
    """The rows with a number that no fit can use, or a label that is no class, the first in each."""
    refused: dict[int, RejectedRow] = {}
    if classes and raw.label is not None and (raw.label.dtype.kind == "U") == isinstance(classes[0], str):
        for row in np.flatnonzero(~np.isin(raw.label, list(classes))).tolist():
            label = raw.label[row].item()
            refused[row] = RejectedRow(
                str(columns.label), f"no row of the training had the label {label!r}", str(label)
            )
    if raw.weight is not None and raw.weight.dtype.kind in "biuf":
        weight = raw.weight.astype(np.float64)
        refused |= _rows(~valid_weights(weight), weight, str(columns.weight), "weight")
    if raw.label is not None and raw.label.dtype.kind == "f":
        bad = ~np.isfinite(raw.label)
        if columns.kinds[str(columns.label)] == "whole":
            bad |= ~are_whole(raw.label)
        refused |= _rows(bad, raw.label, str(columns.label), "label")
    return refused | _bad_features(raw.X, columns)


def _rows(bad: NDArray[np.bool_], values: NDArray[Any], name: str, what: str) -> dict[int, RejectedRow]:
    return {
        row: RejectedRow(name, f"the {what} is {'missing' if np.isnan(values[row]) else values[row]}", str(values[row]))
        for row in np.flatnonzero(bad).tolist()
    }


def _bad_features(X: Any, columns: ReadColumns) -> dict[int, RejectedRow]:
    if not isinstance(X, pa.Table):
        return not_finite(X, columns, columns.features, filled=columns.fills)
    refused: dict[int, RejectedRow] = {}
    for name in reversed(X.column_names):
        if not columns.is_category(name):
            values = column_numbers(X.column(name))[:, None]
            refused |= not_finite(values, columns, (name,), filled=columns.fills)
    return refused
