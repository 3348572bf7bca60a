"""Blocks of objects: the allowed values, their check, and the form in which they are written.

A block of objects is an array (rows, p) of dtype object. Each of its columns holds either numbers, as Python floats, or
objects: a text, or a tuple of texts, numbers and tuples. A list becomes a tuple, and a set the tuple of its sorted
elements, so that equal sets are equal cells. Text of fixed width would lose the zeros at its end and take the room of
the longest one in every row.

Written down, a cell is JSON: data and no code, in a model file as in a shuffled copy on scratch.
"""

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError
from dkernel.numerics.validation import RowDescriber

Objects = NDArray[np.object_]

OBJECT_OVERHEAD = 64  # bytes that an object takes beside its text: a Python string, and the pointer to it
_SAMPLE = 256  # cells that a size is estimated from
_DEPTH = 32  # lists inside lists: Python's own parser of JSON ends near 1,000
_NEEDED = "A cell is a text, or a list or set of texts, numbers and lists"


def as_cells(X: NDArray[Any], columns: Sequence[str], objects: Sequence[str], describe: RowDescriber) -> Objects:
    """X as a block of objects (rows, p), or a DataError that names row and column.

    Parameters
    ----------
    X : array of shape (rows, p), of any dtype
    columns : the names of the p columns
    objects : those among them that hold objects; the others hold numbers
    describe : says where a row of the block stands, for the message

    Examples
    --------
    >>> as_cells(np.array([["ab", 1], [{"d", "c"}, 2]], object), ["s", "x"], ["s"], str).tolist()
    [['ab', 1.0], [('c', 'd'), 2.0]]
    """
    if X.ndim != 2 or X.shape[1] != len(columns):
        found = f"{X.ndim} dimension(s)" if X.ndim != 2 else f"{X.shape[1]} columns"
        width = len(columns)
        raise DataError(f"A block of objects has {found} at {describe(0)}; a table of {width} columns is needed.")
    block = np.empty(X.shape, dtype=object)
    for j, name in enumerate(columns):
        change = _object if name in objects else _number
        values = X[:, j].tolist()
        if change is _object and all(type(value) is str for value in values):
            block[:, j] = values
            continue
        for i, value in enumerate(values):
            try:
                block[i, j] = change(value)
            except (TypeError, ValueError, OverflowError) as error:
                raise DataError(f"{describe(i)}, column {name!r}: {error}") from None
    return block


def number_columns(X: Objects) -> list[int]:
    """The columns of a block of objects that hold numbers; a block without rows has none."""
    return [j for j in range(X.shape[1]) if isinstance(X[0, j], float)] if len(X) else []


def to_numbers(X: NDArray[Any]) -> NDArray[Any]:
    """The numbers of a block, 0 in its columns of objects, as float64; a block of numbers as it is.

    Examples
    --------
    >>> to_numbers(np.array([["ab", 1.5]], object))
    array([[0. , 1.5]])
    """
    if X.dtype.kind != "O":
        return X
    out = np.zeros(X.shape)
    for j in number_columns(X):
        out[:, j] = X[:, j]
    return out


