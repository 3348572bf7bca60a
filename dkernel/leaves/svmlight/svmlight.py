"""svmlight: 'label index:value ...' a line; one counting task a file, then byte ranges become blocks.

Of more than WIDE columns (dkernel.numerics.sparse_rows) of which no more than a tenth is stored the blocks stay sparse,
else they are dense. Rows to score are sparse if the rows of the training were.

The number of features and whether indices begin at 0 are decided once, from all files together, never by a part.
Columns are named by their index as the file writes it, so a model knows by its names which kind it was trained on.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkernel.data.block import UncheckedBlock
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns, ReadOptions
from dkernel.data.paths import File
from dkernel.data.readers.text_rows import Lines, Steps, row_blocks, row_ends, row_starts, without_newlines
from dkernel.data.rejected_rows import RejectedRow
from dkernel.errors import DataError
from dkernel.numerics.sparse_rows import RangeNames, SparseRows, is_wide
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.numerics.validation import RowDescriber

LABEL = "label"
_MOST_COLUMNS = 2**27  # scaling and moments of as many take some 6 GB, whatever the rows store
_NO_PAIRS = "not a label, then index:value pairs"
_BLANK = re.compile(rb"(?:^|\n)[ \t\r\v\f]+(?:\n|$)")


@dataclass(frozen=True)
class ParsedRows:
    """Parsed lines: label (rows,), and for every stored value its row, index and value."""

    label: NDArray[np.float64]
    row: NDArray[np.int64]
    index: NDArray[np.int64]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class PartCounts:
    """Content of one file: steps, the least and the largest index and the row of it, whether labels are integers,
    and how many values are stored."""

    steps: tuple[int, ...]
    marks: tuple[int, ...]
    lines: tuple[int, ...]
    least: int | None
    largest: int
    largest_row: int
    integer: bool
    stored: int


def read_schema(files: Sequence[File], request: ReadOptions) -> list[FileSchema]:
    """Rows and indices by one counting task a file; then one width for all."""
    tasks = [file.task(count, request.scan_bytes, PIECE_ROWS, request.lenient) for file in files]
    counted = list(request.compute(*tasks))
    base, p = _width(files, counted, request)
    rows, stored = sum(sum(counts.steps) for counts in counted), sum(counts.stored for counts in counted)
    sparse, width, names = None, 0, RangeNames(base, p)
    if isinstance(request.columns, RangeNames) or (request.columns is None and is_wide(p, stored / max(1, rows * p))):
        sparse, width = names, -(-stored // max(1, rows))
    features = {} if sparse else dict.fromkeys(names, "float")
    tables = []
    for file, counts in zip(files, counted, strict=True):
        kinds = {LABEL: "int" if counts.integer else "float", **features}
        tables.append(
            FileSchema(
                file,
                kinds,
                sum(counts.steps),
                counts.steps,
                counts.marks,
                counts.lines,
                indices=frozenset([LABEL]),
                inferred=True,
                extra=(base, p),
                width=width,
                sparse=sparse,
            )
        )
    return tables


def _width(files: Sequence[File], counted: Sequence[PartCounts], request: ReadOptions) -> tuple[int, int]:
    """(index of the first feature, number of features) of all files together."""
    advice = "give a larger n_features, or allow extra columns"
    known = request.columns if isinstance(request.columns, RangeNames) else None
    if known is not None:
        advice = "allow extra columns, if the model can do without them"
        request = replace(request, n_features=len(known), columns=None, keep=())
    named = (*(request.columns or ()), *request.keep, *request.exclude, request.weight or "")
    indices = [int(n) for n in named if n.isdigit()]
    least = [c.least for c in counted if c.least is not None]
    # A model trained on indices from 0 names column 0 even where these files never store it.
    base = int(0 not in least and 0 not in indices) if known is None else known.first
    for file, counts in zip(files, counted, strict=True):
        if counts.least is not None and counts.least < base:
            raise DataError(f"{file.name}: there is an index {counts.least}, but indices begin at {base}.")
        n = request.n_features
        if n is not None and counts.largest >= base + n and not request.allow_extra:
            raise DataError(
                f"{file.name}, row {counts.largest_row + 1}: index {counts.largest}, where {n} features "
                f"({base} to {base + n - 1}) are known: {advice}."
            )
    if request.n_features is not None:
        return base, request.n_features
    p = max([0, *(c.largest + 1 - base for c in counted), *(i + 1 - base for i in indices)])
    if p > _MOST_COLUMNS:
        file, counts = max(zip(files, counted, strict=True), key=lambda each: each[1].largest)
        raise DataError(
            f"{file.name}, row {counts.largest_row + 1}: index {counts.largest}, and at most {_MOST_COLUMNS:,} columns "
            "can be read. Number the features without such gaps, or give n_features and allow extra columns."
        )
    return base, p


def count(file: File, scan_bytes: int, step_rows: int = PIECE_ROWS, quarantine: bool = False) -> PartCounts:
    """Rows and indices of one file; runs on a worker. With `quarantine` a bad line is a row without indices."""
    file.check()
    steps = Steps(0, step_rows, lines=0)
    least: int | None = None
    largest, largest_row, integer, stored = -1, 0, True, 0
    for offset, block, ends in row_blocks(file, 0, scan_bytes, b""):
        is_row = _data_lines(block, ends)
        row_of = np.arange(int(is_row.sum()))
        try:
            rows = parse_lines(block)
        except DataError:
            lines = _lines(block, ends, is_row)
            if not quarantine:
                raise _refusal(lines, file.describe_rows(steps.rows)) from None
            row_of = np.array(sorted({*row_of.tolist()} - {*bad_lines(lines)}), np.int64)
            rows = parse_lines(lines.join(row_of))
        if len(rows.index):
            least = min(int(rows.index.min()), least if least is not None else int(rows.index.min()))
            at = int(rows.index.argmax())
            if rows.index[at] > largest:
                largest, largest_row = int(rows.index[at]), steps.rows + int(row_of[rows.row[at]])
        whole = (rows.label == np.rint(rows.label)) & (np.abs(rows.label) < np.iinfo(np.int64).max)
        integer = integer and bool(whole.all())
        stored += len(rows.index)
        steps.add(offset, block, ends[is_row])
    return PartCounts(*steps.done(), steps.lines, least, largest, largest_row, integer, stored)


def _data_lines(block: bytes, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the lines that hold a row, not only a comment or blanks."""
    if b"#" not in block and not _BLANK.search(block):
        return np.ones(len(ends), bool)
    starts = [0, *ends.tolist()]  # one more than lines: what follows the last end is none yet
    lines = (block[a:b] for a, b in pairwise(starts))
    return np.array([bool(line.split(b"#", 1)[0].strip()) for line in lines], bool)


