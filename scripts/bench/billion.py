"""A billion rows of 28 columns that are on no disk: two workers of 1 GiB make them, block by block, at each reading.

    python scripts/bench/billion.py --plan                    # hours, memory, disk and readings of both, and no more
    python scripts/bench/billion.py --rows 10000000
    python scripts/bench/billion.py --ways given scikit-learn

The rows are those of scripts/make_data.py (one label in ten is wrong), in a Dask array whose blocks depend on their
first row alone, so that every reading has the same. `given` are 1,024 random features and `plain` is nothing given. The
plan is printed first. A fit is killed once, client and workers, after its rounds of --killed, and the same call goes on
from its checkpoint. scikit-learn's `partial_fit` learns the same blocks one after the other, --sklearn-rows of them.
Each way is a process of its own; the error is that of 200,000 rows behind the last one.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from report import ROOT, error_of, finish, parser

from dkernel import KernelClassifier
from dkernel.data.collections.arrays import from_arrays
from dkernel.streaming.machine import Machine
from dkernel.training.planning.memory_plan import Plan, format_plan

sys.path.insert(0, str(ROOT / "scripts"))

import make_data
import measured

LAW, BLOCK, TEST_ROWS, COMPONENTS, LIMIT = make_data.Law(), 131_072, 200_000, 1024, 2**30
GIVEN = {"kernel": "gaussian", "features": "fourier", "n_components": COMPONENTS, "local": "none"}
WAYS = {"given": GIVEN, "plain": {}}


def collection(rows: int) -> tuple[da.Array, da.Array]:
    """X and y, which the workers make."""
    X, y = [], []
    for first, n in make_data.blocks(0, rows, BLOCK):
        both = delayed(LAW.rows, pure=True)(first, n)
        X.append(da.from_delayed(both[0], (n, LAW.features), np.float32))
        y.append(da.from_delayed(both[1], (n,), np.int8))
    return da.concatenate(X), da.concatenate(y)


def plan(way: str, rows: int) -> dict[str, Any]:
    """The plan of a fit in two workers of 1 GiB, by the seconds of the plan's core."""
    workers = [f"worker {i}" for i in range(2)]
    recipe = KernelClassifier(random_state=0, **WAYS[way])._recipe()
    return Plan.of(
        from_arrays(*collection(rows)), recipe, Machine(dict.fromkeys(workers, 1), dict.fromkeys(workers, LIMIT))
    ).as_dict()


def fit_dkernel(way: str, rows: int, killed: int, place: Path) -> Any:
    """Fit from the checkpoint in this folder; the first time all end after so many rounds."""
    from distributed import Client, LocalCluster

    rounds, mark = [0], place / "killed"

    def count(_: dict[str, Any]) -> None:
        rounds[0] += 1
        if rounds[0] == killed and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    model = KernelClassifier(random_state=0, checkpoint=str(place / "checkpoint"), callbacks=[count], **WAYS[way])
    asked = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": None}
    with LocalCluster(**asked) as cluster, Client(cluster):
        model.fit(*collection(rows))
    return model, rounds[0]


def fit_scikit_learn(rows: int) -> Any:
    """Batches of a block, as scikit-learn's page of out-of-core learning has it."""
    from contenders import random_map, sgd
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler, sampler, linear = StandardScaler(), random_map(), sgd()
    for first, n in make_data.blocks(0, rows, make_data.GRANULE):
        X, y = LAW.rows(first, n)
        scaled = scaler.partial_fit(X).transform(X)
        inputs = sampler.transform(scaled) if first else sampler.fit_transform(scaled)
        linear.partial_fit(inputs, y, classes=[0, 1])
    return make_pipeline(scaler, sampler, linear)


def run_way(way: str, rows: int, killed: int, place: Path) -> dict[str, Any]:
    """Fit in this process; the error, and the rounds since the last start."""
    model, rounds = (fit_scikit_learn(rows), None) if way not in WAYS else fit_dkernel(way, rows, killed, place)
    X, y = LAW.rows(rows, TEST_ROWS)
    return {"error": round(error_of(model.predict(X), y), 3), "rounds": rounds}


def measure(way: str, rows: int, killed: int) -> dict[str, Any]:
    """The line of a way: all its processes, the one that was killed and the one that went on."""
    line: dict[str, Any] = {"way": way, "rows": f"{rows:,}"}
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, __file__, "--rows", str(rows), "--killed", str(killed), "--fit", way, place]
        runs = [measured.measure(command, interval=1.0)]
        while runs[-1]["status"] == -signal.SIGKILL and len(runs) < 2:
            runs.append(measured.measure(command, interval=1.0))
    if runs[-1]["status"]:
        raise SystemExit(f"{way} ended with {runs[-1]['status']}")
    line |= {"seconds": [run["seconds"] for run in runs]}
    line |= {"MiB": max(int(run["peak_bytes"]) for run in runs) // 2**20} | runs[-1]["result"]  # type: ignore
    if way in WAYS:
        said = plan(way, rows)
        bytes_ = 2 * said["worker_bytes"] + said["client_bytes"]
        line |= {
            "plan: core seconds": said["core_seconds"],
            "MiB planned": bytes_ // 2**20,
            "readings": said["readings"],
        }
    return line


def main(arguments: Sequence[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, default=10**9)
    ask.add_argument(
        "--sklearn-rows", type=int, default=10**8, help="rows that scikit-learn learns, of as many at most"
    )
    ask.add_argument("--ways", nargs="*", default=["given", "scikit-learn"], choices=[*WAYS, "scikit-learn"])
    ask.add_argument("--killed", type=int, default=8, help="rounds after which a fit is killed; 0 for never")
    ask.add_argument("--plan", action="store_true", help="print the plans of both ways alone")
    ask.add_argument("--fit", nargs=2, metavar=("WAY", "FOLDER"), help="fit one way in this process")
    args = ask.parse_args(arguments)
    if args.fit:
        print(json.dumps(run_way(args.fit[0], args.rows, args.killed, Path(args.fit[1]))))
        return 0
    for way in WAYS if args.plan else [way for way in args.ways if way in WAYS]:
        said = plan(way, args.rows)
        begun = time.process_time()
        LAW.rows(0, BLOCK)
        making = (time.process_time() - begun) * said["readings"] * args.rows / BLOCK
        print(
            f"{way}: {said['core_seconds'] / 7200:.2f} hours of two cores, and {making / 7200:.2f} to make the rows",
            file=sys.stderr,
        )
        for name, words in format_plan(said):
            print(f"  {name}: {words}", file=sys.stderr)
    if args.plan:
        return 0
    rows = {way: args.rows if way in WAYS else min(args.rows, args.sklearn_rows) for way in args.ways}
    lines = [measure(way, rows[way], args.killed) for way in args.ways]
    finish("a billion rows", lines, json_only=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
