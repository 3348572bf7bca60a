"""Ends of the rows of a text file: newlines outside quotes, found in blocks that always begin at a row."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dkernel.data.paths import File
from dkernel.errors import DataError

_LONGEST_ROW = 512 * 2**20  # a quote that is never closed is found before memory is full
_LF, _CR, _QUOTE = 10, 13, 34  # bytes of the characters


def row_blocks(file: File, start: int, scan_bytes: int, quote: bytes) -> Iterator[tuple[int, bytes, NDArray[np.int64]]]:
    """(offset, bytes, row ends) of consecutive blocks of whole rows; blank lines are no rows.

    `quote` is the delimiter of a quoted text (CSV), or b"" where quotes mean nothing.
    """
    offset, carried, row = start, b"", 0
    with file.open() as opened:
        opened.seek(start)
        want = scan_bytes
        while True:
            fresh = opened.read(want)
            final = len(fresh) < want
            block = carried + fresh
            ends, whole, unclosed = row_ends(block, quote, final)
            if final and unclosed:
                raise DataError(f"{file.name}, row {row + len(ends) + 1}: a quote that opens here is never closed.")
            if len(block) - whole > _LONGEST_ROW:
                raise DataError(f"{file.name}, row {row + len(ends) + 1}: the row is longer than {_LONGEST_ROW} bytes.")
            if whole:
                yield offset, block[:whole], ends
            if final:
                return
            row += len(ends)
            offset, carried = offset + whole, block[whole:]
            # A row longer than the block: look at more at once, or the same bytes would be looked at again and again.
            want = scan_bytes if whole else max(scan_bytes, len(carried))


def row_ends(block: bytes, quote: bytes, final: bool) -> tuple[NDArray[np.int64], int, bool]:
    """The end of each row of a block (exclusive, with its newline), of the last whole one, and if a quote is open.

    Examples
    --------
    >>> row_ends(b'a,"x\\ny"\\n\\nb,2\\nc', b",", False)
    (array([ 8, 13]), 13, False)
    """
    data = np.frombuffer(block, np.uint8)
    ends = line_ends(block, final)
    unclosed = False
    if quote and b'"' in block:
        outside, unclosed = outside_quotes(block, ends, quote)
        ends = ends[outside]
    if final and len(data) and not unclosed and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    width = ends - starts
    blank = (width == 0) | ((width == 1) & (data[np.minimum(starts, len(data) - 1)] == _CR))
    after = np.minimum(ends + 1, len(data))
    return after[~blank], int(after[-1]) if len(after) else 0, unclosed


def line_ends(block: bytes, final: bool = True) -> NDArray[np.int64]:
    """Ends of lines, inside quotes or not: every LF, and every CR that no LF follows.

    Examples
    --------
    >>> line_ends(b"a\\r\\nb\\rc\\n").tolist()
    [2, 4, 6]
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LF)
    if b"\r" in block:
        lone = np.flatnonzero(data == _CR)
        following = np.append(data, _LF if not final else 0)[lone + 1]
        ends = np.sort(np.concatenate([ends, lone[following != _LF]]))
    return ends


def outside_quotes(block: bytes, positions: NDArray[np.int64], quote: bytes) -> tuple[NDArray[np.bool_], bool]:
    """Mask of the positions outside quoted text, by parity, which doubled quotes do not change.

    A quote opens a text only at the start of a field; where one that parity takes for an opening one stands elsewhere
    (5" pipe), the quotes are followed one by one instead.
    """
    data = np.frombuffer(block, np.uint8)
    marks = np.flatnonzero(data == _QUOTE)
    opening = marks[0::2]
    before = np.where(opening == 0, _LF, data[opening - 1])
    if np.isin(before, np.array([_LF, _CR, _QUOTE, quote[0]], np.uint8)).all():
        return np.searchsorted(marks, positions) % 2 == 0, len(marks) % 2 == 1
    starts, stops = _quoted_texts(block, quote)
    inside = np.searchsorted(starts, positions) > np.searchsorted(stops, positions)
    return ~inside, bool(len(stops) and stops[-1] == len(block))


