"""The plan: memory and work of a fit, predicted from sizes before it runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil, sqrt
from typing import Any

from dkernel.data.source import Source
from dkernel.errors import MemoryBudgetError, RecipeError
from dkernel.execution.base import Executor
from dkernel.features import by_landmarks
from dkernel.features.base import MOST_DENSE
from dkernel.features.block_coordinates import BLOCK
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.problem.budget import CORES
from dkernel.problem.components import STRIP
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.solving.driver import solver_class
from dkernel.solving.sgd_setup import GRAM_LEAVES, PATH, WIDE_DIRECTIONS, runs_on_client
from dkernel.solving.sketch import SKETCH_CLIENT, SKETCH_TASK, rank_of
from dkernel.streaming.schedule import bundle_size
from dkernel.training.local_stage import local_cost
from dkernel.training.result import LocalCost
from dkernel.training.work_plan import Work

# A process holds so much after its imports, as Dask counts it against a worker's limit. A worker that finds no compiled
# loops on disk compiles them in some 40 MiB of it, and one without Python's own bytecode takes as much again. Freed
# pages that it keeps (dkernel.numerics.allocator) are in it too.
WORKER_BASE = 340 * 2**20
CLIENT_BASE = 360 * 2**20  # the client has the scheduler's part too
THREADS_BASE = 200 * 2**20  # a process whose threads do the work has no scheduler
BYTES = 150e6  # a core of today reads so much Parquet in a second
HEADS = 4  # at most so many alphas and shares of the step go through the passes
COPIES = 4  # a worker may hold so many units of others beside its own
UNEVEN = 1.5  # one of the workers may hold so many times its share of a source that is kept
HELD_SHARE = 0.4  # a source that is kept between passes may take this share of the workers' memory


@dataclass(frozen=True)
class Plan:
    """Predicted peak bytes and flops of a fit.

    Parameters
    ----------
    worker_bytes : of each worker's process (of this process, where threads do the work)
    client_bytes : of the client, beside that
    least_bytes : of the client and a worker together, if the sample finds the fewest components to be enough
    reading_bytes : of each worker while it reads: with fewer columns it is hardly less
    memory_limit : of each worker, None where none is known
    kept : whether the source stays in the workers' memory between passes
    in_process : whether the work is done in the client's own process
    survey_flops, choice_flops, setup_flops, pass_flops : of each stage
    checkpoint_bytes : of disk, of a run with a checkpoint
    scratch_bytes : of disk, while a local stage has its rows there
    local : local stages that are tried
    local_flops : of it
    readings : of the source, from memory where it is kept
    model_bytes : of the model file, about; a local stage's part is at most this
    seconds : what that takes on as many cores as there are threads, within a factor of two: where the sample may find
        fewer components to be enough, the geometric mean of the times with the fewest and with the most
    most_seconds : what max_seconds is compared with: the same at most, on the same cores everywhere
    """

    n: int
    p: int
    columns: int
    outputs: int
    rounds: int
    passes: int
    reservoir: int
    worker_bytes: int
    client_bytes: int
    memory_limit: int | None
    kept: bool
    in_process: bool
    survey_flops: float
    setup_flops: float
    pass_flops: float
    choice_flops: float = 0.0
    least_bytes: int = 0
    checkpoint_bytes: int = 0
    scratch_bytes: int = 0
    reading_bytes: int = 0
    seconds: float = 0.0
    most_seconds: float = 0.0
    local: tuple[str, ...] = ()
    local_flops: float = 0.0
    readings: int = 0
    model_bytes: int = 0

    @classmethod
    def of(cls, source: Source, recipe: Recipe, executor: Executor, outputs: int = 1) -> "Plan":
        """The plan for a source."""
        outputs = max(outputs, source.targets)
        work = Work.of(source, recipe, Sizes.of(source.n_counted, source.n_terms, recipe), outputs)
        most = cls._of(source, recipe, executor, outputs, work)
        least = cls._of(source, recipe, executor, outputs, work.with_fewest(recipe, outputs))
        seconds = round(sqrt(most.seconds * least.seconds), 1)
        return replace(most, least_bytes=least.client_bytes + least.worker_bytes, seconds=seconds)

    @classmethod
    def _of(cls, source: Source, recipe: Recipe, executor: Executor, outputs: int, work: Work) -> "Plan":
        sizes = work.sizes
        n, p, D = sizes.n, sizes.p, sizes.components
        row, matrix = source.row_bytes + 16, 8 * D * D
        unit = max((unit.n_rows for unit in source.units), default=0) * row
        # While one bundle is used the next is read, and one worker may have got all of it; reading holds a unit twice,
        # as it was stored and as a block.
        in_flight = min(2 * bundle_size([unit.rows for unit in source.units], row), len(source.units)) * unit
        # A rule that evaluates the kernel holds a column of all candidates for each landmark.
        picking = 8 * sizes.candidates * D if sizes.candidates > D else 0
        wide = D > MOST_DENSE and recipe.rank is None and SOLVERS[recipe.solver].prepared
        squares = _wide_client(D, by_landmarks(recipe.features)) if wide else _squares(sizes, recipe) * matrix
        reservoir = sizes.reservoir * row
        workers, limit = executor.workers, executor.memory_limit  # asked for once: workers may come meanwhile
        threads = max(1, executor.slots // workers)
        apart = executor.name == "cluster"
        base = (
            (WORKER_BASE if apart else THREADS_BASE)
            + reservoir
            + (D * row + 16 * source.n_in if source.sparse else 4 * D * p)
        )
        client = (CLIENT_BASE if apart else 0) + 3 * reservoir + max(squares, picking)
        kinds, passes = tuple(work.local), work.passes
        local = local_cost(kinds, n, p, recipe, outputs)
        sums, tree = _sums(recipe, source, D)
        base += threads * (local.task_bytes + tree * matrix) + local.row_bytes * n // workers
        # The data are read first, and the passes are prepared after that. A source that is kept is in memory both
        # times, and not in equal shares.
        reading = base + in_flight + threads * (2 * unit + _tile(D, outputs))
        held = _held(source.n_rows * row, workers, unit) + local.kept_bytes * n // workers
        tasks, beside = _tasks(executor, D, outputs, squares, wide)
        client += beside + local.client_bytes + executor.slots * (local.result_bytes + 4 * sums * matrix)
        worker = max(reading, base + tasks)
        with_data = max(reading + max(0, held - in_flight), base + held + tasks)
        total = limit * workers if limit else _available()
        kept = _has_room(source.nbytes, workers * worker, total) and (limit is None or with_data <= limit)
        read = 1 if kept else 1 + passes + local.readings
        return cls(
            n=n, p=source.n_in, columns=D, outputs=outputs,
            rounds=sizes.rounds, passes=passes, reservoir=sizes.reservoir,
            worker_bytes=int(with_data if kept else worker),
            reading_bytes=int(reading),
            client_bytes=int(client),
            memory_limit=limit,
            kept=kept,
            in_process=not apart,
            survey_flops=work.survey,
            setup_flops=work.setup,
            pass_flops=work.turn,
            choice_flops=work.choice,
            local=kinds,
            local_flops=local.flops,
            model_bytes=sizes.model_bytes(outputs) + local.model_bytes,
            readings=2 + passes + local.readings,
            checkpoint_bytes=_checkpoint(D, outputs, reservoir, row, squares if wide else 3 * matrix, local),
            scratch_bytes=local.scratch_bytes,
            seconds=(work.seconds + read * source.nbytes / BYTES) / executor.slots,
            most_seconds=work.seconds / CORES,
        )  # fmt: skip

    def check(self) -> None:
        """Refuse a fit that needs more memory than there is, with both numbers and one that fits."""
        if self.memory_limit is not None and self.worker_bytes > self.memory_limit:
            fixed, smaller = self.worker_bytes - self._task(self.columns), self.columns
            while smaller > 64 and fixed + self._task(smaller) > self.memory_limit:
                smaller //= 2
            fits = max(self.reading_bytes, fixed + self._task(smaller)) <= self.memory_limit
            fewer = f", or use n_components={smaller}" if fits else ""
            enough = f"{-(-self.worker_bytes // 2**20)}MiB"  # the option takes it so
            raise MemoryBudgetError(
                f"Each worker needs about {_mib(self.worker_bytes)} and has a limit of {_mib(self.memory_limit)}. "
                f"Raise --memory-limit to {enough}{fewer}, or give a source in smaller chunks."
            )
        here = self.client_bytes + (self.worker_bytes if self.in_process else 0)
        if here > _installed():
            raise MemoryBudgetError(
                f"This process needs about {_mib(here)}, most of it for n_components={self.columns}, "
                f"and the machine has {_mib(_installed())}. Use fewer components."
            )

    def check_seconds(self, limit: float | None) -> None:
        """Refuse a fit that is predicted to take longer than it may."""
        if limit is not None and self.most_seconds > limit:
            raise RecipeError(
                f"The fit is predicted to take {self.most_seconds:,.1f} s on {CORES} usual cores and max_seconds "
                f"is {limit:g}. Raise it to {ceil(self.most_seconds)}, or leave n_components, solver, passes and local "
                "to choose."
            )

    def check_model(self, limit: int | None) -> None:
        """Refuse a model file that may be larger than it is to be."""
        if limit is not None and self.model_bytes > limit:
            fewer = "grids or components, or local='none'," if self.local else "components"
            raise MemoryBudgetError(
                f"The model file may have {self.model_bytes:,} bytes and max_model_size={limit}. Use fewer {fewer} "
                "or raise max_model_size."
            )

    def _task(self, columns: int) -> int:
        return _task(columns, self.outputs, columns > MOST_DENSE)

    @property
    def flops(self) -> float:
        """Flops of setup and passes."""
        return self.setup_flops + self.passes * self.pass_flops

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self) | {"local": list(self.local)}


# People read these words for a plan's entries.
_WORDS = {
    "n": "rows",
    "p": "features",
    "columns": "components",
    "rounds": "rounds of a pass",
    "reservoir": "rows of the sample",
    "worker_bytes": "memory, each worker",
    "client_bytes": "memory, client",
    "least_bytes": "memory of both, if few components do",
    "reading_bytes": "memory to read, each worker",
    "memory_limit": "limit of each worker",
    "kept": "data kept in memory",
    "in_process": "work done by threads",
    "survey_flops": "work of the survey",
    "choice_flops": "work of the choice",
    "setup_flops": "work of the setup",
    "pass_flops": "work of each pass",
    "checkpoint_bytes": "disk, with --checkpoint",
    "scratch_bytes": "disk, scratch",
    "seconds": "time, about",
    "most_seconds": "time, at most, of max_seconds",
    "local": "local stage",
    "local_flops": "work of the local stage",
    "readings": "readings of the data",
    "model_bytes": "model file, at most",
}


def format_plan(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The entries of a plan as people read them: name and value.

    Examples
    --------
    >>> format_plan({"n": 5000, "worker_bytes": 2**30, "kept": True, "seconds": 3.2})
    [('rows', '5,000'), ('memory, each worker', '1,024 MiB'), ('data kept in memory', 'yes'), ('time, about', '3 s')]
    """
    return [(_WORDS.get(name, name), _in_words(name, value)) for name, value in plan.items()]


