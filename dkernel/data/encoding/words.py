"""The word of a value of a category: one, whatever file, unit, library or dtype the value came through.

A value of Arrow has the word of its type: 3.0 and 3 are "3", a float32 has its shortest text, a date at midnight no
time, a duration is its seconds. Text has the word that it is, or that of the kind that training found in its column:
a column of text is one of numbers, truth values, dates, times or durations if each of its texts is one, as programs
write them. Zeros that fill up digits ("%02d") or decimals ("%.2f") stay in the words of such a column, so texts that
differ are one word only where the same value was written in two ways.
"""

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
from numpy.typing import NDArray

from dkernel.data.arrow import as_column, code_values
from dkernel.data.column_types import BOOL, DATE, DECIMAL, DURATION, FLOAT, INT, TEXT, TIME, TIMES, column_type

NUMBER = "number"
VALUE_KINDS = (TEXT, NUMBER, BOOL, *TIMES)
"""What the values of a category are. A number may also be a format, "%02d" or "%.2f", that its words have."""

_SPREADSHEETS = ("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!", "#FIELD!", "(null)")
NULLS = (*arrow_csv.ConvertOptions().null_values, "None", "<NA>", "NaT", "\\N", *_SPREADSHEETS)
"""Words for a missing value: pyarrow's, and those that pandas, databases and spreadsheets write beside them."""

NULL_NUMBERS = (*NULLS, "?", "-", "--", ".", "na", "n.a.", "none")
"""Words for a missing number or date. Among texts they may be categories."""

NO_VALUES = frozenset(NULL_NUMBERS)

ZONES = ("date with a zone", "date without a zone")
"""Kinds of texts beside DATE: a column of dates has one of them, as an instant without a zone is none."""

DAYS_AND_CLOCK = (
    r"(?P<days>-?\d{1,8}) days?(?:,? (?P<sign>[-+]?)(?P<hours>\d\d?):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?))?"
)
"""Pattern of a duration as pandas writes it, and as Python does where it has days."""

PRINTF_FORMAT = re.compile(r"%0[1-9]\d?d|%\.[1-9]\d?f")

_WRITTEN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.0|\.\d*[1-9])?(?:e\+?\d\d+|e-\d+|E[-+]\d+)?|-?inf", re.ASCII)
_NUMBER_WORD = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf", re.ASCII)
_TRUTH = {"true": "True", "True": "True", "TRUE": "True", "false": "False", "False": "False", "FALSE": "False"}
_ONES = {"True": "1", "False": "0"}
_CLOCK = r"(?P<time>(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d)?)(?:\.(?P<fraction>\d{1,9}))?"
_TIME = re.compile(_CLOCK, re.ASCII)
_ZONE = r"(?P<zone> ?UTC|Z|[-+]\d\d(?::?\d\d)?)?"
_DATE = re.compile(rf"(?P<day>\d{{4}}-\d\d-\d\d)(?:[ T](?:{_CLOCK}|(?P<hour>[01]\d|2[0-3])){_ZONE})?", re.ASCII)
_DURATION = re.compile(DAYS_AND_CLOCK, re.ASCII)

_EXACT = 2.0**64
"""Whole numbers below have their digits as a word, as 64-bit integers have."""

_DIGITS, _LONGEST = 19, 32
"""Digits and characters of a text that is a number: a longer one is a code, of which float64 would not hold the end."""

DECIMALS = 6
"""Places that a decimal of a database is written with at most, as in 1.500000: amounts have 2 or 4, rates up to 6."""


def arrow_kind(type_: pa.DataType) -> str:
    """The kind of the values of an Arrow type.

    Examples
    --------
    >>> arrow_kind(pa.float32()), arrow_kind(pa.date64()), arrow_kind(pa.dictionary(pa.int8(), pa.string()))
    ('number', 'date', 'text')
    """
    kind = column_type(type_)
    return NUMBER if kind in (INT, FLOAT, DECIMAL) else kind if kind in (BOOL, *TIMES) else TEXT


def to_words(values: pa.Array, kind: str = TEXT) -> list[str | None]:
    """The words of values in a column of this kind, None for a missing one; an empty text is missing.

    Examples
    --------
    >>> to_words(pa.array([3.0, 0.1, None], pa.float32())), to_words(pa.array(["3.0", "x", ""]), "number")
    (['3', '0.1', None], ['3', 'x', None])
    >>> to_words(pa.array([0], pa.timestamp("ns"))), to_words(pa.array([3]), "%02d")
    (['1970-01-01'], ['03'])
    """
    type_kind = arrow_kind(values.type)
    words = _words_by_type(values, type_kind)
    if kind in (TEXT, type_kind):
        return words
    return [None if word is None else in_kind(word, kind) for word in words]