def _quoted_texts(block: bytes, quote: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts, stops, at = [], [], 0
    openers = b"\n\r" + quote
    while (mark := block.find(b'"', at)) >= 0:
        if mark and block[mark - 1] not in openers:
            at = mark + 1
            continue
        close = mark + 1
        while (close := block.find(b'"', close)) >= 0 and block[close + 1 : close + 2] == b'"':
            close += 2
        starts.append(mark)
        stops.append(close if close >= 0 else len(block))
        at = stops[-1] + 1
    return np.array(starts, np.int64), np.array(stops, np.int64)


def row_starts(data: bytes, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Starts of the rows that end at `ends`: the end of the row before, or of the blank lines after it.

    Examples
    --------
    >>> row_starts(b"a\\n\\nb\\n", np.array([2, 5])).tolist()
    [0, 3]
    """
    if not len(ends):
        return ends
    text = np.frombuffer(data, np.uint8)
    starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
    while (blank := np.isin(text[starts], (_LF, _CR))).any():
        starts[blank] += 1
    return starts


def without_newlines(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ends of rows that end at `ends`, without their LF, CR or CR LF.

    Examples
    --------
    >>> without_newlines(b"a\\r\\nb", np.array([0, 3]), np.array([3, 4])).tolist()
    [1, 4]
    """
    text = np.frombuffer(data, np.uint8)
    stops = ends - (text[ends - 1] == _LF)
    return np.maximum(stops - (text[np.maximum(stops - 1, 0)] == _CR), starts)


@dataclass(frozen=True)
class Lines:
    """Positions of the rows of a piece of text: row i is data[starts[i]:stops[i]], without its line ending.

    `offset` and `line` are the bytes and lines of the file before the piece.
    """

    data: bytes
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    offset: int = 0
    line: int = 0

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return line_ends(self.data)

    def number(self, row: int) -> int:
        """The line of the file on which a row begins, from 1."""
        return self.line + int(np.searchsorted(self._ends, self.starts[row])) + 1

    def text(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.stops[row]]

    def join(self, rows: NDArray[np.int64]) -> bytes:
        """The text of some rows, a line each."""
        return b"".join(self.text(row) + b"\n" for row in rows.tolist())


class Steps:
    """The running list of steps of `step_rows` rows: `rows` of each, the byte `marks` where they begin and end.

    `lines` counts the lines of the file before each mark, those inside quotes, blank ones and comments included.

    Examples
    --------
    >>> steps = Steps(10, 2)
    >>> steps.add(10, b"1,2\\n3,4\\n\\n5,6\\n", np.array([4, 8, 13]))
    >>> steps.done(), steps.lines
    (((2, 1), (10, 18, 23)), (1, 3, 5))
    """

    def __init__(self, start: int, step_rows: int, lines: int = 1) -> None:
        self.rows = 0
        self._step = step_rows
        self._marks = [start]
        self._end = start
        self._counted = lines
        self._lines = [lines]
        self._last = lines

    @property
    def lines(self) -> tuple[int, ...]:
        """Lines of the file before each mark."""
        return tuple(self._lines if len(self._lines) == len(self.done()[1]) else [*self._lines, self._last])

    def add(self, offset: int, block: bytes, ends: NDArray[np.int64]) -> None:
        """The next block of the text, which begins at `offset` and whose rows end at offset + ends."""
        # One line a row is the rule, and counting is much faster than finding.
        simple = (
            block.endswith(b"\n")
            and block.count(b"\n") == len(ends)
            and (b"\r" not in block or block.count(b"\r") == block.count(b"\r\n"))
        )
        breaks = None if simple else line_ends(block)
        if len(ends):
            first = -(self.rows + 1) % self._step
            at = np.append(np.arange(first, len(ends), self._step), len(ends) - 1)
            before = at + 1 if breaks is None else np.searchsorted(breaks, ends[at])
            self._marks += (offset + ends[at[:-1]]).tolist()
            self._lines += (self._counted + before[:-1]).tolist()
            self._last = self._counted + int(before[-1])
            self.rows += len(ends)
            self._end = offset + int(ends[-1])
        self._counted += len(ends) if breaks is None else len(breaks)

    def done(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows of every step, and the marks."""
        full, rest = divmod(self.rows, self._step)
        marks = [*self._marks, self._end] if rest else self._marks
        return (self._step,) * full + ((rest,) if rest else ()), tuple(marks)
