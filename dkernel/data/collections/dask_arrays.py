"""Dask collections made regular: known chunks, one column block, y and weight cut as X, a small graph a chunk."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.base import is_dask_collection, optimize
from dask.core import get_dependencies
from dask.delayed import delayed
from dask.tokenize import tokenize
from numpy.typing import NDArray

from dkernel.data.arrow_streams import is_stream
from dkernel.data.block import check_lengths, chunk_limit, cut_evenly, flatten, one_a_row
from dkernel.data.compute import LOG
from dkernel.errors import DataError
from dkernel.numerics.rows import fill_masked

if TYPE_CHECKING:  # a third of a second, which every command would pay
    import dask.array as da


def is_dask(value: Any) -> bool:
    """True if it is a Dask collection."""
    return bool(is_dask_collection(value))


def unwrap(values: Any) -> Any:
    """The array that xarray holds, an array of another library as one of numpy, frames of Polars or Arrow as of pandas.

    Anything else, streams too, is as it is.
    """
    if hasattr(values, "dims") and hasattr(values, "coords"):
        values = values.data
    if hasattr(values, "to_pandas") and not hasattr(values, "iloc") and not is_stream(values):
        return values.to_pandas()
    if not hasattr(values, "__array_namespace__") or isinstance(values, np.ndarray) or hasattr(values, "tocsr"):
        return values
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError) as error:
        raise DataError(f"An array of type {type(values).__name__} is none that numpy takes: {error}") from None


def refuse_parts(*values: Any) -> None:
    """Refuse what Dask has but arrays and frames, and lists of it, with the calls that make these."""
    for value in values:
        part = value[0] if isinstance(value, list | tuple) and value else value
        future = "distributed" in sys.modules and isinstance(part, sys.modules["distributed"].Future)
        if future or (is_dask(part) and not hasattr(type(part), "ndim")):
            raise DataError(
                f"A {type(part).__name__}, or a list of such, is no array and no frame. Make one by da.from_delayed("
                "part, shape, dtype) and da.concatenate, or by dd.from_delayed(parts) of frames and bag.to_dataframe(),"
                " or give what it holds: part.compute(), future.result()."
            )


def describe_row(row: int, first: int = 0) -> str:
    """The words for a row of what is in memory, or of a chunk that begins at `first`."""
    return f"X and y, row {first + row}"


def find_name(values: Any, default: str) -> str:
    """The name of a series, or those of a frame's several columns."""
    if hasattr(values, "columns") and len(values.columns) > 1:
        return ", ".join(map(str, values.columns))
    name = getattr(values, "name", None)
    # A Dask array's name is a key, not a name.
    return name if isinstance(name, str) and not hasattr(values, "chunks") else default


def compute_values(values: tuple[Any, ...], compute: Callable[..., Any]) -> tuple[Any, ...]:
    """The values, computed where they are Dask's."""
    refuse_parts(*values)
    lazy = [i for i, v in enumerate(values) if is_dask(v)]
    computed = list(values)
    for i, v in zip(lazy, compute(*(values[i] for i in lazy)) if lazy else (), strict=True):
        computed[i] = v
    return tuple(computed)


def dense(block: Any) -> NDArray[Any]:
    """A block as a numpy array, from a scipy sparse matrix too; masked values are missing."""
    return np.asarray(block.toarray() if hasattr(block, "toarray") else fill_masked(block))


def dense_blocks(X: Any, dtype: str) -> "da.Array":
    """A matrix in CSR as a Dask array whose chunks become dense when they are read: all of it never is."""
    import dask.array as da

    rows, p = (int(n) for n in X.shape)
    call, blocks, first = delayed(dense, pure=True), [], 0
    for n in cut_evenly(rows, chunk_limit(p, np.dtype(dtype).itemsize)) if rows and p else (rows,):
        blocks.append(da.from_delayed(call(X[first : first + n]), (n, p), meta=np.empty((0, 0), X.dtype)))
        first += n
    return da.concatenate(blocks)


