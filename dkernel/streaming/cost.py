"""The cost of a stage of a fit, from sizes alone, and the measured speeds behind it.

Every stage states its `Cost` beside its code, and a plan is a sum over the stages (`training.planning.memory_plan`).
`scripts/bench/costs.py` measures the numbers of the table again: speeds by whole fits, and with `--numbers` the numbers
that can be measured alone. A number that a choice depends on is not changed, since another one would choose other
models.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

# --- the measured table, of one core of today

# Counted flops of a second, by the part of a fit: products of tiles and Cholesky factors in float32 are near the roof
# of a core, exponentials in float64 and walks through tables are not.
SPEEDS: Mapping[str, float] = {"survey": 15e9, "choice": 15e9, "global": 45e9, "grids": 12e9, "cells": 36e9}
SCORE_SPEED = 32e9  # the same of the scores of the global stage, which a local stage begins with
GRID_COLUMN_SECONDS = 1e-10  # of a row, a grid and a column, beside GRID_FLOPS
READ_BYTES = 150e6  # bytes of rows that are read from Parquet in a second
PARSED_BYTES = 24e6  # the same of CSV, which is parsed: 4.6 us a row of 28 numbers (scripts/bench/size.py)
# CPU seconds of the client and a scheduler together for one more call of a round (scripts/bench/workers.py). A busy
# machine takes twice as many; the number of workers that a fit uses depends on the root of it.
CALL_SECONDS = 3e-3
ASK_SECONDS = 0.02  # from a call to its result, by a worker that is idle

SURVEY_FLOPS = 400.0  # of a value: moments, quantiles of the reservoir, checks, digests
COMPONENT_FLOPS = 20.0  # of a component in float32 beside its product: the function and the work on it
# The same in float64, where an exponential with the passes over memory around it takes 13 ns, in flops of the speed of
# that part.
COMPONENT64_FLOPS: Mapping[str, float] = {"choice": 200.0, "global": 600.0}
L1_FLOPS = 30.0  # of a term of an L1 distance in float64, of the choice; one of a product is 2
EIGEN_FLOPS = 12  # times D^3: eigenvectors of the covariance, root of the metric and three products with it
SETUP_FLOPS = 6  # times D^3: the Gram matrix of six rows a component, and its factors
GRID_FLOPS = 48.0  # of a row and a grid for one output: some 4 ns, half of it the codes, which are made twice
TABLE_FLOPS = 60.0  # of a bin of a grid, whose sums are made, added and kept, and an output
CHOLESKY_SHARE = 0.25  # of the time of other flops that one of a Cholesky factorization in float32 takes
# Flops that take as long as a pair of rows of a cell: 4 ns for its kernel, and 2 ns for each round of the metric,
# whose gradients are those of half of the rows. One or three rounds are usual, 220 and 360 flops: this is their
# geometric mean.
PAIR_FLOPS = 280

# Memory of a process after its imports, as Dask counts it against the limit of a worker. It includes some 40 MiB to
# compile loops that are not on disk, as much for Python's bytecode if that is not there, and freed pages that the
# process keeps (dkernel.numerics.allocator).
WORKER_BASE = 340 * 2**20
CLIENT_BASE = 360 * 2**20  # the client has the scheduler's part too
THREADS_BASE = 230 * 2**20  # a process whose threads do the work has no scheduler


@dataclass(frozen=True)
class Cost:
    """The cost of a stage of a fit.

    Parameters
    ----------
    part : entry of SPEEDS that its flops count by
    flops : of its work
    readings : of all rows
    task_bytes : of each task that works at one time;  result_bytes : of what the client gets of each
    large_result : whether it takes longer to send a result than to make it
    shared_bytes : threads -> bytes of the tasks if these threads run in the process that takes the results, beside
        client_bytes; None if the bytes are those of workers
    row_bytes : of a row of the source;  kept_bytes : of a row that is kept in memory
    client_bytes : of the client meanwhile;  alone_bytes : of the client before the first and after the last task
    left_bytes : of the client while the stages after it work
    throughout_bytes : of each worker while any stage works;  client_throughout_bytes : of the client
    model_bytes : of its part of the model file, at most
    scratch_bytes : of disk, while it works
    checkpoint_bytes : of disk, of a run with a checkpoint
    more_seconds : of one core that budgets do not count
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
