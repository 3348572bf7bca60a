"""One fit by 2, 8, 32 and 64 worker processes: its tasks, messages, bytes and CPU seconds, phase by phase.

    python scripts/bench/workers.py
    python scripts/bench/workers.py --workers 2 8 --rows 100000 --repeats 1 --json

A scheduler and single-threaded workers without nannies run as processes of this machine, all at Dask's own settings;
the fit is a client of theirs, here. Workers are forked from one process that has imported what they need. Every process
counts its tasks, and the messages and bytes that it writes, in a file of its own, so to read the numbers sends nothing.
CPU seconds are those of the processes; on a busy machine they may double, and wall seconds say nothing. `idle` is what
as many seconds would have cost the scheduler and the workers without a fit. All models must be the same bytes. The two
prices below the table are CALL_SECONDS of dkernel/streaming/cost.py and BYTE_SECONDS of many_workers.py.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from counted_processes import COUNTS, count_messages, counts_of, run_scheduler, run_workers, vectors
from distributed import Client
from report import finish, markdown, parser

from dkernel.data.opening import open_source
from dkernel.model.model_file import save
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.base import Call
from dkernel.streaming.execution.cluster import ClusterExecutor
from dkernel.streaming.progress import Progress, phase_group
from dkernel.training.fit import train
from dkernel.training.planning.memory_plan import FEW_SLOTS

COLUMNS = 28
ROUNDS = ("pass", "polish")  # phases whose waits are rounds of calls
IDLE = 5.0  # seconds for which processes that wait are measured
SUMS, SUM_SIZE, SUM_ROUNDS = 256, 512, 10  # arrays that a call returns, their numbers, and rounds of calls
START = 600.0  # seconds for which workers are waited for


class Cluster:
    """Processes of a scheduler and of workers, and what they have used."""

    def __init__(self, workers: int, processes: int, folder: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        # forked workers share the pages of what is imported, and start in a moment
        context.set_forkserver_preload(["counted_processes"])
        self.folder, self.workers = folder, list[Any]()
        file = folder / "scheduler.json"
        self.scheduler = context.Process(target=run_scheduler, args=(folder, file))
        self.scheduler.start()
        try:
            deadline = time.monotonic() + START
            while not file.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            self.client = Client(scheduler_file=str(file))
            address = self.client.scheduler.address
            shares = [len(range(i, workers, processes)) for i in range(min(workers, processes))]
            self.workers = [context.Process(target=run_workers, args=(folder, address, share)) for share in shares]
            for process in self.workers:
                process.start()
            self.client.wait_for_workers(workers, timeout=START)
        except BaseException:
            self.close()
            raise

    def used(self) -> dict[str, float]:
        """Counts and CPU seconds so far."""
        found = dict(zip(COUNTS, self._counts(), strict=True))
        found["client_cpu"] = time.process_time()
        found["scheduler_cpu"] = _cpu(self.scheduler)
        found["worker_cpu"] = sum(map(_cpu, self.workers))
        return found | {"wall": time.perf_counter()}

    def _counts(self) -> list[float]:
        files = [*self.folder.glob("worker-*"), *self.folder.glob("scheduler-*"), *self.folder.glob("client-*")]
        return np.sum([np.fromfile(file, np.int64) for file in files], axis=0).astype(float).tolist()

    def close(self) -> None:
        """End the processes."""
        with suppress(Exception):
            self.client.close(timeout=5)
        started = [process for process in (*self.workers, self.scheduler) if process.pid is not None]
        for process in started:
            process.kill()
        for process in started:
            process.join()


def _cpu(process: Any) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def phases(cluster: Cluster) -> Iterator[dict[str, dict[str, float]]]:
    """What each phase of the fits in this block uses, by the names that Dask's dashboard has for them."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    begin, now, last = Progress.phase, [""], [cluster.used()]

    def turn(name: str) -> None:
        used = cluster.used()
        for what, value in used.items():
            found[now[0]][what] += value - last[0][what]
        now[0], last[0] = name, used

    def phase(self: Progress, name: str, *args: Any, **figures: Any) -> None:
        turn(phase_group(name))
        begin(self, name, *args, **figures)

    Progress.phase = phase  # type: ignore[method-assign]
    try:
        yield found
        turn("")
    finally:
        Progress.phase = begin  # type: ignore[method-assign]