def code_column(column: Any, kind: str = TEXT) -> tuple[list[str | None], NDArray[np.int64]]:
    """The different values of a column as words, None for a missing one, and for each row which of them it has.

    Parameters
    ----------
    kind : of the values

    Examples
    --------
    >>> words, codes = code_column(pa.array(["b", None, "a", "b"]))
    >>> words, codes.tolist()
    (['b', 'a', None], [0, 2, 1, 0])
    """
    encoded = code_values(as_column(column))
    values = to_words(encoded.dictionary, kind)
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    values += [None] * (encoded.indices.null_count > 0)
    words = list(dict.fromkeys(values))
    if len(words) < len(values):  # one value in several spellings
        number = {word: i for i, word in enumerate(words)}
        codes = np.array([number[value] for value in values], np.int64)[codes]
    return words, codes


def _words_by_type(values: pa.Array, type_kind: str) -> list[str | None]:
    """The words of values by their type alone."""
    if type_kind == DATE and not pa.types.is_date(values.type):
        values = values.cast(pa.timestamp(values.type.unit))  # in UTC
    if type_kind == DURATION:
        second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit]
        listed = [None if n is None else str(Decimal(n) / second) for n in values.cast(pa.int64()).to_pylist()]
        return [None if text is None else _number(text) for text in listed]
    if type_kind in (DATE, TIME):
        values = values.cast(pa.string())
    words = [None if value is None or value != value or value == "" else str(value) for value in values.to_pylist()]
    if type_kind in (TEXT, BOOL) or pa.types.is_integer(values.type):
        return words
    return [None if word is None else _VALUE_RULES[type_kind](word) for word in words]


def in_kind(text: str, kind: str) -> str:
    """The word of a text in a column of this kind; a text that is no such value stays as it is.

    Examples
    --------
    >>> in_kind("1e3", "number"), in_kind("TRUE", "bool"), in_kind("7", "%02d"), in_kind("7", "text")
    ('1000', 'True', '07', '7')
    >>> in_kind("2024-01-01T02:00:00.50+02:00", "date"), in_kind("1 days 00:00:00", "duration")
    ('2024-01-01 00:00:00.5', '86400')
    """
    return _VALUE_RULES[kind](text) if kind in _VALUE_RULES else _format(text, kind)


def _number(text: str) -> str:
    if not _NUMBER_WORD.fullmatch(text):
        duration = _DURATION.fullmatch(text)
        return _number(_seconds(*duration.groups())) if duration else _ONES.get(_TRUTH.get(text, ""), text)
    if text.lstrip("+-").isdigit() and len(text) <= _DIGITS:
        return str(int(text))
    value = float(text)
    if value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    with np.errstate(over="ignore"):
        single = np.float32(value)
    # A number that float32 holds may have come through it: 0.10000000149011612 is float32's 0.1.
    return repr(float(str(single)) if float(single) == value else value)


def _format(text: str, kind: str) -> str:
    word = _number(text)
    if kind.endswith("d"):
        return kind % int(word) if word.isdigit() else word
    if not _NUMBER_WORD.fullmatch(word) or "inf" in word:
        return word
    made = f"{Decimal(word):{kind[1:]}}"
    return made if Decimal(made) == Decimal(word) else word


def _truth(text: str) -> str:
    number = _number(text)
    return next((truth for truth, one in _ONES.items() if one == number), text)


def _date(text: str) -> str:
    match = _DATE.fullmatch(text)
    moment = None if match is None else _moment(match)
    if match is None or moment is None:
        return text
    time = _clock(moment.isoformat()[11:], match["fraction"])
    return moment.isoformat()[:10] + ("" if time == "00:00:00" else f" {time}")


def _moment(match: re.Match[str]) -> datetime | None:
    """The date and time of a text, in UTC and without its fraction; None where no calendar has it."""
    zone = (match["zone"] or "").strip().replace("UTC", "Z")
    try:
        moment = datetime.fromisoformat(f"{match['day']}T{match['time'] or (match['hour'] or '00') + ':00'}{zone}")
        return moment.replace(tzinfo=None) - (moment.utcoffset() or timedelta(0))
    except (ValueError, OverflowError):
        return None


def _time(text: str) -> str:
    match = _TIME.fullmatch(text)
    return text if match is None else _clock(match["time"], match["fraction"])


def _clock(time: str, fraction: str | None) -> str:
    rest = (fraction or "").rstrip("0")
    return f"{time}:00"[:8] + (f".{rest}" if rest else "")


def _seconds(days: str, sign: str | None, *clock: str | None) -> str:
    hours, minutes, seconds = (Decimal(part or 0) for part in clock)
    rest = hours * 3600 + minutes * 60 + seconds
    return str(Decimal(days) * 86400 + (-rest if sign == "-" else rest))


_VALUE_RULES: dict[str, Callable[[str], str]] = {
    TEXT: str,
    NUMBER: _number,
    BOOL: _truth,
    DATE: _date,
    TIME: _time,
    DURATION: _number,
}


