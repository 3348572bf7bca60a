"""Interface of checkpoints, and of the states of solvers that they keep; the base class stores nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """State of a solver; a checkpoint holds the fields of a subclass that is `stored`.

    Parameters
    ----------
    history : lines of the rounds and judgements so far
    steps : number of steps that are stored in the journal and reported
    ended : True if a callback has stopped the solver
    """

    history: tuple[dict[str, Any], ...] = ()
    steps: int = 0
    ended: bool = False

    @property
    def done(self) -> int:
        """Rounds done of the pass that runs, 0 at its ends and for solvers without rounds."""
        return 0


class Journal:
    """The journal of a run without a checkpoint: every step is computed.

    Examples
    --------
    >>> Journal().step("survey", lambda: 3)
    3
    """

    keeps = False
    """True where this journal stores anything."""
    resumed: str | None = None
    """Progress of the run before this one, in words; None without one."""

    def step(self, name: str, compute: Callable[[], T]) -> T:  # noqa: ARG002
        """The result of a step: the one that an earlier run kept, or else a computed one."""
        return compute()

    def stored(self, name: str) -> Any:  # noqa: ARG002
        """The value that an earlier run stored for a step, or None."""
        return None

    def parts(self, name: str) -> list[Any]:  # noqa: ARG002
        """The stored parts of an unfinished step, in order."""
        return []

    def add_part(self, name: str, value: Any) -> None:
        """Store the next part of an unfinished step."""

    def last_state(self, name: str, where: Callable[[Any], str]) -> Any:  # noqa: ARG002
        """The last stored state of a solver, or None; `where` describes it in words."""
        return None

    def save_state(self, name: str, state: State) -> None:
        """Take note of the state that a solver has reached; every few states one is stored."""

    @contextmanager
    def save_on_error(self) -> Iterator[None]:
        """Store the last state of a solver when the block inside raises."""
        yield

    def finish(self, result: Any) -> None:
        """The whole fit is done: all else may be forgotten."""

    def tidy(self) -> None:
        """Forget all but the result, as `finish` does: it may have been stopped on the way."""

    def within(self, name: str) -> "Journal":
        """A part of this journal: its steps are those of `name` alone, and do not meet others of the same names."""
        return JournalPart(self, name)


class JournalPart(Journal):
    """A part of a journal, whose names begin with its own."""

    def __init__(self, whole: Journal, name: str) -> None:
        self.whole, self.name, self.keeps, self.resumed = whole, name, whole.keeps, whole.resumed

    def step(self, name: str, compute: Callable[[], T]) -> T:
        return self.whole.step(f"{self.name}-{name}", compute)

    def stored(self, name: str) -> Any:
        return self.whole.stored(f"{self.name}-{name}")

    def parts(self, name: str) -> list[Any]:
        return self.whole.parts(f"{self.name}-{name}")

    def add_part(self, name: str, value: Any) -> None:
        self.whole.add_part(f"{self.name}-{name}", value)

    def last_state(self, name: str, where: Callable[[Any], str]) -> Any:
        return self.whole.last_state(f"{self.name}-{name}", where)

    def save_state(self, name: str, state: State) -> None:
        self.whole.save_state(f"{self.name}-{name}", state)

    def save_on_error(self) -> Any:
        return self.whole.save_on_error()
