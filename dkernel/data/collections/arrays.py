"""`from_arrays`: numpy, pandas and Dask collections as a Source; what is in memory already is viewed, not copied."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import dask.base
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
    object_row_bytes,
    one_a_row,
    targets_in,
)
from dkernel.data.collections.dask_arrays import (
    align,
    block_graphs,
    concrete,
    dense,
    dense_blocks,
    in_memory,
    is_dask,
    name_of,
    with_known_chunks,
)
from dkernel.data.collections.future_lists import collections_of
from dkernel.data.collections.object_arrays import holds_objects, kinds_of, object_table
from dkernel.data.collections.sparse_arrays import sparse_source, stays_sparse
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
from dkernel.data.file_schema import ReadOptions
from dkernel.data.object_columns import NUMBERS, object_columns
from dkernel.data.readers.array_file import fill_block
from dkernel.data.source import Source, Unit
from dkernel.encoding import Encoding
from dkernel.encoding.label_means import n_copies
from dkernel.errors import DataError, RecipeError
from dkernel.kernels import Kernel, parse
from dkernel.numerics.object_values import as_cells, cell_bytes, encode_cells

_HASH_BYTES = 64 * 2**20  # hashed at a time: a copy of no more is made


def from_arrays(
    X: Any,
    y: Any = None,
    weight: Any = None,
    *,
    columns: Sequence[str] | None = None,
    dtype: str = "float32",
    kernel: Kernel | str | None = None,
    compute: Callable[..., Any] = dask.base.compute,
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
    if sparse if sparse is not None else stays_sparse(X):
        return sparse_source(X, y, weight, dtype, compute, columns)
    if hasattr(X, "tocsr"):
        X = dense_blocks(X.tocsr(), dtype)
    again: dict[str, Any] = {"columns": columns, "dtype": dtype, "kernel": kernel, "compute": compute, "sparse": sparse}
    tables: dict[str, Any] = {"categorical": categorical, "missing": missing, "dates": dates}
    reopen = partial(from_arrays, X, y, weight, holes=True, **again, **tables) if missing != "error" else None
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
    if not objects and (encoding is not None or missing != "error" or categorical != "none"):
        request = ReadOptions(kernel=parsed, encoding=encoding, holes=holes, **tables)
        X, beside, names, encoding, notes = _encode(X, names, beside, request, dtype, compute)
    if is_dask(X):
        units, p, token, kind = _dask_units(X, *beside, names, dtype, objects, encoding, compute)
        row_bytes = object_row_bytes(p, 0)
    else:
        units, p, token, kind, row_bytes = _numpy_units(X, *beside, names, dtype, objects, encoding)
    return Source(
        tuple(units),
        _columns(names, p) if encoding is None else encoding.names,
        None if y is None else name_of(y, "label"),
        None if weight is None else name_of(weight, "weight"),
        (),
        "object" if objects else dtype,
        token,
        kind,
        objects=objects,
        object_bytes=row_bytes if objects else 0,
        targets=targets_in(y),
        encoding=encoding,
        notes=notes,
        filled=reopen if encoding is None and not objects else None,
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


def _columns(names: Sequence[str] | None, p: int) -> tuple[str, ...]:
    columns = tuple(map(str, names)) if names is not None else tuple(map(str, range(p)))
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
    names: Sequence[str] | None,
    dtype: str,
    objects: tuple[str, ...],
    encoding: Encoding | None = None,
) -> tuple[list[Unit], int, str, str | None, int]:
    table = X if hasattr(X, "iloc") else np.asarray(X)
    if table.ndim != 2:
        raise DataError(f"X has {table.ndim} dimension(s); a table of 2 (rows, columns) is needed.")
    rows, p = (int(n) for n in table.shape)
    if not rows:
        raise DataError("X has no rows.")
    label, w = check_beside(y, weight, rows, in_memory)
    columns = _columns(names, p)
    row_bytes = p * np.dtype(dtype).itemsize
    if objects:
        table = as_cells(matrix(table, "object") if hasattr(table, "iloc") else table, columns, objects, in_memory)
        row_bytes = object_row_bytes(p, -(-cell_bytes(table) // rows))
    elif encoding is not None and not encoding.plain:
        p = len(encoding.names)
        row_bytes = p * np.dtype(dtype).itemsize
    else:
        check_numbers(table, columns)
    mixed = encoding is not None and hasattr(table, "iloc")
    token = _hash(table_token(table, columns) if mixed else table, label, w, encoding)
    units, first, number = [], 0, 0
    for i, n in enumerate(cut_evenly(rows, chunk_limit(row_bytes, 1))):
        part = slice(first, first + n)
        views = [None if a is None else a[part] for a in (label, w)]
        rows_of_x = table.iloc[part] if hasattr(table, "iloc") else table[part]
        key = f"dkernel-read-{hashlib.sha256(repr((token, columns, dtype, i)).encode()).hexdigest()[:32]}"
        make = partial(_blocks_of_arrays, columns, dtype, (n,), (first, number), objects, encoding)
        units.append(Unit((n,), Delayed(key, {key: (make, rows_of_x, *views)}), "X"))
        first, number = first + n, number + (n if views[1] is None else n_copies(views[1]))
    return units, p, token, None if label is None else _kind(label.dtype), row_bytes


def _kind(dtype: Any) -> str | None:
    return {"b": "bool", "i": "int", "u": "int", "f": "float", "U": "text", "S": "text"}.get(dtype.kind)


def check_numbers(table: Any, columns: Sequence[str]) -> None:
    """A DataError that names the first column of a frame or array that holds no numbers."""
    if hasattr(table, "dtypes"):
        kinds, _ = column_kinds(table, columns)
        dtypes = zip(columns, table.dtypes, strict=True)
        odd = next(((f"column {name!r} of X", dtype) for name, dtype in dtypes if kinds[name] not in NUMBERS), None)
    else:
        odd = None if getattr(table.dtype, "kind", "O") in "biuf" else ("X", table.dtype)
    if odd is not None:
        what, dtype = odd
        raise DataError(
            f"The {what} is of type {dtype}, not numbers: leave it out, or encode it as numbers. fit of "
            "KernelClassifier and KernelRegressor encodes text, categories and dates; for others sklearn.preprocessing "
            "has encoders."
        )


def _blocks_of_arrays(
    columns: tuple[str, ...],
    dtype: str,
    rows: tuple[int, ...],
    first: tuple[int, int],
    objects: tuple[str, ...],
    encoding: Encoding | None,
    X: Any,
    y: Any = None,
    weight: Any = None,
) -> tuple[Block, ...]:
    """The blocks of one unit of collections; runs on a worker.

    `first` is the number of the first row, and that of its first copy.
    """
    if encoding is not None:
        values = table_of(X, columns, encoding.kinds)
    else:
        values = matrix(X, "object" if objects else dtype) if hasattr(X, "iloc") else dense(X)
    raw = UncheckedBlock(values, one_a_row(y, "y", several=True), one_a_row(weight, "weight"))
    names = columns if encoding is None else encoding.names
    raw = raw.encoded(encoding, dtype, None if y is None else first[1])
    return cut_blocks(raw, rows, (names, "y", "weight"), dtype, partial(in_memory, first=first[0]), objects)


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
        odd = next(name for name, dtype_of in frame.dtypes.items() if getattr(dtype_of, "kind", "O") not in "biuf")
        raise of_other_kind(odd, frame[odd].dropna().iloc[0]) from None


def _hash(table: Any, label: Any, weight: Any, encoding: Encoding | None) -> str:
    """sha256 of the content, once for all units: on a cluster an address says nothing."""
    digest = hashlib.sha256()
    if encoding is not None:
        digest.update(repr(encoding).encode())
    if isinstance(table, bytes):
        digest.update(table)
        table = None
    parts = [table.iloc[:, j] for j in range(table.shape[1])] if hasattr(table, "iloc") else [table]
    for part in [*parts, label, weight]:
        values = part if part is None or isinstance(part, np.ndarray) else _numbers(part)
        digest.update(repr(None if values is None else (values.shape, values.dtype.str)).encode())
        if values is None:
            continue
        step = max(1, _HASH_BYTES // max(1, values.nbytes // max(1, len(values))))
        for start in range(0, len(values), step):
            if values.dtype.kind == "O":
                for held in encode_cells(values[start : start + step]):
                    digest.update(held.tobytes())
                continue
            digest.update(np.ascontiguousarray(values[start : start + step]).reshape(-1).view(np.uint8).data)
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
    names: Sequence[str] | None,
    dtype: str,
    objects: tuple[str, ...],
    encoding: Encoding | None,
    compute: Callable[..., Any],
) -> tuple[list[Unit], int, str, str | None]:
    if hasattr(X, "dtypes") and not objects:
        check_numbers(X, tuple(map(str, X.columns)))
    X, y, weight = with_known_chunks(X, y, weight, partial(matrix, dtype="object" if objects else dtype), compute)
    X, y, weight = align(X, y, weight)
    p = int(X.shape[1])
    columns = _columns(names, p) if encoding is None else encoding.names
    limit = chunk_limit(object_row_bytes(p, 0), 1) if objects else chunk_limit(p, np.dtype(dtype).itemsize)
    token = hashlib.sha256(repr([(a.name, a.chunks) if a is not None else None for a in (X, y, weight)]).encode())
    units, first = [], 0
    for keys, n, graph in block_graphs(X, y, weight):
        rows = cut_evenly(n, limit)
        key = f"dkernel-read-{hashlib.sha256(repr((keys, columns, dtype, rows)).encode()).hexdigest()[:32]}"
        graph[key] = (partial(_blocks_of_arrays, columns, dtype, rows, (first, 0), objects, None), *keys)
        units.append(Unit(rows, Delayed(key, graph), "X"))
        first += n
    if not units:
        raise DataError("X has no rows.")
    return units, p, token.hexdigest(), None if y is None else _kind(y.dtype if y.ndim == 1 else np.dtype(np.float64))
