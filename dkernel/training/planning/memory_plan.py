"""The plan: the memory and work that the stages of a fit state before it runs; a fit without enough is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from dkernel.data.source import Source
from dkernel.errors import MemoryBudgetError, RecipeError
from dkernel.features.base import MOST_DENSE
from dkernel.model.recipe import Recipe
from dkernel.numerics.resource_limits import format_bytes, format_limit
from dkernel.solvers.budget import CORES
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import Cost, core_seconds
from dkernel.streaming.machine import Machine
from dkernel.streaming.row_memory import RowMemory
from dkernel.streaming.survey import reading_seconds
from dkernel.training.planning.stage_costs import GLOBAL_STAGES, Peaks, count_enough_slots, stage_costs, sum_files

FEWEST_ADVISED = 64  # fewest components that a refusal advises
FEW_SLOTS = 8  # slots that every fit uses: fewer would save little


@dataclass(frozen=True)
class Plan:
    """Predicted peak bytes and work of a fit; figures that follow from the costs of its stages are properties.

    Parameters
    ----------
    outputs : number of scores of a row
    machine : the machine that was described;  used : the part of it that makes the fit faster
    costs : stage -> its cost, in the order survey, choice, setup, solve and the local stages that are tried
    after : costs of the steps of a command after the fit
    untried : local stage that "auto" does not try -> why, in words
    keeps_rows : whether the source stays in the workers' memory between passes
    left_out : worker that is too small -> why, in words
    """

    source: Source
    recipe: Recipe
    outputs: int
    machine: Machine
    used: Machine
    sizes: Sizes
    costs: Mapping[str, Cost]
    untried: Mapping[str, str]
    after: Sequence[Cost]
    peaks: Peaks
    keeps_rows: bool
    left_out: Mapping[str, str]

    @classmethod
    def of(
        cls, source: Source, recipe: Recipe, machine: Machine, outputs: int = 1, after: Sequence[Cost] = ()
    ) -> "Plan":
        """Plan the fit of a source."""
        outputs, left_out = max(outputs, source.targets), dict[str, str]()
        sizes, rows = Sizes.of(source.n_counted, source.n_terms, recipe), RowMemory.of(source)

        def make(used: Machine) -> "Plan":
            costs, untried = stage_costs(source, recipe, sizes, used.slots, outputs)
            peaks, n, limit = Peaks.of(costs, rows, used), len(used.workers), used.memory_limit
            room = rows.has_room(n * peaks.worker, n * limit if limit else used.free_bytes)
            keeps_rows = room and (limit is None or peaks.with_rows <= limit)
            return cls(
                source, recipe, outputs, machine, used, sizes, costs, untried, after, peaks, keeps_rows, left_out
            )

        whole = make(machine)
        while not whole.fits_workers and (rest := whole.used.with_room(whole.worker_bytes)).workers:
            needs = f"and the fit needs {format_bytes(whole.worker_bytes)} of it."
            for worker in sorted(whole.used.workers.keys() - rest.workers.keys()):
                left_out[worker] = f"The worker {worker} has a limit of {format_bytes(rest.limits[worker])}, {needs}"
            whole = make(rest)
        parts = map(make, whole.used.parts(max(FEW_SLOTS, whole.enough_slots)))
        return next((part for part in parts if part.keeps_rows == whole.keeps_rows and part.fits_workers), whole)

    @property
    def local(self) -> tuple[str, ...]:
        """Local stages that are tried."""
        return tuple(name for name in self.costs if name not in GLOBAL_STAGES)

    @property
    def readings(self) -> int:
        """Readings of the source, from memory if it is kept there."""
        return sum(cost.readings for cost in self.costs.values())

    @property
    def worker_bytes(self) -> int:
        """Bytes of each worker process, or of this process if threads do the work."""
        return self.peaks.with_rows if self.keeps_rows else self.peaks.worker

    @property
    def here_bytes(self) -> int:
        """Bytes of the process of the client."""
        return self.peaks.client + self.used.in_process * self.worker_bytes

    @property
    def fits_workers(self) -> bool:
        """True if the workers have enough memory, or no limit."""
        return self.used.memory_limit is None or self.worker_bytes <= self.used.memory_limit

    @property
    def model_bytes(self) -> int:
        """Approximate bytes of the model file; those of a local stage are an upper limit."""
        return sum_files(self.costs, lambda cost: cost.model_bytes)

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of a checkpoint on disk."""
        return sum_files(self.costs, lambda cost: cost.checkpoint_bytes)

    @property
    def scratch_bytes(self) -> int:
        """Bytes on disk: of copies of files in smaller row groups, and while a local stage has its rows there."""
        return self.source.copied_bytes + sum_files(self.costs, lambda cost: cost.scratch_bytes)

    @property
    def flops(self) -> float:
        """Flops of setup and passes."""
        return self.costs["setup"].flops + self.costs["solve"].flops

    @property
    def seconds(self) -> float:
        """Predicted seconds on the threads that are used."""
        return (core_seconds(self.costs.values()) + self._read_seconds) / min(self.used.slots, self.enough_slots)

    @property
    def most_seconds(self) -> float:
        """Predicted seconds on usual cores, which max_seconds limits."""
        return core_seconds(self.costs.values()) / CORES

    @property
    def enough_slots(self) -> int:
        """Number of slots beyond which more calls cost more seconds than they save."""
        return count_enough_slots(self.costs, self.sizes.rounds, self._read_seconds)

    @property
    def all_seconds(self) -> float:
        """Predicted core seconds, with those of the steps of a command after the fit."""
        costs = [*self.costs.values(), *self.after]
        return core_seconds(costs) + sum(cost.more_seconds for cost in costs) + self._read_seconds

    def without_squares(self) -> "Plan | None":
        """Return the plan of the fewest components of which no squares are made, if it needs less time and memory."""
        least = MOST_DENSE + 2  # even: sine and cosine come in pairs
        if not isinstance(self.recipe.n_components, int) or self.sizes.components >= least or self.sizes.n <= least:
            return None
        found = Plan.of(self.source, self.recipe.replace(n_components=least), self.machine, self.outputs, self.after)
        return found if found.all_seconds < self.all_seconds and found.here_bytes < self.here_bytes else None

    @property
    def _read_seconds(self) -> float:
        copy = bool(self.source.large_groups)
        return (copy + (1 if self.keeps_rows else self.readings)) * reading_seconds(self.source)

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON: the figures of `format_plan`, and a few more."""
        sizes, wide = self.sizes, self.without_squares()
        return {
            "n": sizes.n,
            "p": self.source.n_in,
            "components": sizes.components,
            "outputs": self.outputs,
            "rounds": sizes.rounds,
            "passes": self.costs["solve"].readings,
            "reservoir": sizes.reservoir,
            "worker_bytes": self.worker_bytes,
            "client_bytes": self.peaks.client,
            "memory_limit": self.used.memory_limit,
            "kept": self.keeps_rows,
            "in_process": self.used.in_process,
            "stage_flops": {name: cost.flops for name, cost in self.costs.items()},
            "checkpoint_bytes": self.checkpoint_bytes,
            "scratch_bytes": self.scratch_bytes,
            "core_seconds": round(self.all_seconds, 1),
            "most_seconds": self.most_seconds,
            "local": list(self.local),
            "untried": dict(self.untried),
            "readings": self.readings,
            "row_groups": self.source.large_groups,
            "local_readings": sum(self.costs[name].readings for name in self.local),
            "model_bytes": self.model_bytes,
            "slots": self.used.slots,
            "enough_slots": self.enough_slots,
            "cheaper": wide and wide.as_dict(),
        }

    def refusal(self) -> str | None:
        """Return the message with which a fit of this plan is refused; None if it is not."""
        try:
            self.check()
        except (MemoryBudgetError, RecipeError) as error:
            return str(error)
        return None

    def check(self) -> None:
        """Refuse a fit that needs more memory or time than there is, or whose model file may be too large."""
        self.check_memory()
        self.check_seconds()
        self.check_model()

    def check_memory(self) -> None:
        """Refuse a fit that needs more memory than there is, and name both numbers and settings that fit."""
        here, limit, most = self.here_bytes, self.used.memory_limit, self.used.most_bytes
        if limit is not None and not self.fits_workers:
            share = self.used.used_share
            paused = f" (Dask pauses it at {share:.0%} of its memory_limit)" if share < 1 else ""
            raise MemoryBudgetError(
                f"Each worker needs about {format_bytes(self.worker_bytes)} and has a limit of "
                f"{format_bytes(limit)}{paused}. Raise memory_limit to {format_limit(ceil(self.worker_bytes / share))}"
                f"{self._fewer()}, or give a source in smaller chunks."
            )
        if here > most:
            raise MemoryBudgetError(
                f"This process needs about {format_bytes(here)}, most of it for n_components={self.sizes.components}, "
                f"and the machine or its container has {format_bytes(most)}. Use a larger one{self._fewer()}."
            )

    def check_seconds(self) -> None:
        """Refuse a fit that is predicted to take longer than max_seconds."""
        limit = self.recipe.max_seconds
        if limit is not None and self.most_seconds > limit:
            raise RecipeError(
                f"The fit is predicted to take {self.most_seconds:,.1f} s on {CORES} usual cores, beyond "
                f"max_seconds={limit:g}. Raise it to {ceil(self.most_seconds)}, or leave n_components, solver, passes "
                "and local to choose."
            )

    def check_model(self) -> None:
        """Refuse a model file that may be larger than max_model_size."""
        limit = self.recipe.max_model_size
        if limit is not None and self.model_bytes > limit:
            fewer = "grids or components, or local='none'," if self.local else "components"
            raise MemoryBudgetError(
                f"The model file may have {self.model_bytes:,} bytes and max_model_size={limit}. Use fewer {fewer} "
                "or raise max_model_size."
            )

    def _fewer(self) -> str:
        """Advise a number of components that fits; the text is empty if there is none."""
        columns = self.sizes.components
        while (columns := columns // 4 * 2) >= FEWEST_ADVISED:  # even: sine and cosine come in pairs
            if Plan.of(self.source, self.recipe.replace(n_components=columns), self.machine, self.outputs)._fits():
                return f", or use n_components={columns}"
        return ""

    def _fits(self) -> bool:
        return self.fits_workers and self.here_bytes <= self.used.most_bytes


def format_plan(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe a plan by pairs of a name and a sentence."""
    stages = f", then {' and '.join(plan['local'])}" if plan["local"] else ""
    limit = plan["memory_limit"]
    worker = f"{format_bytes(plan['worker_bytes'])} each worker" + (f" (limit {format_bytes(limit)})" if limit else "")
    seconds, slots, enough = max(1, round(plan["core_seconds"])), plan["slots"], plan["enough_slots"]
    on = f", {ceil(seconds / min(slots, enough)):,} s on {slots:,} threads" * (slots > 1 < enough)
    checkpoint, scratch = format_bytes(plan["checkpoint_bytes"]), format_bytes(plan["scratch_bytes"])
    return [
        *([("does not fit", plan["does_not_fit"])] if plan.get("does_not_fit") else []),
        ("rows", f"{plan['n']:,} of {plan['p']:,} inputs"),
        ("model", f"{plan['components']:,} components{stages}; a file of {format_bytes(plan['model_bytes'])} at most"),
        *plan["untried"].items(),
        ("readings", _readings(plan)),
        *([("row groups", plan["row_groups"])] if plan.get("row_groups") else []),
        ("memory", f"{worker}, {format_bytes(plan['client_bytes'])} client"),
        ("time", f"about {seconds:,} core seconds{on}; more than {enough:,} thread{'s' * (enough > 1)} do not help"),
        *([("cheaper", _cheaper(cheaper))] if (cheaper := plan.get("cheaper")) else []),
        ("disk", f"{checkpoint} with --checkpoint, {scratch} of scratch"),
    ]


def _cheaper(plan: Mapping[str, Any]) -> str:
    """Describe a plan of more components, which a sketch makes cheaper than the squares of fewer."""
    return (
        f"{plan['components']:,} components, of which a sketch is made in place of square matrices: "
        f"about {round(plan['core_seconds']):,} core seconds, {format_bytes(plan['client_bytes'])} client"
    )


def _readings(plan: Mapping[str, Any]) -> str:
    """Describe the readings: one if the rows stay in memory, else their number and that of local stages."""
    if plan.get("kept"):
        return "1: the rows stay in memory"
    more = plan.get("local_readings")
    if not more:
        return f"{plan['readings']:,}"
    return f"{plan['readings'] - more:,}, and {more:,} of {' and '.join(plan['local'])}"
