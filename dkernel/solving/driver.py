"""The loop of all solvers: plan a reading, make it, advance the state, keep the state and tell of it.

A solver is a state machine. Its state is a frozen dataclass of arrays and counters, `plan` says which reading it wants
next, and `advance` is a pure function of the state and what the reading gave. So every solver is stopped, resumed and
followed in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.execution.base import Handle
from dkernel.linear.solvers.catalogue import SOLVERS
from dkernel.persistence.journal import Journal
from dkernel.persistence.serialization import stored
from dkernel.problem.objective import LossSums
from dkernel.problem.sizes import Sizes, flops_of
from dkernel.recipe import Recipe
from dkernel.solving.sgd_setup import Prepared, SampleEvaluator, evaluate_candidates
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice, Schedule, cut_pieces

__all__ = [
    "ClientWork",
    "Context",
    "Found",
    "FullReading",
    "HoldoutReading",
    "Phase",
    "Reading",
    "RoundReading",
    "Solver",
    "SolverResult",
    "Told",
    "judged",
    "solve",
    "solver_class",
]

Array = NDArray[np.float64]
Told = Callable[[dict[str, Any]], Any]


@stored("Outcome")
@dataclass(frozen=True, eq=False)
class SolverResult:
    """Coefficients of a solver, and what is known of them.

    Parameters
    ----------
    v : (n + 1, outputs)
    tried : the alphas that this one was chosen from
    facts : for the model
    variance : of a ridge regression, of its own error, in the solver's coordinates and the targets' unit
    """

    v: Array
    alpha: float
    share: float
    iterate: str
    history: list[dict[str, Any]]
    holdout: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)
    variance: dict[str, Any] | None = None
    tried: Sequence[float] = ()


@dataclass(frozen=True, eq=False)
class Context:
    """Data and settings of a fit, as its solvers get them.

    Parameters
    ----------
    bench : of the problem that leaves the holdout out
    inside : of the problem that knows no holdout, by which its rows are judged
    schedules : pieces of the rounds, one schedule a pass; none for a solver without rounds
    sample : rows of the training
    holdout : handle of the holdout's block and its rows, None for none
    tell : called with each line of the history as it is made; where it returns True the solver stops
    watched : whether the holdout is to be judged within a pass too
    """

    recipe: Recipe
    sizes: Sizes
    prepared: Prepared
    bench: SampleEvaluator
    inside: SampleEvaluator
    feed: BlockReader
    schedules: Sequence[Schedule]
    sample: Block
    holdout: tuple[Handle, int] | None
    progress: Any
    journal: Journal = field(default_factory=Journal)
    tell: Told | None = None
    watched: bool = False

    @property
    def pieces(self) -> Sequence[RowSlice]:
        """All pieces of the source."""
        if self.schedules:
            return tuple(piece for turn in self.schedules[0].rounds for piece in turn)
        return cut_pieces([unit.rows for unit in self.feed.source.units])

    @contextmanager
    def kept(self, value: Any, key: str) -> Iterator[Handle]:
        """The handle of a value while it is needed."""
        handle = self.bench.executor.keep(value, f"{self.bench.key}-{key}")
        yield handle
        self.bench.executor.release([handle])


@dataclass(frozen=True)
class Phase:
    """What progress shows of a reading and those after it of the same phase.

    Parameters
    ----------
    key : tells phases of one name apart
    rows : how many are to be read in it
    """

    name: str
    rows: Callable[[], int | None] = field(default=lambda: None, compare=False)
    more: Mapping[str, Any] = field(default_factory=dict, compare=False)
    key: str = ""


@dataclass(frozen=True, eq=False)
class Reading(ABC):
    """What a solver wants to know next.

    Parameters
    ----------
    key : of its tasks, within the fit
    """

    key: str
    phase: Phase | None = field(default=None, kw_only=True)
    statistic: Statistic[Any, Any] | None = field(default=None, kw_only=True)
    broadcast: Any = field(default=None, kw_only=True)

    @abstractmethod
    def total(self, context: Context, held: Handle | None, broadcast: Handle | None) -> Any:
        """The result, for `Solver.advance`.

        Parameters
        ----------
        held, broadcast : handles of the statistic and of what its steps get
        """


@dataclass(frozen=True, eq=False)
class RoundReading(Reading):
    """The statistic of the pieces of a round; with the result of `beside`, which is computed here meanwhile.

    Parameters
    ----------
    following : pieces that are read ahead
    """

    pieces: Sequence[RowSlice]
    following: Sequence[RowSlice]
    beside: Callable[[], Any]

    def total(self, context: Context, held: Handle | None, broadcast: Handle | None) -> Any:
        assert self.statistic is not None
        key = f"{context.bench.key}-{self.key}"
        with ThreadPoolExecutor(1) as meanwhile:
            beside = meanwhile.submit(self.beside)
            found = context.feed.reduce(
                self.statistic, self.pieces, key, following=self.following, held=held, broadcast=broadcast
            )
        return found, beside.result()


@dataclass(frozen=True, eq=False)
class FullReading(Reading):
    """The statistic of all rows."""

    def total(self, context: Context, held: Handle | None, broadcast: Handle | None) -> Any:
        assert self.statistic is not None
        key = f"{context.bench.key}-{self.key}"
        return context.feed.fold(self.statistic, context.pieces, key, context.progress, held=held, broadcast=broadcast)


@dataclass(frozen=True, eq=False)
class HoldoutReading(Reading):
    """Loss and right answers on the holdout, for each group of heads of v; None where there is none."""

    v: Array

    def total(self, context: Context, held: Handle | None, broadcast: Handle | None) -> LossSums | None:  # noqa: ARG002
        if context.holdout is None:
            return None
        return evaluate_candidates(context.inside, *context.holdout, self.v, self.key)


@dataclass(frozen=True, eq=False)
class ClientWork(Reading):
    """A step that reads nothing."""

    compute: Callable[[], Any]

    def total(self, context: Context, held: Handle | None, broadcast: Handle | None) -> Any:  # noqa: ARG002
        return self.compute()


class State(Protocol):
    """What every state of a solver has.

    Parameters
    ----------
    history : lines of the rounds and judgements so far
    steps : that are kept in the journal and told of
    done : rounds of the pass that runs, 0 at its ends
    """

    @property
    def history(self) -> tuple[dict[str, Any], ...]: ...
    @property
    def steps(self) -> int: ...
    @property
    def done(self) -> int: ...


@stored("Found")
@dataclass(frozen=True, eq=False)
class Found:
    """State of a solver of one step: its value, None before it, and then the holdout's figures."""

    value: dict[str, Any] | None = None
    history: tuple[dict[str, Any], ...] = ()
    holdout: dict[str, float] | None = None
    steps: int = 0
    done: int = 0


