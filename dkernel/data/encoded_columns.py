"""Columns of files that get an encoding, and the pass over them that learns it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dask.delayed import Delayed

from dkernel.data.file_schema import ReadOptions
from dkernel.data.object_columns import NUMBERS, domains_of
from dkernel.encoding import Encoding, TableCounts
from dkernel.errors import DataError
from dkernel.validation import nearest_name

AT_ONCE = 64
"""Tasks whose counts are here at one time: each may hold 1,000 values of every category."""


def encoded_kinds(
    columns: Sequence[str], kinds: Sequence[Mapping[str, str]], coded: frozenset[str], request: ReadOptions, where: str
) -> dict[str, str] | None:
    """The kind of each feature, "number", "date" or "category"; None where all are plain numbers or objects.

    Parameters
    ----------
    kinds : of each table with rows, column -> one of block.KINDS
    coded : columns that are stored as categories
    where : the file, or X, for messages
    """
    if request.encoding is not None:
        return request.encoding.kinds
    named = request.categorical if isinstance(request.categorical, tuple) else ()
    for name in named:
        if name not in columns:
            raise DataError(f"{where} has no feature {name!r}, named as a category.{nearest_name(name, list(columns))}")
    found = {name: {table[name] for table in kinds} - {"empty"} for name in columns}

    def kind_of(name: str) -> str:
        # Of several types a column is a category where it is named as one: it may be a mistake of a file.
        if name in named or (request.categorical != "none" and (name in coded or found[name] == {"text"})):
            return "category"
        return "date" if found[name] == {"date"} else "number"

    domains = domains_of(request.kernel, columns)
    free = [name for name in columns if domains.get(name, "any") == "any"]
    if "objects" in domains.values() or any(not found[name] <= set(NUMBERS) for name in free):
        return None  # the kernel says what such columns are
    encoded = {name: kind_of(name) for name in columns}
    return encoded if request.holes or set(encoded.values()) != {"number"} else None


def learned(
    tasks: Sequence[Delayed], kinds: Mapping[str, str], request: ReadOptions, compute: Callable[..., Any]
) -> tuple[Encoding, dict[str, str]]:
    """The encoding that the counts of all parts decide, and what is worth saying of it.

    The parts are merged in their order, so workers decide nothing.

    Parameters
    ----------
    tasks : the TableCounts of each part
    """
    total: TableCounts | None = None
    for first in range(0, len(tasks), AT_ONCE):
        for counts in compute(*tasks[first : first + AT_ONCE]):
            total = counts if total is None else total.merge(counts)
    assert total is not None
    return total.encoding(kinds, request.missing, request.dates), total.notes(kinds)


def reading_of(model: Any) -> dict[str, Any]:
    """Arguments with which `open_source` and `from_arrays` read rows for a model."""
    if model.reading is not None:
        return {"encoding": model.reading}
    return {"categorical": "none", "missing": "error"}
