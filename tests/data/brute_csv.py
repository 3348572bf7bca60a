"""CSV with bad rows, made at random, and a reader that follows it character by character: what rejects must equal."""

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "id", "text")
GOOD = ("1", "-2.5", "0", "1e3", " 4", "+5", '"6"', "007", "1E-2", "123456789.125")
BAD = ("", "nan", "inf", "-inf", "x", "1,2", "1e39", "--1", '"a\n1"', "1_0", "0x1", "NA", "é")
TEXTS = ("", "x", "a b", '"q,u"', '"two\nlines"', '"a ""b"""', '5" pipe', "3.50", '"cr\r\nlf"', "'", "é")


WIDTHS = (*[len(NAMES)] * 8, 1, 2, 3, len(NAMES) + 1)


@st.composite
def contents(draw: Any, names: Sequence[str] = NAMES, more: Sequence[Any] = (), repeats: Sequence[int] = (1,)) -> bytes:
    """A header and some rows, good and bad, of any kind of line ending; `more` are other kinds of numbers."""
    good, bad = st.sampled_from(GOOD), st.sampled_from(BAD)
    number = draw(st.sampled_from([good, good | good | bad, bad, *more]))
    kinds = {"a": number, "b": number, "text": st.sampled_from(TEXTS), "width": st.sampled_from(WIDTHS)}
    lines = [",".join(names)]
    for i, row in enumerate(draw(st.lists(st.fixed_dictionaries(kinds), min_size=1)) * draw(st.sampled_from(repeats))):
        lines.append(",".join([*({**row, "id": f"{i:05d}"}[name] for name in names), "more"][: row["width"]]))
    blank = draw(st.integers(1, 2 * len(lines)))
    lines[blank:blank] = [""]
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join(lines) + newline * draw(st.booleans())
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode()


def rows_of(data: bytes) -> list[tuple[int, int, str, list[str], list[str]]]:
    """(line, byte offset, text, raw fields, values) of every row but the header."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode()
    shift = len(data) - len(text.encode())
    rows, at, line = [], 0, 1
    while at < len(text):
        start, first_line, raw, values = at, line, [""], [""]
        inside = opened = False
        while at < len(text):
            c = text[at]
            if inside:
                if c == '"' and text[at + 1 : at + 2] == '"':
                    raw[-1] += '""'
                    values[-1] += '"'
                    at += 2
                    continue
                inside = c != '"'
                values[-1] += c if inside else ""
                raw[-1] += c
                line += c == "\n" or (c == "\r" and text[at + 1 : at + 2] != "\n")
            elif c == '"' and not raw[-1]:
                inside = opened = True
                raw[-1] += c
            elif c in "\r\n":
                break
            elif c == ",":
                raw.append("")
                values.append("")
            else:
                raw[-1] += c
                values[-1] += c
            at += 1
        stop = at
        at += 2 if text[at : at + 2] == "\r\n" else 1
        line += 1
        if text[start:stop] or opened:
            rows.append((first_line, shift + len(text[:start].encode()), text[start:stop], raw, values))
    return rows[1:]


MISSING = ("", "nan", "NA")


def verdict(values: list[str]) -> tuple[str, str] | None:
    """(column, what the reason must say) of a bad row."""
    if len(values) != len(NAMES):
        return "", f"{len(values)} values where the header has {len(NAMES)}"
    late = None
    for name, value in zip(NAMES[:2], values, strict=False):
        if value in MISSING:
            return name, "missing"
        try:
            if "_" in value:
                raise ValueError
            number = float(value)
        except ValueError:
            return name, "is not a number"
        # Numbers are looked at when all the text has become numbers.
        if not math.isfinite(number):
            late = late or (name, "not finite")
        elif abs(number) > 3.4028235e38:
            late = late or (name, "too large")
    return late
