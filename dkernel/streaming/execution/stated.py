"""A cluster of which only the number of workers, threads and bytes is known, for a plan."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dkernel.streaming.execution.base import take_workers
from dkernel.streaming.execution.cluster import RemoteExecutor
from dkernel.streaming.execution.local import SerialExecutor


class PlannedCluster(RemoteExecutor, SerialExecutor):
    """A cluster with a given number of workers, for a plan; it computes calls in this process.

    Parameters
    ----------
    threads : worker -> its threads
    memory_limit : bytes of each worker
    """

    def __init__(self, threads: Mapping[str, int], memory_limit: int | None) -> None:
        super().__init__()
        self.memory_limit = memory_limit
        self._hold(threads)

    def _hold(self, threads: Mapping[str, int]) -> None:
        self._threads, self.slots = dict(threads), sum(threads.values())

    def processes(self) -> dict[str, int]:
        return self._threads

    @contextmanager
    def using(self, slots: int) -> Iterator[None]:
        before = self._threads
        self._hold(take_workers(before, slots))
        try:
            yield
        finally:
            self._hold(before)
