"""Bad rows of CSV: found exactly, by reading again, slowly, the range in which the fast reader met one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from dkernel.data.file_schema import FilePart, ReadColumns
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import raw_of_table
from dkernel.data.readers.csv_categories import no_dates, with_types
from dkernel.data.readers.csv_fields import NULLS, Fields, Header, parse_rows, split_fields, type_of
from dkernel.data.readers.csv_kept_columns import kept_columns
from dkernel.data.rejected_rows import FilteredRows, RejectedRow
from dkernel.errors import DataError
from dkernel.validation import RowPlace

MISSING_VALUE = "the value is missing"
# Text that pyarrow surely reads as a number; other text is tried.
_PLAIN_NUMBER = r"^-?[0-9]{1,100}(\.[0-9]{1,100})?([eE][-+]?[0-9]{1,2})?$"


def read_valid(file: File, part: FilePart, wanted: ReadColumns, place: RowPlace) -> FilteredRows:
    """The good rows of one byte range, and the reasons of the others."""
    data, header = file.read(*part.marks), part.extra
    fields = split_fields(data, header.delimiter, part.marks[0], part.line)
    refused: dict[int, RejectedRow] = {}
    n = len(header.names)
    for row in np.flatnonzero(fields.widths != n).tolist():
        refused[row] = RejectedRow("", f"{fields.widths[row]} values where the header has {n}")
    rows = np.flatnonzero(fields.widths == n)
    table = _parse(file, fields, rows, header, dict.fromkeys(wanted.names, pa.binary()))
    bad = np.zeros(len(rows), bool)
    for name in wanted.names:
        kind = type_of(name, wanted)
        column = table.column(name)
        if name in (*wanted.columns, wanted.label, wanted.weight) and kind != pa.string():
            reasons = _no_numbers(column, kind, wanted.fills and name in wanted.columns)
        elif wanted.is_date(name):
            reasons = no_dates(column)
        else:
            reasons = _no_text(column) | (_empty(column) if name == wanted.label else {})
        for i, reason in reasons.items():
            refused.setdefault(int(rows[i]), RejectedRow(name, reason))
            bad[i] = True
    rows = rows[~bad]
    types = {name: type_of(name, wanted) for name in wanted.names}
    table = _parse(file, fields, rows, header, types)
    read = with_types(table, wanted, place)
    raw = replace(raw_of_table(read, wanted, place), kept=kept_columns(_join(fields, rows), table, header, wanted))
    return FilteredRows(raw, rows, refused, fields.rows)


def well_formed_rows(data: bytes, header: Header) -> bytes:
    """The rows that are UTF-8 and have as many values as the header."""
    fields = split_fields(data, header.delimiter)
    good = fields.widths == len(header.names)
    if not _is_utf8(data):
        good &= [_is_utf8(fields.rows.text(row)) for row in range(len(good))]
    return data if good.all() else _join(fields, np.flatnonzero(good))


def _join(fields: Fields, rows: NDArray[np.int64]) -> bytes:
    return b"".join(fields.rows.text(row) + b"\n" for row in rows.tolist())


def _parse(
    file: File, fields: Fields, rows: NDArray[np.int64], header: Header, types: dict[str, pa.DataType]
) -> pa.Table:
    if not len(rows):
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    try:
        table = parse_rows(_join(fields, rows), header, list(types), types)
    except pa.ArrowInvalid as error:
        raise DataError(f"{file.name}: the text cannot be read as CSV ({error}).") from None
    if len(table) != len(rows):
        raise DataError(
            f"{file.name}, from line {fields.rows.number(0)} on: {len(table)} rows were read where {len(rows)} were "
            "counted: the quotes do not stand where CSV has them."
        )
    return table


def _no_numbers(column: pa.ChunkedArray, kind: pa.DataType, fills: bool) -> dict[int, str]:
    """The rows whose text gives no value of this type, with the reason."""
    coded = column.combine_chunks().dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    words = coded.dictionary.to_pylist()
    sure = np.zeros(len(words), bool)
    if kind == pa.float64() and words:
        sure = pc.match_substring_regex(coded.dictionary, _PLAIN_NUMBER).to_numpy(zero_copy_only=False)
    verdicts = {code: _verdict(words[code], kind) for code in np.flatnonzero(~sure).tolist()}
    wrong = {code: reason for code, reason in verdicts.items() if reason and not (fills and reason == MISSING_VALUE)}
    indices = coded.indices.to_numpy(zero_copy_only=False)
    return {row: wrong[int(indices[row])] for row in np.flatnonzero(np.isin(indices, list(wrong))).tolist()}


def _verdict(word: bytes, kind: pa.DataType) -> str:
    """The reason why pyarrow.csv does not read the word as a value of this type; nothing if it does."""
    quoted = b'"' + word.replace(b'"', b'""') + b'"\n'
    options: Any = {
        "read_options": arrow_csv.ReadOptions(column_names=["x"], block_size=len(quoted) + 64, use_threads=False),
        "parse_options": arrow_csv.ParseOptions(newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(column_types={"x": kind}, null_values=NULLS),
    }
    try:
        missing = arrow_csv.read_csv(pa.BufferReader(quoted), **options).column("x").null_count
    except pa.ArrowInvalid:
        what = {pa.float64(): "a number", pa.int64(): "a whole number"}.get(kind, "true or false")
        return f"{_show(word)} is not {what}"
    return MISSING_VALUE if missing else ""


def _no_text(column: pa.ChunkedArray) -> dict[int, str]:
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return {i: "the text is not UTF-8" for i, word in enumerate(column.to_pylist()) if not _is_utf8(word)}
    return {}


def _empty(column: pa.ChunkedArray) -> dict[int, str]:
    return dict.fromkeys(pc.indices_nonzero(pc.equal(column, b"")).to_pylist(), "the label is missing")


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _show(word: bytes) -> str:
    text = word.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 60 else text[:60] + "...")
