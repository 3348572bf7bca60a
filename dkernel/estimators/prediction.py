"""A function of a block of rows, applied to X: at once and on threads in memory, lazily in Dask."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray

from dkernel.data.collections.dask_arrays import by_name, dense, is_dask
from dkernel.data.collections.tables import check_numbers, matrix, take_rows, to_table
from dkernel.data.encoding import Encoding
from dkernel.data.encoding.unseen import UnseenValues
from dkernel.errors import DataError, TooLargeError
from dkernel.model.model import Model
from dkernel.numerics.layout import Layout
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import TILE_ROWS
from dkernel.numerics.validation import as_features
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.execution.payload import Payload
from dkernel.streaming.execution.process import warn

if TYPE_CHECKING:
    import dask.array as da

BLOCK_ROWS = 8192  # rows of a task on threads: 32 tiles
DENSE_BYTES = 2**29  # bytes of the sparse rows that are made dense at one time


@dataclass(frozen=True)
class BlockPrediction:
    """A function of every row, with all that it needs.

    Parameters
    ----------
    function : (carried, block) -> array of `rows` or (rows, width); module-level, so that a task can name it
    carried : what the function needs: a model, a map
    key : names the content of `carried`; called only where tasks are made
    inputs : the way in which rows become a block
    names : gives those of the columns of the answer, or that of its series, where it is in a dataframe
    dtype : of the answer
    """

    function: Callable[[Any, NDArray[Any]], NDArray[Any]]
    carried: Any
    key: Callable[[], str]
    inputs: "Inputs"
    names: Callable[[], Sequence[str]]
    dtype: Any
    width: int | None = None

    def answer(self, X: Any, first: int, stop: int) -> tuple[NDArray[Any], UnseenValues]:
        """The answer of rows first, ..., stop - 1 in memory, and their values that training never saw."""

        def describe(row: int) -> str:
            return f"X, row {first + row}"

        rows = X if stop - first == X.shape[0] else take_rows(X, slice(first, stop))
        block, unseen = self.inputs.gate(rows, describe)
        return _evaluate(self.function, self.carried, block, describe), unseen


@dataclass(frozen=True)
class Inputs:
    """The way in which rows become a block: the layout of their columns, and what makes inputs of these, if any."""

    layout: Layout
    encoding: Encoding | None = None

    @classmethod
    def of(cls, model: Model) -> "Inputs":
        """The way of a model."""
        return cls(Layout(model.columns, model.recipe.dtype, model.objects), model.reading)

    @property
    def plain(self) -> bool:
        """True if the inputs are the columns."""
        return self.encoding is None or self.encoding.plain

    def gate(self, X: Any, describe: Callable[[int], str]) -> tuple[Any, UnseenValues]:
        """The block of some rows, and the values that training never saw."""
        if self.encoding is None:
            return self.layout.block(matrix(X, self.layout.array_dtype), describe), UnseenValues()
        if self.plain:
            table = dense(matrix(X, self.layout.dtype))
        else:
            table = to_table(X, self.layout.columns, self.encoding.kinds, self.encoding.formats)
        X, marks = self.encoding.encode(table, self.layout.dtype)
        unseen = UnseenValues.of(self.encoding, marks, len(X))
        return as_features(X, self.encoding.names, self.layout.dtype, describe), unseen


def _evaluate(
    function: Callable[[Any, Any], NDArray[Any]], carried: Any, X: Any, describe: Callable[[int], str]
) -> NDArray[Any]:
    """The answer of a block; the error for a row without one names its place."""
    try:
        return function(carried, X)
    except TooLargeError as error:
        raise DataError(error.at(describe)) from None


def content_key(text: str, *arrays: NDArray[Any]) -> str:
    """Hash of a text and of some arrays."""
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def apply_prediction(prediction: BlockPrediction, X: Any) -> Any:
    """numpy for what is in memory, else what X is, array or frame, in its chunks or partitions: nothing is computed."""
    if is_dask(X):
        return _by_partition(prediction, X) if hasattr(X, "index") else _lazily(prediction, X)
    if hasattr(X, "iloc") and prediction.inputs.plain and not prediction.inputs.layout.objects:
        check_numbers(X, tuple(map(str, X.columns)), fitted=True)
    with one_blas_thread():
        n = X.shape[0]  # a sparse matrix has no len
        step = BLOCK_ROWS
        if hasattr(X, "tocsr") and not prediction.inputs.layout.sparse:  # these rows become dense
            step = max(TILE_ROWS, min(step, DENSE_BYTES // (8 * X.shape[1])))
        result, unseen = prediction.answer(X, 0, n) if n <= step else _on_threads(prediction, X, step)
    unseen.warn()
    return result


def _on_threads(prediction: BlockPrediction, X: Any, step: int) -> tuple[NDArray[Any], UnseenValues]:
    n = X.shape[0]
    shape = (n,) if prediction.width is None else (n, prediction.width)
    out = np.empty(shape, prediction.dtype)

    def fill(first: int) -> UnseenValues:
        stop = min(first + step, n)
        out[first:stop], unseen = prediction.answer(X, first, stop)
        return unseen

    unseen_of_blocks, _ = ThreadsExecutor().compute([Call(f"apply-{i}", fill, (i,)) for i in range(0, n, step)])
    return out, reduce(UnseenValues.merge, unseen_of_blocks)


def _lazily(prediction: BlockPrediction, X: Any) -> "da.Array":
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    carried = _carry(prediction)
    made: dict[str, Any] = {"drop_axis": 1, "meta": np.empty(0, prediction.dtype)}
    if prediction.width is not None:
        made = {"chunks": (X.chunks[0], (prediction.width,)), "meta": np.empty((0, 0), prediction.dtype)}
    return X.map_blocks(
        _block,
        token="dkernel-predict",
        function=prediction.function,
        carried=carried,
        inputs=prediction.inputs,
        dtype=np.dtype(prediction.dtype),
        **made,
    )


def _carry(prediction: BlockPrediction) -> Any:
    """One task that holds the values that every block needs: they travel to a worker once."""
    key = f"dkernel-predict-({prediction.key()})"
    return Delayed(key, {key: (Payload.open, Payload.of(prediction.carried))})


def _by_partition(prediction: BlockPrediction, X: Any) -> Any:
    """A Dask series, or a dataframe of more columns, of which Dask knows that it has the partitions of X."""
    names = list(prediction.names())
    empty = np.empty(0 if prediction.width is None else (0, prediction.width), prediction.dtype)
    return X.map_partitions(
        _partition,
        tuple(map(str, X.columns)),
        prediction.function,
        _carry(prediction),
        prediction.inputs,
        names,
        meta=_table(empty, X._meta.index, names),
        enforce_metadata=False,
        token="dkernel-predict",
    )


def _partition(part: Any, columns: Sequence[str], function: Any, carried: Any, inputs: Inputs, names: list[Any]) -> Any:
    """The answer of one partition, whose columns may stand in any order; runs on a worker."""
    return _table(_block(by_name(part, columns), function, carried, inputs), part.index, names)


def _table(values: NDArray[Any], index: Any, names: list[Any]) -> Any:
    import pandas as pd

    return pd.DataFrame(values, index, names) if values.ndim == 2 else pd.Series(values, index, name=names[0])


def _block(X: Any, function: Any, carried: Any, inputs: Inputs) -> NDArray[Any]:
    """The answer of one chunk; runs on a worker."""
    describe = "row {} of a chunk of X".format
    block, unseen = inputs.gate(X, describe)
    unseen.warn(warn)
    return _evaluate(function, carried, block, describe)


def score_block(model: Model, X: NDArray[Any]) -> NDArray[np.floating]:
    """Scores of a block, (n,) where there is one."""
    S = model.scores(X)
    return S[:, 0] if S.shape[1] == 1 else S


def probability_block(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities of a block, (n, n_classes)."""
    return model.probabilities(model.scores(X))


def log_probability_block(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    """Logarithms of the probabilities of a block."""
    with np.errstate(divide="ignore"):
        return np.log(probability_block(model, X))


def interval_block(model: Model, X: NDArray[Any], coverage: float) -> NDArray[np.float64]:
    """Ends of the intervals of a block, (n, 2 targets): lower and upper of each target in turn."""
    return model.interval(X, coverage).reshape(len(X), 2 * len(model.intercept))


def center_block(model: Model, X: NDArray[Any]) -> NDArray[np.float64]:
    """Predictions of a block, and the widths beside them, (n, 2 targets)."""
    S = model.scores(X)
    return np.hstack([S, model.width(X, S)])


def set_block(model: Model, X: NDArray[Any], coverage: float, by_class: bool) -> NDArray[np.bool_]:
    """Whether each class is in the set of each row of a block, (n, n_classes)."""
    return model.sets(model.probabilities(model.scores(X)), coverage, by_class)
