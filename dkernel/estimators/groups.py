"""A holdout of whole groups, of rows in memory or in a Dask array."""

from typing import Any

import numpy as np

from dkernel.data import Source
from dkernel.data.collections.dask_arrays import is_dask
from dkernel.errors import DataError, UnsupportedError
from dkernel.recipe import Recipe
from dkernel.training.divide_rows import held_groups


def divided_by_groups(X: Any, y: Any, sample_weight: Any, groups: Any, recipe: Recipe) -> tuple[Any, Any]:
    """(X, y, sample_weight) without the groups that are left out, and these rows as an eval_set."""
    if isinstance(X, Source) or (is_dask(X) and hasattr(X, "index")):
        raise UnsupportedError(
            "groups divide rows in memory and Dask arrays. Give eval_set, or train files with --holdout-by "
            "group:COLUMN."
        )
    groups = np.asarray(groups)
    if groups.ndim != 1 or len(groups) != X.shape[0]:
        raise DataError(f"groups has the shape {groups.shape} and X has {X.shape[0]} rows: one for each row is needed.")
    missing = [each for each in groups.tolist() if each is None or each != each]
    if missing:
        raise DataError(f"groups holds {missing[0]}, and every row needs a group.")
    held = held_groups(groups, recipe)

    def some(rows: Any) -> tuple[Any, Any, Any]:
        return tuple(None if part is None else _rows(part, rows) for part in (X, y, sample_weight))  # type: ignore[return-value]

    return some(np.flatnonzero(~held)), some(np.flatnonzero(held))


def _rows(values: Any, rows: Any) -> Any:
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else [values[i] for i in rows.tolist()]
