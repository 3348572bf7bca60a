"""The costs of the stages of a fit, and its peak bytes."""

from collections.abc import Callable, Iterator, Mapping
from math import ceil, sqrt
from typing import NamedTuple

from dkernel.data.source import Source
from dkernel.features import by_landmarks
from dkernel.model.recipe import Recipe
from dkernel.solvers.budget import choice_flops
from dkernel.solvers.catalogue import solver_class
from dkernel.solvers.setup_cost import setup_cost
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import CALL_SECONDS, CLIENT_BASE, THREADS_BASE, WORKER_BASE, Cost, core_seconds
from dkernel.streaming.machine import Machine
from dkernel.streaming.row_memory import RowMemory
from dkernel.streaming.survey import survey_cost
from dkernel.training.local_stages import local_costs
from dkernel.training.selection.model_selection import choice_cost

GLOBAL_STAGES = ("survey", "choice", "setup", "solve")  # stages of a fit before the local stages


def stage_costs(
    source: Source, recipe: Recipe, sizes: Sizes, slots: int, outputs: int
) -> tuple[dict[str, Cost], dict[str, str]]:
    """Return the cost of each stage, first those of GLOBAL_STAGES, and why "auto" does not try other local stages.

    Parameters
    ----------
    slots : calls that run at a time
    """
    task_rows = min(max((unit.n_rows for unit in source.units), default=0), -(-source.n_rows // slots))
    survey, setup = survey_cost(source, sizes.reservoir), setup_cost(sizes, recipe, outputs, source)
    solve = solver_class(recipe.solver).cost(sizes, outputs, task_rows)
    drawn, budget = not by_landmarks(recipe.features, auto=True), choice_flops(recipe, setup.flops + solve.flops)
    choice = choice_cost(recipe, sizes.p, sizes.reservoir - sizes.holdout, sizes.components, drawn, budget)
    costs = dict(zip(GLOBAL_STAGES, (survey, choice, setup, solve), strict=True))
    tried, untried = local_costs(recipe, source, sizes, list(costs.values()), outputs)
    return costs | tried, untried


def sum_files(costs: Mapping[str, Cost], count: Callable[[Cost], int]) -> int:
    """Sum the bytes of files of the stages, with only the largest of the local stages, since one is kept."""
    of_local = [count(cost) for name, cost in costs.items() if name not in GLOBAL_STAGES]
    return sum(count(costs[name]) for name in GLOBAL_STAGES) + max(of_local, default=0)


def count_enough_slots(costs: Mapping[str, Cost], rounds: int, read: float) -> int:
    """Return the number of calls at a time beyond which more calls cost more than they save.

    With k calls in each of w waits and c seconds for a call, work of s core seconds takes s / k + w k c seconds.

    Parameters
    ----------
    read : core seconds of all readings
    """
    waits = sum(max(1, cost.readings) for cost in costs.values()) + (rounds - 1) * costs["solve"].readings
    return ceil(sqrt((core_seconds(costs.values()) + read) / (waits * CALL_SECONDS)))


class Peaks(NamedTuple):
    """Peak bytes of a fit.

    Parameters
    ----------
    worker : bytes of each worker process, or of this process beside the client if threads do the work
    with_rows : the same if the source stays in memory
    client : bytes of the client
    """

    worker: int
    with_rows: int
    client: int

    @classmethod
    def of(cls, costs: Mapping[str, Cost], rows: RowMemory, machine: Machine) -> "Peaks":
        """Return the peaks of stages that run one after the other; each frees its own memory at its end."""
        worker, client = (THREADS_BASE, 0) if machine.in_process else (WORKER_BASE, CLIENT_BASE)
        worker += sum(cost.throughout_bytes for cost in costs.values())
        client += sum(cost.client_throughout_bytes for cost in costs.values())
        shared, phases = machine.shares_memory, list(_list_phases(costs, rows, machine))
        most = max(phase.client for phase in phases)
        read = max(phase.worker + shared * (phase.client - most) for phase in phases)
        with_rows = max(phase.with_rows + shared * (phase.client - most) for phase in phases)
        return cls(worker + read, worker + with_rows, client + most)


def count_task_bytes(cost: Cost, machine: Machine) -> tuple[int, int]:
    """Return the bytes of the tasks of a stage that run at one time: in a worker, and in the client beside it."""
    if cost.shared_bytes is not None and machine.shares_memory:
        return cost.shared_bytes(machine.slots), 0
    if cost.shared_bytes is not None and machine.prefers_client(cost.large_result):
        return 0, cost.shared_bytes(machine.slots)
    return machine.worker_threads * cost.task_bytes, 0


def _list_phases(costs: Mapping[str, Cost], rows: RowMemory, machine: Machine) -> Iterator[Peaks]:
    """Yield the bytes of each phase of a fit, beside the bytes that all phases have."""
    workers, remaining, results = len(machine.workers), 0, 0 if machine.in_process else machine.slots
    source_bytes = rows.kept_bytes(workers)
    for cost in costs.values():
        reads = cost.readings > 0
        worker, beside = count_task_bytes(cost, machine)
        worker += cost.row_bytes * rows.n // workers + reads * machine.worker_threads * rows.reading_bytes
        client = remaining + cost.client_bytes + beside + results * cost.result_bytes
        more = cost.kept_bytes * rows.n // workers
        kept = max(reads * rows.kept_ahead, source_bytes)
        yield Peaks(worker + reads * rows.ahead, worker + kept + more, client)
        yield Peaks(0, source_bytes, remaining + cost.alone_bytes)
        remaining += cost.left_bytes
