"""The problem of a fit as its solvers get it, and the run that it is solved in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Event
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.data.scratch import Scratch
from dkernel.features.base import Coordinates
from dkernel.losses.scoring import BY_LOSS
from dkernel.model.journal import Journal
from dkernel.model.recipe import Recipe
from dkernel.numerics.array_types import F64
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.solvers.objective import LossStatistic, LossSums, Objective
from dkernel.solvers.reservoir_split import ReservoirSplit
from dkernel.solvers.sgd_round import PSGD, expand_coefficients
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.kept_block import KeptBlock
from dkernel.streaming.schedule import Partition, Schedule, cut_pieces, join_rounds
from dkernel.streaming.stored_rows import DiskFolder

Callback = Callable[[dict[str, Any]], Any]


@dataclass(eq=False)
class FitRun:
    """The executor, progress and journal of a fit.

    Parameters
    ----------
    key : key of all tasks, made of everything that decides their results
    callback : called with each line of the history as it is made; where it returns True the solver stops
    scratch : folder for rows on disk; where none is given each worker has its own
    chosen : setting that was left open -> its choice, in words
    stopped : set once the callback has said True; the runs of all ways of a fit share it
    """

    executor: Executor
    key: str
    progress: Any
    journal: Journal = field(default_factory=Journal)
    callback: Callback | None = None
    scratch: Scratch = field(default_factory=Scratch)
    chosen: dict[str, str] = field(default_factory=dict)
    stopped: Event = field(default_factory=Event)

    def listen(self, callback: Callback | None) -> None:
        """Let the solvers of the run call this, and know when it has said True."""

        if callback is None:
            return

        def call(line: dict[str, Any]) -> Any:
            answer = callback(line)
            if answer is True:
                self.stopped.set()
            return answer

        self.callback = call

    def disk_folder(self, key: str) -> DiskFolder:
        """The folder in which each process stores rows under this key."""
        beside = None if self.executor.processes() else self.scratch.beside
        return DiskFolder(self.scratch.given or beside, key)

    def note(self, name: str, text: str) -> None:
        """Store a choice."""
        self.chosen[name] = text


@dataclass(frozen=True, eq=False)
class SampledObjective:
    """An objective, and the rows of the sample by which its solver is prepared.

    Parameters
    ----------
    objective : of the rows of the source; leaves the holdout out
    coordinates : of the map
    split : rows of the reservoir, with the landmarks
    """

    run: FitRun
    objective: Objective
    coordinates: Coordinates
    split: ReservoirSplit

    @cached_property
    def on_sample(self) -> Objective:
        """The objective on the rows in `split`, which leaves none of them out."""
        return replace(self.objective, threshold=-1)

    def keep(self, block: Block, name: str) -> KeptBlock:
        """A block that the workers have until it is closed."""
        return KeptBlock(self.run.executor, block, f"{self.run.key}-{name}")

    def losses(self, block: KeptBlock, v: F64, name: str) -> LossSums:
        """Loss and right answers on a block, of each group of heads of v."""
        # A scorer sees all rows at once.
        size = PIECE_ROWS if self.objective.loss.scoring == BY_LOSS else block.n
        return block.fold(LossStatistic(self.on_sample), name, expand_coefficients(self.coordinates, v), size)


@dataclass(frozen=True, eq=False)
class Setup:
    """Preconditioners, step and start of the solvers that begin with them.

    Parameters
    ----------
    solver : for the alphas that are left
    start : fitted to the sample, (n + 1, heads)
    facts : figures of the preconditioners
    certificate : of the landmarks, where it is known
    sample_path : alpha -> loss on rows outside the sample, where several were tried
    unfinished : alphas that only a polish can tell from the best one, see `count_unfinished`
    """

    solver: PSGD
    start: F64 = field(default_factory=lambda: np.zeros(0))
    facts: Mapping[str, float] = field(default_factory=dict)
    certificate: dict[str, float] | None = None
    sample_path: dict[str, float] = field(default_factory=dict)
    unfinished: Sequence[float] = ()

    def without_factors(self) -> "Setup":
        """The setup without preconditioners, which no solver can begin with."""
        return replace(self, solver=replace(self.solver, preconditioners=()))


@dataclass(frozen=True, eq=False)
class FitProblem(SampledObjective):
    """The problem of a fit: loss, map, rows and preconditioners.

    Parameters
    ----------
    recipe : recipe of the way that is fitted
    reader : of the rows, in the order of the schedules
    alpha : a number or "auto"
    near : best alpha of the choice, None if the choice compared no alphas
    watched : whether the holdout is scored within a pass too
    setup : setup of the solver, which has no preconditioners if the solver needs none
    schedules : pieces of the rounds, one schedule for each pass; empty for a solver without rounds
    order : order of the rows, in words, if it is not the usual order
    """

    sizes: Sizes
    recipe: Recipe
    reader: BlockReader
    alpha: float | str
    near: float | None
    watched: bool
    setup: Setup
    schedules: Sequence[Schedule] = ()
    order: str = ""

    @property
    def pieces(self) -> Partition:
        """All pieces of the source."""
        if self.schedules:
            return join_rounds(self.schedules[0])
        return cut_pieces([unit.rows for unit in self.reader.source.units])
