"""`from_arrays`: numpy, pandas and Dask collections as a Source; what is in memory already is viewed, not copied."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from dask.delayed import delayed

from dkernel.data.block import one_a_row, targets_in
from dkernel.data.collections.dask_arrays import dense_blocks, find_name
from dkernel.data.collections.rows import GivenRows
from dkernel.data.collections.tables import (
    as_rows,
    check_names,
    column_dtypes,
    column_kinds,
    column_names,
    has_missing,
    holds_objects,
    stays_sparse,
    to_table,
)
from dkernel.data.column_types import INT, OTHER, TEXT, TIMES, are_numbers, arrow_type, column_type
from dkernel.data.compute import dask_compute
from dkernel.data.encoded_columns import encoded_kinds, find_wide_columns, learn_encoding
from dkernel.data.encoding import Encoding, TableCounts
from dkernel.data.encoding.text_values import parse_formats
from dkernel.data.file_schema import ReadOptions
from dkernel.data.object_columns import object_columns
from dkernel.data.refused_columns import collect_refusals
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import Kernel, parse
from dkernel.numerics.layout import Layout
from dkernel.numerics.sparse_rows import RangeNames
from dkernel.numerics.validation import DTYPES


def from_arrays(
    X: Any,
    y: Any = None,
    weight: Any = None,
    *,
    columns: Sequence[str] | None = None,
    dtype: str = "float32",
    kernel: Kernel | str | None = None,
    compute: Callable[..., Any] = dask_compute,
    sparse: bool | None = None,
    categorical: str | tuple[str, ...] = "none",
    missing: str = "error",
    encoding: Encoding | None = None,
    holes: bool = False,
    dates: str = "calendar",
    formats: Mapping[str, str] | None = None,
) -> Source:
    """The rows of collections in memory or in Dask: X (n, p), y (n,) or of k targets (n, k), weight (n,).

    Unknown chunk sizes are computed once, several column blocks become one, empty chunks are left out. A sparse matrix,
    or a Dask array of such, of more than WIDE columns (dkernel.numerics.sparse_rows) stays sparse, but a matrix more
    than a tenth of which is stored; any other becomes dense one chunk at a time, where it is read.

    Parameters
    ----------
    kernel : which the rows are for: the columns that it takes as objects may hold texts, lists or sets; then a list, a
        series or an array (n,) is one column. Without one all features are numbers
    sparse : whether rows stay, or become, sparse; None by the rule above
    categorical, missing, encoding, holes, dates, formats : as of `dkernel.open_source`; without them all columns
        are numbers, and none is missing

    Examples
    --------
    >>> import numpy as np
    >>> source = from_arrays(np.eye(3), ["a", "b", "a"], columns=["u", "v", "w"])
    >>> source.columns, source.label_kind, source.chunk_rows
    (('u', 'v', 'w'), 'text', (3,))
    """
    again = {**locals(), "holes": True}
    if dtype not in DTYPES:
        raise RecipeError(f"Blocks cannot be of dtype {dtype!r}: {', '.join(map(repr, DTYPES))} can.")
    asked, dtype = dtype, "float32" if dtype == "auto" else dtype
    parsed = None if kernel is None else parse(kernel)
    as_objects = parsed is not None and not stays_sparse(X, sparse) and holds_objects(parsed, X)
    X = as_rows(X, objects=as_objects)
    if stays_sparse(X, sparse):  # its many columns are numbers, and have numbers for names
        columns = columns if isinstance(columns, RangeNames) else RangeNames(0, int(X.shape[1]))
        parsed, encoding, categorical, missing = None, None, "none", "error"
    elif hasattr(X, "tocsr"):
        X = dense_blocks(X.tocsr(), dtype)
    objects: tuple[str, ...] = ()
    if parsed is not None and as_objects:
        every = check_names(columns or column_names(X), int(X.shape[1]))
        objects = object_columns(parsed, column_kinds(X, every)[0], "X")
        if objects:
            encoding, categorical, missing = None, "none", "error"
    rows, names = GivenRows.of(X, y, weight, compute), columns or column_names(X)
    notes: dict[str, str] = {}
    if encoding is not None or missing != "error" or categorical != "none":
        request = ReadOptions(
            dtype=dtype,
            compute=compute,
            kernel=parsed,
            categorical=categorical,
            missing=missing,
            encoding=encoding,
            holes=holes,
            dates=dates,
            formats=parse_formats(formats),
        )
        rows, encoding, notes = collect_refusals(partial(_encode, rows, names, request))

    def reopen(**changed: Any) -> Source:
        return from_arrays(**again | {"holes": holes} | changed)

    settled = objects or asked != "auto" or isinstance(columns, RangeNames) or hasattr(rows.X, "tocsr")
    wide = {} if settled else _wide_columns(rows.X, names, encoding)
    return replace(
        rows.source(Layout(names or (), dtype, objects), encoding),
        wide=wide,
        in_dtype=(lambda dtype: reopen(dtype=dtype)) if wide else None,
        reopen=reopen,
        label=None if y is None else find_name(y, "label"),
        weight=None if weight is None else find_name(weight, "weight"),
        targets=targets_in(y),
        notes=notes,
        filled=None if missing == "error" or encoding is not None else partial(from_arrays, **again),
    )


def _wide_columns(X: Any, names: Sequence[str] | None, encoding: Encoding | None) -> dict[int, bool]:
    """The positions of the numbers that float32 may not hold, each with True where they are whole."""
    types = list(map(arrow_type, column_dtypes(X)))
    whole = [kind is not None and column_type(kind) == INT for kind in types]
    return find_wide_columns(check_names(names, len(types)), [[kind] for kind in types], whole, encoding)


def _encode(
    rows: GivenRows, names: Sequence[str] | None, request: ReadOptions, refused: Set[str] = frozenset()
) -> tuple[GivenRows, Encoding | None, dict[str, str]]:
    """The rows, the encoding of their columns, and notes about it.

    Columns in `refused` are left out.
    """
    if not (hasattr(rows.X, "dtypes") or are_numbers(rows.X.dtype)):
        return rows, None, {}
    names = check_names(names, int(rows.X.shape[1]))
    if refused:
        kept = [j for j, name in enumerate(names) if name not in refused]
        rows = replace(rows, X=rows.X.iloc[:, kept] if hasattr(rows.X, "iloc") else rows.X[:, kept])
        names = [names[j] for j in kept]
    if request.encoding is not None:
        return rows, request.encoding, {}
    request = replace(request, holes=request.holes or (request.missing != "error" and has_missing(rows.X)))
    kinds, stored = _kinds_to_encode(rows.X, names, request)
    if kinds is None:
        return rows, None, {}
    rows = rows.regular()
    named = stored.union(request.formats, request.categorical if isinstance(request.categorical, tuple) else ())
    count = partial(count_rows, tuple(kinds), kinds, dict(request.formats), frozenset(kinds) - named)
    token = uuid4().hex  # a worker that has a result under a key does not compute it again
    tasks = [delayed(count)(*part, dask_key_name=f"dkernel-read-{token}-{i}") for i, part in enumerate(rows.parts())]
    return rows, *learn_encoding(tasks, kinds, request, stored, "X")


def _kinds_to_encode(
    X: Any, columns: Sequence[str], request: ReadOptions
) -> tuple[dict[str, str] | None, frozenset[str]]:
    """The kind of each column of X, None where columns are the inputs, and those that are stored as categories."""
    kinds, stored = column_kinds(X, columns, request.compute)
    if request.formats and not hasattr(X, "dtypes"):
        raise DataError("X is an array of numbers, and formats is of columns of a data frame: give X as one.")
    encoded = encoded_kinds(columns, [kinds], stored, request, "X")
    if encoded is None:
        return None, stored
    odd = {
        name: kind
        for name, kind in kinds.items()
        if kind == OTHER or (kind == TEXT and encoded[name] not in ("category", *TIMES) and name not in request.formats)
    }
    object_columns(None, odd, "X")
    return encoded, stored


def count_rows(
    columns: Sequence[str],
    kinds: Mapping[str, str],
    formats: Mapping[str, str],
    typed: frozenset[str],
    first: int,
    X: Any,
    label: Any = None,
    weight: Any = None,
) -> TableCounts:
    """The counts of some rows; runs on a worker."""
    label, weight = one_a_row(label, "y", several=True), one_a_row(weight, "weight")
    return TableCounts.of(to_table(X, columns, kinds, formats, typed), kinds, label, weight, first)
