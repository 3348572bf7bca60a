"""Partitions of Dask dataframes and series as the chunks of Dask arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from dask.tokenize import tokenize
from numpy.typing import NDArray

from dkernel.errors import DataError

if TYPE_CHECKING:
    import dask.array as da


@dataclass(frozen=True, eq=False)
class Partitions:
    """A Dask dataframe or series, and what makes a chunk of an array of each of its partitions.

    Parameters
    ----------
    empty : an array like the chunks, of no rows
    """

    frame: Any
    function: Callable[[Any], Any]
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


def _make_chunk(part: Any, names: tuple[str, ...] | None, function: Callable[[Any], Any]) -> Any:
    """The chunk of a partition; runs on a worker."""
    return function(part if names is None else by_name(part, names))


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
    return {**graph, **{key: (_same, name) for key, name in others.items() if name in graph}}


def _same(part: Any) -> Any:
    return part
