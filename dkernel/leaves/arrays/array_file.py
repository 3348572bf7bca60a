"""Files that hold arrays (NPY, NPZ, Zarr, HDF5): a matrix of numbered columns, and arrays of a value a row by name."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import as_native
from dkernel.data.block import UncheckedBlock
from dkernel.data.column_types import (
    DATE,
    DURATION,
    FINER_UNITS,
    FLOAT,
    INT,
    OTHER,
    TEXT,
    are_numbers,
    arrow_type,
    column_type,
    type_of_dtype,
)
from dkernel.data.file_schema import FilePart, FileSchema, ReadColumns
from dkernel.data.paths import File
from dkernel.errors import DataError

# (key, first row, stop row) -> array
Fetch = Callable[[str, int, int], NDArray[Any]]

MOST_COLUMNS = 2**22  # names of as many fill some 500 MB
_NOTHING: Mapping[str, NDArray[Any]] = MappingProxyType({})
_PACKING = {"scale_factor": 1, "add_offset": 0, "_FillValue": None, "missing_value": None}
_NAN_BYTES = {base64.b64encode(np.array(np.nan, kind).tobytes()).decode() for kind in ("<f4", "<f8")}
# Names of the features among several two-dimensional arrays.
_MATRIX_NAMES = ("X", "x", "features", "data")


@dataclass(frozen=True)
class Member:
    """One array of a file; `step`: rows that are stored together; `type` as which it is read, None of objects.

    `packed` is what its attributes say of its numbers, which are then not those that are stored.
    """

    key: str
    shape: tuple[int, ...]
    type: pa.DataType | None
    step: int = 1
    packed: str = ""

    @property
    def kind(self) -> str:
        """One of column_types.COLUMN_TYPES; objects cannot be read without running code."""
        return OTHER if self.type is None else column_type(self.type)


def member(
    key: str,
    shape: Sequence[int],
    dtype: Any,
    chunks: Sequence[int] | None = None,
    attributes: Mapping[str, Any] = _NOTHING,
) -> Member:
    """A Member by its numpy dtype, the shape of its chunks, and the attributes that xarray and netCDF pack it by."""
    packed = [f"{name}={value}" for name in _PACKING if not _is_neutral(name, value := attributes.get(name), dtype)]
    type_ = arrow_type(np.dtype(dtype))
    if type_ is not None and column_type(type_) == TEXT:
        type_ = pa.string()  # of bytes too
    return Member(key, tuple(int(n) for n in shape), type_, max(1, int((chunks or (1,))[0])), ", ".join(packed))


def _is_neutral(name: str, value: Any, dtype: Any) -> bool:
    """True if an attribute leaves numbers as they are: NaN is missing anyway."""
    if value is None or type_of_dtype(np.dtype(dtype)) not in (INT, FLOAT):
        return True
    if name in ("scale_factor", "add_offset"):
        return bool(np.all(value == _PACKING[name]))
    if isinstance(value, str | bytes):  # of a float, by xarray in format 3 of Zarr
        return type_of_dtype(np.dtype(dtype)) == FLOAT and value in _NAN_BYTES
    return bool(np.all(np.isnan(value)))


def table_of_members(file: File, members: Sequence[Member], exclude: Sequence[str]) -> FileSchema:
    """The content of the file as one table; its `extra` is the key of the matrix ('' is a key, None is no matrix).

    What is excluded may have any shape and type: only its name counts.
    """
    passed_over = {m.key: m.kind for m in members if m.key in exclude}
    members = [m for m in members if m.key not in exclude]
    matrix = _matrix(file, members)
    flat = [m for m in members if m is not matrix and _is_column(m)]
    odd = [m for m in members if m is not matrix and not _is_column(m)]
    if odd and matrix is None and not flat:
        raise DataError(f"{file.name}: {_describe(odd[0])}; a table of 2 dimensions is needed.")
    used = [*([matrix] if matrix else []), *flat]
    if packed := [m for m in used if m.packed]:
        raise DataError(
            f"{file.name}: the array{f' {packed[0].key!r}' if packed[0].key else ''} is packed ({packed[0].packed}): "
            "its stored numbers are not its values. Store these (xarray does, of what it opened, after "
            "drop_encoding()), or exclude the array."
        )
    if not used:
        raise DataError(f"{file.name}: the file holds no arrays.")
    rows = used[0].shape[0]
    for other in used:
        if other.shape[0] != rows:
            raise DataError(
                f"{file.name}: {_describe(used[0])}, but {_describe(other)}; both need the same number of rows."
            )
    if matrix and matrix.shape[1] > MOST_COLUMNS:  # an empty array, or one that is not stored, can say any number
        raise DataError(
            f"{file.name}: {_describe(matrix)}, and at most {MOST_COLUMNS:,} columns can be read: rows of more are "
            "sparse. Give them as svmlight."
        )
    kinds = {str(j): matrix.kind for j in range(matrix.shape[1])} if matrix else {}
    types = dict.fromkeys(kinds, matrix.type) if matrix else {}
    for m in flat:
        if m.key in kinds:
            raise DataError(f"{file.name}: the array {m.key!r} has the name of a column of the matrix.")
        kinds[m.key] = m.kind
        if m.type is not None:
            types[m.key] = m.type
    step = max(m.step for m in used) if matrix is None else matrix.step
    key = matrix.key if matrix else None
    kinds = {**passed_over, **kinds}
    return FileSchema(file, kinds, rows, step, numbered=matrix is not None, extra=key, types=types)


def _is_column(m: Member) -> bool:
    return len(m.shape) == 1 or (len(m.shape) == 2 and m.shape[1] == 1)


def _matrix(file: File, members: Sequence[Member]) -> Member | None:
    tables = [m for m in members if len(m.shape) == 2 and (m.shape[1] > 1 or len(members) == 1)]
    if len(tables) > 1:
        named = [m for m in tables if m.key in _MATRIX_NAMES]
        if not named:
            raise DataError(
                f"{file.name}: there are several two-dimensional arrays ({', '.join(m.key for m in tables)}); "
                f"the features need the name {_MATRIX_NAMES[0]!r}."
            )
        return named[0]
    if tables:
        return tables[0]
    return next((m for m in members if m.key in _MATRIX_NAMES and len(m.shape) == 2), None)


def _describe(m: Member) -> str:
    return f"the array {m.key!r} has the shape {m.shape}" if m.key else f"the array has the shape {m.shape}"


def raw_of_members(
    part: FilePart,
    columns: ReadColumns,
    fetch: Fetch,
    features: NDArray[Any] | None = None,
    known: Mapping[str, NDArray[Any]] = _NOTHING,
) -> UncheckedBlock:
    """The rows of one part, by slices of its arrays.

    With `features`, which have been read from the matrix, so have been the label, the weight and the kept columns that
    are its columns: these are in `known`.
    """
    start, stop = part.first_row, part.first_row + part.rows
    matrix = None if part.extra is None or features is not None else fetch(part.extra, start, stop)
    width = 0 if matrix is None else matrix.shape[1]

    def column(name: str) -> NDArray[Any]:
        if name in known:
            return known[name]
        if matrix is not None and name.isdigit() and int(name) < width:
            return matrix[:, int(name)]
        values = fetch(name, start, stop)
        return values.reshape(len(values)) if values.ndim == 2 else values

    return UncheckedBlock(
        _features(matrix, columns, part.rows, column) if features is None else features,
        None if columns.label is None else column(columns.label),
        None if columns.weight is None else column(columns.weight),
        _table(columns.kept, list(map(column, columns.kept))) if columns.kept else None,
    )


def _features(
    matrix: NDArray[Any] | None, columns: ReadColumns, rows: int, column: Callable[[str], NDArray[Any]]
) -> NDArray[Any]:
    numbers = matrix_columns(columns.features, 0 if matrix is None else matrix.shape[1])
    if matrix is not None and numbers and are_numbers(matrix.dtype):
        return matrix[:, numbers[0] : numbers[-1] + 1] if is_run(numbers) else matrix[:, numbers]
    values = [column(name) for name in columns.features]
    if columns.as_table and not all(are_numbers(array.dtype) for array in values):
        return _table(columns.features, values)
    return fill_block(values, rows, columns.layout.array_dtype)


def _table(names: Sequence[str], values: Sequence[NDArray[Any]]) -> Any:
    return pa.table({name: _arrow(array, name) for name, array in zip(names, values, strict=True)})


def matrix_columns(names: Sequence[str], width: int) -> list[int]:
    """The numbers that the names are, if all of them are columns of a matrix of this width; else none.

    Examples
    --------
    >>> matrix_columns(["2", "0"], 3), matrix_columns(["2", "x"], 3), matrix_columns(["3"], 3)
    ([2, 0], [], [])
    """
    numbers = [int(name) for name in names if name.isdigit()]
    return numbers if len(numbers) == len(names) and max(numbers, default=0) < width else []


def is_run(numbers: Sequence[int]) -> bool:
    """True if each is one more than the one before it."""
    return list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))


def fill_block(values: Sequence[NDArray[Any]], rows: int, dtype: str) -> NDArray[Any]:
    """Columns as a block (rows, p) of `dtype`; of float64 where a number is too large, so that the gate can show it."""
    X = np.empty((rows, len(values)), dtype=dtype)
    try:
        with np.errstate(over="raise"):
            for j, column in enumerate(values):
                X[:, j] = column
    except FloatingPointError:
        return np.stack([np.asarray(column, np.float64) for column in values], axis=1)
    return X


def _arrow(values: NDArray[Any], name: str) -> Any:
    native, type_ = as_native(values), arrow_type(values.dtype)
    if type_ is None or column_type(type_) == TEXT:
        try:
            return pa.array([v.decode() if isinstance(v, bytes) else v for v in native.tolist()])
        except UnicodeError as error:
            raise DataError(
                f"The column {name!r} holds text that is not UTF-8 ({error}). Store it as such, or leave it out."
            ) from None
    if column_type(type_) in (DATE, DURATION):
        native = _in_unit(native, type_.unit, name)
    return pa.array(np.ascontiguousarray(native))


def _in_unit(times: NDArray[Any], unit: str, name: str) -> NDArray[Any]:
    """Dates or durations, whose unit may be none of Arrow's, in one that is; refused where it does not hold them."""
    made = times.astype(f"{times.dtype.kind}8[{unit}]")
    # What is finer than nanoseconds is cut off; a longer unit overflows without a word, and does not come back.
    finer = np.datetime_data(times.dtype)[0] in FINER_UNITS
    if not finer and ((made.astype(times.dtype) != times) & ~np.isnat(times)).any():
        raise DataError(
            f"The column {name!r} is of {times.dtype} and has values beyond 64 bits of the unit '{unit}'. Store "
            "them as numbers, or leave the column out."
        )
    return made
