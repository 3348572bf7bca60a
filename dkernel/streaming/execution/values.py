"""Handles of tasks on a cluster; a task that is lost is submitted again."""

import threading
from collections.abc import Callable, Collection, Container, Iterator
from typing import Any, ClassVar
from weakref import WeakSet

from dkernel.errors import ClusterError
from dkernel.streaming.execution.base import Handle
from dkernel.streaming.execution.payload import Payload

RESUBMISSIONS = 5  # times that a task is submitted again

Future = Any  # a type of distributed, which has no types and is imported only where a cluster is used


class Remote(Handle):
    """A task on the cluster, for a call or for a value that calls need, with a function to submit it again.

    Parameters
    ----------
    key : key of the first attempt
    submit : number of the attempt and worker, None for any -> future
    at : the worker to compute it on
    needs : values that the task takes
    value, payload : the value, if this process has it; it is sent with the first calls that need it
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
        """Return the future of the value; submit the task again if it was cancelled or released."""
        if self.future is not None and self.future.status in ("cancelled", "error"):
            self.count("it was cancelled")
            self.detach()
        if self.future is None:
            self.future = self._submit(self.attempts, self.at)
        return self.future

    def count(self, why: str) -> None:
        """Count a loss; raise a ClusterError after too many."""
        self.attempts, self.at = self.attempts + 1, None
        if self.attempts > RESUBMISSIONS:
            raise ClusterError(
                f"The task {self.key!r} was lost {self.attempts} times ({why}). See what else uses the scheduler, and "
                "run the same command again."
            )

    def is_stuck(self, workers: Container[str]) -> bool:
        """True if the task waits for a worker that is not among these, or its value is lost."""
        future = self.future  # the run that has it may release it meanwhile, in another thread
        if future is None or future.done():
            return False
        return future.status == "lost" or (self.at is not None and self.at not in workers)

    @property
    def waits(self) -> bool:
        """True if its task was sent and has not ended."""
        return self.future is not None and not self.future.done()

    def detach(self) -> list[Future]:
        """Give up the future, and return it if there is one."""
        future, self.future = self.future, None
        return [] if future is None else [future]


class RemoteSet:
    """The values that a run has on a cluster; other runs of its client, in other threads, can read the set.

    The tasks of a Dask collection keep their names, so runs of one client that read the same one share them.
    """

    _every: ClassVar["WeakSet[RemoteSet]"] = WeakSet()
    _lock: ClassVar = threading.Lock()

    def __init__(self, client: Any) -> None:
        self._client, self._values = client, WeakSet[Remote]()
        with self._lock:
            self._every.add(self)

    def add(self, value: Remote) -> Remote:
        """Add a value, and return it."""
        with self._lock:
            self._values.add(value)
        return value

    def __iter__(self) -> Iterator[Remote]:
        with self._lock:
            return iter(list(self._values))

    def of_others(self, keys: Container[str]) -> list[Remote]:
        """The values that other runs of the client have sent under these keys."""
        with self._lock:
            others = [run for run in self._every if run is not self and run._client is self._client]
            return [value for run in others for value in run._values if value.key in keys and value.future is not None]
