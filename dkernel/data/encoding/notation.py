"""What the texts of a column mean: times, numbers or dates in the notation of a country or a spreadsheet, or words."""

import re
from collections.abc import Iterable, Sequence

from dkernel.data.column_types import TEXT
from dkernel.data.encoding.words import NO_VALUES, times_among

THOUSANDS = ",._' \u2019\u00a0\u202f"
AMOUNT = rf"[-+\u2212(]?[$€£¥]? ?(?:\d{{1,3}}(?:[{THOUSANDS}]\d{{3}})+|\d+|(?=\.\d))(?:[.,]\d+)?(?:[eE][-+]?\d+)?"
NUMBER_NOTATION = re.compile(rf"{AMOUNT} ?[%$€£¥]?\)?")
USUAL_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?", re.ASCII)  # a number that every program reads
PLAIN = re.compile(r"\d+", re.ASCII)  # a ZIP code looks like this, and is a category
QUANTITY = re.compile(rf"{AMOUNT}[ \u00a0]?([^\W\d_]{{1,12}}(?:/[^\W\d_]{{1,3}})?[23²³]?)")
CURRENCY = re.compile(rf"(USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|BRL|MXN|KRW|ZAR) ?{AMOUNT}")
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
CLOCK = r"(?:[ T:]\d.*)?"
ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d.*)?")  # a date that every program reads as the same
DATE_NOTATION = re.compile(
    rf"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,? )?(?:(?:\d{{1,2}}[/.-]\d{{1,2}}[/.-]\d{{4}}"
    rf"|\d{{4}}[/.-]\d{{1,2}}[/.-]\d{{1,2}}|\d{{1,2}}/\d{{1,2}}/\d{{2}}"
    rf"|{MONTH} \d{{1,2}},? \d{{4}}|\d{{1,2}}\.?[ /-]{MONTH}[ /-]\d{{4}}){CLOCK}|{MONTH} +\d{{1,2}} \d\d:.* \d{{4}})",
    re.IGNORECASE,
)

MOMENT = re.compile(
    rf"{MONTH}[ -]\d{{4}}|(?:19|20)\d{{2}}-(?:0[1-9]|1[0-2])|\d{{4}}[ /-]?q[1-4]|q[1-4][ /-]?\d{{4}}"
    r"|(?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?: ?[ap]m)?|-?\d+ days?,? [+-]?\d+:[0-5]\d:[0-5]\d(?:\.\d+)?"
    r"|\d{2,}:[0-5]\d:[0-5]\d(?:\.\d+)?"
    r"|-?P(?!$)(?:\d+(?:[.,]\d+)?[YMWD])*(?:T(?:\d+(?:[.,]\d+)?[HMS])+)?",
    re.IGNORECASE,
)

SEVERAL_NOTATIONS = 12
"""Different values of a column that tell an amount from a code of a few."""

FEW_UNITS = 3  # as year, years, month

NOTATION = "notation"
"""What texts mean that are numbers or dates which no program reads without being told how they are written."""


def find_meaning(example: str | None, kinds: frozenset[str] | None) -> str:
    """What texts mean: one of TIMES, NOTATION, or TEXT of a category. All doors of the data ask it.

    Parameters
    ----------
    example : of `find_example`, for all texts of the column
    kinds : of `words.kinds_in`, for all texts of the column

    Examples
    --------
    >>> from dkernel.data.encoding.words import kinds_in
    >>> columns = (["2024-01-05", "-"], ["10:30"], ["0,5", "?"], ["2024-01-05", "2024-01-05T00:00Z"], ["10", "2a"])
    >>> [find_meaning(find_example(words), kinds_in(words)) for words in columns]
    ['date', 'time', 'notation', 'notation', 'text']
    """
    times = [] if kinds is None or example is None else times_among(kinds)
    return times[0] if times else NOTATION if example and not is_plain(example) else TEXT


def find_example(words: Iterable[str | None]) -> str | None:
    """One of some texts that are all numbers or dates; "" if one of them is neither, None if there are no texts.

    One in a notation that programs do not read goes before numbers and ISO dates, and these go before digits alone.

    Examples
    --------
    >>> [find_example(words) for words in (["0,5", "1.234,5", None], ["7 %", "$12.50"], ["5/1/2024", "Jan 5, 2024"])]
    ['1.234,5', '$12.50', 'Jan 5, 2024']
    >>> [find_example(words) for words in (["999", "1,000"], ["02138", "10115"], ["Basel", "0,5"], [None])]
    ['1,000', '02138', '', None]
    """
    first = None
    for word in words:
        if word is None or not word.strip() or word in NO_VALUES:
            continue
        if not is_amount(word):
            return ""
        first = word if first is None else foremost(first, word)
    return first


def foremost(one: str, other: str) -> str:
    """The one of two examples that is to be named: of two alike the longer, which tells more."""

    def rank(word: str) -> tuple[int, int]:
        usual = USUAL_NUMBER.fullmatch(word) is not None
        return -usual - 2 * bool(ISO.fullmatch(word)) - 2 * is_plain(word), len(word)

    return max(one, other, key=rank)


def remark_on(words: Sequence[str]) -> str | None:
    """A remark on the different values of a category: amounts with a unit, months or times, or nearly all numbers.

    Examples
    --------
    >>> remark_on([f"{i} kg" for i in range(20)])
    "numbers with a unit, such as '0 kg'"
    >>> remark_on([*map(str, range(20)), "?"])
    "numbers or dates, such as '0', but for '?'"
    >>> remark_on(["3 kg", "5 kg"]), remark_on([f"row {i}" for i in range(20)])
    (None, None)
    """
    matches = [QUANTITY.fullmatch(word.strip()) or CURRENCY.fullmatch(word.strip()) for word in words]
    units = {match[1] for match in matches if match}
    if len(words) >= SEVERAL_NOTATIONS and all(matches) and len(units) <= FEW_UNITS:
        return f"numbers with a unit, such as {words[0]!r}"
    if len(words) >= SEVERAL_NOTATIONS and all(MOMENT.fullmatch(word.strip()) for word in words):
        return f"months, times or durations, such as {words[0]!r} (see pandas.to_datetime, to_timedelta)"
    others = [word for word in words if not is_amount(word)]
    amounts = len(words) - len(others)
    if others and amounts >= SEVERAL_NOTATIONS * len(others):
        example = next(word for word in words if is_amount(word))
        return f"numbers or dates, such as {example!r}, but for {', '.join(map(repr, others[:FEW_UNITS]))}"
    return None


def is_amount(word: str) -> bool:
    """True for a number or a date, in any notation."""
    text = word.replace("\0", "").strip()
    return (NUMBER_NOTATION.fullmatch(text) or DATE_NOTATION.fullmatch(text)) is not None


def is_plain(word: str) -> bool:
    """True for digits alone."""
    return PLAIN.fullmatch(word) is not None


def is_date(word: str) -> bool:
    """True for a date."""
    return DATE_NOTATION.fullmatch(word.strip()) is not None
