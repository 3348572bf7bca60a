"""Starts a fit again with rows that are read in another way: gaps are filled, or float32 has no digits for a column."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from dkernel.data.source import Source
from dkernel.errors import DigitsError, MissingValueError
from dkernel.model.recipe import Recipe
from dkernel.streaming.block_reader import read_once
from dkernel.streaming.digits import check_digits, tells_rounding
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.survey import Survey
from dkernel.training.checkpoint import Checkpoint

T = TypeVar("T")


def with_reopened(
    run: Callable[[Source, Recipe], T],
    source: Source,
    recipe: Recipe,
    checkpoint: Checkpoint | None = None,
    progress: Any = None,
) -> T:
    """Call run(source, recipe), and call it again with the source opened in another way where it asks for this.

    A value of the numbers is missing: the source has an encoding then that fills it. Or float32 has no digits for a
    column: the source is of float64 then. So usual tables of numbers need no further reading. Fits and searches start
    here.
    """
    begun = None if checkpoint is None else checkpoint.run
    if begun is not None:
        source = _as_begun(source, begun)
    if source.dtype == "float64":
        recipe = recipe.replace(dtype="float64")
    while True:
        try:
            return run(source, recipe)
        except MissingValueError:
            if source.filled is None:
                raise
            said, source = "values are missing: they are counted by one more reading", source.filled()
            if checkpoint is not None and begun is None:
                checkpoint.clear()
        except DigitsError as error:
            said, source = str(error), _open_in(source, error.dtype)
            recipe = recipe.replace(dtype=error.dtype)
        if progress is not None:
            progress.message(said)


def _as_begun(source: Source, begun: Mapping[str, Any]) -> Source:
    """The source as it was opened last by the run that is continued."""
    data = begun.get("data", {})
    if "encoding" in data and source.encoding is None and source.filled is not None:
        source = source.filled()
    if source.in_dtype is not None and begun.get("recipe", {}).get("dtype") == "float64" != source.dtype:
        source = _open_in(source, "float64")
    return replace(source, in_dtype=None) if data.get("settled") else source


def _open_in(source: Source, dtype: str) -> Source:
    """The source in another dtype: rows in float64 then tell whether they need it, and float32 after that is final."""
    assert source.in_dtype is not None
    return replace(source.in_dtype(dtype), wide=source.wide, in_dtype=source.in_dtype if dtype == "float64" else None)


def settle_dtype(source: Source, executor: Executor) -> Source:
    """The source in the dtype that all of its rows decide, where no fit surveys them."""
    while source.in_dtype is not None:
        statistic = Survey(0, source.n_rows, 1, tells_rounding(source))
        try:
            check_digits(source, read_once(source, statistic, executor, f"dkernel-digits-{source.token}"))
        except DigitsError as error:
            source = _open_in(source, error.dtype)
        else:
            return replace(source, in_dtype=None)
    return source
