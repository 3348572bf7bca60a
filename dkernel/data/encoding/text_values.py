"""Dates, times, durations and numbers that are stored as text: those of CSV, and of tables.

Dates are in ISO 8601 or in a format that is given, durations as pandas writes them, with their days, and numbers in the
notation of a country or a spreadsheet, which an example shows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dkernel.data.arrow import look_up
from dkernel.data.column_types import DATE, DURATION, TEXT, TIME
from dkernel.data.encoding.words import DAYS_AND_CLOCK, NULL_NUMBERS, arrow_kind, to_words
from dkernel.errors import DataError, RecipeError
from dkernel.numerics.validation import RowDescriber

DATES = ("", pa.timestamp("us")), ("", pa.timestamp("us", "UTC")), ("1970-01-01 ", pa.timestamp("us"))
"""What stands before the text, and the type that it is read as: Arrow reads dates of text, and times with a date."""

ISO_FORMAT = "ISO8601"
"""The format of dates that need none, as pandas names it."""

_OTHER_FORMS = {r"(:[0-9]{2}\.[0-9]{6})[0-9]{1,3}": r"\1", " UTC$": "Z"}  # nanoseconds; the zone of BigQuery

_BLANKS, _APOSTROPHES, _MINUS = " \u00a0\u202f", "'\u2019", "\u2212"
_SIGN = f"[-+{_MINUS}]?"
_NUMBER_WITH_UNIT = re.compile(
    rf"\(?{_SIGN}(?P<before>[^\d\0.,()+-]*?){_SIGN}(?P<number>[.,]?\d(?:[\d.,_{_BLANKS}{_APOSTROPHES}]*\d)?)"
    r"(?P<after>[^\d\0.,()+-]*?)\)?",
    re.ASCII,
)


def parse_formats(given: Mapping[str, str] | None) -> dict[str, str]:
    """The format of each named column, "" for dates in ISO 8601; a RecipeError for one of neither dates nor numbers.

    Examples
    --------
    >>> parse_formats({"day": "%d.%m.%Y", "when": "ISO8601", "pay": "$1,234.5"})
    {'day': '%d.%m.%Y', 'when': '', 'pay': '$1,234.5'}
    """
    if given is not None and not isinstance(given, Mapping):
        raise RecipeError(
            f"formats={given!r} is no dict of columns and formats, as {{'day': '%d.%m.%Y', 'pay': '1,234.5'}}."
        )
    for name, form in (given or {}).items():
        if reason := _why_no_format(form):
            raise RecipeError(
                f"formats of {name!r} is {form!r}: {reason}. Possible: '%d.%m.%Y' | '%m/%d/%y %H:%M' | ... | "
                f"'{ISO_FORMAT}', of dates, or one number as all are written: '1,234.5' | '1234,5' | '$1 234.5' | ..."
            )
    return {str(name): "" if form == ISO_FORMAT else form for name, form in (given or {}).items()}


def _why_no_format(form: Any) -> str:
    """Why this is no format of a column; nothing if it is one."""
    if not isinstance(form, str):
        return "it is no text"
    if form == ISO_FORMAT:
        return ""
    if is_number_format(form):
        return "" if read_example(form) else "it is no number, or one that may be read in two ways"
    if not form:
        return "it is empty"
    import pandas as pd

    try:
        pd.to_datetime(["x"], format=form, errors="coerce")
    except (ValueError, TypeError) as error:
        return f"strptime has no such format ({error})"
    return ""


def is_number_format(form: str) -> bool:
    """True of a format of numbers, which is an example of them.

    Examples
    --------
    >>> [is_number_format(form) for form in ("12,5 %", "%d.%m.%Y", "")]
    [True, False, False]
    """
    return bool(form) and re.search("%[A-Za-z]", form) is None


def read_dates(texts: Any, before: str, kind: pa.DataType) -> Any:
    """Texts as times in one of the forms of DATES, without their nanoseconds; an ArrowInvalid where one is not.

    Examples
    --------
    >>> read_dates(pa.array(["9999-12-31 23:59:59.123456789"]), *DATES[0])[0]
    <pyarrow.TimestampScalar: '9999-12-31T23:59:59.123456'>
    """
    texts = pc.binary_join_element_wise(before, texts, "")
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        for form, usual in _OTHER_FORMS.items():
            texts = pc.replace_substring_regex(texts, form, usual)
        return texts.cast(kind)


def read_durations(texts: Any) -> Any:
    """Texts as pandas writes durations, as these; an ArrowInvalid where one is not.

    Those of Python are read too where they name days: it writes two hours as 2:00:00, which may be a time of day.

    Examples
    --------
    >>> read_durations(pa.array(["0 days 02:21:00.5", "-1 days +23:00:00", None])).cast(pa.int64()).to_pylist()
    [8460500000, -3600000000, None]
    """
    parts = pc.extract_regex(texts, f"^{DAYS_AND_CLOCK}$")
    if parts.null_count > texts.null_count:
        raise pa.ArrowInvalid("a text that is no duration")
    fields = {name: pc.struct_field(parts, name) for name in ("days", "sign", "hours", "minutes", "seconds")}
    sign = pc.if_else(pc.equal(fields.pop("sign"), "-"), -1, 1)
    days, hours, minutes, seconds = (
        pc.if_else(pc.equal(each, ""), "0", each).cast(pa.float64()) for each in fields.values()
    )
    clock = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    total = pc.add(pc.multiply(days, 86_400), pc.multiply(sign, clock))
    return pc.round(pc.multiply(total, 1_000_000)).cast(pa.int64()).cast(pa.duration("us"))


_DATE_READERS = [partial(read_dates, before=before, kind=kind) for before, kind in DATES]
_USUAL_FORMS: Mapping[str, tuple[Sequence[Callable[[Any], Any]], str, str]] = {
    "": (_DATE_READERS, "a date or time", "dates or times"),
    DATE: (_DATE_READERS[:2], "a date or time as 2026-01-31 10:30", "dates"),
    TIME: (_DATE_READERS[2:], "a time of day as 10:30", "times of day"),
    DURATION: ([read_durations], "a duration", "durations"),
}
"""Forms that need no format: the functions that read them, what one value is, and what several are."""


def without_words(texts: Any, words: Sequence[str]) -> Any:
    """Texts, missing where they are one of some words."""
    return pc.if_else(pc.is_in(texts, pa.array(words)), pa.scalar(None, pa.string()), texts)


def values_of_texts(column: Any, name: str, describe: RowDescriber, form: str) -> Any:
    """The times or numbers of a column of texts, missing where they are NULL_NUMBERS; a DataError names another's row.

    Parameters
    ----------
    form : the format of the texts, or of dates that are numbers as 20240131; one of TIMES where it is the usual one of
        these, "" of dates or times of day, both in ISO 8601

    Examples
    --------
    >>> values_of_texts(pa.chunked_array([["2024-01-31", "-"]]), "day", str, "").to_pylist()
    [datetime.datetime(2024, 1, 31, 0, 0), None]
    >>> values_of_texts(pa.array([20240131]), "day", str, "%Y%m%d").to_pylist()
    [datetime.datetime(2024, 1, 31, 0, 0)]
    >>> values_of_texts(pa.array(["$1,200", "?"]), "pay", str, "$1,234.5").to_pylist()
    [1200.0, None]
    """
    values, wrong = _read_column(column, form)
    if wrong:
        row, reason = min(wrong.items())
        more = ". Change formats, or mend the value"
        if form in _USUAL_FORMS:
            more = f", and the column's other values are {_USUAL_FORMS[form][2]}"
        raise DataError(f"{describe(row)}, column {name!r}: {reason}{more}.")
    return values


def read_times(texts: Any, kind: str) -> Any:
    """The times of texts, missing where they are NULL_NUMBERS; None where one is no time of this kind of TIMES.

    Examples
    --------
    >>> read_times(pa.array(["1 days", "-"]), DURATION).to_pylist(), read_times(pa.array(["10:30", "noon"]), TIME)
    ([datetime.timedelta(days=1), None], None)
    """
    times, wrong = _read_column(texts, kind)
    return None if wrong else times


def find_wrong_texts(column: Any, form: str) -> dict[int, str]:
    """The rows whose text is no value in this format, with the reason; missing values are allowed."""
    return _read_column(column, form)[1]


def _read_column(column: Any, form: str) -> tuple[Any, dict[int, str]]:
    """The times or numbers of the texts of a column, and the rows that have a text and no value, with the reason."""
    texts = as_texts(column)
    values = _read_values(texts, form)
    rows = np.flatnonzero(pc.and_(texts.is_valid(), values.is_null()))
    what = f"no {'number' if is_number_format(form) else 'date'} as {form}"
    what = f"not {_USUAL_FORMS[form][1]}" if form in _USUAL_FORMS else what
    found = zip(rows.tolist(), texts.take(rows).to_pylist(), strict=True)
    return values, {row: f"{text[:60]!r} is {what}" for row, text in found}


def as_texts(column: Any) -> Any:
    """The texts of a column, or the words of its numbers, missing where they are NULL_NUMBERS."""
    column = look_up(column)
    if arrow_kind(column.type) != TEXT:
        distinct = pc.unique(column)
        column = pa.array(to_words(distinct), pa.string()).take(pc.index_in(column, distinct))
    try:
        texts = column.cast(pa.string())
    except pa.ArrowInvalid:  # bytes that are no text, and so no date
        words = column.to_pylist()
        texts = pa.array([None if word is None else word.decode("utf-8", "backslashreplace") for word in words])
    return without_words(texts, NULL_NUMBERS)


def _read_values(texts: Any, form: str) -> Any:
    """The times or numbers of texts, missing where a text is none."""
    if form not in _USUAL_FORMS:
        number = read_example(form) if is_number_format(form) else None
        return number.to_plain(texts).cast(pa.float64()) if number else _read_format(texts, form)
    readers = _USUAL_FORMS[form][0]
    for read in readers:
        try:
            return read(texts)
        except pa.ArrowInvalid:
            continue
    words = pc.unique(texts.drop_null()).to_pylist()
    wrong = {read: [word for word in words if not _is(word, read)] for read in readers}
    best = min(wrong, key=lambda read: len(wrong[read]))
    return best(without_words(texts, wrong[best]))


def _read_format(texts: Any, form: str) -> Any:
    import pandas as pd

    distinct = pc.unique(texts)
    words = distinct.to_pylist()
    if not re.search("%[cxYyG]", form):  # a time alone is one of 1970, as in ISO 8601
        words, form = [None if word is None else f"1970 {word}" for word in words], f"%Y {form}"
    moments = pd.to_datetime(pd.Series(words, dtype=object), format=form, utc=True, errors="coerce")
    return pa.array(moments.dt.tz_localize(None).dt.as_unit("us")).take(pc.index_in(texts, distinct))


def _is(word: str, read: Callable[[Any], Any]) -> bool:
    try:
        read(pa.array([word]))
    except pa.ArrowInvalid:
        return False
    return True


@dataclass(frozen=True)
class NumberForm:
    """How numbers are written: what stands before and after, between thousands, and before the fraction.

    Examples
    --------
    >>> form = read_example("$1,234.5")
    >>> form
    NumberForm(before='$', after='', thousands=',', decimal='.')
    >>> form.to_plain(pa.array(["$48,984.60", "-$7", "($1.5)", "$0,125", "12", "NA"])).to_pylist()
    ['48984.60', '-7', '-1.5', None, None, None]
    """

    before: str = ""
    after: str = ""
    thousands: str = ""
    decimal: str = "."

    @property
    def pattern(self) -> str:
        """Regular expression of the texts of numbers."""
        dot = re.escape(self.decimal)
        digits = rf"[1-9][0-9]{{0,2}}(?:[{_like(self.thousands)}][0-9]{{3}})+|" if self.thousands else ""
        number = rf"(?:(?:{digits}[0-9]+)(?:{dot}[0-9]*)?|{dot}[0-9]+)(?:[eE][-+]?[0-9]{{1,3}})?"
        unit, units = (f"{_escape(each)}[{_BLANKS}]?" if each else "" for each in (self.before, self.after))
        blank = f"[{_BLANKS}]?" if units else ""
        core = f"{_SIGN}{unit}{'' if not unit else _SIGN}{number}{blank}{units}"
        return rf"^(?:{core}|\({core}\))$"

    def to_plain(self, texts: Any) -> Any:
        """The texts of numbers as programs write them, null where a text is no number of this form."""
        texts = pc.utf8_trim_whitespace(texts)
        made = pc.if_else(pc.match_substring_regex(texts, self.pattern), texts, pa.scalar(None, texts.type))
        for word in filter(None, (self.before, self.after, *_like(self.thousands))):
            made = pc.replace_substring(made, word, "")
        made = made if self.decimal == "." else pc.replace_substring(made, self.decimal, ".")
        if not pc.any(pc.match_substring_regex(made, "[^-0-9.eE]|--")).as_py():
            return made
        for sign, other in ((_MINUS, "-"), ("(", "-"), (")", ""), ("--", "-")):
            made = pc.replace_substring(made, sign, other)
        return pc.replace_substring_regex(made, rf"^\+|[{_BLANKS}]", "")


DECIMAL_COMMA = NumberForm(decimal=",")


def _like(sign: str) -> str:
    """The signs that are one to a reader: spaces of all widths, straight and curved apostrophes."""
    return next((same for same in (_BLANKS, _APOSTROPHES) if sign and sign in same), sign)


def _escape(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII) if text.isascii() else text


def read_example(example: str) -> NumberForm | None:
    """The form of an example such as 1,234.5 or $7; None where it is no number, or may be read in two ways, as 1,234.

    Examples
    --------
    >>> [read_example(text).thousands for text in ("1,234.5", "1.234.567", "1 234", "0,125", "1234,5")]
    [',', '.', ' ', '', '']
    >>> read_example("1,234"), read_example("12,34,567"), read_example("7 kg").after
    (None, None, 'kg')
    """
    match = _NUMBER_WITH_UNIT.fullmatch(example.strip())
    if match is None:
        return None
    number = match["number"]
    signs = "".join(dict.fromkeys(re.sub(r"\d", "", number)))
    decimal = signs[-1:] if signs[-1:] in (",", ".") and number.count(signs[-1:]) == 1 else ""
    whole, _, fraction = number.rpartition(decimal) if decimal else (number, "", "")
    thousands = signs.replace(decimal, "")
    if decimal and not thousands and len(fraction) == 3 and len(whole) <= 3 and whole[:1] != "0":
        return None
    if not decimal:
        decimal = "," if thousands == "." else "."
    form = NumberForm(match["before"].strip(), match["after"].strip(), thousands, decimal)
    return form if len(thousands) <= 1 and re.match(form.pattern, example.strip()) else None


def suggest_examples(words: Sequence[str]) -> list[str]:
    """Examples of the forms in which all of these texts are numbers, one for each meaning that they may have.

    Examples
    --------
    >>> [suggest_examples(words) for words in (["48,984.60", "999.5"], ["950 kg", "1,200 kg"], ["7 %", "$5"])]
    [['1,234.5'], ['1234,5 kg', '1,234.5 kg'], []]
    """
    texts = pa.array(words, pa.string())
    match = next(filter(None, (_NUMBER_WITH_UNIT.fullmatch(word.strip()) for word in words)), None)
    before, after = ("", "") if match is None else (match["before"], match["after"])
    found: dict[str, str] = {}
    for number in (f"1{sign}234{dot}5" for sign in ("", ",", ".", " ", "'", "_") for dot in ".," if sign != dot):
        example = f"{before}{number}{after}"
        form = read_example(example)
        if form is not None and (plain := form.to_plain(texts)).null_count == 0:
            found.setdefault(repr(plain.cast(pa.float64()).to_pylist()), example)
    return list(found.values())
