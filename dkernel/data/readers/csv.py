"""CSV: a part is a byte range that pyarrow.csv reads with fixed types; where it fails each row is looked at alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.file_schema import CSV_TEXT, FilePart, ReadColumns
from dkernel.data.paths import File
from dkernel.data.readers.arrow_tables import WITHOUT_THEM, code_texts, raw_of_table, with_columns
from dkernel.data.readers.csv_fields import (
    PLAIN_NUMBER,
    Fields,
    Header,
    explain_parse,
    is_utf8,
    parse_rows,
    read_types,
    split_fields,
)
from dkernel.data.readers.csv_schema import read_schema as read_schema
from dkernel.data.readers.text_dates import NULLS, no_dates, without_words
from dkernel.data.rejected_rows import FilteredRows, RejectedRow
from dkernel.errors import DataError, MissingLabelError
from dkernel.numerics.validation import RowDescriber

_MISSING_VALUE = "the value is missing"


def read_part(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> UncheckedBlock:
    """The rows of one byte range."""
    data, header, types = file.read(*part.marks), part.extra, read_types(columns)
    try:
        table = parse_rows(data, header, list(columns.names), types)
    except pa.ArrowInvalid as error:
        raise explain_parse(error, data, header, types, file, part.first_row) from None
    if columns.label is not None and types[columns.label] == pa.string():
        empty = pc.index(table.column(columns.label), "").as_py()
        if empty >= 0:
            raise MissingLabelError(
                f"{describe(empty)}, column {columns.label!r}: the label is missing. {WITHOUT_THEM}"
            )
    read = _with_nulls(table, columns)
    return replace(raw_of_table(read, columns, describe), kept=_kept_columns(data, table, header, columns))


def read_valid(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> FilteredRows:
    """The good rows of one byte range, and the reasons of the others."""
    data, header = file.read(*part.marks), part.extra
    fields = split_fields(data, header.delimiter, part.marks[0], part.line)
    refused: dict[int, RejectedRow] = {}
    n = len(header.names)
    for row in np.flatnonzero(fields.widths != n).tolist():
        refused[row] = RejectedRow("", f"{fields.widths[row]} values where the header has {n}")
    rows = np.flatnonzero(fields.widths == n)
    table = _parse(file, fields, rows, header, dict.fromkeys(columns.names, pa.binary()))
    bad, types, features = np.zeros(len(rows), bool), read_types(columns), frozenset(columns.features)
    for name, kind in types.items():
        column = table.column(name)
        if (name in features or name in (columns.label, columns.weight)) and kind != pa.string():
            reasons = _no_numbers(column, kind, header, columns.fills and name in features)
        elif columns.is_time(name):
            reasons = no_dates(column, columns.time_format(name))
        else:
            reasons = _no_text(column) | (_empty(column) if name == columns.label else {})
        for i, reason in reasons.items():
            refused.setdefault(int(rows[i]), RejectedRow(name, reason))
            bad[i] = True
    rows = rows[~bad]
    table = _parse(file, fields, rows, header, types)
    read = _with_nulls(table, columns)
    kept = _kept_columns(fields.rows.join(rows), table, header, columns)
    raw = replace(raw_of_table(read, columns, describe), kept=kept)
    return FilteredRows(raw, rows, refused, fields.rows)


def _parse(
    file: File, fields: Fields, rows: NDArray[np.int64], header: Header, types: dict[str, pa.DataType]
) -> pa.Table:
    if not len(rows):
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    try:
        table = parse_rows(fields.rows.join(rows), header, list(types), types)
    except pa.ArrowInvalid as error:
        raise DataError(f"{file.name}: the text cannot be read as CSV ({error}).") from None
    if len(table) != len(rows):
        raise DataError(
            f"{file.name}, from line {fields.rows.number(0)} on: {len(table)} rows were read where {len(rows)} were "
            "counted: the quotes do not stand where CSV has them."
        )
    return table


def _no_numbers(column: pa.ChunkedArray, kind: pa.DataType, header: Header, fills: bool) -> dict[int, str]:
    """The rows whose text gives no value of this type, with the reason."""
    if not len(column):
        return {}
    words, codes = code_texts(column)
    sure = np.zeros(len(words), bool)
    if kind == pa.float64() and header.decimal == ".":
        sure = pc.match_substring_regex(pa.array(words, pa.binary()), PLAIN_NUMBER).to_numpy(zero_copy_only=False)
    verdicts = {code: _verdict(words[code], kind, header.decimal) for code in np.flatnonzero(~sure).tolist()}
    wrong = {code: reason for code, reason in verdicts.items() if reason and not (fills and reason == _MISSING_VALUE)}
    return {row: wrong[int(codes[row])] for row in np.flatnonzero(np.isin(codes, list(wrong))).tolist()}


def _verdict(word: bytes, kind: pa.DataType, decimal: str) -> str:
    """The reason why pyarrow.csv does not read the word as a value of this type; nothing if it does."""
    quoted = b'"' + word.replace(b'"', b'""') + b'"\n'
    try:
        missing = parse_rows(quoted, Header(("x",), 0, ";", decimal=decimal), ["x"], {"x": kind}).column("x").null_count
    except pa.ArrowInvalid:
        what = {pa.float64(): "a number", pa.int64(): "a whole number"}.get(kind, "true or false")
        return f"{_show(word)} is not {what}"
    return _MISSING_VALUE if missing else ""


def _no_text(column: pa.ChunkedArray) -> dict[int, str]:
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        return {i: "the text is not UTF-8" for i, word in enumerate(column.to_pylist()) if not is_utf8(word)}
    return {}


def _empty(column: pa.ChunkedArray) -> dict[int, str]:
    return dict.fromkeys(pc.indices_nonzero(pc.equal(column, b"")).to_pylist(), "the label is missing")


def _show(word: bytes) -> str:
    text = word.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 60 else text[:60] + "...")


def _with_nulls(table: pa.Table, columns: ReadColumns) -> pa.Table:
    """The table with nulls where categories are missing."""
    categories = filter(columns.is_category, table.column_names)
    return with_columns(table, {name: without_words(table.column(name), NULLS) for name in categories})


def _kept_columns(data: bytes, table: pa.Table, header: Header, columns: ReadColumns) -> pa.Table | None:
    """The kept columns of a range that was parsed as `table`; for CSV, as they stand in the file."""
    if not columns.kept:
        return None
    if columns.kept_as != "csv":
        return table.select(list(columns.kept))
    fields = None
    arrays: list[Any] = []
    for name in columns.kept:
        if b'"' not in data and table.column(name).type == pa.string():
            column = table.column(name)
        else:
            fields = split_fields(data, header.delimiter) if fields is None else fields
            texts = fields.column(header.names.index(name), len(header.names))
            column = pa.array(texts, pa.binary()).cast(pa.string())
        arrays.append(column if header.delimiter == "," else _between_commas(column))
    return pa.table(arrays, pa.schema([pa.field(n, pa.string(), metadata=CSV_TEXT) for n in columns.kept]))


def _between_commas(column: Any) -> Any:
    """Fields of a file with another delimiter: a bare comma needs quotes from now on."""
    bare = pc.and_(pc.match_substring(column, ","), pc.invert(pc.starts_with(column, '"')))
    doubled = pc.replace_substring(column, '"', '""')
    return pc.if_else(bare, pc.binary_join_element_wise('"', doubled, '"', ""), column)
