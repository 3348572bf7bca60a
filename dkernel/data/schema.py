"""What training saw of the columns of a table: their types, zones, gaps, ranges and levels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.column_types import DATE, TIME
from dkernel.data.encoding import CategoryColumn, Encoding, NumberColumn
from dkernel.data.encoding.columns import ONE_HOT

MOST_LISTED = 40  # columns that have a line


@dataclass(frozen=True)
class ColumnSchema:
    """What training saw of one column.

    Parameters
    ----------
    type : {"number", "date", "time", "duration", "category"}
        How the column is read. A number may be whole, a fraction, a decimal or a truth value.
    zoned : bool, default=None
        Whether the times had a zone; None of what has none.
    missing : float, default=None
        Share of the rows without a value, weighted as the rows are; None where gaps were not told from the mean.
    range : tuple of two floats, default=None
        The smallest and the largest value, of rows that count: of dates in seconds since 1970 in UTC, of times of day
        since midnight, of durations in seconds. None of a category.
    levels : tuple of str, default=()
        The values of a category that the model tells from others, at most 1,000.

    Examples
    --------
    >>> str(ColumnSchema("number", missing=0.25, range=(0.0, 9.5)))
    'number 0 to 9.5, missing 25 %'
    >>> str(ColumnSchema("date", True, 0.0, (0.0, 86400.0)))
    'date with a zone 1970-01-01 to 1970-01-02'
    """

    type: str
    zoned: bool | None = None
    missing: float | None = None
    range: tuple[float, float] | None = None
    levels: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [self.type]
        if self.zoned:
            words.append("with a zone")
        if self.range is not None:
            words.append(" to ".join(map(self._show, self.range)))
        if self.type == "category":
            first = ", ".join(repr(level[:20]) for level in self.levels[:4]) + ", ..." * (len(self.levels) > 4)
            words.append(f"of {len(self.levels):,} levels: {first}" if first else "of values that hardly came twice")
        return " ".join(words) + (f", missing {100 * self.missing:.2g} %" if self.missing else "")

    def _show(self, value: float) -> str:
        if self.type == DATE:
            return str(np.datetime64(round(value), "s").astype("datetime64[D]"))
        if self.type == TIME:
            return str(np.datetime64(round(value), "s"))[11:]
        return f"{value:.6g}"


def list_columns(columns: Mapping[str, object]) -> list[tuple[str, str]]:
    """The first columns, each with its text, and how many more there are."""
    listed = [(name, str(text)) for name, text in islice(columns.items(), MOST_LISTED)]
    more = len(columns) - len(listed)
    return [*listed, ("", f"and {more:,} more (--json has all)")] if more else listed


def describe_columns(
    encoding: Encoding, low: NDArray[np.float64], high: NDArray[np.float64], mean: NDArray[np.float64]
) -> dict[str, list[Any]]:
    """What a model file keeps of the columns beside their encoding: "missing" and "range" of each, as JSON.

    Parameters
    ----------
    low, high, mean : of the inputs (width,)
    """
    absent = None if encoding.missing == "mean" else 0.0  # without an input for gaps there were none
    missing: list[float | None] = []
    ranges: list[list[float] | None] = []
    for column in encoding.columns:
        first = encoding.positions[column.name].start
        if isinstance(column, NumberColumn):
            ranges.append([float(each[first]) + column.offset for each in (low, high)])
            missing.append(round(float(mean[first + 1]), 6) if column.indicator else absent)
        else:
            ranges.append(None)
            missing.append(round(float(mean[first + len(column.levels)] / ONE_HOT), 6) if column.missing else 0.0)
    return {"missing": missing, "range": ranges}


def make_schema(
    columns: Sequence[str], encoding: Encoding | None, facts: Mapping[str, Sequence[Any]]
) -> dict[str, ColumnSchema]:
    """Column -> what training saw of it, from what `describe_columns` kept; all are numbers without an encoding."""
    encoding = encoding or Encoding.of_numbers(columns)
    schema = {}
    for column, missing, span in zip(encoding.columns, facts["missing"], facts["range"], strict=True):
        if isinstance(column, CategoryColumn):
            known = column.levels if column.means is None else tuple(word for word, _ in column.means.values if word)
            schema[column.name] = ColumnSchema(column.kind, missing=missing, levels=known)
        else:
            span = None if span is None else (span[0], span[1])
            schema[column.name] = ColumnSchema(column.kind, column.zoned, missing, span)
    return schema