def kinds_in(words: Iterable[str | None], type_kind: str = TEXT) -> frozenset[str] | None:
    """The kinds that all of these words may have, beside text; None where there are no words.

    Parameters
    ----------
    type_kind : the kind of their type

    Examples
    --------
    >>> sorted(kinds_in(["10", "12", None])), sorted(kinds_in(["01", "12"])), sorted(kinds_in(["1.50", "0.75"]))
    (['%02d', 'number'], ['%02d'], ['%.2f'])
    >>> sorted(kinds_in(["true", "false"])), sorted(kinds_in(["a", "1"])), kinds_in([None])
    (['bool'], [], None)
    >>> sorted(kinds_in(["2024-01-05", "-"])), sorted(kinds_in(["2024-01-05", "2024-01-05T00:00Z"]))
    (['date', 'date without a zone'], ['date'])
    """
    kinds: set[str] | None = None
    for word in words:
        if word is None:
            continue
        if type_kind != TEXT:
            return frozenset((type_kind,))
        fitting = _fitting_kinds(word)
        kinds = fitting if kinds is None else kinds & fitting
        if not kinds:
            break
    return None if kinds is None else frozenset(kinds)


def _fitting_kinds(text: str) -> set[str]:
    if text in NO_VALUES:  # a missing time among times
        return {*TIMES, *ZONES}
    kinds = {kind for kind, pattern in ((TIME, _TIME), (DURATION, _DURATION)) if pattern.fullmatch(text)}
    if (match := _DATE.fullmatch(text)) and _moment(match) is not None:
        kinds |= {DATE, ZONES[not match["zone"]]}
    if text in _TRUTH:
        kinds.add(BOOL)
    whole, point, decimals = text.partition(".")
    if not _NUMBER_WORD.fullmatch(text) or len(text) > _LONGEST or len(re.sub(r"\D", "", text).lstrip("0")) > _DIGITS:
        return kinds
    if _WRITTEN.fullmatch(text):
        kinds.add(NUMBER)
    if not point and whole.isdigit():
        kinds.add(f"%0{len(whole)}d")
    if decimals.isdigit() and _WRITTEN.fullmatch(whole):
        kinds.add(f"%.{len(decimals)}f")
    return kinds


def times_among(kinds: frozenset[str] | None) -> list[str]:
    """The kinds of TIMES that a column can be whose words may have these kinds; any where there are no words.

    Examples
    --------
    >>> times_among(kinds_in(["2024-01-05"])), times_among(kinds_in(["2024-01-05", "2024-01-05T00:00Z"]))
    (['date'], [])
    """
    known = frozenset((*TIMES, *ZONES)) if kinds is None else kinds
    return [kind for kind in TIMES if kind in known and (kind != DATE or known & {*ZONES})]


def kind_among(kinds: frozenset[str] | None) -> str:
    """The kind of a column whose words may have these.

    Examples
    --------
    >>> kind_among(frozenset(("%02d", "number"))), kind_among(frozenset(("%02d",))), kind_among(None)
    ('number', '%02d', 'text')
    """
    return next((kind for kind in (NUMBER, *sorted(kinds or ())) if kind in (kinds or ())), TEXT)


def _clocks(time: str) -> list[str]:
    """A time of day with as many decimals as seconds, milliseconds, microseconds and nanoseconds have."""
    whole, _, fraction = time.partition(".")
    return [time, *(f"{whole}.{fraction:0<{n}}" for n in (3, 6, 9) if len(fraction) <= n)]


def spellings(word: str, kind: str) -> tuple[str, ...]:
    """The texts that libraries write for a word of a column of this kind, itself first.

    Examples
    --------
    >>> spellings("3", "number"), spellings("True", "bool"), spellings("3", "text")
    (('3', '3.0', '3.00', '3.000', ...), ('True', 'true', 'TRUE', '1', '1.0'), ('3',))
    >>> spellings("2024-01-01", "date")[:3]
    ('2024-01-01', '2024-01-01 00:00:00', '2024-01-01T00:00:00')
    """
    made = [word]
    if kind == BOOL:
        made += [text for text in _TRUTH if _TRUTH[text] == word]
        made += {"True": ["1", "1.0"], "False": ["0", "0.0"]}.get(word, [])
    elif kind == DATE:
        day, _, time = word.partition(" ")
        made += [f"{day}{sign}{text}" for text in _clocks(time or "00:00:00") for sign in " T"]
    elif kind == TIME:
        made += _clocks(word)
    elif kind != TEXT and _NUMBER_WORD.fullmatch(number := _number(word)):
        with np.errstate(over="ignore"):
            made += [number, str(float(number)), str(float(np.float32(number)))]
        if number.lstrip("-").replace(".", "").isdigit():
            made += [f"{Decimal(number):.{decimals}f}" for decimals in range(1, DECIMALS + 1)]
    return tuple(dict.fromkeys(text for text in made if in_kind(text, kind) == word))
