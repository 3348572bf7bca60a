"""Checks of a fit before anything is read: parts of data, recipe and kernel that do not go together."""

from dkernel.data.block import Block
from dkernel.data.object_columns import check_gamma, check_source
from dkernel.data.source import Source
from dkernel.errors import DataError, RecipeError
from dkernel.execution.base import Executor
from dkernel.linear.losses import loss_named
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.problem.reservoir_split import counted
from dkernel.recipe import Recipe
from dkernel.selection.candidates import SelectedModel
from dkernel.selection.metric_learning import check_metric
from dkernel.solving.exact import deduplicate
from dkernel.training.local_stage import check_local


def checked_source(
    source: Source, recipe: Recipe, executor: Executor, chosen: SelectedModel | None, validation: Block | None
) -> Source:
    """The source as it is learned from, or a refusal of what does not go together."""
    source = counted(source, executor)
    if source.n_counted < 2:
        raise DataError(f"The data have {source.n_counted} row(s) that count; a model needs at least two.")
    check_together(source, recipe, chosen)
    if SOLVERS[recipe.solver].in_memory:
        if validation is not None:
            raise RecipeError(
                f"solver={recipe.solver!r} judges alpha on its own rows. Use solver='psgd' with a validation set."
            )
        source = deduplicate(source, recipe, executor)
    return source


def check_together(source: Source, recipe: Recipe, chosen: SelectedModel | None = None) -> None:
    """Refuse a recipe that does not go with the columns of a source; nothing is read."""
    kernel = recipe.for_columns(source.columns).kernels[0]
    check_source(kernel, source)
    if source.objects:
        check_gamma([kernel], "auto" if chosen else recipe.gamma)
    check_metric(recipe.metric, kernel, source.n_in, bool(source.objects), source.sparse)
    check_local(recipe, loss_named(recipe.loss), source)
