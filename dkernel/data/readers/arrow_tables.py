"""Arrow tables to blocks: columns of any length and type into one row-major array, without pandas."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dkernel.data.arrow import code_values, column_array, look_up, text_of_bytes
from dkernel.data.block import UncheckedBlock, check_text, fits_label, too_large
from dkernel.data.column_types import DECIMAL, EMPTY, INT, NUMBERS, TEXT, column_type, is_bytes, label_type, value_type
from dkernel.data.encoding.text_values import values_of_texts
from dkernel.data.file_schema import ReadColumns
from dkernel.data.readers.csv_fields import is_utf8
from dkernel.errors import DataError, MissingLabelError, MissingValueError
from dkernel.numerics.validation import RowDescriber

# Bytes of the piece of the block that is filled at a time: it stays in cache while every column of it is written, so
# each of its cache lines travels once.
_TILE_BYTES = 2**20


WITHOUT_THEM = "Fill these rows, or leave them out with max_bad_rows=N."


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type that holds the values of columns of these types, unchanged; None if there is none.

    Examples
    --------
    >>> common_type([pa.int32(), pa.int64()]), common_type([pa.dictionary(pa.int8(), pa.string()), pa.large_string()])
    (DataType(int64), DataType(large_string))
    """
    if len({column_type(t) == DECIMAL for t in types if column_type(t) != EMPTY}) > 1:
        return None  # a float holds fewer digits
    plain = [pa.large_string() if value_type(t) == pa.string_view() else value_type(t) for t in types]
    try:
        schemas = [pa.schema([("x", t)]) for t in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field("x").type
    except pa.ArrowException:
        return None


def raw_of_table(table: pa.Table, columns: ReadColumns, describe: RowDescriber) -> UncheckedBlock:
    """The parts of one unit; a missing value in a feature, the label or the weight is refused with its place."""
    kept = table.select(list(columns.kept)) if columns.kept else None
    table = read_texts(table, columns, describe)
    used, may_miss = _plain(table, columns, describe), frozenset(columns.features if columns.fills else ())
    for name, column in zip(used.column_names, used.columns, strict=True):
        if column.null_count and name not in may_miss:
            _refuse_null(column, name, describe, MissingLabelError if name == columns.label else MissingValueError)
    features = (table if columns.as_table else used).select(list(columns.features))
    label, weight = (None if n is None else _values(used.column(n), n) for n in (columns.label, columns.weight))
    if columns.as_table:
        return UncheckedBlock(features, label, weight, kept)
    try:
        X = _mixed_cells(features, columns.objects) if columns.objects else _fill_cells(features, columns.dtype)
    except FloatingPointError:
        # A number too large for float32: in float64 it comes to the gate as it is, and the message shows it.
        X = _fill_cells(features, "float64")
    return UncheckedBlock(X, label, weight, kept)


def read_texts(table: pa.Table, columns: ReadColumns, describe: RowDescriber) -> pa.Table:
    """The table with text for bytes, and with the values that its texts mean in columns of dates and numbers."""
    texts = {name: _as_text(table.column(name), name, describe) for name in bytes_in(table, columns)}
    table = with_columns(table, texts)
    values = {
        name: values_of_texts(table.column(name), name, describe, columns.form_of(name))
        for name in texts_with_form(table, columns)
    }
    return with_columns(table, values)


def bytes_in(table: pa.Table, columns: ReadColumns) -> list[str]:
    """The features and the label that are stored as bytes."""
    used = {*columns.features, columns.label}
    return [field.name for field in table.schema if field.name in used and is_bytes(value_type(field.type))]


def texts_with_form(table: pa.Table, columns: ReadColumns) -> list[str]:
    """The columns of dates, durations or numbers that are stored as text, or as numbers in the format of dates."""
    used = dict.fromkeys(name for name in (*columns.features, columns.label, columns.weight) if name is not None)
    formed = (
        name for name in used if name in table.column_names and (columns.is_time(name) or name in columns.formats)
    )
    kinds = {name: column_type(table[name].type) for name in formed}
    dates = [
        name for name, kind in kinds.items() if kind in NUMBERS and columns.is_time(name) and columns.formats.get(name)
    ]
    return [*(name for name, kind in kinds.items() if kind == TEXT), *dates]


def rows_without_text(column: pa.ChunkedArray) -> list[int]:
    """The rows of a column of bytes that are not UTF-8."""
    try:
        text_of_bytes(column)
    except pa.ArrowInvalid:
        return [row for row, value in enumerate(column.to_pylist()) if value is not None and not is_utf8(value)]
    return []


def _as_text(column: pa.ChunkedArray, name: str, describe: RowDescriber) -> pa.ChunkedArray:
    try:
        return text_of_bytes(column)
    except pa.ArrowInvalid:
        row = rows_without_text(column)[0]
        raise DataError(
            f"{describe(row)}, column {name!r}: the bytes {column[row].as_py()[:20]!r} are not UTF-8 text. "
            f"Exclude the column, as with `--exclude {name}`, or store it as text or numbers."
        ) from None


def _plain(table: pa.Table, columns: ReadColumns, describe: RowDescriber) -> pa.Table:
    """Features, label and weight, with dictionaries looked up (a dictionary may hold a null) and decimals as floats."""
    named = [n for n in (*columns.features, columns.label, columns.weight) if n is not None]
    used = table.select(named)
    changed = {}
    for name, column in zip(named, used.columns, strict=True):
        values = look_up(column)
        if column_type(values.type) == DECIMAL:
            whole = name == columns.label and label_type(values.type) == INT
            values = _as_whole(values, name, describe) if whole else values.cast(pa.float64())
        if values is not column:
            changed[name] = values
    return with_columns(used, changed)


def _as_whole(column: pa.ChunkedArray, name: str, describe: RowDescriber) -> pa.ChunkedArray:
    """A label of decimals without places as int64."""
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        values = column.to_pylist()
        row = next(i for i, value in enumerate(values) if value is not None and not fits_label(int(value)))
        raise too_large(values[row], describe(row), name) from None


def with_columns(table: pa.Table, changed: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    """The table with other columns under these names, made at once: each `set_column` would copy all of the others."""
    if not changed:
        return table
    return pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **changed})


