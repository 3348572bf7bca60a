"""Rows that are left out instead of ending the run: their numbers and reasons, written to a file and reported."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from dkernel.data.arrow import column_numbers
from dkernel.data.block import UncheckedBlock, are_whole, valid_weights
from dkernel.data.column_types import FLOAT, are_numbers, type_of_dtype
from dkernel.data.file_schema import ReadColumns
from dkernel.data.readers.text_rows import Lines
from dkernel.numerics.rows import first_not_finite

SHOWN_ROWS = 10  # bad rows that a message lists
REJECTS = pa.schema(
    [
        ("file", pa.string()),
        ("line", pa.int64()),
        ("offset", pa.int64()),
        ("column", pa.string()),
        ("reason", pa.string()),
        ("raw", pa.string()),
    ]
)
"""Of a text: the line (from 1) and the byte on which the row begins, and the row. Else: the row, and the value."""


@dataclass(frozen=True)
class RejectedRow:
    """The reason why a row is left out; `raw` is the value where there is no text of the row."""

    column: str
    reason: str
    raw: str = ""


@dataclass(frozen=True)
class FilteredRows:
    """Rows of a unit with bad rows: `raw` holds the rows `rows` of the unit, `refused` the others.

    `lines` are those of the unit, where it is text.
    """

    raw: UncheckedBlock
    rows: NDArray[np.int64]
    refused: Mapping[int, RejectedRow]
    lines: Lines | None = None

    def without(self, bad: Mapping[int, RejectedRow]) -> "FilteredRows":
        """These without some more, by their numbers among the rows of `raw`."""
        good = np.ones(len(self.rows), bool)
        good[list(bad)] = False
        refused = {**self.refused, **{int(self.rows[i]): why for i, why in bad.items()}}
        return replace(self, raw=self.raw.take(good), rows=self.rows[good], refused=refused)

    def list_rejected(self, name: str, first_row: int) -> pa.Table:
        """The list of the others; `name` is that of the file, which has `first_row` rows before the unit."""
        # The name of a file as text; bytes that are not text are escaped.
        name, lines, listed = name.encode("utf-8", "backslashreplace").decode(), self.lines, []
        for row, why in sorted(self.refused.items()):
            line, offset, raw = first_row + row + 1, None, why.raw
            if lines is not None:
                line, offset = lines.number(row), lines.offset + int(lines.starts[row])
                raw = lines.text(row).decode("utf-8", "backslashreplace")
            listed.append(dict(zip(REJECTS.names, (name, line, offset, why.column, why.reason, raw), strict=True)))
        return pa.Table.from_pylist(listed, REJECTS)


def find_bad_values(
    raw: UncheckedBlock, columns: ReadColumns, classes: Sequence[Any] | None = None
) -> dict[int, RejectedRow]:
    """The rows with a number that no fit and no score can use, or a label that is no class, the first in each.

    Parameters
    ----------
    classes : of a model that the rows are for; None where any label is good
    """
    refused: dict[int, RejectedRow] = {}
    if classes and raw.label is not None and (raw.label.dtype.kind == "U") == isinstance(classes[0], str):
        for row in np.flatnonzero(~np.isin(raw.label, list(classes))).tolist():
            label = raw.label[row].item()
            refused[row] = RejectedRow(
                str(columns.label), f"no row of the training had the label {label!r}", str(label)
            )
    if raw.weight is not None and are_numbers(raw.weight.dtype):
        weight = raw.weight.astype(np.float64)
        refused |= _refuse(~valid_weights(weight), weight, str(columns.weight), "weight")
    if raw.label is not None and type_of_dtype(raw.label.dtype) == FLOAT:
        bad = ~np.isfinite(raw.label)
        if columns.kinds[str(columns.label)] == "whole":
            bad |= ~are_whole(raw.label)
        refused |= _refuse(bad, raw.label, str(columns.label), "label")
    if not isinstance(raw.X, pa.Table):
        return refused | _refuse_not_finite(raw.X, columns, columns.features)
    for name in reversed(raw.X.column_names):
        if not columns.is_category(name):
            refused |= _refuse_not_finite(column_numbers(raw.X.column(name))[:, None], columns, (name,))
    return refused


def _refuse(bad: NDArray[np.bool_], values: NDArray[Any], name: str, what: str) -> dict[int, RejectedRow]:
    return {
        row: RejectedRow(name, f"the {what} is {'missing' if np.isnan(values[row]) else values[row]}", str(values[row]))
        for row in np.flatnonzero(bad).tolist()
    }


def _refuse_not_finite(X: Any, columns: ReadColumns, names: Sequence[str]) -> dict[int, RejectedRow]:
    """The rows with a number that is not finite or too large for the blocks; NaN is allowed where it is filled."""
    refused = {}
    for row, column, value in first_not_finite(X, columns.dtype, missing=columns.fills):
        reason = f"{value} is too large for {columns.dtype}" if np.isfinite(value) else f"{value} is not finite"
        refused[row] = RejectedRow(names[column], reason, str(value))
    return refused


def find_largest(X: Any, row: int, reason: str, columns: ReadColumns) -> RejectedRow:
    """The refusal of a row as a whole; of a dense row of numbers it names the largest of them."""
    if not isinstance(X, np.ndarray) or not are_numbers(X.dtype):
        return RejectedRow("", reason)
    column = int(np.abs(X[row].astype(np.float64)).argmax())
    return RejectedRow(columns.inputs[column], reason, str(X[row, column]))


def to_csv(table: pa.Table | None) -> bytes:
    """Rejected rows as CSV, without the header; the header alone for None.

    Examples
    --------
    >>> to_csv(None).decode().strip()
    'file,line,offset,column,reason,raw'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([REJECTS.names] if table is None else zip(*table.to_pydict().values(), strict=True))
    return text.getvalue().encode()


