"""Starts a fit again with an encoding that imputes missing values, if a value of the numbers is missing."""

from collections.abc import Callable
from typing import Any, TypeVar

from dkernel.data.source import Source
from dkernel.errors import MissingValueError
from dkernel.model.recipe import Recipe
from dkernel.training.checkpoint import Checkpoint

T = TypeVar("T")


def with_missing_values(
    run: Callable[[Source, Recipe], T],
    source: Source,
    recipe: Recipe,
    checkpoint: Checkpoint | None = None,
    progress: Any = None,
) -> T:
    """Call run(source, recipe); if it meets a missing value, call it again with an encoding that imputes these.

    So tables of numbers without missing values need no further reading. Fits and searches start here.
    """
    begun = None if checkpoint is None or source.filled is None else checkpoint.run
    if begun is None or "encoding" not in begun.get("data", {}):
        try:
            return run(source, recipe)
        except MissingValueError:
            if source.filled is None:
                raise
    if checkpoint is not None and begun is None:
        checkpoint.clear()
    if progress is not None:
        progress.message("values are missing: they are counted by one more reading")
    assert source.filled is not None
    source = source.filled()
    return run(source, recipe.replace(dtype="float64") if source.dtype == "float64" else recipe)
