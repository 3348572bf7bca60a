"""The rows of one chunk, what every reader hands over, and the checks that each of them goes through on the way."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dkernel.data.arrow import pick_rows
from dkernel.data.column_types import BOOL, FLOAT, INT, TEXT, UNTYPED, are_numbers, type_of_dtype
from dkernel.data.encoding import Encoding
from dkernel.data.encoding.label_means import LEAST_WEIGHT, has_weight, row_folds
from dkernel.errors import DataError, MissingLabelError
from dkernel.numerics.layout import Layout
from dkernel.numerics.object_values import is_missing_cell
from dkernel.numerics.rows import bytes_of_rows
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.numerics.validation import RowDescriber

_MOST_ROWS = 131_072  # rows of a chunk of few features: enough that the cost of a task is a small part
MOST_WEIGHT = 1e30  # sums of the losses of more are no numbers in float32
CHUNK_BYTES = 64 * 2**20  # bytes of a chunk: the smallest worker has room for some


@dataclass(frozen=True)
class Block:
    """The rows of one chunk.

    X is (rows, p), C-contiguous and finite, or of objects (dkernel.numerics.object_values), or sparse
    (dkernel.numerics.sparse_rows); y is (rows,) of bool, int64, float64 or fixed-width text, or several targets in
    float64, (rows, k), None when no label was asked for; weight is (rows,) float64, finite and not
    negative; kept holds the columns carried to the output. refused lists the rows of the file that were left out on
    the way (rejected_rows.py), None where that is not done. marks says which values training never saw
    (`dkernel.data.encoding.Encoding.encode`), int8 (rows, columns of the table), None where there are none.

    Examples
    --------
    >>> Block(np.zeros((3, 2), np.float32)).rows
    3
    """

    X: NDArray[Any]
    y: NDArray[Any] | None = None
    weight: NDArray[np.float64] | None = None
    kept: pa.Table | None = None
    refused: pa.Table | None = None
    marks: NDArray[np.int8] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of X, y and weight; the kept columns as they are held."""
        arrays = sum(int(a.nbytes) for a in (self.y, self.weight) if a is not None)
        return bytes_of_rows(self.X) + arrays + sum(int(t.nbytes) for t in (self.kept, self.refused) if t is not None)

    def __sizeof__(self) -> int:
        return self.nbytes + 64


def concatenate_blocks(blocks: Sequence[Block]) -> Block:
    """The rows of some blocks, none of them sparse, as one block.

    Examples
    --------
    >>> concatenate_blocks([Block(np.zeros((3, 2))), Block(np.ones((1, 2)))]).rows
    4
    """

    def arrays(name: str) -> Any:
        parts = [getattr(block, name) for block in blocks]
        return None if parts[0] is None else np.concatenate(parts)

    def tables(name: str) -> Any:
        parts = [table for block in blocks if (table := getattr(block, name)) is not None]
        return pa.concat_tables(parts) if parts else None

    return Block(arrays("X"), arrays("y"), arrays("weight"), tables("kept"), tables("refused"), arrays("marks"))


@dataclass(frozen=True)
class UncheckedBlock:
    """Values of one unit before the checks: X (rows, p), label and weight (rows,), kept columns.

    X is an Arrow table where an encoding makes inputs of it.
    """

    X: Any
    label: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None
    kept: pa.Table | None = None
    marks: NDArray[np.int8] | None = None

    def encode(self, encoding: Encoding | None, dtype: str, first: int | None = None) -> "UncheckedBlock":
        """Replace the features by the inputs that an encoding makes of them.

        `first` is, of rows to learn from, the number of the first.
        """
        if encoding is None:
            return self
        folds = None
        if first is not None and encoding.folded:
            folds = row_folds(first, len(self.X))
        X, marks = encoding.encode(self.X, dtype, folds)
        return replace(self, X=X, marks=marks)

    def take(self, rows: NDArray[np.bool_]) -> "UncheckedBlock":
        """Some of the rows."""
        if rows.all():
            return self
        columns = (self.X, self.label, self.weight, self.kept, self.marks)
        return UncheckedBlock(*(None if each is None else pick_rows(each, rows) for each in columns))