def csv_of_files(bad: Mapping[str, str]) -> bytes:
    """Files that were left out as CSV, in the columns of rejected rows.

    Examples
    --------
    >>> csv_of_files({"a.parquet": "a.parquet: it is truncated."}).decode().strip()
    'a.parquet,,,,a.parquet: it is truncated.,'
    """
    return to_csv(pa.table([list(bad), *[[None] * len(bad)] * 3, list(bad.values()), [""] * len(bad)], REJECTS.names))


def rows_of_csv(content: bytes) -> list[tuple[str, ...]]:
    """Text of `to_csv`, as rows.

    Examples
    --------
    >>> rows_of_csv(b'a.npy,3,,0,nan is not finite,nan\\n')
    [('a.npy', '3', '', '0', 'nan is not finite', 'nan')]
    """
    if not content:
        return []
    # Not the csv module, whose fields have a longest length that is set for the whole process.
    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        read_options=arrow_csv.ReadOptions(column_names=REJECTS.names, block_size=len(content) + 64, use_threads=False),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(REJECTS.names, pa.string())),
    )
    return list(zip(*table.to_pydict().values(), strict=True))


def describe_bad_rows(rows: Iterable[Sequence[str]], n: int, why: str, advice: str = "") -> str:
    """n bad rows in words: why they are listed, the first of them, and of a refusal what to do; of one row one line.

    Examples
    --------
    >>> describe_bad_rows([("b.npy", "3", "", "0", "nan", "nan")], 1, "and none is allowed", "Correct it.")
    "b.npy, row 3, column '0': nan; and none is allowed. Correct it."
    >>> print(describe_bad_rows([("a.csv", "7", "120", "x", "'?' is not a number", "?,1")], 1, "left out"))
    1 bad row, left out:
      a.csv, line 7, column 'x': '?' is not a number
    """
    shown = [
        f"{file}, {'line' if offset else 'row'} {line}" + (f", column {column!r}" if column else "") + f": {reason}"
        for file, line, offset, column, reason, _ in islice(rows, SHOWN_ROWS)
    ]
    if n == 1 and advice:
        return f"{shown[0]}; {why}. {advice}"
    said = ("1 bad row" if n == 1 else f"{n:,} bad rows") + " so far" * bool(advice)
    first = f"; the first {SHOWN_ROWS}" if n > SHOWN_ROWS else ""
    return "\n".join([f"{said}, {why}{first}:", *(f"  {line}" for line in shown), *filter(None, [advice])])