def make_regular(X: Any, y: Any, weight: Any, compute: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """X (2-d) as a Dask array of one block of columns, y and weight in its chunks, whose sizes are known.

    What is not known is computed once, together. The chunks of a dataframe X are its partitions as they are.
    """
    arrays = make_arrays(as_chunks(X), _column_chunks(y, "y"), _column_chunks(weight, "weight"))
    for i, what in ((1, "y"), (2, "weight")):
        arrays[i] = None if arrays[i] is None else flatten(arrays[i], what, several=what == "y")
    unknown = [i for i, a in enumerate(arrays) if a is not None and np.isnan(sum(a.shape))]
    if unknown:
        LOG.info("Chunk sizes are unknown: computing them once.")
        # The shape of every block of the first column, and of the first row.
        shapes = compute(*(delayed([delayed(np.shape)(b) for b in arrays[i].to_delayed().ravel()]) for i in unknown))
        for i, sizes in zip(unknown, shapes, strict=True):
            arrays[i] = _with_chunks(arrays[i], sizes)
    check_lengths(arrays[0].shape[0], arrays[1], arrays[2])
    if arrays[0].numblocks[1] > 1:
        LOG.info("X has %d blocks of columns: rechunking to one.", arrays[0].numblocks[1])
    rows = arrays[0].chunks[0]
    for i, what in enumerate(("X", "y", "weight")):
        if arrays[i] is not None:
            if arrays[i].chunks[0] != rows:
                LOG.info("%s has other chunks than X: rechunking it.", what)
            arrays[i] = arrays[i].rechunk((rows, *[-1] * (arrays[i].ndim - 1)))
    return arrays[0], arrays[1], arrays[2]


@dataclass(frozen=True, eq=False)
class Partitions:
    """A Dask dataframe or series, and what makes a chunk of an array of each of its partitions.

    Parameters
    ----------
    function : None for the partitions themselves
    empty : an array like the chunks, of no rows
    """

    frame: Any
    function: Callable[[Any], Any] | None
    empty: NDArray[Any]


def make_arrays(*values: Any) -> list[Any]:
    """The values, Dask arrays in place of `Partitions`; the lengths of their chunks are not known.

    Frames of as many partitions are computed together: of a shuffled one X and y alone might have other orders of rows.
    """
    made = list(values)
    indices = [i for i, value in enumerate(values) if isinstance(value, Partitions)]
    for count in {values[i].frame.npartitions for i in indices}:
        together = [i for i in indices if values[i].frame.npartitions == count]
        for i, array in zip(together, _arrays_of_equal([values[i] for i in together]), strict=True):
            made[i] = array
    return made


def _arrays_of_equal(given: list[Partitions]) -> list["da.Array"]:
    import dask.array as da

    first, *others = (each.frame for each in given)
    parts = first.map_partitions(_together, *others, meta=first._meta, enforce_metadata=False).to_delayed()
    graph = _rekey_tasks(parts[0].__dask_graph__())
    arrays = []
    for i, each in enumerate(given):
        columns = each.empty.shape[1:]
        name = f"dkernel-rows-{tokenize(each.frame, each.function)}"
        names = tuple(map(str, each.frame.columns)) if each.frame.ndim == 2 else None
        tasks = [(_make_chunk, (itemgetter(i), part.key), names, each.function) for part in parts]
        of_array = graph | {(name, i, *[0] * len(columns)): task for i, task in enumerate(tasks)}
        arrays.append(da.Array(of_array, name, ((np.nan,) * len(parts), *((p,) for p in columns)), meta=each.empty))
    return arrays


def _make_chunk(part: Any, names: tuple[str, ...] | None, function: Callable[[Any], Any] | None) -> Any:
    """The chunk of a partition; runs on a worker."""
    part = part if names is None else by_name(part, names)
    return part if function is None else function(part)


def by_name(frame: Any, names: Sequence[str]) -> Any:
    """The columns of a partition in the order of these names, itself where they stand so; one that lacks is refused.

    Partitions may hold their columns in any order, and more of them: the names are those of the Dask frame.

    Examples
    --------
    >>> import pandas as pd
    >>> by_name(pd.DataFrame({"b": [2.0], "a": [1.0], "c": [3.0]}), ("a", "b")).columns.tolist()
    ['a', 'b']
    """
    found = tuple(map(str, frame.columns))
    if found == tuple(names):
        return frame
    for name in names:
        if found.count(name) != 1:
            what = "lacks the column" if name not in found else "has twice the column"
            raise DataError(
                f"A partition of X {what} {name!r}: it has {', '.join(map(repr, found[:12]))}. Give all of them "
                "the columns that the Dask frame says."
            )
    return frame.take([found.index(name) for name in names], axis=1)


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _rekey_tasks(graph: Mapping[Any, Any]) -> dict[Any, Any]:
    """The tasks of a graph, each under its own key.

    dd.from_delayed(verify_meta=False) keeps tasks under other keys, and Dask loses these where it joins the tasks of an
    array.
    """
    named = {key: getattr(task, "key", None) for key, task in graph.items()}
    others = {key: name for key, name in named.items() if isinstance(name, str | tuple) and name != key}
    return {**graph, **{key: name for key, name in others.items() if name in graph}}


def as_chunks(values: Any, matrix: Callable[..., Any] | None = None, dtype: str = "float64") -> Any:
    """The chunks of a Dask dataframe, for `make_arrays`; an array as it is.

    Parameters
    ----------
    matrix : makes a chunk of this dtype of a partition; None for the partitions themselves
    """
    if hasattr(values, "chunks"):
        return values
    function = None if matrix is None else partial(matrix, dtype=dtype)
    return Partitions(values, function, np.empty((0, len(values.columns)), dtype))


def _column_chunks(values: Any, what: str) -> Any:
    """The chunks of one value a row, or of some, for `make_arrays`; None as it is."""
    import dask.array as da

    if values is None or hasattr(values, "chunks"):
        return values
    if not is_dask(values):
        return da.from_array(one_a_row(values, what, several=what == "y"), chunks=-1)
    values = values[values.columns[0]] if values.ndim == 2 and len(values.columns) == 1 else values
    if values.ndim == 2:
        return Partitions(values, _values, np.empty((0, len(values.columns)), "O"))
    return Partitions(values, _values, np.empty(0, values.dtype if isinstance(values.dtype, np.dtype) else "O"))


def _values(part: Any) -> Any:
    return part.to_numpy()


def _with_chunks(array: "da.Array", shapes: list[tuple[int, ...]]) -> "da.Array":
    import dask.array as da

    grid = np.empty(len(shapes), dtype=object)
    grid[:] = shapes
    grid = grid.reshape(array.numblocks)
    rows = tuple(int(s[0]) for s in (grid if array.ndim == 1 else grid[:, 0]))
    chunks = (rows,) if array.ndim == 1 else (rows, tuple(int(s[1]) for s in grid[0, :]))
    return da.Array(array.dask, array.name, chunks, meta=array)


def block_graphs(X: "da.Array", *others: "da.Array | None") -> Iterator[tuple[int, int, list[Any], dict[Any, Any]]]:
    """(number, rows, keys, graph) of every chunk that has rows; the graph holds what this chunk needs and nothing else.

    The whole graph is optimized once; then each chunk takes its own part. Optimizing leaves out the chunks that were
    persisted on a cluster, which are futures under the names of the chunks themselves: these are as they were.
    """
    given = [X, *(a for a in others if a is not None)]
    whole = [
        dict(array.__dask_graph__()) | dict(better.__dask_graph__())
        for array, better in zip(given, optimize(*given), strict=True)
    ]
    for i, n in enumerate(X.chunks[0]):
        if not n:
            continue
        keys: list[Any] = []
        graph: dict[Any, Any] = {}
        collections = iter(zip(given, whole, strict=True))
        for array in (X, *others):
            if array is None:
                keys.append(None)
                continue
            collection, source = next(collections)
            key = (collection.name, i, *[0] * (collection.ndim - 1))
            keys.append(key)
            _take(source, key, graph)
        yield i, int(n), keys, graph


def _take(source: dict[Any, Any], key: Any, into: dict[Any, Any]) -> None:
    waiting = [key]
    while waiting:
        if (name := waiting.pop()) not in into:
            into[name] = source[name]
            waiting.extend(get_dependencies(source, name))