def _in_words(name: str, value: Any) -> str:
    if value is None:
        return "none known"
    if isinstance(value, tuple | list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") or name == "memory_limit":
        return _mib(value)
    if name.endswith("_flops"):
        return f"{value / 1e9:,.1f} Gflop"
    if name.endswith("seconds"):
        return f"{max(1, round(value)):,} s" if value < 120 else f"{value / 60:,.0f} min"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def _sums(recipe: Recipe, source: Source, columns: int) -> tuple[int, int]:
    """Squares that a task gives the client, which has those of all tasks of a reading at a time, and that it holds.

    The tree of a task holds a sum for each level and the one that comes.
    """
    sums = solver_class(recipe.solver).squares(columns)
    levels = max((unit.n_rows for unit in source.units), default=0) // PIECE_ROWS
    return sums, sums * (levels.bit_length() + 1) + (sums > 0)


def _has_room(source: int, work: int, total: int) -> bool:
    """True if a source may stay in memory beside the work, with some to spare."""
    return source * 1.1 + work < total and source < HELD_SHARE * total


def _checkpoint(columns: int, outputs: int, reservoir: int, row: int, squares: int, local: LocalCost) -> int:
    """Sample, landmarks, preconditioners; and thrice, while the third is written, a handful of D x heads."""
    return 2 * reservoir + columns * row + squares + 144 * columns * HEADS * outputs + local.checkpoint_bytes


def _held(source: int, workers: int, unit: int) -> int:
    """Bytes of a source that is kept in the worker with most of it: it may have copies of units of others, where some
    worker has no unit of a round."""
    return int(min(source, max(UNEVEN * source, source + workers * COPIES * unit) / workers))


def _working(columns: int, outputs: int) -> int:
    """Bytes of one task at its largest: the Gram matrix of the sample, or a tile of rows with its gradient.

    A worker has three D x D matrices: its sum, and that of the task before, on its way to the client as a copy.
    """
    return max(24 * columns**2 + 16 * STRIP * columns, _tile(columns, outputs))


def _squares(sizes: Sizes, recipe: Recipe) -> int:
    """D x D matrices of the client at one time: covariance and one that comes or goes, of landmarks the metric and its
    root; and a factor for each alpha of the path that can have a ridge of its own: a large source has one, and leaves
    of the Gram matrix that arrive before it."""
    if not SOLVERS[recipe.solver].prepared or recipe.rank is not None:  # eigenvectors, and what makes them
        return 11
    several = 2 if sizes.large else len(PATH)
    metric = 2 if by_landmarks(recipe.features, auto=True) else 0
    return 2 + metric + (several if recipe.alpha == "auto" else 1)


def _tasks(executor: Executor, columns: int, outputs: int, squares: int, wide: bool) -> tuple[int, int]:
    """Bytes of the tasks of the setup: of a worker (this process, where that works), and of a client beside workers."""
    threads = max(1, executor.slots // executor.workers)
    apart, home = executor.name == "cluster", runs_on_client(executor, wide)
    beside = _beside(columns, outputs, executor.slots, squares, wide) if home else 0
    if apart and home:
        return threads * _tile(columns, outputs), beside
    limited = apart or executor.memory_limit is not None
    return (threads * _task(columns, outputs, wide) if limited else beside), 0


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


def _task(columns: int, outputs: int, wide: bool) -> int:
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


def _mib(n: float) -> str:
    return f"{n / 2**20:,.0f} MiB"


def _available() -> int:
    import psutil

    return int(psutil.virtual_memory().available)


def _installed() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
