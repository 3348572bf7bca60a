"""The machine of a fit, its workers and its client, as a plan counts with it."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from dkernel.numerics.resource_limits import available_memory, memory_limit
from dkernel.numerics.threads import usable_cores


@dataclass(frozen=True)
class Machine:
    """Workers and their client.

    Parameters
    ----------
    workers : address -> threads, in the order in which a part of the workers is used
    limits : address -> bytes that the worker may use, if it has a limit
    in_process : whether the process of the client is the only worker
    cores : cores that the client may use
    most_bytes, free_bytes : bytes that the client may use in all, and those that it can still get
    used_share : the share of their own memory limit that `limits` are: Dask begins no task on a worker that has more

    Examples
    --------
    >>> cluster = Machine({"a": 2, "b": 2, "c": 4}, {"b": 2**30})
    >>> cluster.slots, cluster.memory_limit
    (8, 1073741824)
    >>> [part.workers for part in cluster.parts(2)]
    [{'a': 2}, {'a': 2, 'b': 2}]
    """

    workers: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)
    in_process: bool = False
    cores: int = 1
    most_bytes: int = sys.maxsize
    free_bytes: int = sys.maxsize
    used_share: float = 1.0

    @classmethod
    def here(cls, workers: Mapping[str, int], limits: Mapping[str, int], in_process: bool) -> "Machine":
        """The machine with this process as the client."""
        return cls(workers, limits, in_process, usable_cores(), memory_limit(), available_memory())

    @property
    def slots(self) -> int:
        """Number of calls that run at once."""
        return sum(self.workers.values())

    @property
    def worker_threads(self) -> int:
        """Threads of each worker."""
        return self.slots // len(self.workers)

    @property
    def memory_limit(self) -> int | None:
        """Bytes that each worker may use, None without a limit."""
        return min((self.limits[worker] for worker in self.workers if worker in self.limits), default=None)

    @property
    def shares_memory(self) -> bool:
        """Whether tasks take the memory of the client; a limit counts those of a worker alone."""
        return self.in_process and not self.limits

    def prefers_client(self, large: bool) -> bool:
        """True if work on rows of the client is done faster there than by workers; `large` is for a large result."""
        # The rows are there already, and it takes longer to send a large result than to make it.
        return large and not self.in_process and self.cores >= self.slots

    def with_room(self, n_bytes: int) -> "Machine":
        """The machine without the workers whose limit is smaller."""
        small = {worker for worker, limit in self.limits.items() if limit < n_bytes}
        return replace(self, workers={worker: n for worker, n in self.workers.items() if worker not in small})

    def parts(self, least: int) -> Iterator["Machine"]:
        """Smaller machines, of `least` slots and more; none of one process, where an idle thread saves nothing."""
        while least < self.slots and not self.in_process:
            yield replace(self, workers=take_workers(self.workers, least))
            least *= 2


def take_workers(threads: Mapping[str, int], most: float) -> dict[str, int]:
    """The first workers, in their order, that have `most` threads together.

    Examples
    --------
    >>> take_workers({"a": 2, "b": 2, "c": 2}, 3)
    {'a': 2, 'b': 2}
    """
    before = accumulate(threads.values(), initial=0)
    return {worker: n for (worker, n), used in zip(threads.items(), before, strict=False) if used < most}
