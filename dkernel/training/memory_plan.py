"""The plan: memory and work of a fit, the sum of what its stages state before it runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, sqrt
from typing import Any, NamedTuple

from dkernel.cost import CALL_SECONDS, START_SECONDS, Cost, core_seconds
from dkernel.data.source import Source
from dkernel.errors import MemoryBudgetError, RecipeError
from dkernel.execution.base import Executor
from dkernel.features import by_landmarks
from dkernel.numerics.calibration import machine_speeds
from dkernel.numerics.resource_limits import available_memory, memory_limit
from dkernel.problem.budget import CORES, choice_flops
from dkernel.problem.sizes import LEAST_COMPONENTS, Sizes
from dkernel.recipe import Recipe
from dkernel.selection.model_selection import choice_cost
from dkernel.solving.catalogue import SOLVER_CLASSES
from dkernel.solving.setup_cost import setup_cost
from dkernel.streaming.schedule import bundle_size
from dkernel.streaming.survey import reading_seconds, survey_cost
from dkernel.training.local_stage import local_costs
from dkernel.training.way_costs import HELD_SHARE, gain_to_earn, repeated_seconds

COPIES = 4  # units of others that a worker may hold beside its own
UNEVEN = 1.5  # times its share of a source that is kept, which one of the workers may hold
FEWEST_ADVISED = 64  # components; a refusal advises no map of less
FEW_SLOTS = 8  # slots that are used whatever the work: to ask fewer saves little


@dataclass(frozen=True)
class Stages:
    """Sizes of a fit and the costs of its stages, in their order.

    Parameters
    ----------
    local : of each local stage that is tried
    """

    sizes: Sizes
    survey: Cost
    choice: Cost
    setup: Cost
    solve: Cost
    local: Mapping[str, Cost]

    @classmethod
    def of(cls, source: Source, recipe: Recipe, executor: Executor, outputs: int) -> "Stages":
        """The stages of a fit of a source."""
        sizes = Sizes.of(source.n_counted, source.n_terms, recipe)
        survey = survey_cost(source.n_rows, sizes.p)
        setup, solve = _global(source, sizes, recipe, executor, outputs)
        drawn, budget = not by_landmarks(recipe.features, auto=True), choice_flops(recipe, setup.flops + solve.flops)
        rows = sizes.reservoir - sizes.holdout
        choice = choice_cost(recipe, sizes.p, rows, sizes.components, drawn, budget)
        local = local_costs(recipe, source, sizes, [survey, choice, setup, solve], outputs)
        return cls(sizes, survey, choice, setup, solve, local)

    def with_fewest(self, source: Source, recipe: Recipe, executor: Executor, outputs: int) -> "Stages":
        """The stages if the sample finds the fewest components to be enough; the same where it may not."""
        if not _may_shrink(recipe, self.sizes):
            return self
        sizes = Sizes.of(self.sizes.n, self.sizes.p, recipe.replace(n_components=LEAST_COMPONENTS))
        setup, solve = _global(source, sizes, recipe, executor, outputs)
        return replace(self, sizes=sizes, setup=setup, solve=solve)

    def enough_slots(self, read: float) -> int:
        """Calls at a time beyond which more of them cost more than they save.

        k calls in each of w waits, for work of s seconds of a core, take s / k + w k c seconds.

        Parameters
        ----------
        read : seconds of a core for all readings
        """
        waits = sum(max(1, cost.readings) for cost in self) + (self.sizes.rounds - 1) * self.solve.readings
        return ceil(sqrt((core_seconds(self) + read) / (waits * CALL_SECONDS)))

    def __iter__(self) -> Iterator[Cost]:
        yield from (self.survey, self.choice, self.setup, self.solve, *self.local.values())


def _global(source: Source, sizes: Sizes, recipe: Recipe, executor: Executor, outputs: int) -> tuple[Cost, Cost]:
    most = max((unit.n_rows for unit in source.units), default=0)
    rows = min(most, -(-source.n_rows // executor.slots))
    return setup_cost(sizes, recipe, outputs, executor), SOLVER_CLASSES[recipe.solver].cost(sizes, outputs, rows)


def _may_shrink(recipe: Recipe, sizes: Sizes) -> bool:
    """True if the sample may find fewer components to be enough."""
    is_open = recipe.components_open and sizes.components > LEAST_COMPONENTS
    return is_open and by_landmarks(recipe.features, auto=True)


class Phase(NamedTuple):
    """Bytes that are there at one time in a phase of a fit, beside the sample and the landmarks.

    Parameters
    ----------
    worker, client : of each worker, and of the client
    units : of the source in a worker, where it is not kept
    kept : more of a worker, where the source is kept
    """

    worker: int
    client: int = 0
    units: int = 0
    kept: int = 0


def _phases(stages: Sequence[Cost], source: Source, executor: Executor) -> Iterator[Phase]:
    """The phases of a fit: none of them holds what another one has made for itself."""
    row, slots, workers = source.row_bytes + 16, executor.slots, executor.workers
    threads = max(1, slots // workers)
    most = max((unit.n_rows for unit in source.units), default=0)
    # While one bundle is used the next is read, and one worker may have got all of it; reading holds a unit twice, as
    # it was stored and as a block.
    units = min(2 * bundle_size([unit.rows for unit in source.units], row), len(source.units)) * most * row
    reading, left = threads * 2 * most * row, 0
    for cost in stages:
        reads = cost.readings > 0
        worker = cost.worker_bytes + threads * cost.task_bytes + cost.row_bytes * source.n_rows // workers
        client = left + cost.client_bytes + executor.received_bytes(cost.result_bytes)
        kept = cost.kept_bytes * source.n_rows // workers
        yield Phase(worker + reads * reading, client, reads * units, kept)
        yield Phase(0, left + cost.alone_bytes)
        left += cost.left_bytes


@dataclass(frozen=True)
class Plan:
    """Predicted peak bytes and flops of a fit.

    Parameters
    ----------
    worker_bytes : of each worker's process (of this process, where threads do the work)
    client_bytes : of the client, beside that
    least_bytes : of the client and a worker together, if the sample finds the fewest components to be enough
    memory_limit : of each worker, None where none is known
    client_memory_limit : of the client, None where none was given
    kept : whether the source stays in the workers' memory between passes
    in_process : whether the work is done in the client's own process
    survey_flops, choice_flops, setup_flops, pass_flops : of each stage
    checkpoint_bytes : of disk, of a run with a checkpoint
    scratch_bytes : of disk, while a local stage has its rows there
    local : local stages that are tried
    local_flops : of these
    readings : of the source, from memory where it is kept
    local_readings : those of them that local stages take
    local_gain : least share of the loss that a local stage must be predicted to win; 0 where the rows stay in memory
    model_bytes : of the model file, about; a local stage's part is at most this
    seconds : of a command, from its start, on this machine and as many cores as there are threads, about
    least_seconds : the same if the sample finds the fewest components to be enough
    most_seconds : what max_seconds is compared with: an upper bound, for the same cores on every machine
    slots : calls that run at a time; of a large cluster those that the work is worth
    enough_slots : with more of them the calls would cost more seconds than they save
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
    seconds: float = 0.0
    least_seconds: float = 0.0
    most_seconds: float = 0.0
    local: tuple[str, ...] = ()
    local_flops: float = 0.0
    readings: int = 0
    local_readings: int = 0
    local_gain: float = 0.0
    model_bytes: int = 0
    slots: int = 1
    enough_slots: int = 1
    client_memory_limit: int | None = None

    @classmethod
    def of(
        cls, source: Source, recipe: Recipe, executor: Executor, outputs: int = 1, beside: Sequence[Cost] = ()
    ) -> "Plan":
        """The plan for a source.

        Parameters
        ----------
        beside : costs of what a command does after the fit
        """
        outputs = max(outputs, source.targets)
        whole = cls._on(source, recipe, executor, outputs, beside)
        slots = max(FEW_SLOTS, whole.enough_slots)
        while not executor.in_process and slots < whole.slots:
            with executor.using(slots):
                part = cls._on(source, recipe, executor, outputs, beside)
            if part.kept == whole.kept and part.worker_bytes <= (part.memory_limit or part.worker_bytes):
                return part
            slots *= 2
        return whole

    @classmethod
    def _on(cls, source: Source, recipe: Recipe, executor: Executor, outputs: int, beside: Sequence[Cost]) -> "Plan":
        stages = Stages.of(source, recipe, executor, outputs)
        most = cls._of(source, executor, outputs, stages, beside)
        least = cls._of(source, executor, outputs, stages.with_fewest(source, recipe, executor, outputs), beside)
        least_bytes = least.client_bytes + least.worker_bytes
        reading = repeated_seconds(source)
        gain = gain_to_earn(stages.sizes, recipe, stages.local, outputs, reading) if reading else 0.0
        return replace(most, least_bytes=least_bytes, least_seconds=least.seconds, local_gain=round(gain, 3))

    @classmethod
    def _of(cls, source: Source, executor: Executor, outputs: int, stages: Stages, beside: Sequence[Cost]) -> "Plan":
        sizes, solve, local = stages.sizes, stages.solve, list(stages.local.values())
        D, row = sizes.components, source.row_bytes + 16
        workers, limit = executor.workers, executor.memory_limit  # asked for once: workers may come meanwhile
        reservoir = sizes.reservoir * row
        landmarks = D * row + 16 * source.n_in if source.sparse else 4 * D * sizes.p
        base, client_base = executor.base_bytes
        base += reservoir + landmarks
        phases = list(_phases(list(stages), source, executor))
        most = max(phase.client for phase in phases)
        client = client_base + 3 * reservoir + most
        held = _held_bytes(source.n_rows * row, workers, max((unit.n_rows for unit in source.units), default=0) * row)

        def largest(held: int, kept: bool) -> int:
            """Bytes of a worker, or of this process beside those of the client, in the largest of the phases."""
            each = [phase.worker + max(phase.units, held) + kept * phase.kept for phase in phases]
            return base + executor.worker_peak(each, [phase.client for phase in phases])

        worker, with_data = largest(0, kept=False), largest(held, kept=True)
        total = limit * workers if limit else available_memory()
        kept = _has_room(source.nbytes, workers * worker, total) and (limit is None or with_data <= limit)
        readings = sum(cost.readings for cost in stages)
        work, speed = core_seconds(stages), machine_speeds()
        read = (1 if kept else readings) * reading_seconds(source)
        timed = sum(cost.seconds_at(speed, executor.slots) for cost in [*stages, *beside])
        return cls(
            n=sizes.n,
            p=source.n_in,
            columns=D,
            outputs=outputs,
            rounds=sizes.rounds,
            passes=solve.readings,
            reservoir=sizes.reservoir,
            worker_bytes=int(with_data if kept else worker),
            client_bytes=int(client),
            memory_limit=limit,
            client_memory_limit=executor.client_memory_limit,
            kept=kept,
            in_process=executor.in_process,
            survey_flops=stages.survey.flops,
            setup_flops=stages.setup.flops,
            pass_flops=solve.flops / solve.readings,
            choice_flops=stages.choice.flops,
            local=tuple(stages.local),
            local_flops=sum(cost.flops for cost in local),
            model_bytes=solve.model_bytes + max((cost.model_bytes for cost in local), default=0),
            readings=readings,
            local_readings=sum(cost.readings for cost in local),
            checkpoint_bytes=2 * reservoir
            + D * row
            + stages.setup.checkpoint_bytes
            + max((cost.checkpoint_bytes for cost in local), default=0),
            scratch_bytes=max((cost.scratch_bytes for cost in local), default=0),
            seconds=round(START_SECONDS / speed["start"] + timed + read / executor.slots, 1),
            most_seconds=work / CORES,
            slots=executor.slots,
            enough_slots=stages.enough_slots(read),
        )

    def check(self, with_components: Callable[[int], "Plan"]) -> None:
        """Refuse a fit that needs more memory than there is, with both numbers and ones that fit.

        Parameters
        ----------
        with_components : the plan of the same fit with so many components
        """
        if self.memory_limit is not None and self.worker_bytes > self.memory_limit:
            raise MemoryBudgetError(
                f"Each worker needs about {_mib(self.worker_bytes)} and has a limit of {_mib(self.memory_limit)}. "
                f"Raise --memory-limit to {-(-self.worker_bytes // 2**20)}MiB{self._fewer(with_components)}, or give a "
                "source in smaller chunks."  # the option takes MiB so
            )
        if self.client_memory_limit is not None and self._here > self.client_memory_limit:
            raise MemoryBudgetError(
                f"This process needs about {_mib(self._here)} and has a limit of {_mib(self.client_memory_limit)}. "
                f"Raise --client-memory-limit to {-(-self._here // 2**20)}MiB{self._fewer(with_components)}."
            )
        if self._here > memory_limit():
            raise MemoryBudgetError(
                f"This process needs about {_mib(self._here)}, most of it for n_components={self.columns}, and the "
                f"machine or its container has {_mib(memory_limit())}. Use a larger one{self._fewer(with_components)}."
            )

    def _fewer(self, with_components: Callable[[int], "Plan"]) -> str:
        """Advice of a number of components that fits; empty where none does."""
        columns = self.columns
        while (columns := columns // 4 * 2) >= FEWEST_ADVISED:  # even: sine and cosine come in pairs
            if with_components(columns)._fits:
                return f", or use n_components={columns}"
        return ""

    @property
    def _here(self) -> int:
        """Bytes of the process of the client."""
        return self.client_bytes + (self.worker_bytes if self.in_process else 0)

    @property
    def _fits(self) -> bool:
        here = min(memory_limit(), self.client_memory_limit or self._here)
        return self.worker_bytes <= (self.memory_limit or self.worker_bytes) and self._here <= here

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

    @property
    def flops(self) -> float:
        """Flops of setup and passes."""
        return self.setup_flops + self.passes * self.pass_flops

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self) | {"local": list(self.local)}