def _lines(block: bytes, ends: NDArray[np.int64], is_row: NDArray[np.bool_]) -> Lines:
    starts = row_starts(block, ends)[is_row]
    return Lines(block, starts, without_newlines(block, starts, ends[is_row]))


def bad_lines(lines: Lines) -> dict[int, str]:
    """The rows that are not lines of svmlight, with the reason; found by bisection, as few are bad in most files.

    Examples
    --------
    >>> text = b"1 3:2\\n1 x\\n1 4:1 4:1\\n"
    >>> bad_lines(Lines(text, np.array([0, 6, 10]), np.array([6, 10, 20])))
    {1: 'not a label, then index:value pairs', 2: 'the index 4 occurs twice'}
    """
    reasons: dict[int, str] = {}
    waiting = [np.arange(len(lines.starts))] if len(lines.starts) else []
    while waiting:
        rows = waiting.pop()
        reason = _reason(lines.join(rows), len(rows))
        if reason and len(rows) == 1:
            reasons[int(rows[0])] = reason
        elif reason:
            waiting += np.array_split(rows, 2)
    return dict(sorted(reasons.items()))


def _reason(text: bytes, n: int) -> str:
    """The reason why these n lines cannot be read; nothing if they can."""
    try:
        return "" if len(parse_lines(text).label) == n else _NO_PAIRS
    except DataError as error:
        return str(error)


def find_bad_rows(file: File, part: FilePart, _: ReadColumns) -> tuple[dict[int, RejectedRow], Lines]:
    """The lines of one byte range that cannot be read, and all of its lines."""
    lines = _lines_of_rows(file.read(*part.marks), part.marks[0], part.line)
    return {row: RejectedRow("", reason) for row, reason in bad_lines(lines).items()}, lines


def read_part(file: File, part: FilePart, columns: ReadColumns, describe: RowDescriber) -> UncheckedBlock:
    """The rows of one byte range, without those that it is without."""
    data = file.read(*part.marks)
    if part.without:
        lines = _lines_of_rows(data)
        data = lines.join(np.delete(np.arange(len(lines.starts)), part.without))
    try:
        return _block(data, part, columns)
    except DataError:
        raise _refusal(_lines_of_rows(data), describe) from None


def _lines_of_rows(data: bytes, offset: int = 0, line: int = 0) -> Lines:
    ends, _last, _open = row_ends(data, b"", True)
    return replace(_lines(data, ends, _data_lines(data, ends)), offset=offset, line=line)


