"""The encoding of a table as nodes of an ONNX graph: an input of the graph for each column, by its name."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from dkernel.data.column_types import DATE, TIME
from dkernel.data.encoding import CategoryColumn, Encoding, NumberColumn
from dkernel.data.encoding.columns import ONE_HOT, RADIUS
from dkernel.data.encoding.words import spellings
from dkernel.leaves.export.nodes import Nodes, tensor_type

ML = "ai.onnx.ml"  # the domain of the standard operators for texts
DAY = 86_400  # seconds
OUTPUTS = ("label", "score", "probability")


def encode_columns(to: Nodes, encoding: Encoding, dtype: str) -> tuple[str, list[onnx.ValueInfoProto]]:
    """The inputs (rows, width) that kernels take, and the inputs of the graph, (rows, 1) each.

    A number is of `dtype`, NaN where it is missing; a category is text, "" where it is missing; a date is float64, the
    seconds since 1970 in UTC, of a time those since midnight; a duration is a number, its seconds.
    """
    parts: list[str] = []
    infos: list[onnx.ValueInfoProto] = []
    names = input_names(encoding.column_names)
    to.reserve(names)
    for name, column in zip(names, encoding.columns, strict=True):
        kind = object if isinstance(column, CategoryColumn) else "float64" if column.kind in (DATE, TIME) else dtype
        infos.append(helper.make_tensor_value_info(name, tensor_type(kind), ["rows", 1], doc_string=column.name))
        column = replace(column, name=name)
        if isinstance(column, NumberColumn):
            parts += _number(to, column, encoding.strict)
        else:
            if column.one_hot:
                words = [*column.levels, *[""] * column.missing]
                parts.append(_look_up(to, column, words, ONE_HOT * np.eye(len(words) + 1, len(words))))
            parts += [_means(to, column)] if column.means and column.means.outputs else []
    return to("Concat", *parts, axis=1), infos


def input_names(columns: Sequence[str]) -> list[str]:
    """Names of inputs: those of the columns, with underscores where an output or another column has the name.

    Examples
    --------
    >>> input_names(["city", "score", "score_", ""])
    ['city', 'score__', 'score_', '_']
    """
    taken = {*OUTPUTS, *columns, ""}
    names = []
    for column in columns:
        name = column
        while name in (*OUTPUTS, "") or (name != column and name in taken):
            name += "_"
        taken.add(name)
        names.append(name)
    return names


def fill_missing(to: Nodes, encoding: Encoding, x: str) -> str:
    """Numbers with the means where they are missing."""
    means = [column.mean for column in encoding.columns if isinstance(column, NumberColumn)]
    return x if encoding.strict else to("Where", to("IsNaN", x), to.constant(means), x)


def _number(to: Nodes, column: NumberColumn, strict: bool) -> Sequence[str]:
    x, calendar = column.name, _calendar(to, column, column.name)
    if column.last is not None:
        last = to.constant(column.last, np.float64)
        x = to("Where", to("Greater", x, last), last, x)
        calendar = [*_calendar(to, column, x)[:1], *calendar[1:]]
    if column.kind in (DATE, TIME):  # float64 until the offset is gone: float32 has no seconds
        x = to("Sub", x, to.constant(column.offset, np.float64))
    x = to.cast(x, to.dtype)
    if strict:
        return [x, *_levels(to, column), *calendar]
    missing = to("IsNaN", x)
    value = to("Where", missing, to.constant(column.mean), x)
    return [value, *([to.cast(missing, to.dtype)] if column.indicator else []), *_levels(to, column), *calendar]


def _levels(to: Nodes, column: NumberColumn) -> Sequence[str]:
    """The inputs of a number's frequent values, compared in float32."""
    if not column.levels:
        return []
    equal = to("Equal", to.cast(column.name, np.float32), to.constant([column.levels], np.float32))
    return [to.scale(to.cast(equal, to.dtype), ONE_HOT)]


def _calendar(to: Nodes, column: NumberColumn, time: str) -> Sequence[str]:
    """Inputs of the calendar of a date in whole numbers, by days from 1 March of the year 0 (Hinnant, "chrono")."""

    if not column.calendar:
        return []

    def by_number(operator: str) -> Callable[[str, int], str]:
        return lambda x, n: to(operator, x, to.constant(n, np.int64))

    over, times, plus = map(by_number, ("Div", "Mul", "Add"))

    def rest(x: str, n: int) -> str:
        return to("Sub", x, times(over(x, n), n))

    missing = to("IsNaN", time)
    there = to("Where", missing, to.constant(column.mean + column.offset, np.float64), time)
    seconds = plus(to.cast(to("Floor", there), np.int64), 719_468 * DAY)  # days from 1 March of the year 0
    days = over(seconds, DAY)
    in_400 = rest(days, 146_097)  # days of 400 years
    leap_days = to("Sub", to("Add", over(in_400, 1_460), over(in_400, 146_096)), over(in_400, 36_524))
    years = over(to("Sub", in_400, leap_days), 365)
    begun = to("Sub", to("Add", times(years, 365), over(years, 4)), over(years, 100))
    month = over(plus(times(to("Sub", in_400, begun), 5), 2), 153)  # from March on
    year = to("Add", to("Add", years, times(over(days, 146_097), 400)), over(month, 10))
    places = (rest(plus(month, 2), 12), 12), (rest(plus(days, 2), 7), 7), (rest(seconds, DAY), DAY)
    inputs = [to.cast(year, to.dtype)]
    for position, period in places:
        angle = to.scale(to.cast(position, to.dtype), 2 * np.pi / period)
        for shift in (0.0, np.pi / 2):
            circle = to.scale(to("Sin", to.plus(angle, shift)), RADIUS)
            inputs.append(to("Where", missing, to.constant(0.0), circle))
    return inputs


def _means(to: Nodes, column: CategoryColumn) -> str:
    """The means of the label: the line of a table, whose last one is for a value that training never saw."""
    means = column.means
    assert means is not None
    words, lines = zip(*means.values, strict=True)
    return _look_up(to, column, words, np.array([*lines, means.base]))


def _look_up(to: Nodes, column: CategoryColumn, words: Sequence[str], table: NDArray[np.float64]) -> str:
    """The line of a table for each value, in any spelling of these words; the last line for all others."""
    lines = {text: i for i, word in enumerate(words) for text in spellings(word, column.values)}
    lines |= {word: i for i, word in enumerate(words)}
    texts, places, other = list(lines), list(lines.values()), len(words)
    line = to("LabelEncoder", column.name, domain=ML, keys_strings=texts, values_int64s=places, default_int64=other)
    return to("Squeeze", to("Gather", to.constant(table), line), to.constant([1], np.int64))