# People read these words for a plan's entries.
_PLAN_WORDS = {
    "n": "rows",
    "p": "features",
    "columns": "components",
    "rounds": "rounds of a pass",
    "reservoir": "rows of the sample",
    "worker_bytes": "memory, each worker",
    "client_bytes": "memory, client",
    "least_bytes": "memory if a smaller map suffices",
    "memory_limit": "limit of each worker",
    "client_memory_limit": "limit of the client",
    "kept": "data kept in memory",
    "survey_flops": "work of the survey",
    "choice_flops": "work of the choice",
    "setup_flops": "work of the setup",
    "pass_flops": "work of each pass",
    "checkpoint_bytes": "disk, with --checkpoint",
    "scratch_bytes": "disk, scratch",
    "seconds": "time, about",
    "least_seconds": "time if a smaller map suffices",
    "most_seconds": "time limit that --max-seconds would be given",
    "local": "local stage",
    "local_flops": "work of the local stage",
    "readings": "readings of the data",
    "model_bytes": "model file, at most",
    "slots": "threads that work",
    "enough_slots": "threads that the work is worth",
}


def format_plan(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The entries of a plan as people read them: name and value.

    Examples
    --------
    >>> format_plan({"n": 5000, "worker_bytes": 2**30, "kept": True, "seconds": 3.2})
    [('rows', '5,000'), ('memory, each worker', '1,024 MiB'), ('data kept in memory', 'yes'), ('time, about', '3 s')]
    """
    # The memory of the worker says where it works, and the readings which of them are the local stage's.
    hidden = {"in_process", "local_readings", "local_gain"} | (
        {"client_memory_limit"} if not plan.get("client_memory_limit") else set()
    )
    shown = {name: _in_words(name, value) for name, value in plan.items() if name not in hidden}
    if "readings" in shown:
        shown["readings"] = _readings(plan)
    return [(_PLAN_WORDS.get(name, name), value) for name, value in shown.items()]


def _readings(plan: Mapping[str, Any]) -> str:
    """The readings in words: one of rows that stay in memory, of others with those of local stages and what for."""
    if plan.get("kept"):
        return "1: the rows stay in memory"
    more = plan.get("local_readings")
    if not more:
        return f"{plan['readings']:,}"
    earned = f" if they are predicted to win {plan['local_gain']:.0%} of the loss" if plan.get("local_gain") else ""
    return f"{plan['readings'] - more:,}, and {more:,} of {' and '.join(plan['local'])}{earned}"


def _in_words(name: str, value: Any) -> str:
    if value is None:
        return "none known"
    if isinstance(value, tuple | list):
        return ", ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith(("_bytes", "memory_limit")):
        return _mib(value)
    if name.endswith("_flops"):
        return f"{value / 1e9:,.1f} Gflop"
    if name.endswith("seconds"):
        return f"{max(1, round(value)):,} s" if value < 120 else f"{value / 60:,.0f} min"
    return f"{value:,}" if isinstance(value, int) else f"{value}"


def _has_room(source: int, work: int, total: int) -> bool:
    """True if a source may stay in memory beside the work, with some to spare."""
    return source * 1.1 + work < total and source < HELD_SHARE * total


def _held_bytes(source: int, workers: int, unit: int) -> int:
    """Bytes of a source that is kept in the worker with most of it: it may have copies of units of others, where some
    worker has no unit of a round."""
    return int(min(source, max(UNEVEN * source, source + workers * COPIES * unit) / workers))


def _mib(n: float) -> str:
    return f"{n / 2**20:,.0f} MiB"
