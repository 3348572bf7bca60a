"""Columns of CSV text that an encoding takes: categories with their missing values, and dates."""

import pyarrow as pa
import pyarrow.compute as pc

from dkernel.data.file_schema import ReadColumns
from dkernel.data.readers.csv_fields import NULLS
from dkernel.errors import DataError
from dkernel.validation import RowPlace

NULL_VALUES = pa.array(NULLS)
DATES = ("", pa.timestamp("us")), ("", pa.timestamp("us", "UTC")), ("1970-01-01 ", pa.timestamp("us"))
"""What stands before the text, and the type that it is read as: Arrow reads dates of text, and times with a date."""


def with_types(table: pa.Table, wanted: ReadColumns, place: RowPlace) -> pa.Table:
    """The table with nulls where categories are missing, and with dates in place of their texts."""
    for j, name in enumerate(table.column_names):
        if not (wanted.is_category(name) or wanted.is_date(name)):
            continue
        column = table.column(name)
        column = pc.if_else(pc.is_in(column, NULL_VALUES), pa.scalar(None, pa.string()), column)
        if wanted.is_date(name):
            column = _dates(column, name, place)
        table = table.set_column(j, name, column)
    return table


def _dates(column: pa.ChunkedArray, name: str, place: RowPlace) -> pa.ChunkedArray:
    for before, kind in DATES:
        try:
            return pc.binary_join_element_wise(before, column, "").cast(kind)
        except pa.ArrowInvalid:
            continue
    row, reason = min(no_dates(column).items())
    raise DataError(f"{place(row)}, column {name!r}: {reason}, and the column's other values are dates or times.")


def no_dates(column: pa.ChunkedArray) -> dict[int, str]:
    """The rows whose text is no date or time, with the reason; a missing value is none of them."""
    words = column.cast(pa.string()).to_pylist()
    absent = set(NULL_VALUES.to_pylist())
    distinct = {word for word in words if word is not None and word not in absent}
    fits = {form: {word for word in distinct if _is(word, *form)} for form in DATES}
    best = max(DATES, key=lambda form: len(fits[form]))
    wrong = distinct - fits[best]
    return {row: f"{word[:60]!r} is not a date or time" for row, word in enumerate(words) if word in wrong}


def _is(word: str, before: str, kind: pa.DataType) -> bool:
    try:
        pa.array([before + word]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
