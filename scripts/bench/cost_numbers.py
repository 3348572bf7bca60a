"""Single numbers of the table of `streaming.cost`, each measured alone; `costs.py --numbers` prints them beside it.

Flops are CPU seconds of one thread times the table's flops a second of that part. The other flops of the table are
counts of a stage's work (SURVEY_FLOPS, COMPONENT_FLOPS, SETUP_FLOPS, EIGEN_FLOPS, GRID_FLOPS, TABLE_FLOPS, PAIR_FLOPS):
with the speed of their part they are one measurement, which `costs.py` makes of whole fits. CALL_SECONDS is that of
`workers.py`.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from dkernel.data.opening import open_source
from dkernel.features import Scaling
from dkernel.features.nystrom import NystromMap
from dkernel.kernels import Gaussian, Kernel, Laplacian
from dkernel.model.local.binning import Binning
from dkernel.model.model import ScaledComponents
from dkernel.numerics.linalg import factor_matrix
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming import cost
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.connect import connect
from dkernel.training.local_stages import LOCAL_PIECE_ROWS

REPEATS = 3  # timings, of which the least counts
ROWS, COLUMNS, GRIDS = 2048, 28, 16
FILE_ROWS = 200_000
ASKED = 50  # calls of a worker, of which the median counts

# The first fit of a process, whose memory is then what it holds without any data.
FIRST_FIT = """
import time
import numpy as np, psutil
import dkernel.cli.train
from dkernel.data.collections.arrays import from_arrays
from dkernel.streaming.execution.connect import connect
from dkernel.model.recipe import Recipe
from dkernel.training.fit import train
X = np.random.default_rng(0).standard_normal((1000, 3)).astype(np.float32)
given = {"kernel": "gaussian", "gamma": 0.1, "local": "none", "n_components": 64, "solver": "psgd"}
with connect(workers=WORKERS, memory_limit=None) as executor:
    train(from_arrays(X, (X[:, 0] > 0).astype(int)), Recipe(**given), executor)
    time.sleep(2.0)  # a worker tells its memory once or twice a second
    print(psutil.Process().memory_info().rss, executor.worker_memory() or 0)
"""


def seconds_of(work: Callable[[], object]) -> float:
    """Least CPU seconds of some calls, after one that is not counted."""
    work()
    took = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return min(took)


def component_numbers() -> Iterator[tuple[str, float]]:
    """Flops of a component in float64 beside its product, and of a term of an L1 distance."""
    rng = np.random.default_rng(0)
    X, Z = (rng.standard_normal((n, COLUMNS), dtype=np.float32) for n in (8 * ROWS, ROWS))
    product = 2 * COLUMNS

    def seconds_each(kernel: Kernel) -> float:
        components = ScaledComponents(Scaling("none", np.zeros(COLUMNS), np.ones(COLUMNS)), NystromMap(kernel, Z))
        return seconds_of(lambda: components.with_intercept(X, "float64")) / (len(X) * len(Z))

    gaussian, laplacian = seconds_each(Gaussian(0.02)), seconds_each(Laplacian(0.02))
    for part in cost.COMPONENT64_FLOPS:
        yield f"COMPONENT64_FLOPS of {part}", gaussian * cost.SPEEDS[part] - product
    yield "L1_FLOPS", ((laplacian - gaussian) * cost.SPEEDS["choice"] + product) / COLUMNS


def grid_numbers() -> Iterator[tuple[str, float]]:
    """Seconds of a row, a grid and a column."""
    rng = np.random.default_rng(0)
    took, n = {}, LOCAL_PIECE_ROWS
    for p in (COLUMNS // 4, COLUMNS):
        X = np.asfortranarray(rng.standard_normal((n, p), dtype=np.float32))
        binning = Binning.draw(0.1, p, GRIDS, bits=16)
        took[p] = seconds_of(lambda X=X, binning=binning: binning.codes(X)) / n / GRIDS
    yield "GRID_COLUMN_SECONDS", (took[COLUMNS] - took[COLUMNS // 4]) / (COLUMNS - COLUMNS // 4)


def factor_numbers() -> Iterator[tuple[str, float]]:
    """Share of the time of other flops that one of a factorization takes."""
    A = np.eye(2 * ROWS, dtype=np.float32) * 2 + np.float32(1e-4)
    took = seconds_of(lambda: factor_matrix(A.copy()))
    yield "CHOLESKY_SHARE", took * cost.SPEEDS["cells"] / (len(A) ** 3 / 3)


def file_numbers() -> Iterator[tuple[str, float]]:
    """Bytes of rows that are read in a second, from Parquet and from CSV."""
    X = np.random.default_rng(0).standard_normal((FILE_ROWS, COLUMNS), dtype=np.float32)
    table = pa.table({f"x{i}": X[:, i] for i in range(COLUMNS)} | {"label": (X[:, 0] > 0).astype(np.int64)})
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(table, Path(folder, "rows.parquet"))
        csv.write_csv(table, Path(folder, "rows.csv"))
        for name, file in (("READ_BYTES", "rows.parquet"), ("PARSED_BYTES", "rows.csv")):
            source = open_source(Path(folder, file), label="label")
            read = seconds_of(lambda units=source.units: [unit.task.compute(scheduler="sync") for unit in units])
            yield name, source.nbytes / read


def process_numbers() -> Iterator[tuple[str, float]]:
    """Memory of each kind of process, and the seconds to ask a worker."""
    yield "THREADS_BASE", _memory("None")[0]
    client, worker = _memory("1")
    yield "CLIENT_BASE", client
    yield "WORKER_BASE", worker
    with connect(workers=1) as executor:
        took = []
        for number in range(ASKED):
            began = time.perf_counter()
            executor.compute([Call(f"cost-numbers-{number}", pow, (number, 2))])
            took.append(time.perf_counter() - began)
    yield "ASK_SECONDS", float(np.median(took))


def _memory(workers: str) -> tuple[float, float]:
    """Bytes of a client after a fit, and of the worker that it has."""
    code = FIRST_FIT.replace("WORKERS", workers)
    guarded = f"if __name__ == '__main__':\n{indent(code, ' ')}"  # a worker imports the main module again
    said = subprocess.run([sys.executable, "-c", guarded], check=True, capture_output=True, text=True)
    client, worker = said.stdout.split()[-2:]
    return float(client), float(worker)


def numbers() -> list[dict[str, Any]]:
    """Each number of the table beside what it is here."""
    found = []
    with one_blas_thread():
        for measure in (component_numbers, grid_numbers, factor_numbers, file_numbers):
            found += list(measure())
    found += list(process_numbers())
    lines = []
    for name, here in found:
        value = getattr(cost, name.split()[0])
        table = value[name.split()[-1]] if isinstance(value, dict) else value
        lines.append({"number": name, "table": table, "here": here, "times": here / table})
    return lines