def rows(first: int, n: int) -> Any:
    """Rows of a law that is no line, and their label in the last column."""
    rng = np.random.default_rng(first)
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    y = X[:, 0] ** 2 - X[:, 1] ** 2 + 1.5 * X[:, 2] * X[:, 3] + rng.standard_normal(n, dtype=np.float32) > 0
    return np.column_stack([X, y.astype(np.float32)])


def data(folder: Path, n: int, chunk: int) -> Path:
    """The rows as files of a chunk each."""
    place = folder / "rows"
    place.mkdir()
    for first in range(0, n, chunk):
        np.save(place / f"part-{first // chunk:05d}.npy", rows(first, min(chunk, n - first)))
    return place


def fit(files: Path, components: int, local: str, client: Client) -> str:
    """Fit a machine, and the hash of its model."""
    recipe = Recipe(n_components=components, local=local, task="classify", seed=0)
    with ClusterExecutor(client) as executor:
        model = train(open_source(files, label=str(COLUMNS)), recipe, executor).model
    return save(model, files.parent / "model.safetensors")


def price_of_a_byte(cluster: Cluster, calls: int) -> float:
    """CPU seconds of client and scheduler for a byte of the sums that calls return, and for its addition."""

    def used(executor: ClusterExecutor, n: int) -> float:
        before = cluster.used()
        for i in range(SUM_ROUNDS):
            sums = [Call(f"sums-{n}-{i}-{k}", vectors, (n, SUM_SIZE)) for k in range(calls)]
            for some in executor.compute(sums)[0]:
                reduce(np.add, some)
        after = cluster.used()
        return sum(after[what] - before[what] for what in ("client_cpu", "scheduler_cpu"))

    with ClusterExecutor(cluster.client) as executor:
        few, many = used(executor, 1), used(executor, SUMS)
    return (many - few) / ((SUMS - 1) * SUM_SIZE * np.dtype(np.float64).itemsize * calls * SUM_ROUNDS)