S = TypeVar("S", bound=State)


class Solver(ABC, Generic[S]):
    """A solver of a fit; a new one is a file with a subclass, and a line in `dkernel.linear.solvers.catalogue`."""

    stage: ClassVar[str]
    """Name of its states in a checkpoint."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @abstractmethod
    def start(self) -> S:
        """The state before the first reading."""

    @abstractmethod
    def plan(self, state: S) -> Reading | None:
        """The next reading; None at the end."""

    @abstractmethod
    def advance(self, state: S, found: Any) -> S:
        """The state after the reading that was planned; `found` is its result."""

    @abstractmethod
    def finish(self, state: S) -> SolverResult:
        """The result of the last state."""

    def stop(self, state: S) -> S:
        """The state from which somebody wants no more readings than it takes to end."""
        return state

    def where(self, state: S) -> str:
        """The state in words, for a run that goes on from it."""
        return f"step {state.steps} of {self.stage}"

    @classmethod
    def readings(cls, sizes: Sizes) -> int:
        """Readings of all rows that a fit plans for."""
        return sizes.passes

    @classmethod
    def flops(cls, sizes: Sizes, outputs: int) -> float:
        """Predicted, of a reading."""
        return flops_of(sizes.n, sizes.p, sizes.columns) + 4.0 * outputs * sizes.n * sizes.columns

    @classmethod
    def squares(cls, columns: int) -> int:  # noqa: ARG003
        """Matrices of all pairs of columns that a task of a reading sums."""
        return 0


def judged(
    context: Context, alphas: Sequence[float], found: LossSums | None, name: str
) -> tuple[dict[str, float], tuple[dict[str, Any], ...]]:
    """Figures of the best of some alphas by a `HoldoutReading` of their coefficients, and the line of the history."""
    if found is None:
        return {}, ()
    losses = found.loss / found.weight
    i = int(np.argmin(losses))
    figures = {"loss": float(losses[i]), "rows": int(found.n)}
    figures |= context.bench.problem.targets.merit(float(found.right[i]), found.n)
    path = {f"{alpha:g}": float(loss) for alpha, loss in zip(alphas, losses, strict=True)}
    line = {"holdout": name, "iterate": name, "alpha": alphas[i], "share_of_step": 1.0, **figures, "path": path}
    return figures, (line,)


def solver_class(name: str) -> type[Solver[Any]]:
    """The class of a solver of the catalogue."""
    module, _, of = SOLVERS[name].implementation.partition(":")
    found: type[Solver[Any]] = getattr(import_module(module), of)
    return found


def solve(solver: Solver[Any], context: Context) -> SolverResult:
    """The result of a solver, from its start or from where the journal has it."""
    journal, tell, shown = context.journal, context.tell, None
    state = journal.position(solver.stage, solver.where) or solver.start()
    handles: dict[str, Handle | None] = {"NoneType": None}
    with journal.kept(), ExitStack() as stack:
        while (reading := solver.plan(state)) is not None:
            if reading.phase is not None and reading.phase != shown:
                shown = reading.phase
                context.progress.phase(shown.name, shown.rows(), **shown.more)
            name = type(reading.statistic).__name__
            if name not in handles:
                handles[name] = stack.enter_context(context.kept(reading.statistic, f"{solver.stage}-{name}"))
            with ExitStack() as sent:
                at = None if reading.broadcast is None else context.kept(reading.broadcast, reading.key)
                found = reading.total(context, handles[name], sent.enter_context(at) if at else None)
            before, state = state, solver.advance(state, found)
            if state.steps == before.steps:
                continue
            journal.reached(solver.stage, state)
            # Every line is told, and then somebody may have had enough.
            if tell is not None and True in [tell(dict(line)) for line in state.history[len(before.history) :]]:
                state, tell = solver.stop(state), None
    return solver.finish(state)
