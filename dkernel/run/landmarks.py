"""What a feature map without a label asks of the data: a uniform sample of their rows, and numbers for its kernel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.source import Source
from dkernel.kernels import Kernel, parse
from dkernel.linear.losses import loss_named
from dkernel.recipe import Recipe
from dkernel.run.blas import one_blas_thread
from dkernel.run.choose import choose
from dkernel.run.executors import Executor
from dkernel.run.feed import Feed
from dkernel.run.labels import Targets
from dkernel.run.pieces import cut_pieces
from dkernel.run.progress import Progress
from dkernel.run.survey import Survey

__all__ = ["sampled"]

MEDIAN_ROWS = 1000


def sampled(source: Source, recipe: Recipe, rows: int, executor: Executor) -> tuple[Kernel, NDArray[Any]]:
    """The recipe's kernel with numbers, and `rows` rows of the source (all, where it has fewer), (rows, p).

    The rows are those with the smallest hashes, so chunks and workers do not change them. One pass. Nothing is scaled,
    and without a label there is nothing to judge a grid by: gamma="auto" is the median value.
    """
    recipe = recipe.replace(scale="none", gamma="median" if recipe.gamma == "auto" else recipe.gamma)
    size = min(source.n_rows, max(rows, MEDIAN_ROWS))
    key = f"dkernel-sample-{source.fingerprint[:32]}-{recipe.seed}-{size}"
    feed = Feed(executor, source, keep=False)
    try:
        with one_blas_thread():
            pieces = cut_pieces([unit.rows for unit in source.units])
            survey = feed.fold(Survey(recipe.seed, source.n_rows, size), pieces, key, Progress("none"))
    finally:
        feed.close()
    found = survey.reservoir.part(slice(None))
    kernel = parse(recipe.kernel)
    if kernel.placeholders:
        # With one gamma and one scale in question, nothing is judged: neither loss nor targets are used.
        loss = loss_named(recipe.loss)
        kernel = choose(recipe, survey, found, Targets(None), loss, rows, executor, key).kernel
    return kernel, np.ascontiguousarray(found.X[:rows])
