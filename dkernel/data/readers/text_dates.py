"""Dates and times that are stored as text: those of CSV, and of tables for a model that knows a date."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from dkernel.errors import DataError
from dkernel.numerics.validation import RowPlace

NULLS = (*arrow_csv.ConvertOptions().null_values, "None", "<NA>", "NaT", "\\N")
"""Words for a missing value: pyarrow's, and those that pandas and databases write beside them."""

NULL_NUMBERS = (*NULLS, "?", "-", "--", ".", "na", "n.a.", "none")
"""Words for a missing number or date. Among texts they may be categories."""

DATES = ("", pa.timestamp("us")), ("", pa.timestamp("us", "UTC")), ("1970-01-01 ", pa.timestamp("us"))
"""What stands before the text, and the type that it is read as: Arrow reads dates of text, and times with a date."""

_OTHER_FORMS = {r"(:[0-9]{2}\.[0-9]{6})[0-9]{1,3}": r"\1", " UTC$": "Z"}  # nanoseconds; the zone of BigQuery


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


def without_words(texts: Any, words: Sequence[str]) -> Any:
    """Texts, missing where they are one of some words."""
    return pc.if_else(pc.is_in(texts, pa.array(words)), pa.scalar(None, pa.string()), texts)


def dates_of_texts(texts: Any, name: str, place: RowPlace) -> Any:
    """The times of a column of texts, missing where they are NULL_NUMBERS; a DataError that names the row of another.

    Examples
    --------
    >>> dates_of_texts(pa.chunked_array([["2024-01-31", "-"]]), "day", str).to_pylist()
    [datetime.datetime(2024, 1, 31, 0, 0), None]
    """
    known = without_words(texts.cast(pa.string()), NULL_NUMBERS)
    for form in DATES:
        try:
            return read_dates(known, *form)
        except pa.ArrowInvalid:
            continue
    row, reason = min(no_dates(texts).items())
    raise DataError(f"{place(row)}, column {name!r}: {reason}, and the column's other values are dates or times.")


def no_dates(texts: Any) -> dict[int, str]:
    """The rows whose text is not a date or time, with the reason; missing values are allowed."""
    words = texts.cast(pa.string()).to_pylist()
    distinct = {word for word in words if word is not None and word not in NULL_NUMBERS}
    fits = {form: {word for word in distinct if _is(word, *form)} for form in DATES}
    best = max(DATES, key=lambda form: len(fits[form]))
    wrong = distinct - fits[best]
    return {row: f"{word[:60]!r} is not a date or time" for row, word in enumerate(words) if word in wrong}


def _is(word: str, before: str, kind: pa.DataType) -> bool:
    try:
        read_dates(pa.array([word]), before, kind)
    except pa.ArrowInvalid:
        return False
    return True
