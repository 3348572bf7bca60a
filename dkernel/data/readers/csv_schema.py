"""The schema of a CSV file: the names in its header, and the rows and the kinds of its columns by one scan of it."""

import csv as text_csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dkernel.data.column_types import EMPTY, OTHER, TEXT, TIMES, column_type, is_bytes, join_types
from dkernel.data.encoding.notation import NOTATION, find_example, find_meaning, is_date, is_plain
from dkernel.data.encoding.text_values import NumberForm, read_example
from dkernel.data.encoding.words import NULL_NUMBERS, NULLS, kinds_in
from dkernel.data.file_schema import FileSchema, ReadOptions
from dkernel.data.object_columns import known_numbers
from dkernel.data.paths import File
from dkernel.data.readers.csv_fields import PLAIN_NUMBER, TYPES, Header, parse_rows, well_formed_rows
from dkernel.data.readers.csv_refusals import explain_parse
from dkernel.data.readers.decimal_commas import Commas
from dkernel.data.readers.text_rows import Steps, line_ends, row_blocks, row_ends
from dkernel.errors import DataError
from dkernel.numerics.tiling import PIECE_ROWS

_KIND_VALUES = 1000  # values of a column that tell what it was meant to hold
_BOM = b"\xef\xbb\xbf"
_PACKED = (b"PK\x03\x04", b"\x1f\x8b")  # ZIP, in which spreadsheets are, and gzip
_DELIMITERS = (",", ";", "\t", "|")
_TRUTHS = ("0", "1", *(word for truth in ("true", "false") for word in (truth, truth.capitalize(), truth.upper())))


