"""The cost of the setup of a solver: squares of the components of a sample, or a sketch where these have no room."""

from functools import partial

from dkernel.data.source import Source
from dkernel.features import by_landmarks
from dkernel.features.base import COMPONENT_STRIP, MOST_DENSE
from dkernel.features.block_coordinates import BLOCK_COLUMNS
from dkernel.model.recipe import Recipe
from dkernel.model.solver_table import SOLVERS
from dkernel.solvers.alphas import ALPHA_PATH
from dkernel.solvers.catalogue import solver_class
from dkernel.solvers.covariance import GRAM_LEAVES, WIDE_DIRECTIONS
from dkernel.solvers.driver import HEADS, tile_bytes
from dkernel.solvers.sizes import Sizes, pass_flops
from dkernel.solvers.sketch import SKETCH_CLIENT, SKETCH_TASK, choose_rank, sketch_flops
from dkernel.streaming.cost import Cost
from dkernel.streaming.row_memory import loaded_row_bytes


def setup_cost(sizes: Sizes, recipe: Recipe, outputs: int, source: Source) -> Cost:
    """Cost of the setup; a solver that prepares nothing has the same memory, and no flops.

    One square of the components stays after it: the metric of the landmarks. The workers keep the map until the end.
    """
    D, squares, wide = sizes.components, _squares(sizes, recipe), _is_sketched(sizes, recipe)
    # A rule that evaluates the kernel holds a column of all candidates for each landmark.
    picking = 8 * sizes.candidates * D if sizes.candidates > D else 0
    landmarks, rows = by_landmarks(recipe.features, auto=True), D * loaded_row_bytes(source)
    return Cost(
        flops=setup_flops(sizes, recipe),
        task_bytes=task_bytes(D, outputs, wide),
        large_result=not wide,
        shared_bytes=partial(_shared_bytes, D, outputs, squares, wide),
        client_bytes=max(squares, picking),
        left_bytes=0 if D > MOST_DENSE or not landmarks else 8 * D * D,
        throughout_bytes=rows + 16 * source.n_in if source.sparse else 4 * D * sizes.p,
        checkpoint_bytes=min(squares, 24 * D**2) + 144 * D * HEADS * outputs + rows,
    )


def task_bytes(columns: int, outputs: int, wide: bool) -> int:
    """Bytes of one task of the setup: the Gram matrix of the sample, or a tile of rows with its gradient.

    A worker has three D x D matrices: its sum, the sum of the task before, and the copy of it that is being sent.
    """
    if wide:
        return _wide_task(columns, outputs)
    return max(24 * columns**2 + 16 * COMPONENT_STRIP * columns, tile_bytes(columns, outputs))


def setup_flops(sizes: Sizes, recipe: Recipe) -> float:
    """Flops of the setup, 0 for a solver that prepares nothing."""
    if not SOLVERS[recipe.solver].prepared:
        return 0.0
    p, D = sizes.p, sizes.components
    products = sketch_flops(D, p) if _is_sketched(sizes, recipe) else float(sizes.sample) * D * D + 2.0 * D**3
    picking = float(sizes.candidates) * D * D + pass_flops(sizes.candidates, p, D) if sizes.candidates > D else 0.0
    return products + pass_flops(sizes.sample, p, D) + picking


def _is_sketched(sizes: Sizes, recipe: Recipe) -> bool:
    """True if a sketch does in place of squares of the components."""
    return sizes.components > MOST_DENSE and SOLVERS[recipe.solver].prepared


def _squares(sizes: Sizes, recipe: Recipe) -> int:
    """Bytes of the D x D matrices that the client holds at one time while it prepares or solves.

    The covariance, of landmarks the metric and its root, and one that comes or goes; then, of landmarks with the
    metric, a factor for each alpha of the path that can have a ridge of its own, the last of them in the place of the
    covariance. A large source has one. All rows in memory have their Gram matrix with its systems and factors; other
    solvers eigenvectors, and what makes them, beside the sums of a reading.
    """
    landmarks, D = by_landmarks(recipe.features, auto=True), sizes.components
    if _is_sketched(sizes, recipe):
        return _wide_client(D, by_landmarks(recipe.features))
    if not SOLVERS[recipe.solver].prepared:
        return solver_class(recipe.solver).client_squares(D) * 8 * D * D
    factors = len(ALPHA_PATH) if recipe.alpha == "auto" and not sizes.large else 1
    return max(2 + 2 * landmarks, landmarks + factors) * 8 * D * D


def _shared_bytes(columns: int, outputs: int, squares: int, wide: bool, threads: int) -> int:
    """Bytes of tasks beside the client's squares in one process: theirs are gone when it makes its own.

    No sum is copied there: all leaves of the Gram matrix are there at its end, and the client has the metric.
    """
    if wide:
        return max(0, threads * _wide_task(columns, outputs) - squares)
    sums = 8 * (GRAM_LEAVES + 1) * columns**2 + min(threads, GRAM_LEAVES) * 24 * COMPONENT_STRIP * columns
    return max(0, max(sums, threads * tile_bytes(columns, outputs)) - squares)


def _wide_task(columns: int, outputs: int) -> int:
    """Bytes of one task of a fit that makes no squares: a tile of rows with its gradient, or columns of the sample."""
    heads = max(WIDE_DIRECTIONS, HEADS * outputs)
    return SKETCH_TASK + 4 * 256 * columns + 4 * 8 * heads * columns


def _wide_client(columns: int, landmarks: bool) -> int:
    """Bytes of the client of such a fit: the sketch, vectors of all columns, the blocks of landmarks."""
    rank = choose_rank(columns)
    blocks = 8 * BLOCK_COLUMNS * columns + 6 * 8 * BLOCK_COLUMNS**2 if landmarks else 0
    return 4 * rank * columns + 14 * 8 * WIDE_DIRECTIONS * columns + SKETCH_CLIENT + blocks
