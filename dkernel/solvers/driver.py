"""The loop of all solvers: plan a reading, make it, advance the state, store and report it.

A solver is a state machine. Its state is a frozen dataclass of arrays and counters, `plan` returns the next reading,
and `advance` is a pure function of the state and the result of the reading. So every solver is stopped, resumed and
reported in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from dkernel.model.journal import Journal, State
from dkernel.model.serialization import stored
from dkernel.numerics.array_types import F64
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.solvers.batch_methods import STEP_LENGTHS
from dkernel.solvers.fit_problem import FitProblem, FitRun
from dkernel.solvers.objective import LossSums
from dkernel.solvers.sizes import Sizes, pass_flops
from dkernel.solvers.targets import Targets
from dkernel.streaming.cost import Cost
from dkernel.streaming.execution.base import Handle
from dkernel.streaming.kept_block import KeptBlock
from dkernel.streaming.reduction import Statistic

HEADS = 8  # most pairs of an alpha and a share of the step that go through the passes

R = TypeVar("R")


@stored("SolverResult")
@dataclass(frozen=True, eq=False)
class SolverResult:
    """Coefficients of a solver, and the figures of the holdout.

    Parameters
    ----------
    v : (n + 1, outputs)
    tried : alpha -> loss on rows that were not learned from, for all alphas that were tried
    facts : figures for the model
    variance : variance of a ridge regression, in the solver's coordinates and the targets' unit
    left_out : for a solver without a holdout, of each fold: "rows", the numbers of its rows in the sample, and "fits",
        the coefficients (n_components + 1, outputs) of a fit without them
    unfinished : alpha -> v of fits that a polish has to finish before they can be judged
    """

    v: F64
    alpha: float
    share: float
    iterate: str
    history: list[dict[str, Any]]
    holdout: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)
    variance: dict[str, Any] | None = None
    tried: Mapping[str, float] = field(default_factory=dict)
    left_out: dict[str, Any] | None = None
    unfinished: Mapping[float, F64] = field(default_factory=dict)


@stored("OneStepState")
@dataclass(frozen=True, eq=False)
class OneStepState(State):
    """State of a solver of one step: its result; None before the step."""

    result: SolverResult | None = None


S = TypeVar("S", bound=State)


class StateMachine(ABC, Generic[S, R]):
    """A solver of a fit, or grids, as the loop drives it."""

    @abstractmethod
    def start(self) -> S:
        """The state before the first reading."""

    @abstractmethod
    def plan(self, state: S) -> Callable[[], Any] | None:
        """The next reading; None at the end."""

    @abstractmethod
    def advance(self, state: S, result: Any) -> S:
        """The state after the reading that was planned, from its result."""

    @abstractmethod
    def finish(self, state: S) -> R:
        """The result of the last state."""

    @abstractmethod
    def load(self, journal: Journal) -> S | None:
        """The last state in the journal; None if it has none."""

    @abstractmethod
    def save(self, journal: Journal, state: S) -> None:
        """Save a state in the journal."""


class Solver(StateMachine[S, SolverResult]):
    """A solver of a fit; a new one is a file with a subclass, and a line in `dkernel.model.solver_table`."""

    phase: ClassVar[str]
    """Name of its states in a checkpoint."""

    def __init__(self, problem: FitProblem) -> None:
        self.problem, self.key = problem, f"{problem.run.key}-fit"
        self._shown = ""
        self._handles: dict[str, Handle] = {}
        self._holdout: KeptBlock | None = None

    def close(self) -> None:
        """Let the workers forget what the solver has given them."""
        self.problem.run.executor.release(self._handles.values())
        self._handles.clear()
        if self._holdout is not None:
            self._holdout.close()

    def reduce_all(self, statistic: Statistic[Any, R], value: Any, name: str) -> R:
        """The statistic of all rows.

        Parameters
        ----------
        value : value that its steps get beside the rows
        name : name in the keys of the tasks
        """
        problem, executor = self.problem, self.problem.run.executor
        kind, key = type(statistic).__name__, f"{self.key}-{name}"
        if kind not in self._handles:  # every reading of a solver needs it again
            self._handles[kind] = executor.keep(statistic, f"{self.key}-{kind}")
        with executor.broadcast(value, key) as broadcast:
            return problem.reader.fold(
                statistic, problem.pieces, key, problem.run.progress, handle=self._handles[kind], broadcast=broadcast
            )

    def judge(self, v: F64, name: str) -> LossSums | None:
        """Loss and right answers on the holdout, for each group of heads of v; None where there is none."""
        if not len(self.problem.split.holdout.X):
            return None
        if self._holdout is None:
            self._holdout = self.problem.keep(self.problem.split.holdout, "holdout")
        return self.problem.losses(self._holdout, v, name)

    def load(self, journal: Journal) -> S | None:
        state: S | None = journal.last_state(self.phase, self.where)
        return state

    def save(self, journal: Journal, state: S) -> None:
        journal.save_state(self.phase, state)

    def show(self, name: str, rows: Callable[[], int], key: str = "", **more: Any) -> None:
        """Show a phase once for all readings in a row that have the same name and key."""
        if self._shown != name + key:
            self._shown = name + key
            self.problem.run.progress.phase(name, rows(), **more)

    def where(self, state: S) -> str:
        """The state in words, for a run that continues from it."""
        return f"step {state.steps} of {self.phase}"

    @classmethod
    def readings(cls, sizes: Sizes) -> int:
        """Readings of all rows that a fit plans for."""
        return sizes.passes

    @classmethod
    def flops(cls, sizes: Sizes, outputs: int) -> float:
        """Predicted flops of a reading."""
        return pass_flops(sizes.n, sizes.p, sizes.components) + 4.0 * outputs * sizes.n * sizes.components

    @classmethod
    def squares(cls, columns: int) -> int:  # noqa: ARG003
        """Matrices of all pairs of columns that a task of a reading sums."""
        return 0

    @classmethod
    def client_squares(cls, columns: int) -> int:
        """Matrices of all pairs of columns that the client has at one time while it solves without a preconditioner."""
        return 14 + cls.squares(columns)

    @classmethod
    def cost(cls, sizes: Sizes, outputs: int, task_rows: int) -> Cost:
        """Cost of all readings.

        A task holds a tile of rows with its gradient. If it sums squares, its tree has a sum for each level, the one
        that comes, and what its share begins with where that is no whole node; the client has the sums of all tasks.

        Parameters
        ----------
        task_rows : rows of the largest task
        """
        D, readings = sizes.components, cls.readings(sizes)
        sums = 8 * cls.squares(D) * D**2
        tree = sums * ((task_rows // PIECE_ROWS).bit_length() + 2)
        return Cost(
            flops=readings * cls.flops(sizes, outputs),
            readings=readings,
            task_bytes=tree + tile_bytes(D, outputs),
            result_bytes=4 * sums,
            model_bytes=sizes.model_bytes(outputs),
        )


def tile_bytes(columns: int, outputs: int) -> int:
    """Bytes of a tile of rows, and of coefficients and gradients at the points that one reading compares."""
    return 4 * 256 * columns + 12 * len(STEP_LENGTHS) * columns * HEADS * outputs


def best_of_alphas(
    targets: Targets, alphas: Sequence[float], sums: LossSums | None, name: str
) -> tuple[dict[str, float], tuple[dict[str, Any], ...]]:
    """Figures of the best of some alphas, by the losses of `Solver.judge`, and the line of the history."""
    if sums is None:
        return {}, ()
    losses = sums.loss / sums.weight
    i = int(np.argmin(losses))
    figures = {"loss": float(losses[i]), "rows": int(sums.n)}
    figures |= targets.merit(float(sums.right[i]), sums.n)
    path = {f"{alpha:g}": float(loss) for alpha, loss in zip(alphas, losses, strict=True)}
    line = {"holdout": name, "iterate": name, "alpha": alphas[i], "share_of_step": 1.0, **figures, "path": path}
    return figures, (line,)


def solve(machine: StateMachine[S, R], run: FitRun) -> R:
    """Run a solver from its start, or from its last state in the journal of the run, and return its result."""
    journal, callback = run.journal, run.callback
    state = machine.load(journal) or machine.start()
    with journal.save_on_error():
        while (reading := machine.plan(state)) is not None:
            before, state = state, machine.advance(state, reading())
            if state.steps == before.steps:
                continue
            machine.save(journal, state)
            # Every line is reported; a callback may end the run then.
            if callback is not None and True in [callback(dict(line)) for line in state.history[len(before.history) :]]:
                state, callback = replace(state, ended=True), None
    return machine.finish(state)
