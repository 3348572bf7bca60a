"""The cost of a stage of a fit, from sizes alone, and the measured speeds behind it.

Every stage states its `Cost` beside its code, and a plan is a sum over the stages (`training.planning.memory_plan`).
`scripts/bench/costs.py` measures the numbers of the table again: speeds by whole fits, and with `--numbers` the numbers
that can be measured alone. Numbers that a choice depends on are not changed, since other numbers would choose other
models.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

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
