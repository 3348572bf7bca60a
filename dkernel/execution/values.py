"""Tasks on a cluster, as the client holds them; a task that is lost is submitted again."""

from collections.abc import Callable, Collection, Container
from typing import Any

from dkernel.errors import ClusterError
from dkernel.execution.base import Handle
from dkernel.execution.payload import Payload

RESUBMISSIONS = 5  # times that a task is submitted again

Future = Any  # a type of distributed, which has no types and is imported only where a cluster is used


class Remote(Handle):
    """A task on the cluster, of a call or of a value that calls need, with the way to submit it again.

    Parameters
    ----------
    key : of the first attempt
    submit : number of the attempt and worker, None for any -> future
    at : the worker to compute it on
    needs : values that the task takes
    value, payload : the value, where this process has it; it is sent with the first calls that need it
    """

    def __init__(
        self,
        key: str,
        submit: Callable[[int, str | None], Future],
        at: str | None = None,
        needs: Collection["Remote"] = (),
        value: Any = None,
        payload: Payload | None = None,
    ) -> None:
        self.key, self._submit, self.at, self.needs, self.value, self.payload = key, submit, at, needs, value, payload
        self.attempts = self.retries = 0
        self.future: Future = None

    def ensure(self) -> Future:
        """The future of the value, submitted anew when it was cancelled or released."""
        if self.future is not None and self.future.status in ("cancelled", "error"):
            self.recompute("it was cancelled")
        if self.future is None:
            self.future = self._submit(self.attempts, self.at)
        return self.future

    def count(self, why: str) -> None:
        """Count a loss; a ClusterError after too many."""
        self.attempts, self.at = self.attempts + 1, None
        if self.attempts > RESUBMISSIONS:
            raise ClusterError(
                f"The task {self.key!r} was lost {self.attempts} times ({why}). See what else uses the scheduler, and "
                "run the same command again."
            )

    def recompute(self, why: str) -> None:
        """Have the value computed again, by any worker, when it is next needed."""
        self.count(why)
        self.detach()

    def is_named(self, name: str) -> bool:
        """True if its task has this name on the cluster."""
        return self.future is not None and str(self.future.key) == name

    def is_stuck(self, workers: Container[str]) -> bool:
        """True if the task waits for a worker that is not among these, or its value was lost and is not there again."""
        return self.waits and (self.future.status == "lost" or (self.at is not None and self.at not in workers))

    @property
    def waits(self) -> bool:
        """True if its task was sent and has no end yet."""
        return self.future is not None and not self.future.done()

    def detach(self) -> list[Future]:
        """The future, if there is one, no longer held here."""
        future, self.future = self.future, None
        return [] if future is None else [future]