def _fill_cells(features: pa.Table, dtype: str) -> NDArray[Any]:
    X = np.empty(features.shape, dtype=dtype)
    first = 0
    for batch in features.to_batches():
        _fill(X[first : first + batch.num_rows], [column_array(column) for column in batch.columns])
        first += batch.num_rows
    return X


def _mixed_cells(features: pa.Table, objects: Sequence[str]) -> NDArray[Any]:
    """Columns of objects, and of numbers as objects: cells (rows, p), still to be checked."""
    X = np.empty(features.shape, dtype=object)
    cells = frozenset(objects)
    for j, (name, column) in enumerate(zip(features.column_names, features.columns, strict=True)):
        X[:, j] = _cells(column) if name in cells else _values(column, name)
    return X


def _cells(column: pa.ChunkedArray) -> NDArray[np.object_]:
    """A column of objects, whose equal texts are one string in memory."""
    if column_type(column.type) != TEXT:
        return np.fromiter(column.to_pylist(), dtype=object, count=len(column))
    words, numbers = code_texts(column)
    return np.array(words, dtype=object)[numbers]


def _fill(X: NDArray[Any], arrays: list[NDArray[Any]]) -> None:
    """X[:, j] = arrays[j], tile by tile of rows."""
    rows, p = X.shape
    # Rows of a tile of very wide tables: a cache line is 16 numbers
    tile = max(64, _TILE_BYTES // max(1, p * X.itemsize))
    with np.errstate(over="raise"):
        for start in range(0, rows, tile):
            stop = min(rows, start + tile)
            for j, values in enumerate(arrays):
                X[start:stop, j] = values[start:stop]


def _refuse_null(column: pa.ChunkedArray, name: str, describe: RowDescriber, kind: type[DataError]) -> None:
    row = pc.index(pc.is_null(column), True).as_py()
    more = f" (and {column.null_count - 1} more in this block)" if column.null_count > 1 else ""
    raise kind(f"{describe(row)}, column {name!r}: the value is missing{more}. {WITHOUT_THEM}")


def _values(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """One column as numpy: numbers as they are, text, of a label, as fixed-width unicode."""
    if column_type(column.type) != TEXT:
        return column_array(column) if column.num_chunks else np.empty(0)
    # Through the few distinct values: labels repeat, and making a Python string of each row is slow.
    words, numbers = code_texts(column)
    check_text(words, name)
    return np.array(words, dtype="U")[numbers]


def code_texts(column: pa.ChunkedArray) -> tuple[list[Any], NDArray[Any]]:
    """The distinct texts of a column, and the number of each row's."""
    coded = code_values(column)
    return coded.dictionary.to_pylist() or [""], coded.indices.to_numpy(zero_copy_only=False)
