"""The fields of CSV text: as typed columns by pyarrow.csv, and as the bytes between the delimiters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from dkernel.data.encoding.text_values import DECIMAL_COMMA, NumberForm, without_words
from dkernel.data.encoding.words import NULL_NUMBERS
from dkernel.data.file_schema import ReadColumns
from dkernel.data.readers.text_rows import Lines, outside_quotes, row_ends, row_starts, without_newlines
from dkernel.errors import DataError

TYPES = {
    "bool": pa.bool_(),
    "int": pa.int64(),
    "float": pa.float64(),
    "digits": pa.string(),
    "text": pa.string(),
    "empty": pa.float64(),
    "whole": pa.float64(),
    "date": pa.string(),
    "time": pa.string(),
}

_NUMBER_TYPES = (pa.int64(), pa.float64())
PLAIN_NUMBER = r"^-?[0-9]{1,100}(\.[0-9]{1,100})?([eE][-+]?[0-9]{1,2})?$"
"""Text that pyarrow surely reads as a number; other text is tried."""


@dataclass(frozen=True)
class Header:
    """The first row: the names of the columns, the byte where the data begin, the lines before it.

    Where there is none the columns have numbers. `forms` are of the columns whose numbers have other signs than 1234.5.
    """

    names: tuple[str, ...]
    start: int
    delimiter: str
    lines: int = 1
    numbered: bool = False
    forms: Mapping[str, NumberForm] = field(default_factory=dict)

    def to_plain(self, name: str, texts: Any) -> Any:
        """The texts of a column, of which numbers are as programs write them."""
        return pc.coalesce(self.forms[name].to_plain(texts), texts) if name in self.forms else texts


def read_types(columns: ReadColumns) -> dict[str, pa.DataType]:
    """The type that each column is read as."""
    objects, features, kept = frozenset(columns.objects), frozenset(columns.features), frozenset(columns.kept)

    def type_of(name: str) -> pa.DataType:
        kind = columns.kinds[name]
        if name in objects or columns.is_category(name) or columns.is_time(name):
            return pa.string()
        if name in features or name == columns.weight:
            return pa.bool_() if kind == "bool" else pa.float64()
        if name in kept and name != columns.label:
            if kind == "empty" or (columns.kept_as == "text" and kind != "int"):
                return pa.string()
            if kind == "digits" and columns.kept_as == "numbers":
                return pa.float64()
        return TYPES.get(kind, pa.null())  # of other kinds no text has a value

    return {name: type_of(name) for name in columns.names}


def parse_rows(data: bytes, header: Header, columns: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    """Columns of whole rows of text; what does not fit is pyarrow's ArrowInvalid."""
    if not data:
        return pa.table({name: pa.array([], types[name]) for name in columns})
    formed = {name: header.forms[name] for name in columns if name in header.forms and types.get(name) in _NUMBER_TYPES}
    commas = [name for name, form in formed.items() if form == DECIMAL_COMMA]
    texts = {name: form for name, form in formed.items() if form != DECIMAL_COMMA}
    read_as = {**types, **dict.fromkeys(texts, pa.string())}
    try:
        table = _parse(data, header, columns, read_as, "," if commas else ".")
    except pa.ArrowInvalid:
        if not commas:
            raise
        table = _parse(data, header, [name for name in columns if name not in commas], read_as, ".")
        numbers = _parse(data, header, commas, read_as, ",")
        table = pa.table({name: (numbers if name in commas else table)[name] for name in columns})
    for name, form in texts.items():
        column = without_words(table[name], NULL_NUMBERS)
        plain = form.to_plain(column)
        if plain.null_count > column.null_count:
            raise pa.ArrowInvalid(f"the column {name!r} has a value that is no number")
        table = table.set_column(table.column_names.index(name), name, plain.cast(types[name]))
    return table


def _parse(
    data: bytes, header: Header, columns: list[str], types: Mapping[str, pa.DataType], decimal_point: str
) -> pa.Table:
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        read_options=arrow_csv.ReadOptions(
            column_names=list(header.names), block_size=max(len(data) + 1, 64), use_threads=False
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=columns,
            column_types=types,
            strings_can_be_null=False,
            null_values=NULL_NUMBERS,
            decimal_point=decimal_point,
        ),
    )


@dataclass(frozen=True)
class Fields:
    """Rows of text and the delimiters between their fields: row i is cut at cuts[first[i]:][:widths[i] - 1]."""

    rows: Lines
    cuts: NDArray[np.int64]
    first: NDArray[np.int64]
    widths: NDArray[np.int64]

    def column(self, j: int, n: int) -> list[bytes]:
        """Field j of every row as it stands there, quotes included; every row must have n fields."""
        starts = self.rows.starts if j == 0 else self.cuts[self.first + (j - 1)] + 1
        stops = self.rows.stops if j == n - 1 else self.cuts[self.first + j]
        data = self.rows.data
        return [data[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]


def split_fields(data: bytes, delimiter: str, offset: int = 0, line: int = 0) -> Fields:
    """Rows and fields of whole rows of text, by the rules that pyarrow.csv has.

    Examples
    --------
    >>> fields = split_fields(b'a,"b,c"\\n\\n1,2,3\\n', ",")
    >>> fields.widths.tolist(), fields.rows.text(0), fields.rows.number(1)
    ([2, 3], b'a,"b,c"', 3)
    """
    sign = delimiter.encode()
    ends, _, unclosed = row_ends(data, sign, True)
    if unclosed:
        raise DataError("a quote is never closed")
    text = np.frombuffer(data, np.uint8)
    starts = row_starts(data, ends)
    stops = without_newlines(data, starts, ends)
    cuts = np.flatnonzero(text == sign[0])
    if b'"' in data:
        cuts = cuts[outside_quotes(data, cuts, sign)[0]]
    first = np.searchsorted(cuts, starts)
    widths = np.searchsorted(cuts, stops) - first + 1
    return Fields(Lines(data, starts, stops, offset, line), cuts, first, widths)


def well_formed_rows(data: bytes, header: Header) -> bytes:
    """The rows that are UTF-8 and have as many values as the header."""
    fields = split_fields(data, header.delimiter)
    good = fields.widths == len(header.names)
    if not is_utf8(data):
        good &= [is_utf8(fields.rows.text(row)) for row in range(len(good))]
    return data if good.all() else fields.rows.join(np.flatnonzero(good))


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
