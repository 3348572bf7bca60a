"""`from_arrays`: numpy, pandas and Dask collections as a Source; what is in memory already is viewed, not copied."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from dkernel.data.block import (
    Block,
    UncheckedBlock,
    check_beside,
    chunk_limit,
    cut_blocks,
    cut_evenly,
    is_of_numbers,
    one_a_row,
    targets_in,
)
from dkernel.data.collections.dask_arrays import (
    align,
    block_graphs,
    concrete,
    dense_blocks,
    is_dask,
    name_of,
    place_in_memory,
    with_known_chunks,
)
from dkernel.data.collections.future_lists import collections_of
from dkernel.data.collections.object_arrays import holds_objects, kinds_of, object_table
from dkernel.data.collections.sparse_arrays import stays_sparse
from dkernel.data.collections.tables import (
    Part,
    TableRows,
    column_kinds,
    encoded_array,
    encoding_of,
    has_missing,
    kinds_to_encode,
    of_other_kind,
    table_of,
    table_token,
)
from dkernel.data.compute import dask_compute
from dkernel.data.file_schema import ReadOptions
from dkernel.data.object_columns import NUMBERS, object_columns
from dkernel.data.readers.array_file import fill_block
from dkernel.data.source import Source, Unit
from dkernel.encoding import Encoding
from dkernel.encoding.label_means import n_copies
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import Kernel, parse
from dkernel.numerics.layout import Layout
from dkernel.numerics.rows import byte_views, stored_arrays, stored_size
from dkernel.numerics.sparse_rows import RangeNames

Units = tuple[list[Unit], Sequence[str], str, str | None, int]
"""The units of a source, the names of its inputs, its token, the kind of its label, and the bytes of a row."""

_HASH_BYTES = 64 * 2**20  # hashed at a time: a copy of no more is made


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
) -> Source:
    """The rows of collections in memory or in Dask: X (n, p), y (n,) or of k targets (n, k), weight (n,).

    Each may be a list of `distributed.Future`, of an array or frame with some rows each, equally long lists all.
    Unknown chunk sizes are computed once, several column blocks become one, empty chunks are left out. A sparse matrix,
    or a Dask array of such, of more than WIDE columns (dkernel.numerics.sparse_rows) stays sparse, but a matrix more
    than a tenth of which is stored; any other becomes dense one chunk at a time, where it is read.

    Parameters
    ----------
    kernel : which the rows are for: the columns that it takes as objects may hold texts, lists or sets; then a list, a
        series or an array (n,) is one column. Without one all features are numbers
    sparse : whether rows stay, or become, sparse; None by the rule above
    categorical, missing, encoding, holes, dates : as of `dkernel.open_source`; without them all columns are numbers,
        and none is missing

    Examples
    --------
    >>> source = from_arrays(np.eye(3), ["a", "b", "a"], columns=["u", "v", "w"])
    >>> source.columns, source.label_kind, source.chunk_rows
    (('u', 'v', 'w'), 'text', (3,))
    """
    if dtype not in ("float32", "float64"):
        raise RecipeError(f"Blocks cannot be of dtype {dtype!r}: 'float32' and 'float64' can.")
    X, y, weight = collections_of(X, y, weight)
    if stays_sparse(X, sparse):  # its many columns are numbers, and have numbers for names
        columns = columns if isinstance(columns, RangeNames) else RangeNames(0, int(X.shape[1]))
        kernel, encoding, categorical, missing = None, None, "none", "error"
    elif hasattr(X, "tocsr"):
        X = dense_blocks(X.tocsr(), dtype)
    again: dict[str, Any] = {"columns": columns, "dtype": dtype, "kernel": kernel, "compute": compute, "sparse": sparse}
    tables: dict[str, Any] = {"categorical": categorical, "missing": missing, "dates": dates}
    objects: tuple[str, ...] = ()
    parsed = None if kernel is None else parse(kernel)
    if parsed is not None and holds_objects(parsed, X):
        X = object_table(X)
        every = _columns(columns or _names_of(X), int(X.shape[1]))
        objects = object_columns(parsed, kinds_of(X, every, parsed), "X")
    if not is_dask(X):
        y, weight = concrete((y, weight), compute)
    names, beside = columns or _names_of(X), (y, weight)
    notes: dict[str, str] = {}
    filled = None
    if not objects and (encoding is not None or missing != "error" or categorical != "none"):
        request = ReadOptions(kernel=parsed, encoding=encoding, holes=holes, **tables)
        filled = partial(from_arrays, X, y, weight, holes=True, **again, **tables) if missing != "error" else None
        X, beside, names, encoding, notes = _encode(X, names, beside, request, dtype, compute)
    layout = Layout(names or (), dtype, objects)
    if is_dask(X):
        units, inputs, token, kind, row_bytes = _dask_units(X, *beside, layout, encoding, compute)
    else:
        units, inputs, token, kind, row_bytes = _numpy_units(X, *beside, layout, encoding)
    return Source(
        tuple(units),
        inputs,
        None if y is None else name_of(y, "label"),
        None if weight is None else name_of(weight, "weight"),
        (),
        layout.array_dtype,
        token,
        kind,
        objects=objects,
        row_bytes=row_bytes,
        targets=targets_in(y),
        encoding=encoding,
        notes=notes,
        filled=filled if encoding is None else None,
    )


def _encode(
    X: Any,
    names: Sequence[str] | None,
    beside: tuple[Any, Any],
    request: ReadOptions,
    dtype: str,
    compute: Callable[..., Any],
) -> tuple[Any, tuple[Any, Any], Sequence[str] | None, Encoding | None, dict[str, str]]:
    """X, of Dask with the inputs in place of its columns, label and weight, names, encoding and notes about it."""
    X = X if is_dask(X) or hasattr(X, "iloc") else np.asarray(X)
    # Arrays have one type for all columns: only data frames say which are categories or dates.
    if X.ndim != 2 or not (hasattr(X, "dtypes") or X.dtype.kind in "biuf"):
        return X, beside, names, None, {}
    names = _columns(names, int(X.shape[1]))
    holes = request.holes or (request.missing != "error" and not is_dask(X) and has_missing(X))
    request, encoding = replace(request, holes=holes), request.encoding
    notes: dict[str, str] = {}
    parts: Sequence[Part] = ()
    if encoding is None:
        kinds = kinds_to_encode(X, names, request)
        if kinds is None:
            return X, beside, names, None, {}
        rows = TableRows.of(X, *beside, compute)
        # The numbers of rows decide the folds of means of the label, which only categories have.
        parts = rows.parts(compute, weighed="category" in kinds[0].values())
        X, beside = rows.X, (rows.label, rows.weight)
        encoding, notes = encoding_of(parts, *kinds, request, compute)
    if not is_dask(X):
        return X, beside, names, encoding, notes
    learned = parts if encoding.folded else ()
    return encoded_array(X, encoding, names, dtype, learned), beside, encoding.names, encoding, notes


def _names_of(X: Any) -> tuple[str, ...] | None:
    return tuple(map(str, X.columns)) if hasattr(X, "columns") else None


def _columns(names: Sequence[str] | None, p: int) -> Sequence[str]:
    if isinstance(names, RangeNames) and len(names) == p:
        return names
    columns = tuple(map(str, names or range(p)))
    if len(columns) != p:
        raise DataError(f"X has {p} columns, but {len(columns)} names were given.")
    if len(set(columns)) < p:
        twice = next(n for n in columns if columns.count(n) > 1)
        raise DataError(f"X has the column {twice!r} twice; every column needs a name of its own.")
    if not p:
        raise DataError("X has no columns.")
    return columns


def _numpy_units(
    X: Any,
    y: Any,
    weight: Any,
    layout: Layout,
    encoding: Encoding | None = None,
) -> Units:
    table = X if hasattr(X, "iloc") or hasattr(X, "tocsr") else np.asarray(X)
    if table.ndim != 2:
        raise DataError(f"X has {table.ndim} dimension(s); a table of 2 (rows, columns) is needed.")
    rows, p = (int(n) for n in table.shape)
    if not rows:
        raise DataError("X has no rows.")
    label, w = check_beside(y, weight, rows, place_in_memory)
    columns = _columns(layout.columns, p)
    inputs: Sequence[str] = columns if encoding is None else encoding.names
    layout, stored = replace(layout, columns=columns), None
    if not layout.numeric:
        table = layout.block(matrix(table, layout.array_dtype) if hasattr(table, "iloc") else table, place_in_memory)
        stored = -(-stored_size(table) // rows)
    elif encoding is None or encoding.plain:
        check_numbers(table, columns)
    row_bytes = replace(layout, columns=inputs).row_bytes(stored)
    mixed = encoding is not None and hasattr(table, "iloc")
    token = _hash(table_token(table, columns) if mixed else table, label, w, encoding)
    units, first, number = [], 0, 0
    for i, n in enumerate(cut_evenly(rows, chunk_limit(row_bytes, 1))):
        part = slice(first, first + n)
        views = [None if a is None else a[part] for a in (label, w)]
        rows_of_x = table.iloc[part] if hasattr(table, "iloc") else table[part]
        key = f"dkernel-read-{hashlib.sha256(repr((token, columns, layout.dtype, i)).encode()).hexdigest()[:32]}"
        make = partial(_blocks_of_arrays, layout, (n,), (first, number), encoding)
        units.append(Unit((n,), Delayed(key, {key: (make, rows_of_x, *views)}), "X"))
        first, number = first + n, number + (n if views[1] is None else n_copies(views[1]))
    return units, inputs, token, None if label is None else _kind(label.dtype), row_bytes


def _kind(dtype: Any) -> str | None:
    return {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "text", "S": "text"}.get(dtype.kind)


def check_numbers(table: Any, columns: Sequence[str]) -> None:
    """A DataError that names the first column of a frame or array that holds no numbers."""
    if hasattr(table, "dtypes"):
        kinds, _ = column_kinds(table, columns)
        dtypes = zip(columns, table.dtypes, strict=True)
        odd = next(((f"column {name!r} of X", dtype) for name, dtype in dtypes if kinds[name] not in NUMBERS), None)
    else:
        odd = None if is_of_numbers(table.dtype) else ("X", table.dtype)
    if odd is not None:
        what, dtype = odd
        raise DataError(
            f"The {what} is of type {dtype}, not numbers: leave it out, or encode it as numbers. fit of "
            "KernelClassifier and KernelRegressor encodes text, categories and dates; for others sklearn.preprocessing "
            "has encoders."
        )


def _blocks_of_arrays(
    layout: Layout,
    rows: tuple[int, ...],
    first: tuple[int, int],
    encoding: Encoding | None,
    X: Any,
    y: Any = None,
    weight: Any = None,
) -> tuple[Block, ...]:
    """The blocks of one unit of collections; runs on a worker.

    `first` is the number of the first row, and that of its first copy.
    """
    if encoding is not None:
        values = table_of(X, layout.columns, encoding.kinds)
    else:
        values = matrix(X, layout.array_dtype) if hasattr(X, "iloc") else X
    raw = UncheckedBlock(values, one_a_row(y, "y", several=True), one_a_row(weight, "weight"))
    raw = raw.encode(encoding, layout.dtype, None if y is None else first[1])
    layout = layout if encoding is None else replace(layout, columns=encoding.names)
    return cut_blocks(raw, rows, layout, partial(place_in_memory, first=first[0]))


def matrix(frame: Any, dtype: str) -> NDArray[Any]:
    """The columns of a pandas frame as a block (rows, p), of numbers or, of dtype "object", of what they hold."""
    if dtype == "object":
        X = np.empty(frame.shape, dtype=object)
        for j in range(frame.shape[1]):
            X[:, j] = frame.iloc[:, j].to_numpy(dtype=object)
        return X
    try:
        return fill_block([_numbers(frame.iloc[:, j]) for j in range(frame.shape[1])], len(frame), dtype)
    except (TypeError, ValueError):
        odd = next(name for name, dtype_of in frame.dtypes.items() if not is_of_numbers(dtype_of))
        raise of_other_kind(odd, frame[odd].dropna().iloc[0]) from None


def _hash(table: Any, label: Any, weight: Any, encoding: Encoding | None) -> str:
    """sha256 of the content, once for all units: on a cluster an address says nothing."""
    digest = hashlib.sha256()
    if encoding is not None:
        digest.update(repr(encoding).encode())
    if isinstance(table, bytes):
        digest.update(table)
        table = None
    parts = [table.iloc[:, j] for j in range(table.shape[1])] if hasattr(table, "iloc") else stored_arrays(table)
    for part in [*parts, label, weight]:
        values = part if part is None or isinstance(part, np.ndarray) else _numbers(part)
        digest.update(repr(None if values is None else (values.shape, values.dtype.str)).encode())
        if values is None:
            continue
        step = max(1, _HASH_BYTES // max(1, values.nbytes // max(1, len(values))))
        for start in range(0, len(values), step):
            for held in byte_views(values[start : start + step]):
                digest.update(held)
    return digest.hexdigest()


def _numbers(column: Any) -> NDArray[Any]:
    """A column of a frame; what is missing in a nullable one becomes NaN, which the gate refuses with its place."""
    if isinstance(column.dtype, np.dtype):
        values = column.to_numpy()
        return values.astype(np.float64) if values.dtype.kind == "O" else values  # decimals, say
    return column.to_numpy(dtype="float64", na_value=np.nan)


def _dask_units(
    X: Any,
    y: Any,
    weight: Any,
    layout: Layout,
    encoding: Encoding | None,
    compute: Callable[..., Any],
) -> Units:
    if hasattr(X, "dtypes") and not layout.objects:
        check_numbers(X, tuple(map(str, X.columns)))
    X, y, weight = with_known_chunks(X, y, weight, partial(matrix, dtype=layout.array_dtype), compute)
    X, y, weight = align(X, y, weight)
    inputs = _columns(layout.columns, int(X.shape[1])) if encoding is None else encoding.names
    layout = replace(layout, columns=inputs)
    row_bytes = layout.row_bytes()
    limit = chunk_limit(row_bytes, 1)
    token = hashlib.sha256(repr([(a.name, a.chunks) if a is not None else None for a in (X, y, weight)]).encode())
    units, first = [], 0
    for keys, n, graph in block_graphs(X, y, weight):
        rows = cut_evenly(n, limit)
        key = f"dkernel-read-{hashlib.sha256(repr((keys, inputs, layout.dtype, rows)).encode()).hexdigest()[:32]}"
        graph[key] = (partial(_blocks_of_arrays, layout, rows, (first, 0), None), *keys)
        units.append(Unit(rows, Delayed(key, graph), "X"))
        first += n
    if not units:
        raise DataError("X has no rows.")
    kind = None if y is None else _kind(y.dtype if y.ndim == 1 else np.dtype(np.float64))
    return units, inputs, token.hexdigest(), kind, row_bytes
