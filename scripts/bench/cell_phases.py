"""Cells as a job: how near the factorizations come to LAPACK's, what a second process brings, and what a row costs.

Rows of 28 columns are written as NPY (scripts/make_data.py) and `dkernel train --local cells` runs on them as a user
runs it. *Processes*: the same job by 1 and by 2 worker processes, whose models must be the same bytes; GFLOP/s are
those of the Cholesky factorizations over all seconds of the phase in which cells are fitted, beside a bare spotrf of a
matrix of the mean size on as many threads, in the same run. *Rows*: the job by 2 processes at --rows and at --large
rows, for the microseconds of a row and the peak memory.

    python scripts/bench/cell_phases.py                      # 200,000 rows; then 1 and 10 million in 2 GiB, hours
    python scripts/bench/cell_phases.py --rows 20000 --large 0 --cell-rows 2048
"""

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg.lapack
from commands import made, train
from report import finish
from threadpoolctl import threadpool_limits

from dkernel.persistence.model_file import load_model

SMALL = 1_000_000  # rows that a row of --large is compared with
SETTINGS = ("--kernel", "Gaussian(gamma=0.08)", "--features", "nystrom", "--scale", "global", "--metric", "identity")
SETTINGS += ("--n-components", "64", "--alpha", "1e-6", "--local", "cells", "--baselines", "off")


def spotrf(n: int, threads: int) -> float:
    """GFLOP/s of LAPACK's Cholesky factorization of a matrix of n rows, the best of three."""
    rng = np.random.default_rng(0)
    K = np.asfortranarray(np.exp(-np.square(rng.standard_normal(n)[:, None] - rng.standard_normal(n))), np.float32)
    K[np.diag_indices_from(K)] += n
    best = np.inf
    with threadpool_limits(threads, "blas"):
        for _ in range(3):
            copy = K.copy(order="F")
            begun = time.perf_counter()
            info = scipy.linalg.lapack.spotrf(copy, lower=1, overwrite_a=1)[1]
            best = min(best, time.perf_counter() - begun)
            assert info == 0
    return n**3 / 3 / best / 1e9


def line(data: Path, rows: int, workers: int, place: Path, args: argparse.Namespace) -> dict[str, Any]:
    """One job."""
    model = place / f"model-{rows}-{workers}.safetensors"
    options = [
        *SETTINGS,
        "--local",
        f"cells(rows={args.cell_rows})",
        "--workers",
        str(workers),
        "--scratch",
        str(place),
    ]
    found = train(data, model, [*options, "--memory-limit", args.memory_limit], interval=1.0)
    phases, local = found["record"]["phases"], load_model(model).local
    if local is None:
        raise SystemExit("The holdout did not gain by cells: there is nothing to measure.")
    sizes = np.diff(local.ends, prepend=0).astype(float)
    half = 1 + found["record"]["facts"]["local"]["rounds"] / 8  # each metric is learned on half of the rows
    print(f"{rows:,} rows, {workers} workers: {found['seconds']:.0f} s", file=sys.stderr)
    return {
        "rows": rows, "workers": workers, "cells": len(sizes), "rows of a cell": float(sizes.mean()),
        "command_s": found["seconds"], "shuffle_s": phases["sort rows to cells"],
        "choice_s": phases["choose width and ridge of cells"], "cells_s": phases["cells"],
        "us_a_row": 1e6 * found["seconds"] / rows, "GFLOP/s": half * float((sizes**3).sum()) / 3e9 / phases["cells"],
        "peak_mib": found["peak_bytes"] / 2**20, "digest": hashlib.sha256(model.read_bytes()).hexdigest()[:8],
    }  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=200_000, help="of the job by 1 and by 2 processes")
    options.add_argument("--large", type=int, default=10_000_000, help="rows; 0 for none")
    options.add_argument("--cell-rows", type=int, default=4096)
    options.add_argument("--memory-limit", default="1GiB", help="of a worker")
    options.add_argument("--place", type=Path, help="folder for data, scratch and models; a temporary one if not given")
    options.add_argument("--json", action="store_true")
    o = options.parse_args()
    table = []
    with tempfile.TemporaryDirectory(dir=o.place) as folder:
        place = Path(folder)
        data = made(place, "npy", o.rows)
        for workers in (1, 2):
            table.append(line(data, o.rows, workers, place, o))
            table[-1]["spotrf"] = spotrf(int(table[-1]["rows of a cell"]), workers)
        if table[0]["digest"] != table[1]["digest"]:
            raise SystemExit("The models of 1 and 2 workers differ: the speed of a wrong answer is of no interest.")
        table[1]["speedup_cells"] = table[0]["cells_s"] / table[1]["cells_s"]
        for rows in (SMALL, o.large) if o.large else ():
            table.append(line(made(place, "npy", rows), rows, 2, place, o))
    finish("cells as a job", table, o.json, options={**vars(o), "place": ""})


if __name__ == "__main__":
    main()
