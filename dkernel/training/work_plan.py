"""The work of a fit and the memory of its phases, predicted from sizes before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dkernel.data.source import Source
from dkernel.execution.base import Executor
from dkernel.features import by_landmarks
from dkernel.features.base import MOST_DENSE
from dkernel.features.block_coordinates import BLOCK
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.problem.budget import choice_flops, core_seconds
from dkernel.problem.components import STRIP
from dkernel.problem.sizes import LEAST_COMPONENTS, Sizes
from dkernel.recipe import Recipe
from dkernel.selection.predicted_work import choice_bytes, choice_work
from dkernel.solving.driver import solver_class
from dkernel.solving.sgd_setup import GRAM_LEAVES, PATH, WIDE_DIRECTIONS, runs_on_client
from dkernel.solving.sketch import SKETCH_CLIENT, SKETCH_TASK, rank_of, sketch_flops
from dkernel.streaming.schedule import bundle_size
from dkernel.training.local_stage import LOCAL_STAGES, local_kinds
from dkernel.training.result import LocalCost

HEADS = 4  # at most so many alphas and shares of the step go through the passes
SURVEY = 400.0  # flops of a value: moments, quantiles of the reservoir, checks, digests


@dataclass(frozen=True)
class Work:
    """Predicted flops of the parts of a fit.

    Parameters
    ----------
    sizes : of the fit
    passes : of all rows
    turn : of a pass
    local : of each local stage that is tried
    judging : bytes of a candidate of the choice
    """

    sizes: Sizes
    passes: int
    survey: float
    choice: float
    setup: float
    turn: float
    local: Mapping[str, float]
    judging: int = 0

    @classmethod
    def of(cls, source: Source, recipe: Recipe, sizes: Sizes, outputs: int) -> "Work":
        """The work of a source."""
        passes, turn, setup = global_work(sizes, recipe, outputs)
        work = {"global": setup + passes * turn, "survey": SURVEY * source.n_rows * sizes.p}
        drawn, budget = not by_landmarks(recipe.features, auto=True), choice_flops(recipe, work["global"])
        rows = sizes.reservoir - sizes.holdout
        work["choice"] = choice_work(recipe, sizes.p, rows, sizes.components, drawn, budget)
        kinds = local_kinds(recipe, source, sizes, work, outputs)
        local = {kind: LOCAL_STAGES[kind].cost(sizes.n, sizes.p, recipe, outputs).flops for kind in kinds}
        judging = choice_bytes(rows, sizes.components) if work["choice"] else 0
        return cls(sizes, passes, work["survey"], work["choice"], setup, turn, local, judging)

    def with_fewest(self, recipe: Recipe, outputs: int) -> "Work":
        """The work if the sample finds the fewest components to be enough; the same where it may not."""
        if not may_shrink(recipe, self.sizes):
            return self
        sizes = Sizes.of(self.sizes.n, self.sizes.p, recipe.replace(n_components=LEAST_COMPONENTS))
        passes, turn, setup = global_work(sizes, recipe, outputs)
        return Work(sizes, passes, self.survey, self.choice, setup, turn, self.local, self.judging)

    @property
    def seconds(self) -> float:
        """Seconds of one core."""
        work = {"survey": self.survey, "choice": self.choice, "global": self.setup + self.passes * self.turn}
        return core_seconds({**work, **self.local})


def way_seconds(source: Source, recipe: Recipe, outputs: int) -> float:
    """Predicted seconds of one core for the global and the local stage of a recipe, without survey and choice."""
    sizes = Sizes.of(source.n_counted, source.n_terms, recipe)
    if recipe.kernel == "linear":
        sizes = replace(sizes, components=min(sizes.components, sizes.p))
    passes, turn, setup = global_work(sizes, recipe, outputs)
    work = {"global": setup + passes * turn}
    if recipe.local_stage in LOCAL_STAGES:
        work[recipe.local_stage] = LOCAL_STAGES[recipe.local_stage].cost(sizes.n, sizes.p, recipe, outputs).flops
    return core_seconds(work)


def may_shrink(recipe: Recipe, sizes: Sizes) -> bool:
    """True if the sample may find fewer components to be enough."""
    is_open = recipe.n_components == "auto" and recipe.landmarks == "uniform" and sizes.components > LEAST_COMPONENTS
    return is_open and by_landmarks(recipe.features, auto=True) and not SOLVERS[recipe.solver].in_memory


def global_work(sizes: Sizes, recipe: Recipe, outputs: int) -> tuple[int, float, float]:
    """Passes, the flops of one, and those of the setup."""
    p, D = sizes.p, sizes.components
    solver = solver_class(recipe.solver)
    if not SOLVERS[recipe.solver].prepared:
        return solver.readings(sizes), solver.flops(sizes, outputs), 0.0
    wide = D > MOST_DENSE and recipe.rank is None
    products = sketch_flops(D, p) if wide else float(sizes.sample) * D * D + 2.0 * D**3
    picking = float(sizes.candidates) * D * (D + 2 * p + 20) if sizes.candidates > D else 0.0
    setup = products + float(sizes.sample) * D * (2 * p + 20) + picking
    return solver.readings(sizes), solver.flops(sizes, outputs), setup


@dataclass(frozen=True)
class Phase:
    """Bytes that are there at one time in a phase of a fit, beside the sample and the landmarks.

    Parameters
    ----------
    worker, client : of each worker, and of the client
    units : of the source in a worker, where it is not kept
    kept : more of a worker, where the source is kept
    squares : True where fewer components take less
    """

    worker: int
    client: int = 0
    units: int = 0
    kept: int = 0
    squares: bool = False


def phases_of(
    source: Source, recipe: Recipe, executor: Executor, outputs: int, work: Work, local: LocalCost, squares: int
) -> list[Phase]:  # fmt: skip
    """The phases of a fit: none of them holds what another one has made for itself."""
    sizes, row, slots, workers = work.sizes, source.row_bytes + 16, executor.slots, executor.workers
    D, threads, apart = sizes.components, max(1, slots // workers), executor.name == "cluster"
    most = max((unit.n_rows for unit in source.units), default=0)
    # While one bundle is used the next is read, and one worker may have got all of it; reading holds a unit twice, as
    # it was stored and as a block.
    units = min(2 * bundle_size([unit.rows for unit in source.units], row), len(source.units)) * most * row
    reading = threads * 2 * most * row
    # A rule that evaluates the kernel holds a column of all candidates for each landmark.
    picking = 8 * sizes.candidates * D if sizes.candidates > D else 0
    tasks, beside = _tasks(executor, D, outputs, squares, _is_sketched(sizes, recipe))
    sums, tree = _sums(recipe, min(most, -(-source.n_rows // slots)), D)
    # One square of the components outlives the setup: the metric of the landmarks.
    metric = 0 if D > MOST_DENSE or not by_landmarks(recipe.features, auto=True) else 8 * D * D
    return [
        Phase(reading + threads * _tile(D, outputs), units=units),
        Phase(threads * work.judging, squares=True),
        Phase(tasks, max(squares, picking) + beside, squares=True),
        Phase(reading + threads * tree, slots * 4 * sums if apart else 0, units, squares=True),
        Phase(
            reading + threads * local.task_bytes + local.row_bytes * sizes.n // workers,
            metric + local.client_bytes + (slots * local.result_bytes if apart else 0),
            units, local.kept_bytes * sizes.n // workers,
        ),
        Phase(0, metric + local.alone_bytes),
    ]  # fmt: skip


def _sums(recipe: Recipe, rows: int, columns: int) -> tuple[int, int]:
    """Bytes of the squares that a task gives the client, which has those of all tasks of a reading at a time, and of
    those that it holds itself.

    The tree of a task of so many rows holds a sum for each level, the one that comes, and what the share of the task
    begins with where that is no whole node.
    """
    sums = solver_class(recipe.solver).squares(columns)
    held = sums * ((rows // PIECE_ROWS).bit_length() + 2)
    return sums * 8 * columns**2, held * 8 * columns**2


def _working(columns: int, outputs: int) -> int:
    """Bytes of one task at its largest: the Gram matrix of the sample, or a tile of rows with its gradient.

    A worker has three D x D matrices: its sum, and that of the task before, on its way to the client as a copy.
    """
    return max(24 * columns**2 + 16 * STRIP * columns, _tile(columns, outputs))


def _is_sketched(sizes: Sizes, recipe: Recipe) -> bool:
    """True if a sketch does in place of squares of the components."""
    return sizes.components > MOST_DENSE and recipe.rank is None and SOLVERS[recipe.solver].prepared


def squares_of(sizes: Sizes, recipe: Recipe) -> int:
    """Bytes of the squares of the components that the client has at one time while it prepares or solves.

    The covariance, of landmarks the metric and its root, and one that comes or goes; then, of landmarks with the
    metric, a factor for each alpha of the path that can have a ridge of its own, the last of them in the place of the
    covariance. A large source has one. All rows in memory have their Gram matrix with its systems and factors; other
    solvers eigenvectors, and what makes them, beside the sums of a reading.
    """
    landmarks, D = by_landmarks(recipe.features, auto=True), sizes.components
    if _is_sketched(sizes, recipe):
        return _wide_client(D, by_landmarks(recipe.features))
    if SOLVERS[recipe.solver].in_memory:
        return 9 * 8 * D * D
    if not SOLVERS[recipe.solver].prepared or recipe.rank is not None:
        return (14 + solver_class(recipe.solver).squares(D)) * 8 * D * D
    factors = len(PATH) if recipe.alpha == "auto" and not sizes.large else 1
    return max(2 + 2 * landmarks, landmarks + factors) * 8 * D * D


def _tasks(executor: Executor, columns: int, outputs: int, squares: int, wide: bool) -> tuple[int, int]:
    """Bytes of the tasks of the setup: of a worker (this process, where that works), and of a client beside workers."""
    threads = max(1, executor.slots // executor.workers)
    apart, home = executor.name == "cluster", runs_on_client(executor, wide)
    beside = _beside(columns, outputs, executor.slots, squares, wide) if home else 0
    if apart and home:
        return threads * _tile(columns, outputs), beside
    limited = apart or executor.memory_limit is not None
    return (threads * task_bytes(columns, outputs, wide) if limited else beside), 0


def _beside(columns: int, outputs: int, threads: int, squares: int, wide: bool) -> int:
    """Bytes of tasks beside the client's squares in one process: theirs are gone when it makes its own.

    No sum is copied there: all leaves of the Gram matrix are there at its end, and the client has the metric.
    """
    if wide:
        return max(0, threads * _wide_working(columns, outputs) - squares)
    sums = 8 * (GRAM_LEAVES + 1) * columns**2 + min(threads, GRAM_LEAVES) * 24 * STRIP * columns
    return max(0, max(sums, threads * _tile(columns, outputs)) - squares)


def _tile(columns: int, outputs: int) -> int:
    return 4 * 256 * columns + 48 * columns * outputs


def task_bytes(columns: int, outputs: int, wide: bool) -> int:
    """Bytes of one task of a fit of so many columns."""
    return _wide_working(columns, outputs) if wide else _working(columns, outputs)


def _wide_working(columns: int, outputs: int) -> int:
    """Bytes of one task of a fit that makes no squares: a tile of rows with its gradient, or columns of the sample."""
    heads = max(WIDE_DIRECTIONS, HEADS * outputs)
    return SKETCH_TASK + 4 * 256 * columns + 4 * 8 * heads * columns


def _wide_client(columns: int, landmarks: bool) -> int:
    """Bytes of the client of such a fit: the sketch, vectors of all columns, the blocks of landmarks."""
    rank = rank_of(columns)
    blocks = 8 * BLOCK * columns + 6 * 8 * BLOCK**2 if landmarks else 0
    return 4 * rank * columns + 14 * 8 * WIDE_DIRECTIONS * columns + SKETCH_CLIENT + blocks
