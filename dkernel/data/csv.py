"""CSV: a task counts the rows once, knowing quotes; a part is a byte range that pyarrow.csv reads with fixed types."""

import csv as text_csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
from dask.delayed import Delayed

from dkernel.data.block import Place, Raw
from dkernel.data.columnar import kind_of_type, raw_of_table
from dkernel.data.lines import STEP_ROWS, Steps, row_blocks, row_ends
from dkernel.data.paths import File
from dkernel.data.tables import Part, Request, Table, Wanted
from dkernel.errors import DataError

__all__ = ["Header", "load", "look", "scan"]

_HEADER_BYTES = 64 * 1024
_LONGEST_HEADER = 64 * 2**20
_BOM = b"\xef\xbb\xbf"
_TYPES = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "text": pa.string(), "empty": pa.float64()}
_EXACT = 2.0**53


@dataclass(frozen=True)
class Header:
    """The first row: the names of the columns, and the byte where the data begin."""

    names: tuple[str, ...]
    start: int
    delimiter: str


def look(files: Sequence[File], request: Request) -> list[Table]:
    """Names from the headers; rows and kinds from one scanning task a file."""
    headers = [_header(file) for file in files]
    tasks = []
    for file, header in zip(files, headers, strict=True):
        key = file.key("scan", request.label, request.keep, request.scan_bytes)
        tasks.append(Delayed(key, {key: (scan, file, header, request.label, request.keep, request.scan_bytes)}))
    return list(request.compute(*tasks))


def _header(file: File) -> Header:
    data, size = b"", _HEADER_BYTES
    delimiter = "\t" if file.suffix == ".tsv" else ","
    while True:
        data = file.read(0, size)
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4]:
            raise DataError(f"{file.name}: the file is in UTF-16 or is no text; CSV is read as UTF-8.")
        skip = len(_BOM) if data.startswith(_BOM) else 0
        final = len(data) < size
        ends, _, _ = row_ends(data[skip:], delimiter.encode(), final)
        if len(ends) or final:
            break
        if size > _LONGEST_HEADER:
            raise DataError(f"{file.name}: no end of the first line within {size} bytes: is this a CSV file?")
        size *= 4
    if not len(ends):
        raise DataError(f"{file.name}: the file has no header row with the names of the columns.")
    start = skip + int(ends[0])
    try:
        text = data[skip:start].decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise DataError(f"{file.name}: the header is not UTF-8 text; save the file as UTF-8.") from None
    names = tuple(next(text_csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)))
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise DataError(f"{file.name}: the column {twice!r} stands twice in the header; each name must be there once.")
    if all(_is_fraction(n) for n in names):
        raise DataError(f"{file.name}: the first row holds numbers; it must hold the names of the columns.")
    return Header(names, start, delimiter)


