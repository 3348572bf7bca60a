"""The rows of CSV text that cannot be read, each looked at alone, with the reason; and the error of the first."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dkernel.data.encoding.text_values import NumberForm
from dkernel.data.readers.arrow_tables import code_texts, rows_without_text
from dkernel.data.readers.csv_fields import PLAIN_NUMBER, Fields, Header, parse_rows, split_fields
from dkernel.data.refused_columns import RefusedColumnsError
from dkernel.data.rejected_rows import RejectedRow
from dkernel.errors import DataError
from dkernel.numerics.validation import RowDescriber

CheckColumn = Callable[[pa.ChunkedArray], Mapping[int, str]]
"""The texts of a column, as bytes -> the rows that are bad, with the reason."""

_LEAVE_OUT = "leave such rows out with max_bad_rows=N"


def refuse_fields(
    fields: Fields, header: Header, checks: Mapping[str, CheckColumn], name: str
) -> dict[int, RejectedRow]:
    """The rows that have too few or too many values, or one that the check of its column refuses.

    Parameters
    ----------
    name : of the text, for messages
    """
    n = len(header.names)
    refused = {
        row: RejectedRow("", f"{fields.widths[row]} values where the header has {n}")
        for row in np.flatnonzero(fields.widths != n).tolist()
    }
    rows = np.flatnonzero(fields.widths == n)
    if not len(rows):
        return refused
    try:
        table = parse_rows(fields.rows.join(rows), header, list(checks), dict.fromkeys(checks, pa.binary()))
    except pa.ArrowInvalid as error:
        raise DataError(f"{name}: the text cannot be read as CSV ({error}).") from None
    if len(table) != len(rows):
        raise DataError(
            f"{name}, from line {fields.rows.number(0)} on: {len(table)} rows were read where {len(rows)} were "
            "counted: the quotes do not stand where CSV has them."
        )
    for column, check in checks.items():
        for i, reason in check(table.column(column)).items():
            refused.setdefault(int(rows[i]), RejectedRow(column, reason))
    return refused


def no_values(column: pa.ChunkedArray, kind: pa.DataType, form: NumberForm | None, missing: bool) -> dict[int, str]:
    """The rows whose text gives no value of this type, with the reason; with `missing` there may be none.

    Parameters
    ----------
    form : of numbers that have other signs than 1234.5
    """
    words, codes = code_texts(column)
    sure = np.zeros(len(words), bool)
    if kind == pa.float64():
        usual = PLAIN_NUMBER if form is None else form.pattern
        sure = pc.match_substring_regex(pa.array(words, pa.binary()), usual).to_numpy(zero_copy_only=False)
    verdicts = {code: _verdict(words[code], kind, form, missing) for code in np.flatnonzero(~sure).tolist()}
    wrong = {code: reason for code, reason in verdicts.items() if reason}
    return {row: wrong[int(codes[row])] for row in np.flatnonzero(np.isin(codes, list(wrong))).tolist()}


def _verdict(word: bytes, kind: pa.DataType, form: NumberForm | None, missing: bool) -> str:
    """The reason why pyarrow.csv does not read the word as a value of this type; nothing if it does."""
    quoted = b'"' + word.replace(b'"', b'""') + b'"\n'
    try:
        header = Header(("x",), 0, ";", forms={"x": form} if form else {})
        column = parse_rows(quoted, header, ["x"], {"x": kind}).column("x")
    except pa.ArrowInvalid:
        what = {pa.float64(): "a number", pa.int64(): "a whole number"}.get(kind, "true or false")
        text = word.decode("utf-8", "backslashreplace")
        return f"{text if len(text) <= 60 else text[:60] + '...'!r} is not {what}"
    return "the value is missing" if column.null_count and not missing else ""


def no_text(column: pa.ChunkedArray) -> dict[int, str]:
    """The rows whose bytes are no text, with the reason."""
    return dict.fromkeys(rows_without_text(column), "the text is not UTF-8")


def explain_parse(
    error: object,
    data: bytes,
    header: Header,
    types: Mapping[str, pa.DataType],
    describe: RowDescriber,
    at_top: bool = False,
) -> DataError:
    """The error of the first row that cannot be read as columns of these types.

    Parameters
    ----------
    error : what is known where none is found
    at_top : whether the rows begin below the header
    """
    checks: dict[str, CheckColumn] = {
        name: no_text
        if kind == pa.string()
        else partial(no_values, kind=kind, form=header.forms.get(name), missing=True)
        for name, kind in types.items()
    }
    try:
        fields = split_fields(data, header.delimiter)
    except DataError as failure:
        return DataError(f"{describe(0)}, or below: {failure}.")
    refused = refuse_fields(fields, header, checks, describe(0))
    if not refused:
        return DataError(f"{describe(0)}, or below: the text cannot be read as CSV ({error}).")
    row = min(refused)
    why = refused[row]
    if not why.column:
        title = " Nothing may stand above the names of the columns, and each needs one." * (at_top and row == 0)
        return DataError(f"{describe(row)}: {why.reason}.{title} Correct it, or {_LEAVE_OUT}.")
    advice = f"Correct it, leave it empty, name the column as a category, or {_LEAVE_OUT}."
    if types[why.column] == pa.string():
        advice = "Give its --encoding (latin-1, ...) or save it as UTF-8."
    return RefusedColumnsError(describe(row), {why.column: f"{why.reason}. {advice}"})
