"""The plan: memory and work of a fit, the sum of what its stages state before it runs; what has no room is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from dkernel.data.source import Source
from dkernel.errors import MemoryBudgetError, RecipeError
from dkernel.model.recipe import Recipe
from dkernel.numerics.resource_limits import available_memory, memory_limit
from dkernel.solvers.budget import CORES
from dkernel.streaming.cost import Cost, core_seconds
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.row_memory import RowMemory
from dkernel.streaming.survey import reading_seconds
from dkernel.training.planning.plan_format import in_mib
from dkernel.training.planning.stage_costs import StageCosts

FEWEST_ADVISED = 64  # components; a refusal advises no map of less
FEW_SLOTS = 8  # slots that every fit uses: fewer would save little

WithComponents = Callable[[int], "Plan"]
"""The plan of the same fit with this number of components."""


@dataclass(frozen=True)
class Plan:
    """Predicted peak bytes and flops of a fit.

    Parameters
    ----------
    worker_bytes : of each worker's process (of this process, where threads do the work)
    client_bytes : of the client, beside that
    memory_limit : of each worker, None where none is known
    client_memory_limit : of the client, None where none was given
    kept : whether the source stays in the workers' memory between passes
    in_process : whether the work is done in the client's own process
    stage_flops : stage -> its work, in their order: survey, choice, setup, solve and the local stages that are tried
    checkpoint_bytes : of disk, of a run with a checkpoint
    scratch_bytes : of disk, while a local stage has its rows there
    local : local stages that are tried
    readings : of the source, from memory where it is kept
    local_readings : of these, the readings of local stages
    model_bytes : of the model file, about; a local stage's part is at most this
    core_seconds : of one usual core for all work and all readings
    most_seconds : what max_seconds is compared with, for the usual cores
    slots : calls that run at a time: of a large cluster no more than the work gains from
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
    stage_flops: Mapping[str, float]
    checkpoint_bytes: int = 0
    scratch_bytes: int = 0
    core_seconds: float = 0.0
    most_seconds: float = 0.0
    local: tuple[str, ...] = ()
    readings: int = 0
    local_readings: int = 0
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
        whole = cls._of_slots(source, recipe, executor, outputs, beside)
        while not whole.fits_workers and executor.leave_out_smaller(whole.worker_bytes):
            whole = cls._of_slots(source, recipe, executor, outputs, beside)
        for slots in executor.fewer_slots(max(FEW_SLOTS, whole.enough_slots)):
            with executor.using(slots):
                part = cls._of_slots(source, recipe, executor, outputs, beside)
            if part.kept == whole.kept and part.fits_workers:
                return part
        return whole

    @classmethod
    def _of_slots(
        cls, source: Source, recipe: Recipe, executor: Executor, outputs: int, beside: Sequence[Cost]
    ) -> "Plan":
        """The plan for all slots of an executor."""
        stages = StageCosts.of(source, recipe, executor.slots, outputs)
        sizes, solve, local = stages.sizes, stages.solve, stages.local.values()
        workers, limit = executor.workers, executor.memory_limit  # asked for once: workers may come meanwhile
        rows = RowMemory.of(source)
        peaks = stages.peaks(rows, executor)
        total = limit * workers if limit else available_memory()
        kept = rows.has_room(workers * peaks.worker, total) and (limit is None or peaks.with_rows <= limit)
        read, costs = (1 if kept else stages.readings) * reading_seconds(source), [*stages, *beside]
        return cls(
            n=sizes.n,
            p=source.n_in,
            columns=sizes.components,
            outputs=outputs,
            rounds=sizes.rounds,
            passes=solve.readings,
            reservoir=sizes.reservoir,
            worker_bytes=peaks.with_rows if kept else peaks.worker,
            client_bytes=peaks.client,
            memory_limit=limit,
            client_memory_limit=executor.client_memory_limit,
            kept=kept,
            in_process=executor.in_process,
            stage_flops={name: cost.flops for name, cost in stages.named.items()},
            local=tuple(stages.local),
            model_bytes=stages.disk_bytes(lambda cost: cost.model_bytes),
            readings=stages.readings,
            local_readings=sum(cost.readings for cost in local),
            checkpoint_bytes=stages.disk_bytes(lambda cost: cost.checkpoint_bytes),
            scratch_bytes=stages.disk_bytes(lambda cost: cost.scratch_bytes),
            core_seconds=round(core_seconds(costs) + sum(cost.more_seconds for cost in costs) + read, 1),
            most_seconds=core_seconds(stages) / CORES,
            slots=executor.slots,
            enough_slots=stages.enough_slots(read),
        )

    @property
    def here_bytes(self) -> int:
        """Bytes of the process of the client."""
        return self.client_bytes + self.in_process * self.worker_bytes

    @property
    def fits_workers(self) -> bool:
        """True if the workers have a limit that is enough, or none."""
        return self.memory_limit is None or self.worker_bytes <= self.memory_limit

    @property
    def flops(self) -> float:
        """Flops of setup and passes."""
        return self.stage_flops["setup"] + self.stage_flops["solve"]

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON."""
        return asdict(self) | {"local": list(self.local)}

    def check_memory(self, with_components: WithComponents) -> None:
        """Refuse a fit that needs more memory than there is, with both numbers and ones that fit."""
        if not self.fits_workers:
            assert self.memory_limit is not None
            raise MemoryBudgetError(
                f"Each worker needs about {in_mib(self.worker_bytes)} and has a limit of {in_mib(self.memory_limit)}. "
                f"Raise --memory-limit to {_whole_mib(self.worker_bytes)}{self._fewer(with_components)}, or give a "
                "source in smaller chunks."
            )
        here, limit, most = self.here_bytes, self.client_memory_limit, memory_limit()
        if limit is not None and here > limit:
            raise MemoryBudgetError(
                f"This process needs about {in_mib(here)} and has a limit of {in_mib(limit)}. "
                f"Raise --client-memory-limit to {_whole_mib(here)}{self._fewer(with_components)}."
            )
        if here > most:
            raise MemoryBudgetError(
                f"This process needs about {in_mib(here)}, most of it for n_components={self.columns}, and the "
                f"machine or its container has {in_mib(most)}. Use a larger one{self._fewer(with_components)}."
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

    def _fewer(self, with_components: WithComponents) -> str:
        """Advice of a number of components that fits; empty where none does."""
        columns = self.columns
        while (columns := columns // 4 * 2) >= FEWEST_ADVISED:  # even: sine and cosine come in pairs
            if with_components(columns)._fits():
                return f", or use n_components={columns}"
        return ""

    def _fits(self) -> bool:
        limits = memory_limit(), self.client_memory_limit
        return self.fits_workers and all(limit is None or self.here_bytes <= limit for limit in limits)


def _whole_mib(n: int) -> str:
    """Bytes as an option takes them."""
    return f"{-(-n // 2**20)}MiB"
