"""Where the rows of a text file end: newlines outside quotes, found in blocks that always begin at a row."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dkernel.data.paths import File
from dkernel.errors import DataError

__all__ = ["STEP_ROWS", "Steps", "row_blocks", "row_ends"]

STEP_ROWS = 2_048
_LONGEST_ROW = 512 * 2**20
_LF, _CR, _QUOTE = 10, 13, 34


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
    """Where each row of a block ends (exclusive, with its newline), where the last whole one ends, if a quote is open.

    Examples
    --------
    >>> row_ends(b'a,"x\\ny"\\n\\nb,2\\nc', b",", False)
    (array([ 8, 13]), 13, False)
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LF)
    if b"\r" in block:
        lone = np.flatnonzero(data == _CR)
        following = np.append(data, _LF if not final else 0)[lone + 1]
        ends = np.sort(np.concatenate([ends, lone[following != _LF]]))
    unclosed = False
    if quote and b'"' in block:
        outside, unclosed = _outside_quotes(block, data, ends, quote)
        ends = ends[outside]
    if final and len(data) and not unclosed and (not len(ends) or ends[-1] != len(data) - 1):
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    width = ends - starts
    blank = (width == 0) | ((width == 1) & (data[np.minimum(starts, len(data) - 1)] == _CR))
    after = np.minimum(ends + 1, len(data))
    return after[~blank], int(after[-1]) if len(after) else 0, unclosed


def _outside_quotes(
    block: bytes, data: NDArray[np.uint8], ends: NDArray[np.int64], quote: bytes
) -> tuple[NDArray[np.bool_], bool]:
    """Which newlines stand outside quoted text, by parity, which doubled quotes leave as it is.

    A quote opens a text only at the start of a field; where one that parity takes for an opening one stands elsewhere
    (5" pipe), the quotes are followed one by one instead.
    """
    marks = np.flatnonzero(data == _QUOTE)
    opening = marks[0::2]
    before = np.where(opening == 0, _LF, data[opening - 1])
    if np.isin(before, np.array([_LF, _CR, _QUOTE, quote[0]], np.uint8)).all():
        return np.searchsorted(marks, ends) % 2 == 0, len(marks) % 2 == 1
    starts, stops = _quoted_texts(block, quote)
    inside = np.searchsorted(starts, ends) > np.searchsorted(stops, ends)
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


class Steps:
    """The running list of steps of `step_rows` rows: `rows` of each and the byte `marks` where they begin and end.

    Examples
    --------
    >>> steps = Steps(10, 2)
    >>> steps.add(10, np.array([4, 8, 12]))
    >>> steps.done()
    ((2, 1), (10, 18, 22))
    """

    def __init__(self, start: int, step_rows: int) -> None:
        self.rows = 0
        self._step = step_rows
        self._marks = [start]
        self._end = start

    def add(self, offset: int, ends: NDArray[np.int64]) -> None:
        """The next rows, which end at offset + ends."""
        if not len(ends):
            return
        first = -(self.rows + 1) % self._step
        self._marks += (offset + ends[first :: self._step]).tolist()
        self.rows += len(ends)
        self._end = offset + int(ends[-1])

    def done(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows of every step, and the marks."""
        full, rest = divmod(self.rows, self._step)
        marks = [*self._marks, self._end] if rest else self._marks
        return (self._step,) * full + ((rest,) if rest else ()), tuple(marks)