def _refusal(lines: Lines, describe: RowDescriber) -> DataError:
    """The error of the first bad line."""
    row, reason = next(iter(bad_lines(lines).items()), (0, _NO_PAIRS))
    shown = lines.text(row)[:80].decode("utf-8", "replace").strip()
    return DataError(f"{describe(row)}: {shown!r} is not a line of svmlight: {reason}.")


def _block(data: bytes, part: FilePart, columns: ReadColumns) -> UncheckedBlock:
    rows = parse_lines(data)
    base, p = part.extra
    inside = rows.index < base + p
    positions, values = rows.row[inside] * p + (rows.index[inside] - base), rows.value[inside]
    label = rows.label.astype(np.int64) if columns.kinds.get(LABEL) == "int" else rows.label
    shape = len(label), p
    X: Any = (
        _sparse(positions, values, shape) if columns.layout.sparse else _dense(positions, values, shape, columns.dtype)
    )

    def column(name: str) -> NDArray[Any]:
        return label if name == LABEL else X[:, int(name) - base]

    everything = columns.layout.sparse or list(columns.features) == [str(j) for j in range(base, base + p)]
    return UncheckedBlock(
        X if everything else np.stack([column(n) for n in columns.features], axis=1),
        label if columns.label else None,
        column(columns.weight) if columns.weight else None,
        pa.table({n: column(n) for n in columns.kept}) if columns.kept else None,
    )


def _dense(
    positions: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int], dtype: str
) -> NDArray[Any]:
    dense = np.zeros(shape, dtype)
    try:
        with np.errstate(over="raise"):
            dense.reshape(-1)[positions] = values
    except FloatingPointError:
        # In float64 a number too large for float32 comes to the gate as it is, and the message shows it.
        dense = np.zeros(shape)
        dense.reshape(-1)[positions] = values
    return dense


def _sparse(positions: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]) -> SparseRows:
    order = np.argsort(positions, kind="stable")
    order = order[values[order] != 0]
    row, column = np.divmod(positions[order], shape[1])
    starts = np.searchsorted(row, np.arange(shape[0] + 1)).astype(np.int64)
    return SparseRows(values[order], column.astype(np.int32), starts, shape[1])


def parse_lines(data: bytes) -> ParsedRows:
    """Lines of text as numbers; comments and 'qid:' are left out, and a DataError says that some are not svmlight.

    Examples
    --------
    >>> parse_lines(b"1 3:0.5 7:2\\n-1 1:4\\n").index.tolist()
    [3, 7, 1]
    """
    if b"#" in data or b"qid:" in data:
        lines = (line.split(b"#", 1)[0] for line in data.split(b"\n"))
        data = b"\n".join(b" ".join(t for t in line.split() if not t.startswith(b"qid:")) for line in lines)
    text = np.frombuffer(data, np.uint8)
    space = text <= 32  # blanks and line ends; no other byte up to it belongs in the text
    begins = ~space & np.concatenate([[True], space[:-1]]) if len(text) else space
    starts = np.flatnonzero(begins)
    if not len(starts):
        empty = np.empty(0)
        return ParsedRows(empty, empty.astype(np.int64), empty.astype(np.int64), empty)
    line_of = np.searchsorted(np.flatnonzero(text == 10), starts)
    is_label = np.concatenate([[True], np.diff(line_of) > 0])
    colons = np.flatnonzero(text == 58)
    per_token = np.bincount(np.searchsorted(starts, colons, side="right") - 1, minlength=len(starts))
    if (per_token != ~is_label).any():
        raise DataError(_NO_PAIRS)
    row_of = np.cumsum(is_label) - 1
    words = pc.ascii_split_whitespace(pa.scalar(data.replace(b":", b" ").strip(), pa.large_string())).values
    try:
        numbers = words.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        numbers = np.empty(0)
    if len(numbers) != len(starts) + int((~is_label).sum()):
        raise DataError(_NO_PAIRS)
    position = np.arange(len(starts)) + np.concatenate([[0], np.cumsum(~is_label)[:-1]])
    index = numbers[position[~is_label]]
    if (index != np.rint(index)).any() or (index < 0).any() or (index >= 2.0**53).any():
        raise DataError(_NO_PAIRS)
    rows = ParsedRows(
        numbers[position[is_label]], row_of[~is_label], index.astype(np.int64), numbers[position[~is_label] + 1]
    )
    _refuse_twice(rows.row, rows.index)
    return rows


def _refuse_twice(row: NDArray[np.int64], index: NDArray[np.int64]) -> None:
    if (np.diff(index)[np.diff(row) == 0] > 0).all():
        return
    order = np.lexsort((index, row))
    twice = (np.diff(row[order]) == 0) & (np.diff(index[order]) == 0)
    if twice.any():
        raise DataError(f"the index {index[order[twice.argmax()]]} occurs twice")
