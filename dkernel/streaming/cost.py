"""The cost of a stage of a fit, from sizes alone, the measured speeds behind it, and the machine of a fit.

Every stage states its `Cost` beside its code, every executor describes its `Machine`, and a plan is a sum over the
stages on a machine (`training.planning.memory_plan`). `scripts/bench/costs.py` measures the numbers of the table again:
speeds by whole fits, and with `--numbers` the numbers that can be measured alone. Numbers that a choice depends on are
not changed, since other numbers would choose other models.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from dkernel.numerics.resource_limits import available_memory, memory_limit
from dkernel.numerics.threads import usable_cores

# --- the measured table, of one core of today

# Flops per second, as they are counted, by the part of a fit: products of tiles and Cholesky factors in float32 are
# near the peak of a core, exponentials in float64 and reads from tables are not.
SPEEDS: Mapping[str, float] = {"survey": 15e9, "choice": 15e9, "global": 45e9, "grids": 12e9, "cells": 36e9}
SCORE_SPEED = 32e9  # flops per second of the scores of the global stage, which a local stage begins with
GRID_COLUMN_SECONDS = 1e-10  # seconds of a row, a grid and a column, beside GRID_FLOPS
READ_BYTES = 150e6  # bytes of rows that are read from Parquet in a second
PARSED_BYTES = 24e6  # bytes of CSV that are parsed in a second: 4.6 us a row of 28 numbers (scripts/bench/size.py)
# CPU seconds of the client and a scheduler together for one more call of a round (scripts/bench/workers.py). A busy
# machine takes twice as many; the number of workers that a fit uses depends on the root of this number.
CALL_SECONDS = 3e-3
ASK_SECONDS = 0.02  # seconds from a call to its result, by a worker that is idle

SURVEY_FLOPS = 400.0  # flops of a value: moments, quantiles of the reservoir, checks, digests
COMPONENT_FLOPS = 20.0  # flops of a component in float32 beside its product: the function and the work on it
# Flops of a component in float64, at the speed of each part: an exponential, with the passes over memory around it,
# takes 13 ns.
COMPONENT64_FLOPS: Mapping[str, float] = {"choice": 200.0, "global": 600.0}
L1_FLOPS = 30.0  # flops of a term of an L1 distance in float64, in the choice; a term of a product has 2
EIGEN_FLOPS = 12  # times D^3: eigenvectors of the covariance, root of the metric and three products with it
SETUP_FLOPS = 6  # times D^3: the Gram matrix of six rows a component, and its factors
GRID_FLOPS = 48.0  # flops of a row and a grid for one output: some 4 ns, half of it for the codes, made twice
TABLE_FLOPS = 60.0  # flops of a bin of a grid and an output: its sums are made, added and kept
CHOLESKY_SHARE = 0.25  # a flop of a Cholesky factorization in float32 takes this share of the time of other flops
# Flops that take as long as a pair of rows of a cell: 4 ns for its kernel, and 2 ns for each round of the metric, whose
# gradients are computed for half of the rows. One or three rounds are usual, which are 220 or 360 flops: this is their
# geometric mean.
PAIR_FLOPS = 280

# Memory of a process after its imports, as Dask counts it against the limit of a worker. It includes some 40 MiB for
# compiling loops that are not on disk, as much for Python's bytecode if that is not on disk, and freed pages that the
# process keeps (dkernel.numerics.allocator).
WORKER_BASE = 340 * 2**20
CLIENT_BASE = 360 * 2**20  # includes the scheduler's part
THREADS_BASE = 230 * 2**20  # a process whose threads do the work has no scheduler


@dataclass(frozen=True)
class Cost:
    """The cost of a stage of a fit.

    Parameters
    ----------
    part : entry of SPEEDS that its flops count by
    flops : flops of its work
    readings : readings of all rows
    task_bytes : bytes of each task that runs;  result_bytes : bytes of the result that the client gets of each
    large_result : whether it takes longer to send a result than to make it
    shared_bytes : threads -> bytes of the tasks if these threads run in the process that takes the results, beside
        client_bytes; None if the bytes are those of workers
    row_bytes : bytes of a row of the source;  kept_bytes : bytes of a row that is kept in memory
    client_bytes : bytes of the client while tasks run;  alone_bytes : before the first and after the last task
    left_bytes : bytes of the client while the later stages run
    throughout_bytes : bytes of each worker while any stage runs;  client_throughout_bytes : bytes of the client then
    model_bytes : most bytes of its part of the model file
    scratch_bytes : bytes of disk while it runs
    checkpoint_bytes : bytes of disk of a run with a checkpoint
    more_seconds : seconds of one core that budgets do not count
    """

    part: str = "global"
    flops: float = 0.0
    readings: int = 0
    task_bytes: int = 0
    result_bytes: int = 0
    large_result: bool = False
    shared_bytes: Callable[[int], int] | None = None
    row_bytes: int = 0
    kept_bytes: int = 0
    client_bytes: int = 0
    alone_bytes: int = 0
    left_bytes: int = 0
    throughout_bytes: int = 0
    client_throughout_bytes: int = 0
    model_bytes: int = 0
    scratch_bytes: int = 0
    checkpoint_bytes: int = 0
    more_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of one core.

        Examples
        --------
        >>> Cost(part="global", flops=9e10).seconds
        2.0
        """
        return self.flops / SPEEDS[self.part]


def core_seconds(costs: Iterable[Cost]) -> float:
    """Seconds that one core is predicted to take for some stages.

    Examples
    --------
    >>> core_seconds([Cost("global", 9e10), Cost("choice", 3e10)])
    4.0
    """
    return sum(cost.seconds for cost in costs)


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
