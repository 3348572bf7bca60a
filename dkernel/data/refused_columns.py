"""Refusals of columns: one error for all columns that cannot be read as they are, each with what to write."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TypeVar

from dkernel.data.encoding.counts import CategoryCount
from dkernel.data.encoding.notation import NOTATION, is_date
from dkernel.data.encoding.text_values import suggest_examples
from dkernel.data.encoding.words import NO_VALUES
from dkernel.errors import DataError, mask_urls

Result = TypeVar("Result")

_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%y", "%m/%d/%y")
_MONTHS = (
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%d-%b-%Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d/%b/%Y",
    "%a, %d %b %Y",
    "%Y-%m-%d",
)
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", "T%H:%M:%S", " %H:%M:%S GMT", ":%H:%M:%S %z")


class RefusedColumnsError(DataError):
    """Columns that cannot be read as they are.

    Parameters
    ----------
    where : the file, or X
    columns : name -> what was found and what to write; the text of several is one for each line
    rows : that were looked at; 0 where types alone were

    Examples
    --------
    >>> print(RefusedColumnsError("t.csv", {"x": "it holds lists. Leave it out."}))
    t.csv, column 'x': it holds lists. Leave it out.
    """

    def __init__(self, where: str, columns: Mapping[str, str], rows: int = 0) -> None:
        self.where, self.columns, self.rows = mask_urls(where), dict(columns), rows
        looked = f" ({rows:,} rows were looked at)" * (rows > 0)
        if len(columns) == 1:
            name, said = next(iter(columns.items()))
            text = f"{where}{looked}, column {name!r}: {said}"
        else:
            lines = "".join(f"\n  {name!r}: {said}" for name, said in columns.items())
            text = f"{where}{looked}: {len(columns)} columns cannot be read as they are.{lines}"
        super().__init__(text)

    def join(self, other: "RefusedColumnsError") -> "RefusedColumnsError":
        """The refusals of both, each with its place in what both have."""
        where = min(self.where, other.where, key=len)
        columns: dict[str, str] = {}
        for error in (other, self):
            place = error.where.removeprefix(where).lstrip(", ")
            columns |= {name: f"{place}: {said}" if place else said for name, said in error.columns.items()}
        return RefusedColumnsError(where, columns, max(self.rows, other.rows))

    def __reduce__(self) -> tuple[type["RefusedColumnsError"], tuple[str, dict[str, str], int]]:
        return type(self), (self.where, self.columns, self.rows)


def collect_refusals(attempt: Callable[[frozenset[str]], Result]) -> Result:
    """What `attempt` gives; where it refuses columns, the error of all columns that it refuses, one after the other.

    Parameters
    ----------
    attempt : does the work without some columns
    """
    refused: RefusedColumnsError | None = None
    while True:
        try:
            result = attempt(frozenset(refused.columns if refused else ()))
        except RefusedColumnsError as error:
            if refused is not None and error.columns.keys() <= refused.columns.keys():
                raise refused from None
            refused = error if refused is None else refused.join(error)
        except DataError:
            if refused is None:
                raise
            raise refused from None  # without these columns there is nothing to do
        else:
            if refused is not None:
                raise refused
            return result


def refuse_notations(texts: Mapping[str, CategoryCount], where: str, rows: int) -> None:
    """Refuse the columns of texts that are numbers or dates in a notation that no program reads without being told."""
    found = {
        name: explain_notation(name, list(count.counts), count.notation or "", where)
        for name, count in texts.items()
        if count.meaning == NOTATION
    }
    if found:
        raise RefusedColumnsError(where, found, rows)


def explain_notation(name: str, words: Sequence[str], example: str, where: str, use: str = "feature") -> str:
    """What was found in a column and what to write.

    Parameters
    ----------
    words : different texts of the column
    example : one of them, in the notation that is refused
    use : "feature" | "label" | "model": a label and a column that a model needs cannot be left out

    Examples
    --------
    >>> print(explain_notation("day", ["26.05.2023"], "26.05.2023", "t.csv"))
    dates such as '26.05.2023'. Add formats={'day': '%d.%m.%Y'}. (Or exclude='day'.)
    >>> print(explain_notation("pay", ["950", "1,200"], "1,200", "X"))
    numbers such as '1,200'. Add formats={'pay': '1234,5'} or formats={'pay': '1,234.5'}. (Or leave it out.)
    """
    present = [word for word in words if word.strip() and word not in NO_VALUES]
    what, forms, plain = "numbers", suggest_examples, "as 1234.5"
    if is_date(example):
        what, forms, plain = "dates", _fitting_dates, "as 2024-12-31, all with a zone or none"
    found = [f"formats={{{name!r}: {form!r}}}" for form in forms(present)]
    advice = f"Add {' or '.join(found)}." if found else f"They have no common form: write all {plain}."
    if use == "model":
        advice = f"Write all {plain}, or train with {' or '.join(found)}."
    way_out = f" (Or {'leave it out' if where == 'X' else f'exclude={name!r}'}.)" if use == "feature" else ""
    return f"{what} such as {example!r}. {advice}{way_out}"


def _fitting_dates(words: Sequence[str]) -> list[str]:
    """The formats of strptime in which all of these texts are dates."""
    import pandas as pd

    texts = pd.Series(words, dtype=object)
    forms = (day + clock for day, clock in product((*_DAYS, *_MONTHS), _CLOCKS))
    return [form for form in forms if pd.to_datetime(texts, format=form, utc=True, errors="coerce").notna().all()]
