"""Rows that are left out instead of ending the run: their numbers and reasons, written to a file and reported."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from dkernel.data.block import Block, UncheckedBlock, cut_blocks
from dkernel.data.file_schema import ReadColumns
from dkernel.data.readers.text_rows import Lines
from dkernel.errors import DataError
from dkernel.numerics.rows import first_not_finite
from dkernel.numerics.validation import RowDescriber

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

    The numbers of `raw` need not be finite yet. `lines` are those of the unit, where it is text.
    """

    raw: UncheckedBlock
    rows: NDArray[np.int64]
    refused: Mapping[int, RejectedRow]
    lines: Lines | None = None


def cut_good_rows(
    valid: FilteredRows,
    rows: tuple[int, ...],
    columns: ReadColumns,
    describe: RowDescriber,
    where: tuple[str, int],
    excluded: Sequence[int],
    reason: str,
) -> tuple[Block, ...]:
    """The checked blocks of the good rows, with the list of the bad ones.

    Parameters
    ----------
    rows : of the chunks of the whole unit; those of the blocks are fewer
    where : name of the file, and how many of its rows are before the unit
    excluded : good rows, by their numbers among these, that are bad for another reason, `reason`
    """
    if len(valid.rows) + len(valid.refused) != sum(rows) or len(valid.raw.X) != len(valid.rows):
        raise DataError(
            f"{describe(0)}: {len(valid.rows) + len(valid.refused)} rows were read where {sum(rows)} were counted: the "
            "file changed or is damaged."
        )
    infinite = not_finite(valid.raw.X, columns, columns.inputs)
    finite = [i for i in range(len(valid.rows)) if i not in infinite] if excluded else []
    infinite |= {finite[i]: _largest(valid.raw.X, finite[i], reason, columns) for i in excluded}
    refused = {**valid.refused, **{int(valid.rows[i]): refusal for i, refusal in infinite.items()}}
    good = np.ones(len(valid.rows), bool)
    good[list(infinite)] = False
    raw = valid.raw.take(good)
    blocks = cut_blocks(raw, _shares(rows, len(raw.X)), columns.layout, describe)
    return (replace(blocks[0], refused=list_rejected(valid.lines, where, refused)), *blocks[1:])


def not_finite(X: Any, columns: ReadColumns, names: Sequence[str], filled: bool = False) -> dict[int, RejectedRow]:
    """The rows with a number that is not finite or too large for the blocks; NaN is allowed if it is `filled`."""
    cells = first_not_finite(X, columns.dtype, missing=filled)
    return {row: _refusal(value, names[column], columns) for row, column, value in cells}


def _largest(X: Any, row: int, reason: str, columns: ReadColumns) -> RejectedRow:
    """The refusal of a row as a whole; of a dense row of numbers it names the largest of them."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "iuf":
        return RejectedRow("", reason)
    column = int(np.abs(X[row].astype(np.float64)).argmax())
    return RejectedRow(columns.inputs[column], reason, str(X[row, column]))


def _refusal(value: Any, name: str, columns: ReadColumns) -> RejectedRow:
    reason = f"{value} is too large for {columns.dtype}" if np.isfinite(value) else f"{value} is not finite"
    return RejectedRow(name, reason, str(value))


def _shares(rows: Sequence[int], good: int) -> tuple[int, ...]:
    """The chunks filled from the front with the rows that are left; one chunk at least, even an empty one."""
    shares = []
    for n in rows:
        shares.append(min(n, good))
        good -= shares[-1]
    return tuple(n for n in shares if n) or (0,)


def list_rejected(lines: Lines | None, where: tuple[str, int], refused: Mapping[int, RejectedRow]) -> pa.Table:
    """The list of the rejected rows of a unit, by their numbers in it.

    Parameters
    ----------
    lines : of the unit, where it is text
    where : name of the file, and how many of its rows are before the unit
    """
    listed = [_describe(lines, where, row, refused[row]) for row in sorted(refused)]
    return pa.table(list(zip(*listed, strict=True)), schema=REJECTS) if listed else REJECTS.empty_table()


def _describe(lines: Lines | None, where: tuple[str, int], row: int, refusal: RejectedRow) -> tuple[Any, ...]:
    # The name of a file as text; bytes that are not text are escaped.
    name, first = where[0].encode("utf-8", "backslashreplace").decode(), where[1]
    if lines is None:
        return name, first + row + 1, None, refusal.column, refusal.reason, refusal.raw
    raw = lines.text(row).decode("utf-8", "backslashreplace")
    offset = lines.offset + int(lines.starts[row])
    return name, lines.number(row), offset, refusal.column, refusal.reason, raw


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


def describe_rejected(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rejected rows, as `to_csv` wrote them, in words.

    Examples
    --------
    >>> rows = [("a.csv", "7", "120", "x", "'?' is not a number", "?,1"), ("b.npy", "3", "", "0", "nan", "nan")]
    >>> describe_rejected(rows)
    ["a.csv, line 7, column 'x': '?' is not a number", "b.npy, row 3, column '0': nan"]
    """
    return [
        f"{file}, {'line' if offset else 'row'} {line}" + (f", column {column!r}" if column else "") + f": {reason}"
        for file, line, offset, column, reason, _ in rows
    ]
