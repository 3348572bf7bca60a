"""Values on a cluster, as the client holds them; a value that is lost is computed again."""

from collections.abc import Callable
from typing import Any

from dkernel.errors import ClusterError
from dkernel.execution.base import Call, Handle
from dkernel.execution.payload import Payload

LOSSES = 5  # times that a call or a value is computed again

Future = Any  # a type of distributed, which has no types and is imported only where a cluster is used


class Remote(Handle):
    """A value on the cluster, with the way to compute it again.

    Parameters
    ----------
    submit : number of the attempt and worker, None for any -> future
    at : the worker to compute it on
    payload : the value, where this process has it; it is sent with the first calls that need it
    """

    def __init__(
        self, submit: Callable[[int, str | None], Future], at: str | None = None, value: Any = None,
        payload: Payload | None = None,
    ) -> None:  # fmt: skip
        self._submit, self.at, self.value, self.payload = submit, at, value, payload
        self.attempts = 0
        self.future: Future | None = None

    def ensure(self) -> Future:
        """The future of the value, submitted anew when it was lost or released."""
        if self.future is not None and self.future.status in ("cancelled", "lost", "error"):
            self.recompute()
        if self.future is None:
            self.future = self._submit(self.attempts, self.at)
        return self.future

    def recompute(self) -> None:
        """Have the value computed again, by any worker, when it is next needed."""
        if self.attempts == LOSSES:
            raise ClusterError(f"A value was lost {LOSSES + 1} times. Run the same command again.")
        self.attempts, self.at = self.attempts + 1, None
        self.detach()

    def detach(self) -> list[Future]:
        """The future, if there is one, no longer held here."""
        future, self.future = self.future, None
        return [] if future is None else [future]


class Work:
    """A call that was sent: its future, and how often it was."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.attempts = 0
        self.retries = 0
        self.needs: list[Remote] = []
        self.future: Future = None
