"""The plan: memory and work of a fit, predicted from sizes before it runs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil, sqrt
from typing import Any

from dkernel.data.source import Source
from dkernel.errors import MemoryBudgetError, RecipeError
from dkernel.execution.base import Executor
from dkernel.features.base import MOST_DENSE
from dkernel.numerics.resource_limits import available_memory, memory_limit
from dkernel.problem.budget import CORES
from dkernel.problem.sizes import Sizes
from dkernel.recipe import Recipe
from dkernel.selection.predicted_work import choice_bytes
from dkernel.training.local_stage import local_cost
from dkernel.training.result import LocalCost
from dkernel.training.work_plan import HEADS, Work, phases_of, squares_of, task_bytes

# A process holds so much after its imports, as Dask counts it against a worker's limit. A worker that finds no compiled
# loops on disk compiles them in some 40 MiB of it, and one without Python's own bytecode takes as much again. Freed
# pages that it keeps (dkernel.numerics.allocator) are in it too.
WORKER_BASE = 340 * 2**20
CLIENT_BASE = 360 * 2**20  # the client has the scheduler's part too
THREADS_BASE = 230 * 2**20  # a process whose threads do the work has no scheduler
BYTES = 150e6  # a core of today reads so much Parquet in a second
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
    reading_bytes : of each worker while it reads, or fits a local stage: with fewer columns it is hardly less
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
        row, kinds, passes = source.row_bytes + 16, tuple(work.local), work.passes
        workers, limit = executor.workers, executor.memory_limit  # asked for once: workers may come meanwhile
        apart = executor.name == "cluster"
        reservoir = sizes.reservoir * row
        local = local_cost(kinds, n, p, recipe, outputs)
        landmarks = D * row + 16 * source.n_in if source.sparse else 4 * D * p
        base = (WORKER_BASE if apart else THREADS_BASE) + reservoir + landmarks
        squares = squares_of(sizes, recipe)
        phases = phases_of(source, recipe, executor, outputs, work, local, squares)
        most = max(phase.client for phase in phases)
        client = (CLIENT_BASE if apart else 0) + 3 * reservoir + most
        held = _held(source.n_rows * row, workers, max((unit.n_rows for unit in source.units), default=0) * row)

        def largest(held: int, kept: bool) -> int:
            """Bytes of a worker, or of this process beside those of the client, in the largest of the phases."""
            each = [phase.worker + max(phase.units, held) + kept * phase.kept for phase in phases]
            if apart or limit is not None:
                return base + max(each)
            return base + max(own + phase.client for own, phase in zip(each, phases, strict=True)) - most

        worker, with_data = largest(0, kept=False), largest(held, kept=True)
        reading = base + max(phase.worker + phase.units for phase in phases if not phase.squares)
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
            checkpoint_bytes=_checkpoint(D, outputs, reservoir, row, min(squares, 24 * D**2), local),
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
                f"and the machine or its container has {_mib(_installed())}. Use fewer components."
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
        judging = choice_bytes(self.reservoir, columns) if self.choice_flops else 0
        return max(judging, task_bytes(columns, self.outputs, columns > MOST_DENSE))

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
    "least_bytes": "memory if a smaller map suffices",
    "reading_bytes": "least memory, each worker",
    "memory_limit": "limit of each worker",
    "kept": "data kept in memory",
    "survey_flops": "work of the survey",
    "choice_flops": "work of the choice",
    "setup_flops": "work of the setup",
    "pass_flops": "work of each pass",
    "checkpoint_bytes": "disk, with --checkpoint",
    "scratch_bytes": "disk, scratch",
    "seconds": "time, about",
    "most_seconds": "time limit that --max-seconds would be given",
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
    shown = {name: value for name, value in plan.items() if name != "in_process"}  # the memory of the worker says it
    return [(_WORDS.get(name, name), _in_words(name, value)) for name, value in shown.items()]


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


def _mib(n: float) -> str:
    return f"{n / 2**20:,.0f} MiB"


def _available() -> int:
    return available_memory()


def _installed() -> int:
    return memory_limit()
