"""The costs that the stages of a fit state, and their sums: work, readings, and the bytes of the largest phase."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

from dkernel.data.source import Source
from dkernel.features import by_landmarks
from dkernel.model.recipe import Recipe
from dkernel.solvers.budget import choice_flops
from dkernel.solvers.catalogue import SOLVER_CLASSES
from dkernel.solvers.setup_cost import setup_cost
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import CALL_SECONDS, Cost, core_seconds
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.row_memory import RowMemory
from dkernel.streaming.survey import survey_cost
from dkernel.training.local_stages import local_costs
from dkernel.training.selection.model_selection import choice_cost


@dataclass(frozen=True)
class StageCosts:
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
    def of(cls, source: Source, recipe: Recipe, slots: int, outputs: int) -> "StageCosts":
        """The costs of a fit of a source.

        Parameters
        ----------
        slots : calls that run at a time
        """
        sizes = Sizes.of(source.n_counted, source.n_terms, recipe)
        survey = survey_cost(source, sizes.reservoir)
        setup, solve = _global_costs(source, sizes, recipe, slots, outputs)
        drawn, budget = not by_landmarks(recipe.features, auto=True), choice_flops(recipe, setup.flops + solve.flops)
        rows = sizes.reservoir - sizes.holdout
        choice = choice_cost(recipe, sizes.p, rows, sizes.components, drawn, budget)
        local = local_costs(recipe, source, sizes, [survey, choice, setup, solve], outputs)
        return cls(sizes, survey, choice, setup, solve, local)

    @property
    def named(self) -> dict[str, Cost]:
        """Stage -> its cost, in their order."""
        return {"survey": self.survey, "choice": self.choice, "setup": self.setup, "solve": self.solve, **self.local}

    def __iter__(self) -> Iterator[Cost]:
        yield from self.named.values()

    @property
    def readings(self) -> int:
        """Readings of all rows."""
        return sum(cost.readings for cost in self)

    def disk_bytes(self, of_stage: Callable[[Cost], int]) -> int:
        """Bytes of files of the stages, with the largest of the local stages, since only one is kept."""
        others = sum(of_stage(cost) for cost in (self.survey, self.choice, self.setup, self.solve))
        return others + max((of_stage(cost) for cost in self.local.values()), default=0)

    def enough_slots(self, read: float) -> int:
        """Calls at a time beyond which more of them cost more than they save.

        k calls in each of w waits, for work of s seconds of a core, take s / k + w k c seconds.

        Parameters
        ----------
        read : seconds of a core for all readings
        """
        waits = sum(max(1, cost.readings) for cost in self) + (self.sizes.rounds - 1) * self.solve.readings
        return ceil(sqrt((core_seconds(self) + read) / (waits * CALL_SECONDS)))

    def peaks(self, rows: RowMemory, executor: Executor) -> "Peaks":
        """The most bytes of a fit at one time."""
        worker, client = executor.base_bytes
        worker += sum(cost.throughout_bytes for cost in self)
        client += sum(cost.client_throughout_bytes for cost in self)
        phases, kept = list(_phases(list(self), rows, executor)), rows.kept_bytes(executor.workers)
        of_client = [phase.client for phase in phases]
        read = [phase.worker + phase.units for phase in phases]
        held = [phase.worker + max(phase.units, kept) + phase.kept for phase in phases]
        return Peaks(
            worker + executor.worker_peak(read, of_client),
            worker + executor.worker_peak(held, of_client),
            client + max(of_client),
        )


def _global_costs(source: Source, sizes: Sizes, recipe: Recipe, slots: int, outputs: int) -> tuple[Cost, Cost]:
    """Costs of setup and passes."""
    most = max((unit.n_rows for unit in source.units), default=0)
    rows = min(most, -(-source.n_rows // slots))
    return setup_cost(sizes, recipe, outputs, source), SOLVER_CLASSES[recipe.solver].cost(sizes, outputs, rows)


class Peaks(NamedTuple):
    """The most bytes of a fit at one time.

    Parameters
    ----------
    worker : of each worker's process (of this process beside the client, where threads do the work)
    with_rows : the same where the source stays in memory
    client : of the client
    """

    worker: int
    with_rows: int
    client: int


class Phase(NamedTuple):
    """Bytes in use at one time in a phase of a fit, beside the bytes that all phases have.

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


def _phases(stages: Sequence[Cost], rows: RowMemory, executor: Executor) -> Iterator[Phase]:
    """The phases of a fit: none of them holds what another one has made for itself."""
    workers, left = executor.workers, 0
    for cost in stages:
        reads = cost.readings > 0
        worker, beside = executor.tasks_bytes(cost)
        worker += cost.row_bytes * rows.n // workers + reads * executor.worker_threads * rows.reading_bytes
        client = left + cost.client_bytes + beside + executor.received_bytes(cost.result_bytes)
        yield Phase(worker, client, reads * rows.ahead, cost.kept_bytes * rows.n // workers)
        yield Phase(0, left + cost.alone_bytes)
        left += cost.left_bytes
