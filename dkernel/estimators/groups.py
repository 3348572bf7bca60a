"""Groups of rows: a holdout of whole groups, and answers that depend on the group of a row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from dkernel.data.collections.dask_arrays import is_dask
from dkernel.data.source import Source
from dkernel.errors import DataError, UnsupportedError
from dkernel.model.recipe import Recipe
from dkernel.training.divide_rows import mask_groups


def hold_out_groups(
    X: Any, y: Any, sample_weight: Any, eval_set: Any, groups: Any, recipe: Recipe
) -> tuple[tuple[Any, Any, Any], Any]:
    """(X, y, sample_weight) without the groups that are left out, and these rows as an eval_set."""
    if groups is None:
        return (X, y, sample_weight), eval_set
    if eval_set is not None:
        raise DataError("eval_set holds the rows to judge by, and groups take them from X: give one of them.")
    if isinstance(X, Source) or (is_dask(X) and hasattr(X, "index")):
        raise UnsupportedError(
            "groups divide rows in memory and Dask arrays. Give eval_set, or train files with --holdout-by "
            "group:COLUMN."
        )
    groups = np.asarray(groups)
    if groups.ndim != 1 or len(groups) != X.shape[0]:
        raise DataError(f"groups has the shape {groups.shape} and X has {X.shape[0]} rows: one for each row is needed.")
    held_out = mask_groups(groups, recipe)

    def some(rows: Any) -> tuple[Any, Any, Any]:
        return tuple(None if part is None else _rows(part, rows) for part in (X, y, sample_weight))  # type: ignore[return-value]

    return some(np.flatnonzero(~held_out)), some(np.flatnonzero(held_out))


def apply_by_group(answers: Any, groups: Any, function: Callable[[Any, Any], Any], dtype: str) -> Any:
    """function(answers, groups) of the rows of answers (n, k), an array or lazily what they are.

    Parameters
    ----------
    groups : group of each row: in memory, of a Dask array in its chunks too, of a Dask dataframe a series of it
    """
    if not is_dask(answers):
        groups = np.asarray(groups)
        check_groups(len(answers), groups)
        return function(answers, groups)
    if hasattr(answers, "index"):
        if not (is_dask(groups) and hasattr(groups, "index")):
            raise UnsupportedError(
                "X is a Dask dataframe, so groups must be a Dask series of its partitions, such as X['site']."
            )
        empty = answers._meta.astype(dtype)
        return answers.map_partitions(_of_partition, groups, function, meta=empty, enforce_metadata=False)
    import dask.array as da

    if not is_dask(groups):
        groups = np.asarray(groups)
        if np.isfinite(answers.shape[0]):
            check_groups(answers.shape[0], groups)
            groups = da.from_array(groups, chunks=(answers.chunks[0],))
    if not hasattr(groups, "chunks") or len(groups.chunks[0]) != len(answers.chunks[0]):
        raise UnsupportedError("X is a Dask array, so groups must be a Dask array of its chunks, or in memory.")
    return da.map_blocks(_of_chunk, answers, groups[:, None], function=function, dtype=dtype, chunks=answers.chunks)


def _of_chunk(answers: Any, groups: Any, function: Any) -> Any:
    check_groups(len(answers), groups[:, 0])
    return function(answers, groups[:, 0])


def _of_partition(answers: pd.DataFrame, groups: pd.Series, function: Any) -> pd.DataFrame:
    check_groups(len(answers), groups)
    return pd.DataFrame(function(answers.to_numpy(), groups.to_numpy()), answers.index, answers.columns)


def check_groups(n: int, groups: Any) -> None:
    """Refuse groups of another number of rows than n."""
    if len(groups) != n:
        raise DataError(f"There are {n:,} rows and groups has {len(groups):,}: one for each row is needed.")


def _rows(values: Any, rows: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else [values[i] for i in rows.tolist()]
