"""Checks before a fit reads anything: data, recipe and kernel must fit together."""

from collections.abc import Mapping
from typing import Any

from dkernel.data.block import Block
from dkernel.data.object_columns import check_gamma, check_source
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.execution.base import Executor
from dkernel.linear.losses import parse_loss
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.local_stages.catalogue import check_local
from dkernel.problem.reservoir_split import count_weighted
from dkernel.recipe import Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.selection.metric_learning import check_metric
from dkernel.solving.exact import deduplicate, is_few

# Values of these parameters with which all rows may be held in memory, none of them held out.
OF_ANY_SOLVER: Mapping[str, tuple[Any, ...]] = {
    "passes": ("auto", 1),
    "polish": ("auto", 0),
    "rounds": ("auto",),
    "patience": (0,),
    "holdout": (0, Recipe.holdout),
    "local": ("auto", "none"),
}


def with_solver(recipe: Recipe, source: Source, validation: Block | None = None) -> Recipe:
    """The recipe with the solver that "auto" stands for: few rows are solved exactly, which is as quick and errs less.

    Errors of "psgd" and "exact": digits 2.0, 0.4 %, banana 11.0, 8.0 %, 2,000 rows of magic 14.1, 14.0 %, 3,000 of
    california .469, .445 deviations. What asks for passes or for held-out rows gets them.
    """
    if recipe.solver != "auto":
        return recipe
    asks = validation is not None or any(getattr(recipe, name) not in words for name, words in OF_ANY_SOLVER.items())
    solvable = SOLVERS["exact"].takes(parse_loss(recipe.loss))
    return recipe.replace(solver="exact" if solvable and is_few(source) and not asks else "psgd")


def merge_copies(source: Source, recipe: Recipe, executor: Executor) -> Source:
    """The source; of few rows each different one once, if the solver of the recipe merges equal rows."""
    source = count_weighted(source, executor)
    return deduplicate(source, recipe, executor) if SOLVERS[recipe.solver].merges and is_few(source) else source


def settle_source(
    source: Source, recipe: Recipe, executor: Executor, chosen: SelectedModel | None, validation: Block | None
) -> tuple[Source, Recipe]:
    """The source to learn from, and the recipe with its solver; refuse data and a recipe that do not go together."""
    source = count_weighted(source, executor)
    if source.n_counted < 2:
        raise DataError(f"The data have {source.n_counted} row(s) that count; a model needs at least two.")
    check_together(source, recipe, chosen)
    settled = with_solver(recipe, source, validation)
    if recipe.curve and not (recipe.holdout or validation is not None or SOLVERS[settled.solver].in_memory):
        raise RecipeError(
            f"calibration={recipe.calibration!r} is fitted on the rows of the holdout, and holdout=0 keeps none. Use "
            "holdout=0.05."
        )
    if not SOLVERS[settled.solver].in_memory:
        return merge_copies(source, recipe, executor), settled
    if validation is not None:
        raise RecipeError(
            f"solver={recipe.solver!r} judges alpha on its own rows. Use solver='psgd' with a validation set."
        )
    return deduplicate(source, recipe, executor), settled


def check_together(source: Source, recipe: Recipe, chosen: SelectedModel | None = None) -> None:
    """Refuse a recipe that does not go with the columns of a source; nothing is read."""
    kernel = recipe.for_columns(source.columns).kernels[0]
    check_source(kernel, source)
    if source.objects:
        check_gamma([kernel], "auto" if chosen else recipe.gamma)
    check_metric(recipe.metric, kernel, source.layout)
    check_local(recipe, parse_loss(recipe.loss), source)
