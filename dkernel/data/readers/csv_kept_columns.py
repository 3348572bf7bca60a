"""The kept columns of CSV: the type that loses no character of them, or the characters themselves."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dkernel.data.file_schema import CSV_TEXT, ReadColumns
from dkernel.data.readers.csv_fields import Header, split_fields

_NUMBERS = ("int", "float", "digits")


def kept_kind(column: pa.ChunkedArray) -> str:
    """The kind that gives the same text again: '007' and '3.50' are digits, not numbers.

    Examples
    --------
    >>> [kept_kind(pa.chunked_array([t])) for t in (["1", "20"], ["1.5", "2.0"], ["3.50"], ["x"], [""])]
    ['int', 'float', 'digits', 'text', 'empty']
    """
    filled = column.filter(pc.not_equal(column, ""))
    if not len(filled):
        return "empty"
    try:
        if filled.cast(pa.int64()).cast(pa.string()).equals(filled):
            return "int"
    except pa.ArrowInvalid:
        pass
    try:
        numbers = filled.cast(pa.float64())
    except pa.ArrowInvalid:
        return "text"
    # Whole numbers have a point in most writers' texts (Python, pandas) and none in others' (Arrow).
    short = numbers.cast(pa.string())
    pointed = pc.if_else(
        pc.match_substring_regex(short, r"^-?[0-9]+$"), pc.binary_join_element_wise(short, "0", "."), short
    )
    if filled.equals(short) or filled.equals(pointed):
        return "float"
    return "digits" if pc.all(pc.is_finite(numbers)).as_py() else "text"


def wider(one: str, other: str) -> str:
    """The kind that holds both.

    Examples
    --------
    >>> wider("int", "float"), wider("digits", "int"), wider("int", "text"), wider("empty", "int")
    ('float', 'digits', 'text', 'int')
    """
    if one == other or other == "empty":
        return one
    if one == "empty":
        return other
    if one in _NUMBERS and other in _NUMBERS:
        return "digits" if "digits" in (one, other) else "float"
    return "text"


def kept_columns(data: bytes, table: pa.Table, header: Header, wanted: ReadColumns) -> pa.Table | None:
    """The kept columns of a range that was parsed as `table`; for CSV, as they stand in the file."""
    if not wanted.kept:
        return None
    if wanted.kept_as != "csv":
        return table.select(list(wanted.kept))
    fields = None
    columns: list[Any] = []
    for name in wanted.kept:
        if b'"' not in data and table.column(name).type == pa.string():
            column = table.column(name)
        else:
            fields = split_fields(data, header.delimiter) if fields is None else fields
            texts = fields.column(header.names.index(name), len(header.names))
            column = pa.array(texts, pa.binary()).cast(pa.string())
        columns.append(column if header.delimiter == "," else _between_commas(column))
    return pa.table(columns, pa.schema([pa.field(n, pa.string(), metadata=CSV_TEXT) for n in wanted.kept]))


def _between_commas(column: Any) -> Any:
    """Fields of a file with another delimiter: a bare comma needs quotes from now on."""
    bare = pc.and_(pc.match_substring(column, ","), pc.invert(pc.starts_with(column, '"')))
    doubled = pc.replace_substring(column, '"', '""')
    return pc.if_else(bare, pc.binary_join_element_wise('"', doubled, '"', ""), column)