def measure(workers: int, files: Path, args: argparse.Namespace) -> tuple[list[dict[str, Any]], str, float]:
    """Lines of the phases of a fit, the one of some that took least, the hash of its model, and the price of a byte."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(workers, args.processes or workers, Path(folder))
        try:
            count_messages(counts_of(Path(folder), "client"))
            digests, runs = {fit(files, args.components, args.local, cluster.client)}, []
            for _ in range(args.repeats):
                with phases(cluster) as found:
                    digests.add(fit(files, args.components, args.local, cluster.client))
                runs.append({name: dict(phase) for name, phase in found.items()})
            before = cluster.used()
            time.sleep(IDLE)
            idle = {name: (value - before[name]) / IDLE for name, value in cluster.used().items()}
            byte = price_of_a_byte(cluster, min(workers, FEW_SLOTS))
        finally:
            cluster.close()
    if len(digests) > 1:
        raise SystemExit(f"Fits by {workers} workers differ: what a wrong answer costs is of no interest.")
    best = min(runs, key=lambda run: sum(phase["client_cpu"] + phase["scheduler_cpu"] for phase in run.values()))
    total = {what: sum(phase[what] for phase in best.values()) for what in before}
    lines = {**{name or "start": phase for name, phase in best.items()}, "all": total}
    lines["idle"] = {what: value * total["wall"] for what, value in idle.items()}
    return [{"workers": workers, "phase": name, **_shown(phase)} for name, phase in lines.items()], digests.pop(), byte


def _shown(phase: dict[str, float]) -> dict[str, Any]:
    counts = {what: round(phase[what]) for what in COUNTS[:2]} | {"MB": round(phase["bytes"] / 1e6, 1)}
    return counts | {what: round(phase[what], 2) for what in ("client_cpu", "scheduler_cpu", "worker_cpu", "wall")}


def as_markdown(lines: Sequence[dict[str, Any]]) -> str:
    """The phases of all numbers of workers, one below the other.

    Examples
    --------
    >>> line = dict(workers=2, phase="all", tasks=9, messages=40, MB=0.2, client_cpu=0.1, scheduler_cpu=0.2)
    >>> print(as_markdown([line | {"worker_cpu": 1.0, "wall": 0.75}]).splitlines()[-1])
    | 2 | all | 9 | 40 | 0.2 | 0.1 | 0.2 | 1.0 | 0.75 |
    """
    heads = ("workers", "phase", "tasks", "messages", "MB", "client, CPU s", "scheduler, CPU s", "workers, CPU s", "s")
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in line.values()] for line in lines]
    return markdown(heads, cells)


def price_of_a_call(lines: Sequence[dict[str, Any]]) -> float | None:
    """CPU seconds of client and scheduler that one more call of the rounds takes; None of one number of workers alone.

    It is the slope over the numbers of workers: what a round takes whatever its calls, such as the step, is none of it,
    nor is what idle processes take.

    Examples
    --------
    >>> idle = dict(phase="idle", tasks=0, client_cpu=0.0, scheduler_cpu=0.5, wall=10.0)
    >>> few = dict(phase="pass", tasks=100, client_cpu=0.5, scheduler_cpu=0.6, wall=2.0)
    >>> many = dict(phase="pass", tasks=300, client_cpu=0.7, scheduler_cpu=1.1, wall=4.0)
    >>> lines = [line | {"workers": n} for n, some in ((2, (few, idle)), (8, (many, idle))) for line in some]
    >>> round(price_of_a_call(lines), 6)
    0.003
    """
    calls, seconds = [], []
    for workers in dict.fromkeys(line["workers"] for line in lines):
        mine = [line for line in lines if line["workers"] == workers]
        (idle,) = (_not_of_workers(line) / line["wall"] for line in mine if line["phase"] == "idle")
        rounds = [line for line in mine if line["phase"] in ROUNDS]
        calls.append(sum(line["tasks"] for line in rounds))
        seconds.append(sum(_not_of_workers(line) - idle * line["wall"] for line in rounds))
    return float(np.polyfit(calls, seconds, 1)[0]) if len(set(calls)) > 1 else None


def _not_of_workers(line: dict[str, Any]) -> float:
    return float(line["client_cpu"] + line["scheduler_cpu"])


def main(arguments: Sequence[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--workers", type=int, nargs="+", default=[2, 8, 32, 64], help="numbers of worker processes")
    ask.add_argument("--rows", type=int, default=640_000)
    ask.add_argument("--chunk", type=int, default=5_000, help="rows of a file")
    ask.add_argument("--components", type=int, default=512)
    ask.add_argument("--local", default="none", help="the local stage; auto has the ways race")
    ask.add_argument("--processes", type=int, help="that have the workers; by default each has one of its own")
    ask.add_argument("--repeats", type=int, default=2, help="fits of each number, of which the least counts")
    args = ask.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    digests: dict[int, str] = {}
    bytes_: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        files = data(Path(place), args.rows, args.chunk)
        for workers in args.workers:
            found, digests[workers], byte = measure(workers, files, args)
            lines += found
            bytes_.append(byte)
            print(f"{workers} workers: {found[-2]}", file=sys.stderr)
    if len(set(digests.values())) > 1:
        raise SystemExit(f"The models differ: {digests}")
    price = price_of_a_call(lines)
    if not args.json:
        print(as_markdown(lines))
        print(f"seconds of a call: {'not known' if price is None else f'{price:.2g}'}, of a byte: {min(bytes_):.2g}")
    finish("one fit by many workers", lines, json_only=args.json, call_seconds=price, byte_seconds=min(bytes_))
    return 0


if __name__ == "__main__":
    sys.exit(main())
