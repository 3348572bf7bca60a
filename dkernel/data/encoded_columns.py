"""Columns of files that get an encoding, and the passes over them that learn it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from dask.delayed import Delayed

from dkernel.data.block import no_weight
from dkernel.data.column_types import DATE, EMPTY, NUMBERS, TEXT, TIMES, has_more_digits
from dkernel.data.encoding import CategoryColumn, Encoding, TableCounts
from dkernel.data.encoding.counts import MOST_LEVELS, MOST_VALUES, MOST_WORDS, CategoryCount
from dkernel.data.encoding.notation import remark_on
from dkernel.data.encoding.text_values import is_number_format
from dkernel.data.file_schema import ReadOptions
from dkernel.data.object_columns import find_domains
from dkernel.data.refused_columns import refuse_notations
from dkernel.data.source import Source
from dkernel.errors import DataError
from dkernel.numerics.sparse_rows import named
from dkernel.numerics.validation import nearest_name, quote_name

AT_ONCE = 64
"""Tasks whose results are here at one time."""

COUNTED = 2048
"""Thousands of values of columns that are here at one time, each with sums of the label: some 400 KB."""


def encoded_kinds(
    columns: Sequence[str], kinds: Sequence[Mapping[str, str]], coded: frozenset[str], request: ReadOptions, where: str
) -> dict[str, str] | None:
    """The kind of each feature, as of an encoding; None where all are plain numbers or objects.

    Parameters
    ----------
    kinds : of each table with rows, column -> one of column_types.COLUMN_TYPES
    coded : columns that are stored as categories
    where : the file, or X, for messages
    """
    if request.encoding is not None:
        return request.encoding.kinds
    named = dict.fromkeys(request.categorical if isinstance(request.categorical, tuple) else ())
    others = {*request.keep, request.label, request.weight}.difference(columns)  # a kept one divides the rows
    formed = {name: form for name, form in request.formats.items() if name not in others}
    known = frozenset(columns) if named or formed else ()
    for name, what in [*((name, "categorical") for name in named), *((name, "formats") for name in formed)]:
        if name not in known:
            hint = nearest_name(name, list(columns))
            raise DataError(f"{where} has no feature {quote_name(name)}, named by {what}.{hint}")
    seen_kinds = {name: {table[name] for table in kinds} - {EMPTY} for name in columns}

    def kind_of_column(name: str) -> str:
        if name in formed:
            return "number" if is_number_format(formed[name]) else DATE
        # A column of several types is a category only where it is named as one: a file may hold a mistake.
        if name in named or (request.categorical != "none" and (name in coded or seen_kinds[name] == {TEXT})):
            return "category"
        times = [kind for kind in TIMES if seen_kinds[name] == {kind}]
        return times[0] if times else "number"

    domains = find_domains(request.kernel, columns)
    free = [name for name in columns if domains.get(name, "any") == "any" and name not in formed]
    if "objects" in domains.values() or any(not seen_kinds[name] <= set(NUMBERS) for name in free):
        return None  # the kernel says what such columns are
    encoded = {name: kind_of_column(name) for name in columns}
    return encoded if request.holes or formed or set(encoded.values()) != {"number"} else None


def find_wide_columns(
    names: Sequence[str],
    types: Sequence[Sequence[pa.DataType | None]],
    whole: Sequence[bool],
    encoding: Encoding | None,
) -> dict[int, bool]:
    """The positions of the numbers that float32 may not hold, each with True where they are whole.

    Parameters
    ----------
    names : of the columns that are read, all or some of those of the encoding
    types : of each column those of its parts, as of `has_more_digits`
    whole : True for each column whose values are whole
    """
    at: Sequence[int | None] = range(len(types))
    if encoding is not None:
        numbers = {column.name for column in encoding.columns if column.kind == "number"}
        at = [encoding.positions[name].start if name in numbers else None for name in names]
    found = zip(at, types, whole, strict=True)
    return {j: is_whole for j, parts, is_whole in found if j is not None and any(map(has_more_digits, parts))}


def learn_encoding(
    tasks: Sequence[Delayed],
    kinds: Mapping[str, str],
    request: ReadOptions,
    coded: frozenset[str],
    where: str,
) -> tuple[Encoding, dict[str, str]]:
    """The encoding that the counts of all parts decide, and remarks about it.

    The parts are merged in their order, so workers decide nothing. A column of texts that are all dates, times or
    durations is one of these.

    Parameters
    ----------
    tasks : give the TableCounts of each part
    coded : columns that are stored as categories
    where : the file, or X, for messages
    """
    asked = coded.union(request.categorical if isinstance(request.categorical, tuple) else ())
    total = _count(tasks, len(kinds), request)
    texts = {
        name: count
        for name, count in zip(kinds, total.columns, strict=True)
        if isinstance(count, CategoryCount) and name not in asked
    }
    refuse_notations(texts, where, total.rows)
    times = {name: count.meaning for name, count in texts.items() if count.meaning in TIMES}
    kinds = {**kinds, **times}
    total = total.with_times(kinds)
    notes = {**total.notes(kinds), **_remarks({name: each for name, each in texts.items() if name not in times})}
    encoding = total.encoding(kinds, request.missing, request.dates, request.formats)
    if not encoding.names:
        raise DataError(f"{where}: no feature holds a value that came twice: nothing can be learned.")
    return encoding, notes | _without_means(total, encoding)


def _count(tasks: Sequence[Delayed], columns: int, request: ReadOptions) -> TableCounts:
    """The counts of all parts, some of which are here at one time."""
    total: TableCounts | None = None
    at_once = max(1, min(AT_ONCE, COUNTED // max(columns, MOST_WORDS // MOST_VALUES)))
    for first in range(0, len(tasks), at_once):
        for counts in request.compute(*tasks[first : first + at_once]):
            total = counts if total is None else total.merge(counts)
    assert total is not None
    if not total.rows:
        raise no_weight()
    return total


def _without_means(total: TableCounts, encoding: Encoding) -> dict[str, str]:
    """Notes about the categories of many values that have no means of the label."""
    lines: dict[str, list[str]] = {}
    for column, count in zip(encoding.columns, total.columns, strict=True):
        if isinstance(column, CategoryColumn) and column.levels and column.means and not column.means.outputs:
            told = isinstance(count, CategoryCount) and count.label
            why = "the values do not predict the label" if told else "means of a label need one label"
            lines[why] = [*lines.get(why, []), column.name]
    rest = f"so the {MOST_LEVELS} most frequent alone have inputs"
    said = [f"{', '.join(names)}: {why}, {rest}" for why, names in lines.items()]
    return {"rare values": "; ".join(said)} if said else {}


def _remarks(texts: Mapping[str, CategoryCount]) -> dict[str, str]:
    """A note about quantities and amounts that are texts, and so categories."""
    found = {name: remark_on(list(count.counts)) for name, count in texts.items()}
    remarks = [f"{name}: {remark}" for name, remark in found.items() if remark]
    advice = "so a category; where this is an amount, write the numbers alone, and leave empty what is missing"
    return {"texts": f"{'; '.join(remarks)}: {advice}"} if remarks else {}


def reading_arguments(encoding: Encoding | None) -> dict[str, Any]:
    """Arguments with which `open_source` and `from_arrays` read rows for a model, by the encoding that it reads by."""
    if encoding is not None:
        return {"encoding": encoding}
    return {"categorical": "none", "missing": "error"}


def read_as(source: Source, columns: Sequence[str], encoding: Encoding | None, dtype: str) -> Source:
    """The source with the inputs and the precision of a model's training, whatever its own rows had said of both.

    Parameters
    ----------
    columns : names of the columns of the training, in order; those of sparse rows have numbers and are not compared
    encoding : `reading` of the model, None where it reads numbers, sparse rows or objects
    dtype : of the blocks of the training
    """
    found = source.table_columns
    if not source.sparse and (len(found) != len(columns) or list(found) != list(columns)):
        known = list(named(columns))
        raise DataError(
            f"The source has the columns {list(found)}, and the training had {known}. Open it with columns={known}."
        )
    if source.layout.numeric:
        encoding = encoding or Encoding.of_numbers(columns)
    if source.objects or (source.reading == encoding and source.dtype == dtype):
        return replace(source, in_dtype=None)
    if source.reopen is None:
        raise DataError("The source makes other inputs of its columns than the training: open it with open_source.")
    return source.reopen(dtype=dtype, **reading_arguments(encoding))