def chunk_limit(p: int, itemsize: int = 4) -> int:
    """Rows of the largest chunk of p columns: about 64 MiB, a multiple of 2,048, within 2,048 and 131,072.

    It depends on nothing that changes between machines: the chunk layout decides the pieces, and so the bits.

    Examples
    --------
    >>> chunk_limit(28), chunk_limit(784), chunk_limit(100_000)
    (131072, 20480, 2048)
    """
    rows = CHUNK_BYTES // max(1, p * itemsize)
    return min(_MOST_ROWS, max(PIECE_ROWS, rows // PIECE_ROWS * PIECE_ROWS))


def cut_evenly(rows: int, limit: int) -> tuple[int, ...]:
    """Sizes of the fewest chunks of at most `limit` rows, equal up to one row.

    Examples
    --------
    >>> cut_evenly(10, 4)
    (4, 3, 3)
    """
    if rows == 0:
        return ()
    n = -(-rows // limit)
    return tuple(rows // n + (i < rows % n) for i in range(n))


def one_a_row(values: Any, what: str, several: bool = False) -> NDArray[Any] | None:
    """One value a row as numpy, or with `several` some of them; None stays None."""
    if values is None:
        return None
    refuse_masked(what, values)
    try:
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except RuntimeError as error:  # of an array that numpy cannot take
        raise DataError(f"{what} is of type {type(values).__name__}: {error}") from None
    if not array.ndim:  # of an object that numpy takes for one value, say a sparse matrix or a set
        dense = f" Give {what}.toarray()." if hasattr(values, "toarray") else ""
        raise DataError(f"{what} is of type {type(values).__name__}; one value per row is needed, as an array.{dense}")
    flat: NDArray[Any] = flatten(array, what, several)
    return flat


def refuse_masked(what: str, values: Any) -> None:
    """Refuse labels or weights whose mask hides some: they would be taken for numbers."""
    if isinstance(values, np.ma.MaskedArray) and (hidden := int(np.ma.getmaskarray(values).sum())):
        raise DataError(
            f"{what} is a masked array with {hidden:,} masked value(s), and every row needs one. Leave these rows out, "
            "or give them a weight of 0."
        )


def flatten(values: Any, what: str, several: bool) -> Any:
    """An array of numpy or Dask of one value a row, or with `several` some of them; a single column becomes (n,)."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 and not (several and values.ndim == 2 and values.shape[1]):
        raise DataError(f"{what} has the shape {values.shape}; one value per row is needed.")
    return values


def check_beside(
    y: Any, weight: Any, n: int, describe: Callable[[int], str]
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Label and weight of the n rows of X, as numpy, one for each row; invalid ones are refused."""
    label, w = label_and_weight(y, weight, n)
    label = None if label is None else as_label(label, describe, "y")
    return label, None if w is None else as_weight(w, describe, "weight")


def label_and_weight(y: Any, weight: Any, n: int) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Label and weight of the n rows of X, as numpy, one for each row."""
    parts = one_a_row(y, "y", several=True), one_a_row(weight, "weight")
    check_lengths(n, *parts)
    return parts


def check_lengths(n: int, y: Any, weight: Any) -> None:
    """Refuse label and weight, arrays of numpy or Dask or None, that have not the n rows of X."""
    for what, values in (("y", y), ("weight", weight)):
        if values is not None and values.shape[0] != n:
            raise DataError(f"X has {n} rows, but {what} has {values.shape[0]}; both need the same number.")


def targets_in(y: Any) -> int:
    """Number of targets of a label, 1 without a label.

    Examples
    --------
    >>> targets_in(np.zeros((4, 2))), targets_in([1, 2]), targets_in(None)
    (2, 1, 1)
    """
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    return int(shape[1]) if len(shape) == 2 else 1


_LABEL_NEEDED = "bool, integer, float or text is needed"


def as_label(values: NDArray[Any], describe: RowDescriber, name: str) -> NDArray[Any]:
    """A label as bool, int64, float64 or fixed-width text; several targets, (rows, k), as float64.

    A missing one is refused with its row, and of several with its column.

    Examples
    --------
    >>> as_label(np.array([1, 2], np.int8), str, "y").dtype
    dtype('int64')
    """
    if values.ndim == 2:
        return _as_targets(values, describe, name)
    if values.ndim != 1:
        raise DataError(f"The label {name!r} has shape {values.shape}; one value per row is needed.")
    kind = type_of_dtype(values.dtype)
    if kind == BOOL or values.dtype.kind == "U":
        return values
    if kind == INT:
        if values.dtype == np.uint64 and len(values) and values.max() > np.iinfo(np.int64).max:
            row = int(values.argmax())
            raise too_large(values[row], describe(row), name)
        return values.astype(np.int64, copy=False)
    if kind == FLOAT:
        numbers = values.astype(np.float64, copy=False)
        _refuse(np.isnan(numbers), numbers, describe, name, "label", "remove or fill these rows", MissingLabelError)
        _refuse(~np.isfinite(numbers), numbers, describe, name, "label", "remove or fill these rows")
        return numbers
    if kind in (TEXT, UNTYPED):
        return _label_of_objects(values.astype(object), describe, name)
    raise DataError(f"The label {name!r} is of type {values.dtype}; {_LABEL_NEEDED}.")


def as_whole_label(values: NDArray[Any], describe: RowDescriber, name: str) -> NDArray[np.int64]:
    """A label of a file as int64, where other files have integers; a fraction is refused with its row."""
    label = as_label(values, describe, name)
    if label.dtype.kind == "f" and (bad := ~are_whole(label)).any():
        row = int(bad.argmax())
        raise DataError(
            f"{describe(row)}, column {name!r}: the label is {label[row]}, and other files have integers. Write whole "
            "numbers for classes, or predict a number (--task regress; label_as='numbers')."
        )
    return label.astype(np.int64)


def are_whole(values: NDArray[np.floating]) -> NDArray[np.bool_]:
    """True for each whole number whose digits float64 has."""
    return np.asarray((values == np.floor(values)) & (np.abs(values) <= 2.0**53))


def _as_targets(values: NDArray[Any], describe: RowDescriber, name: str) -> NDArray[np.float64]:
    """Several targets as float64, each column through the gate of a label."""
    columns = [as_label(column, describe, f"{name}[{j}]") for j, column in enumerate(values.T)]
    for j, column in enumerate(columns):
        if column.dtype.kind == "U":
            raise DataError(f"The label {name}[{j}] holds text; several targets are numbers.")
    return np.stack(columns, axis=1, dtype=np.float64) + 0.0  # -0.0 becomes 0.0


def _label_of_objects(values: NDArray[Any], describe: RowDescriber, name: str) -> NDArray[Any]:
    listed = [_decode(v, row, describe, name) if isinstance(v, bytes) else v for row, v in enumerate(values.tolist())]
    _refuse(is_missing(values), values, describe, name, "label", "remove or fill these rows", MissingLabelError)
    if all(isinstance(v, str) for v in listed):
        check_text(listed, name)
        return np.array(listed, dtype="U")
    if all(isinstance(v, (bool, np.bool_)) for v in listed):
        return np.array(listed, dtype=bool)
    if all(isinstance(v, (Real, Decimal)) and not isinstance(v, bool) for v in listed):
        whole = all(isinstance(v, int) or (isinstance(v, Decimal) and v.as_tuple().exponent == 0) for v in listed)
        for row, v in enumerate(listed):
            if (whole or isinstance(v, int)) and not fits_label(int(v)):
                raise too_large(v, describe(row), name)
        number = int if whole else float
        return as_label(
            np.array([v if isinstance(v, (int, float, np.number)) else number(v) for v in listed]), describe, name
        )
    if holds_lists(listed):
        raise DataError(f"The label {name!r} holds lists (from {describe(0)}); one value per row is needed.")
    kinds = sorted({type(v).__name__ for v in listed})
    if len(kinds) == 1:
        raise DataError(f"The label {name!r} holds {kinds[0]} values (from {describe(0)}); {_LABEL_NEEDED}.")
    raise DataError(f"The label {name!r} mixes {', '.join(kinds)} (from {describe(0)}); one type of label is needed.")


def check_text(labels: Iterable[str], name: str) -> None:
    """Refuse text that would be other text in numpy, which drops NUL at an end, or in a file, which is UTF-8."""
    for label in dict.fromkeys(labels):
        if label.endswith("\0") or (not label.isprintable() and label.encode("utf-8", "ignore").decode() != label):
            what = "ends with NUL" if label.endswith("\0") else "is no Unicode text (a lone surrogate)"
            raise DataError(f"The label {name!r} holds {label!r}, which {what}. Write the label without it.")


def fits_label(value: int) -> bool:
    """True for a whole number that a label can be."""
    return -(2**63) <= value < 2**63


def too_large(label: Any, where: str, name: str) -> DataError:
    """The error that a label is no whole number of 64 bits."""
    return DataError(f"{where}, column {name!r}: the label {label} does not fit in 64 signed bits.")


def holds_lists(values: Iterable[Any]) -> bool:
    """True if a label has several values in a row, as a column of lists has."""
    return any(isinstance(v, list | tuple | np.ndarray) for v in values)


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """True for each label that is None, NaN or the missing value of pandas."""
    if values.dtype.kind not in "OT":
        return np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, bool)
    return np.array(list(map(is_missing_cell, values.ravel().tolist())), bool).reshape(values.shape)


def _decode(value: bytes, row: int, describe: RowDescriber, name: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise DataError(
            f"{describe(row)}, column {name!r}: the label {value[:60]!r} is not UTF-8 text. Store labels as text."
        ) from None


def _refuse(
    bad: NDArray[np.bool_],
    values: NDArray[Any],
    describe: RowDescriber,
    name: str,
    what: str,
    advice: str,
    kind: type[DataError] = DataError,
) -> None:
    if bad.any():
        row = int(bad.argmax())
        more = f" (and {int(bad.sum()) - 1} more in this block)" if bad.sum() > 1 else ""
        raise kind(f"{describe(row)}, column {name!r}: the {what} is {values[row]}{more}: {advice}.")


def as_weight(values: NDArray[Any], describe: RowDescriber, name: str) -> NDArray[np.float64]:
    """Weights (rows,) as float64: from 0 to MOST_WEIGHT; one below LEAST_WEIGHT becomes 0."""
    if values.ndim != 1 or not are_numbers(values.dtype):
        raise DataError(f"The weight {name!r} is of type {values.dtype}; one number per row is needed.")
    numbers = values.astype(np.float64, copy=False)
    advice = f"weights must be finite, not negative and at most {MOST_WEIGHT:.0e}"
    _refuse(~valid_weights(numbers), numbers, describe, name, "weight", advice)
    return numbers if (counts := has_weight(numbers)).all() else np.where(counts, numbers, 0.0)


def no_weight(rows: int | None = None) -> DataError:
    """The error that no row counts, with the number of rows where it is known."""
    every = "all rows" if rows is None else f"all {rows:,} rows"
    return DataError(
        f"The weights are 0 in {every} (below {LEAST_WEIGHT:.0e} counts as 0): there is nothing to learn from. Give "
        "some rows a larger weight."
    )


def valid_weights(weight: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True for each weight that a fit can use."""
    return np.asarray((weight >= 0) & (weight <= MOST_WEIGHT))


def cut_blocks(
    raw: UncheckedBlock,
    rows: tuple[int, ...],
    layout: Layout,
    describe: RowDescriber,
    label: str | None = "y",
    weight: str | None = "weight",
) -> tuple[Block, ...]:
    """The checked blocks of one unit, whose features have this layout; `label` and `weight` are names of columns."""
    if raw.X.shape[0] != sum(rows):
        raise DataError(
            f"{describe(0)}: {raw.X.shape[0]} rows were read where {sum(rows)} were counted: the file changed or is "
            "damaged."
        )
    X = layout.block(raw.X, describe)
    y = as_label(raw.label, describe, label or "label") if raw.label is not None else None
    w = as_weight(raw.weight, describe, weight or "weight") if raw.weight is not None else None
    blocks, first = [], 0
    for n in rows:
        part = slice(first, first + n)
        blocks.append(
            Block(
                X[part],
                None if y is None else y[part],
                None if w is None else w[part],
                # A slice would carry the whole table along whenever it is sent.
                raw.kept if raw.kept is None or len(rows) == 1 else pick_rows(raw.kept, np.arange(first, first + n)),
                marks=None if raw.marks is None else raw.marks[part],
            )
        )
        first += n
    return tuple(blocks)