def _is_fraction(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.strip().isdigit()


@dataclass
class _Kinds:
    """What the columns turn out to hold while the file is scanned."""

    file: File
    header: Header
    label: str | None
    keep: tuple[str, ...]
    found: dict[str, str] = field(default_factory=dict)

    def add(self, block: bytes, first_row: int) -> None:
        """The first block decides what every column holds; the label and the kept columns are followed to the end."""
        names = self.header.names
        as_text = [n for n in self.keep if n in names and n != self.label]
        numbers = [n for n in names if n not in as_text] if not self.found else [n for n in names if n == self.label]
        columns = [*numbers, *as_text]
        if not columns:
            return
        try:
            table = _parse(block, self.header, columns, dict.fromkeys(as_text, pa.string()))
        except pa.ArrowInvalid as error:
            raise _explained(error, block, self.header, {}, self.file, first_row) from None
        for name in numbers:
            kind = kind_of_type(table.schema.field(name).type)
            if name == self.label and "empty" not in (kind, self.found.get(name, "empty")):
                kind = self._label_kind(name, kind, block, first_row)
            if kind == "text" and name != self.label and _mostly_numbers(table.column(name)):
                kind = "float"  # so that reading it names the row of the word
            if kind != "empty" or name not in self.found:
                self.found[name] = "text" if kind == "other" and name == self.label else kind
        for name in as_text:
            self.found[name] = _wider(self.found.get(name, "empty"), _kept_kind(table.column(name)))

    def _label_kind(self, name: str, kind: str, block: bytes, first_row: int) -> str:
        before = self.found[name]
        kind = "text" if kind == "other" else kind
        if kind == before or before == "text" or {kind, before} == {"int", "float"}:
            return before if before == "text" or kind == before else "float"
        raise _explained(None, block, self.header, {name: _TYPES[before]}, self.file, first_row)


def scan(
    file: File,
    header: Header,
    label: str | None,
    keep: tuple[str, ...],
    scan_bytes: int,
    step_rows: int = STEP_ROWS,
) -> Table:
    """Rows, steps and kinds of one file; runs on a worker."""
    file.check()
    kinds = _Kinds(file, header, label, keep)
    steps = Steps(header.start, step_rows)
    for offset, block, ends in row_blocks(file, header.start, scan_bytes, header.delimiter.encode()):
        if len(ends):
            kinds.add(block, steps.rows)
            steps.add(offset, ends)
    rows, marks = steps.done()
    found = {name: kinds.found.get(name, "empty") for name in header.names}
    return Table(file, found, steps.rows, rows, marks, inferred=True, extra=header)


def load(file: File, part: Part, wanted: Wanted, place: Place) -> Raw:
    """The rows of one byte range."""
    data, header = file.read(*part.marks), part.extra
    types = {name: _type(name, wanted) for name in wanted.names}
    try:
        table = _parse(data, header, list(wanted.names), types)
    except pa.ArrowInvalid as error:
        raise _explained(error, data, header, types, file, part.first_row) from None
    if wanted.label is not None and types[wanted.label] == pa.string():
        empty = pc.index(table.column(wanted.label), "").as_py()
        if empty >= 0:
            raise DataError(
                f"{place(empty)}, column {wanted.label!r}: the label is missing. Remove or fill these rows."
            )
    return raw_of_table(table, wanted, place)


def _type(name: str, wanted: Wanted) -> pa.DataType:
    kind = wanted.kinds[name]
    if name in wanted.columns or name == wanted.weight:
        return pa.bool_() if kind == "bool" else pa.float64()
    if kind == "empty" and name in wanted.kept:
        return pa.string()
    return _TYPES[kind]


def _parse(data: bytes, header: Header, columns: list[str], types: dict[str, pa.DataType]) -> pa.Table:
    return arrow_csv.read_csv(
        pa.BufferReader(data),
        read_options=arrow_csv.ReadOptions(
            column_names=list(header.names), block_size=max(len(data) + 1, 64), use_threads=False
        ),
        parse_options=arrow_csv.ParseOptions(delimiter=header.delimiter, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=columns, column_types=types, strings_can_be_null=False
        ),
    )


def _mostly_numbers(column: pa.ChunkedArray) -> bool:
    """Whether more than half of the first values are numbers, so that the others are mistakes."""
    first = column.slice(0, 1000).to_pylist()
    return sum(_fits(value or "", pa.float64()) for value in first) > len(first) / 2


def _kept_kind(column: pa.ChunkedArray) -> str:
    """The type that a kept column can have without losing a character: '007' stays text."""
    filled = column.filter(pc.not_equal(column, ""))
    if not len(filled):
        return "empty"
    try:
        numbers = filled.cast(pa.int64())
        return "int" if numbers.cast(pa.string()).equals(filled) else "text"
    except pa.ArrowInvalid:
        pass
    try:
        fractions = filled.cast(pa.float64())
    except pa.ArrowInvalid:
        return "text"
    return "float" if pc.all(pc.less(pc.abs(fractions), _EXACT)).as_py() else "text"


def _wider(one: str, other: str) -> str:
    if one == other or other == "empty":
        return one
    if one == "empty":
        return other
    return "float" if {one, other} == {"int", "float"} else "text"


def _explained(
    error: Exception | None,
    data: bytes,
    header: Header,
    types: dict[str, pa.DataType],
    file: File,
    first_row: int,
) -> DataError:
    """The first row that cannot be read and why, found by reading the range again, slowly."""
    try:
        reader = text_csv.reader(io.StringIO(data.decode("utf-8"), newline=""), delimiter=header.delimiter)
        row = first_row
        for values in reader:
            if not values:
                continue
            row += 1
            if len(values) != len(header.names):
                return DataError(
                    f"{file.name}, row {row}: the row has {len(values)} values, the header {len(header.names)}."
                )
            for name, value in zip(header.names, values, strict=True):
                if name in types and not _fits(value, types[name]):
                    return DataError(
                        f"{file.name}, row {row}, column {name!r}: {value!r} where the column's other values, from the "
                        f"first rows on, are of type {types[name]}."
                    )
    except UnicodeDecodeError as failure:
        row = first_row + data.count(b"\n", 0, failure.start) + 1
        return DataError(f"{file.name}, about row {row}: the text is not UTF-8; save the file as UTF-8.")
    except text_csv.Error as failure:
        return DataError(f"{file.name}, after row {first_row}: the text cannot be read as CSV ({failure}).")
    return DataError(f"{file.name}, after row {first_row}: the text cannot be read as CSV ({error}).")


def _fits(value: str, type_: Any) -> bool:
    if type_ == pa.string():
        return True
    try:
        pa.array([value]).cast(type_)
    except pa.ArrowInvalid:
        # What is missing has its own message.
        return value == "" or value in arrow_csv.ConvertOptions().null_values
    return True