def cell_bytes(X: Objects) -> int:
    """About how many bytes the cells of a block hold, from a sample of them."""
    if not X.size:
        return 0
    some = X.reshape(-1)[:: max(1, X.size // _SAMPLE)]
    return int(X.size * sum(_bytes(cell) for cell in some) / len(some))


def encode_cells(X: Objects) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The cells as JSON, row by row one after the other, and where each ends: uint8 (bytes,), int64 (rows, p).

    Examples
    --------
    >>> data, ends = encode_cells(np.array([["ab", 1.5]], object))
    >>> data.tobytes(), ends
    (b'"ab"1.5', array([[4, 7]]))
    """
    texts = [json.dumps(cell, separators=(",", ":"), allow_nan=False) for cell in X.reshape(-1)]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64).reshape(X.shape)
    return np.frombuffer("".join(texts).encode("ascii"), np.uint8), ends


def decode_cells(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> Objects:
    """The cells that `encode_cells` wrote, or a ValueError: another text of the same cells is no text of theirs."""
    last = ends.reshape(-1)
    if ends.ndim != 2 or data.ndim != 1 or data.dtype != np.uint8 or ends.dtype != np.int64:
        raise ValueError("cells are bytes in one dimension and int64 ends in two")
    if not len(last) or last[0] < 0 or (np.diff(last) < 0).any() or last[-1] != len(data):
        raise ValueError("the ends of the cells do not fit the bytes")
    whole, out = data.tobytes(), np.empty(ends.size, dtype=object)
    try:
        for i, (start, stop) in enumerate(zip([0, *last[:-1].tolist()], last.tolist(), strict=True)):
            out[i] = _tuples(json.loads(whole[start:stop]))
        X = out.reshape(ends.shape)
        again = encode_cells(X)
    except RecursionError:
        raise ValueError("a cell is nested too deeply") from None
    if not np.array_equal(again[0], data) or not np.array_equal(again[1], ends):
        raise ValueError("the cells read back differently")
    return X


def _tuples(value: Any, depth: int = 0) -> Any:
    if isinstance(value, list):
        if depth > _DEPTH:
            raise ValueError("a cell is nested too deeply")
        return tuple(_tuples(item, depth + 1) for item in value)
    if value is None or isinstance(value, dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"a cell holds {str(value)[:50]}")
    return value


def _number(value: Any) -> float:
    if is_missing_cell(value):
        raise ValueError("the value is missing. Remove or fill these rows.")
    if not isinstance(value, int | float | np.number | Decimal):
        raise TypeError(f"the value {str(value)[:50]!r} is not a number; this column holds numbers.")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"the value {value} is not finite. Every number must be: remove or fill these rows.")
    return number


def _object(value: Any) -> Any:
    if is_missing_cell(value):
        raise ValueError("the value is missing. Remove or fill these rows.")
    value_in_form = _part(value)
    if isinstance(value_in_form, str | tuple):
        return value_in_form
    raise TypeError(f"the value {value!r} is a number, and this column holds objects. {_NEEDED}.")


def _part(value: Any, depth: int = 0) -> Any:
    """A cell, or a part of one, of plain types; numpy's own become Python's."""
    if isinstance(value, str | bytes):
        return value.decode("utf-8") if isinstance(value, bytes) else str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise ValueError(f"there is {value} in it. Every number must be finite.")
        return float(value)
    if depth > _DEPTH:
        raise ValueError(f"it is nested more than {_DEPTH} lists deep.")
    if isinstance(value, set | frozenset):
        return tuple(sorted((_part(item, depth + 1) for item in value), key=_order))
    if isinstance(value, list | tuple | np.ndarray):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return tuple(_part(item, depth + 1) for item in items)
    raise TypeError(f"the value is of type {type(value).__name__}. {_NEEDED}.")


def _order(part: Any) -> tuple[int, Any]:
    """Numbers before texts before tuples, which have no order among each other."""
    if isinstance(part, tuple):
        return 2, json.dumps(part)
    return (1, part) if isinstance(part, str) else (0, part)


def is_missing_cell(value: Any) -> bool:
    """True of None, a NaN of any type, and the missing values of pandas, whose comparison is neither true nor false."""
    if isinstance(value, float):
        return value != value
    if isinstance(value, str):
        return False
    no_number = isinstance(value, np.generic | Decimal) and bool(value != value)
    return no_number or value is None or type(value).__name__ in ("NAType", "NaTType")


def _bytes(cell: Any) -> int:
    if isinstance(cell, tuple):
        return OBJECT_OVERHEAD + sum(_bytes(part) for part in cell)
    return OBJECT_OVERHEAD + len(cell) if isinstance(cell, str) else OBJECT_OVERHEAD // 2