def read_schema(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """Names from the headers; rows and kinds from one scanning task a file."""
    given = {name: form for name, text in request.known_formats.items() if text and (form := read_example(text))}
    headers = [replace(_header(file, request), forms=given) for file in files]
    tasks, known = [], known_numbers(request)
    label = None if request.label_as == "text" else request.label
    features = frozenset(request.columns or ())
    keep = tuple(name for name in request.keep if name not in features)  # a feature is read as one, kept or not
    for file, header in zip(files, headers, strict=True):
        asked = (label, keep, request.scan_bytes, PIECE_ROWS, request.lenient, known, request.label_as)
        tasks.append(file.task(scan, header, *asked))
    tables: list[FileSchema] = list(request.compute(*tasks))
    if label == request.label:
        return tables
    return [
        replace(table, kinds={n: "text" if n == request.label else kind for n, kind in table.kinds.items()})
        for table in tables
    ]


def _header(file: File, request: ReadOptions) -> Header:
    data, size = b"", 64 * 1024  # read first, for the header; doubled until its end is there
    delimiter = request.delimiter or ("\t" if file.suffix == ".tsv" else ",")
    while True:
        data = file.read(0, size)
        if data.startswith(_PACKED):
            raise DataError(
                f"{file.name}: the file is compressed, or a spreadsheet, and no CSV. Name it .csv.gz if gzip made it; "
                "save a spreadsheet as CSV."
            )
        if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:4]:
            width = 32 if data[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff") or b"\0\0\0" in data[:4] else 16
            raise DataError(
                f"{file.name}: the file is in UTF-{width} or is not text. Give --encoding utf-{width}, or save the "
                "file as UTF-8."
            )
        skip = len(_BOM) if data.startswith(_BOM) else 0
        final = len(data) < size
        ends, _, _ = row_ends(data[skip:], delimiter.encode(), final)
        if len(ends) or final:
            break
        if size > 64 * 2**20:  # a million names; a longer first line is no header
            raise DataError(f"{file.name}: no end of the first line within {size} bytes: is this a CSV file?")
        size *= 4
    if not len(ends):
        raise DataError(f"{file.name}: the file has no header row with the names of the columns.")
    start = skip + int(ends[0])
    try:
        text = data[skip:start].decode("utf-8").strip("\r\n")
    except UnicodeDecodeError:
        raise DataError(
            f"{file.name}: the header is not UTF-8 text. Give its --encoding (latin-1, ...), or save it as UTF-8."
        ) from None
    below = data[start:].decode("utf-8", "replace").splitlines()[: 21 if final else -1][:20]
    if request.delimiter is None:
        delimiter = _find_delimiter(text, delimiter)
    names = tuple(next(text_csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)))
    if request.no_header:
        return Header(tuple(map(str, range(len(names)))), skip, delimiter, 0, numbered=True)
    if any(map(_is_fraction, names)) and sum(map(_is_number, names)) > len(names) / 2:
        raise DataError(
            f"{file.name}: the first row holds numbers ({', '.join(names[:4])}), where the names of the columns are "
            "expected. Add --no-header if the file has no names (the columns are then 0, 1, ...), or write a first row "
            "with names."
        )
    _check_width(file, names, below, request.delimiter or delimiter)
    twice = next((n for n in names if names.count(n) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise DataError(f"{file.name}: the column {twice!r} occurs twice in the header; each name must be unique.")
    return Header(names, start, delimiter, len(line_ends(data[:start])))


def _check_width(file: File, names: Sequence[str], below: Sequence[str], delimiter: str) -> None:
    """Refuse a first line that is a title: one name where the lines below have more values, or hardly a name."""
    rows = [line for line in below if line.strip()]
    delimiter = _find_delimiter(max(rows, key=len, default=""), delimiter)
    widths = Counter(len(values) for values in text_csv.reader(rows, delimiter=delimiter))
    width, lines = widths.most_common(1)[0] if widths else (0, 0)
    blank = sum(not name.strip() for name in names)
    title = names[0].startswith("sep=") or (lines > 1 and width > len(names) == 1)
    if title or blank > max(1, len(names) / 2):
        shown = delimiter.join(names)[:60]
        raise DataError(
            f"{file.name}: the first line ({shown!r}) names {len(names) - blank} of the {width} columns that the lines "
            "below have. Delete what stands above the names (a title, a comment, sep=;), name every column, or give "
            "the --delimiter."
        )


def _find_delimiter(header: str, usual: str) -> str:
    """The delimiter of a file with this first row: the usual one if it is there, else the most frequent of some.

    Examples
    --------
    >>> _find_delimiter("a;b;c", ","), _find_delimiter("a,b;c", ","), _find_delimiter("a", ",")
    (';', ',', ',')
    """
    if usual in header:
        return usual
    best = max(_DELIMITERS, key=header.count)
    return best if best in header else usual


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_fraction(text: str) -> bool:
    return _is_number(text) and not text.strip().isdigit()


@dataclass
class _Kinds:
    """Kinds of the columns, as the scan of the file finds them."""

    file: File
    header: Header
    label: str | None
    keep: tuple[str, ...]
    quarantine: bool = False
    known: tuple[str, ...] = ()
    kind_of: dict[str, str] = field(default_factory=dict)
    exact: bool = True
    whole: bool = True
    signed: bool = False
    examples: dict[str, str | None] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    def add(self, block: bytes, first_row: int) -> None:
        """The first block with a value decides what a column holds; label and kept ones are followed to the end."""
        names, known = self.header.names, frozenset(self.known)
        followed = frozenset([*self.keep, self.label])
        as_text = [n for n in names if n in followed]
        numbers = [n for n in names if n not in followed and self.kind_of.get(n, "empty") == "empty"]
        columns = [*numbers, *as_text]
        if not columns:
            return
        table = self._parse(block, columns, dict.fromkeys(as_text, pa.string()), first_row)
        if table is None:
            return
        for name in numbers:
            column, type_ = table.column(name), table.schema.field(name).type
            kind = OTHER if is_bytes(type_) else column_type(type_)  # text that is not UTF-8
            if kind in (TEXT, OTHER, *TIMES) and name in known:
                # The words are bad rows, be they many.
                kind = "bool" if _mostly_truths(column) else "float"
            elif kind == TEXT:
                kind = self._kind_of_text(name, column)
            self.kind_of[name] = kind
        for name in as_text:
            if name == self.label:
                self._add_label(name, table.column(name), block, first_row)
            else:
                both = self.kind_of.get(name, EMPTY), round_trip_kind(table.column(name))
                self.kind_of[name] = join_types(both) or TEXT

    def _kind_of_text(self, name: str, column: pa.ChunkedArray) -> str:
        first = self.header.to_plain(name, column.slice(0, _KIND_VALUES))
        if name in self.given or (name in self.header.forms and _mostly_numbers(first)):
            return "float"
        words = pc.unique(column).to_pylist()
        example = find_example(words)
        meaning = find_meaning(example, kinds_in(words))
        if meaning == NOTATION:
            self.examples[name] = example
        if meaning != TEXT:
            return meaning if meaning in TIMES else TEXT
        return "float" if _mostly_numbers(first) else TEXT  # reading it as numbers names the row of a word

    def _add_label(self, name: str, texts: pa.ChunkedArray, block: bytes, first_row: int) -> None:
        numbers = self.header.to_plain(name, texts)
        kind, exact, whole = label_kind(numbers)
        if kind == "text" and self.quarantine and _mostly_numbers(numbers):  # the words among the labels are bad rows
            kind, exact, whole = label_kind(numbers.filter(pc.match_substring_regex(numbers, PLAIN_NUMBER)))
        if kind == TEXT and self.examples.get(name) != "":
            example = find_example([self.examples.get(name), *pc.unique(texts).to_pylist()])
            self.examples[name] = "" if not example or is_date(example) or is_plain(example) else example
        self.signed |= kind == "int" and bool(pc.any(pc.starts_with(pc.utf8_ltrim_whitespace(texts), "+")).as_py())
        self.exact, self.whole = self.exact and exact, self.whole and whole
        before = self.kind_of.get(name, "empty")
        if "empty" not in (kind, before):
            kind = self._label_kind(name, kind, block, first_row)
        self.kind_of[name] = before if kind == "empty" else kind

    def _parse(
        self, block: bytes, columns: list[str], types: dict[str, pa.DataType], first_row: int
    ) -> pa.Table | None:
        """The rows of a block; where bad rows may be left out, those that can be parsed. None for an empty block."""
        if not block:
            return None
        try:
            return parse_rows(block, self.header, columns, types)
        except pa.ArrowInvalid as error:
            if self.quarantine and (rest := well_formed_rows(block, self.header)) != block:
                return self._parse(rest, columns, types, first_row)
            describe = self.file.describe_rows(first_row)
            raise explain_parse(error, block, self.header, types, describe, not first_row) from None

    def _label_kind(self, name: str, kind: str, block: bytes, first_row: int) -> str:
        before = self.kind_of[name]
        if before in (kind, TEXT) or (self.quarantine and kind == TEXT):
            return before
        if {kind, before} == {"int", "float"}:
            return "float"
        mixed = f"its label is of type {kind}, and of {before} above"
        raise explain_parse(mixed, block, self.header, {name: TYPES[before]}, self.file.describe_rows(first_row))


def scan(
    file: File,
    header: Header,
    label: str | None,
    keep: tuple[str, ...],
    scan_bytes: int,
    step_rows: int = PIECE_ROWS,
    quarantine: bool = False,
    known: tuple[str, ...] = (),
    label_as: str = "auto",
) -> FileSchema:
    """Rows, steps and kinds of one file; runs on a worker. The columns `known` hold numbers, whatever stands there."""
    file.check()
    kinds = _Kinds(file, header, label, keep, quarantine, known, given=frozenset(header.forms))
    commas = Commas(frozenset(header.forms))
    steps = Steps(header.start, step_rows, header.lines)
    for offset, block, ends in row_blocks(file, header.start, scan_bytes, header.delimiter.encode()):
        if len(ends):
            _check_quotes(file, header, block, steps.rows)
            commas.add(block, ends, header)
            kinds.header = replace(header, forms={**commas.forms, **header.forms})
            kinds.add(block, steps.rows)
        steps.add(offset, block, ends)
    rows, marks = steps.done()
    kind_of = {name: kinds.kind_of.get(name, "empty") for name in header.names}
    if label is not None and label in kind_of and not kinds.exact:
        kind_of[label] = kind_of_label(kind_of[label], label_as)
    header = replace(header, forms={**commas.forms, **header.forms})
    if kinds.signed and label not in header.forms:
        header = replace(header, forms={**header.forms, str(label): NumberForm()})
    width = -(-(marks[-1] - marks[0]) // steps.rows) if steps.rows else 0
    return FileSchema(
        file,
        kind_of,
        steps.rows,
        rows,
        marks,
        steps.lines,
        inferred=True,
        numbered=header.numbered,
        extra=header,
        width=width,
        whole_label=kinds.whole,
        unclear={**{name: text for name, text in kinds.examples.items() if text}, **commas.unclear},
    )


def _check_quotes(file: File, header: Header, block: bytes, rows: int) -> None:
    """Refuse quotes inside quotes that have a backslash before them, as Spark writes: they end the value elsewhere."""
    sign = re.escape(header.delimiter.encode())
    escaped = re.compile(rb"(?:^|[\n" + sign + rb'])"[^"\n]*\\"[^"\r\n' + sign + rb"]")
    if b'\\"' in block and (found := escaped.search(block)):
        row = rows + block[: found.start() + 1].count(b"\n") + 1
        raise DataError(
            f"{file.name}, about row {row}: a quote within quotes has a backslash before it, where CSV doubles it. "
            "Write the file with doubled quotes (Spark: option('escape', '\"')), or as Parquet."
        )


def _mostly_numbers(column: pa.ChunkedArray) -> bool:
    """True if more than half of the first values that are there are numbers, so that the others are mistakes."""
    first = column.slice(0, _KIND_VALUES).to_pylist()
    first = [value for value in first if value is not None and value not in NULL_NUMBERS]
    return _fitting(first, pa.float64()) > len(first) / 2


def _mostly_truths(column: pa.ChunkedArray) -> bool:
    """True if more of the first values are true or false than are numbers."""
    first = [value for value in column.slice(0, _KIND_VALUES).to_pylist() if isinstance(value, str) and value]
    return _fitting(first, pa.bool_()) > _fitting(first, pa.float64())


def _fitting(values: Sequence[str], kind: pa.DataType) -> int:
    """How many of these texts a column of this type can hold; each is tried once, as often as it may stand there."""
    return sum(n for value, n in Counter(values).items() if _can_hold(value, kind))


def _can_hold(value: str, kind: pa.DataType) -> bool:
    if value in NULL_NUMBERS:  # a missing value has its own message
        return True
    try:
        pa.array([value]).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def label_kind(texts: pa.ChunkedArray) -> tuple[str, bool, bool]:
    """The kind of a label, whether its texts are those of its values, and these also whole numbers.

    Examples
    --------
    >>> [label_kind(pa.chunked_array([t])) for t in (["7", "12"], ["007"], ["1.0", "2"], ["1.50", "NA"], ["a", "1"])]
    [('int', True, True), ('int', False, False), ('float', True, True), ('float', False, False), ('text', True, False)]
    """
    texts = pc.utf8_trim_whitespace(texts)
    signed = r"^(?:\+([0-9.])|-(0+$))"
    perhaps = texts.filter(pc.or_(pc.starts_with(texts, "+"), pc.starts_with(texts, "-0")))  # a pattern is slower
    if pc.any(pc.match_substring_regex(perhaps, signed)).as_py():
        texts = pc.replace_substring_regex(texts, signed, r"\1\2")  # +1 is 1, and -0 is 0
    there = texts.filter(pc.invert(pc.is_in(texts, pa.array(NULLS))))
    if not len(there):
        return "empty", True, True
    for kind, type_ in (("int", pa.int64()), ("float", pa.float64())):
        try:
            numbers = there.cast(type_)
        except pa.ArrowInvalid:
            continue
        exact = pc.all(pc.or_(*(pc.equal(there, written) for written in _written(numbers)))).as_py()
        return kind, exact, exact and (kind == "int" or pc.all(pc.equal(numbers, pc.floor(numbers))).as_py())
    truths = pc.all(pc.is_in(there, pa.array(_TRUTHS))).as_py()
    return ("bool" if truths else "text"), True, False


def kind_of_label(kind: str, label_as: str) -> str:
    """The kind of a label of this kind whose texts are not all those of its numbers."""
    codes = {"auto": ("int",), "classes": ("int", "float")}.get(label_as, ())
    return "digits" if kind in codes else kind


def _written(numbers: Any) -> tuple[Any, Any]:
    """Numbers as text. Whole ones have a point in most writers' texts (Python, pandas), and none in others' (Arrow)."""
    short = numbers.cast(pa.string())
    whole = pc.match_substring_regex(short, r"^-?[0-9]+$")
    return short, pc.if_else(whole, pc.binary_join_element_wise(short, "0", "."), short)


def round_trip_kind(column: pa.ChunkedArray) -> str:
    """The kind that gives the same text again: '007' and '3.50' are digits, not numbers.

    Examples
    --------
    >>> [round_trip_kind(pa.chunked_array([t])) for t in (["1", "20"], ["1.5", "2.0"], ["3.50"], ["x"], [""])]
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
    if any(filled.equals(written) for written in _written(numbers)):
        return "float"
    return "digits" if pc.all(pc.is_finite(numbers)).as_py() else "text"
