"""Interface of checkpoints; this base class stores nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class Journal:
    """The journal of a run without a checkpoint: every stage is computed.

    Examples
    --------
    >>> Journal().stage("survey", lambda: 3)
    3
    """

    keeps = False
    """True where this journal stores anything."""
    resumed: str | None = None
    """Where a run before this one had come to, in words; None where there was none."""

    def stage(self, name: str, compute: Callable[[], T], valid: Callable[[T], bool] | None = None) -> T:  # noqa: ARG002
        """The result of a stage: what a run before this one kept, where that is still valid, else what is computed."""
        return compute()

    def found(self, name: str) -> Any:  # noqa: ARG002
        """The stored value of a stage; None where there is none."""
        return None

    def parts(self, name: str) -> list[Any]:  # noqa: ARG002
        """The stored parts of an unfinished stage, in order."""
        return []

    def part(self, name: str, value: Any) -> None:
        """The next part of a stage."""

    def position(self, name: str, where: Callable[[Any], str]) -> Any:  # noqa: ARG002
        """The last state of a solver that was kept under this name, `where` in words; None where there is none."""
        return None

    def reached(self, name: str, state: Any) -> None:
        """The solver is in this state now."""

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around a solver: whatever ends it, its last state is kept."""
        yield

    def finish(self, result: Any) -> None:
        """The whole fit is done: all else may be forgotten."""

    def tidy(self) -> None:
        """Forget all but the result, as `finish` does: it may have been stopped on the way."""

    def scratch(self, folder: str | None) -> Path | None:  # noqa: ARG002
        """A folder for a copy of the data that outlives the run; None where nothing may."""
        return None
