"""Finds numbers and dates that were written as text in the notation of a country or a spreadsheet."""

import re
from collections.abc import Iterable

NUMBER = re.compile(
    r"[-+\u2212(]?[$€£¥]? ?(?:\d{1,3}(?:[,.' \u2019\u00a0\u202f]\d{3})+|\d+)(?:[.,]\d+)?(?:[eE][-+]?\d+)? ?[%$€£¥]?\)?"
)
PLAIN = re.compile(r"\d+")  # a ZIP code looks like this, and is a category
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d.*)?")
DATE = re.compile(
    rf"(?:\d{{1,2}}[/.-]\d{{1,2}}[/.-]\d{{4}}|\d{{4}}[/.-]\d{{1,2}}[/.-]\d{{1,2}}|\d{{1,2}}/\d{{1,2}}/\d{{2}}"
    rf"|{MONTH} \d{{1,2}},? \d{{4}}|\d{{1,2}}[ -]{MONTH}[ -]\d{{4}})(?:[ T]\d.*)?",
    re.IGNORECASE,
)


def example_of(words: Iterable[str | None]) -> str | None:
    """One of texts that are all numbers or dates in a notation; "" if one of them is none, None if there are no texts.

    One that is no ISO date goes before those that are.

    Examples
    --------
    >>> example_of(["0,5", "1.234,5", None]), example_of(["7 %", "$12.50"]), example_of(["5/1/2024", "Jan 5, 2024"])
    ('0,5', '7 %', '5/1/2024')
    >>> example_of(["02138", "10115"]), example_of(["Basel", "0,5"]), example_of([None])
    ('', '', None)
    """
    first = None
    for word in words:
        if not word:
            continue
        if PLAIN.fullmatch(word) or not (NUMBER.fullmatch(word) or DATE.fullmatch(word)):
            return ""
        if first is None or is_iso(first):
            first = word
    return first


def is_iso(word: str) -> bool:
    """True for a date that every program reads as the same."""
    return ISO.fullmatch(word) is not None


def is_date(word: str) -> bool:
    """True for a date."""
    return DATE.fullmatch(word) is not None
