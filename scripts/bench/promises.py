"""The same faults and limits for dkernel, xgboost.dask, lightgbm.dask and dask-ml's Incremental, and what each does.

    python scripts/bench/promises.py
    python scripts/bench/promises.py --systems dkernel --cases "no fault" "a worker killed, reading"

Each case has a cluster of its own: a scheduler and two workers of one thread each, all at Dask's own settings (with
nannies where memory is limited, since these end a worker that is over its limit), and the fit as a client's process
(promised_fits.py). What ends is started again, as Kubernetes does; a fault comes at a step of the fit, which leaves a
note of it, and never at a time. Where a command that was to end is over, by an error or by the fault, the same command
runs again. A result is one of

    same bytes    it ended, and the model is that of the fit without a fault
    other bytes   it ended, with as many right answers on other rows as that, to 1 %
    wrong         it ended, with fewer
    refused       it ended with an error, which is quoted below
    hung          it had not ended after --limit seconds, and its processes did nothing in the last 30
    busy          it had not ended after --limit seconds

xgboost is no dependency of dkernel: `pip install xgboost lightgbm` first, or name the others with --systems.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from promised_fits import COLUMNS, LARGE_ROWS, PARTS, STEPS, SYSTEMS
from report import finish, parser

PACKAGES = {"dkernel": "dkernel", "xgboost.dask": "xgboost", "lightgbm.dask": "lightgbm", "dask-ml": "dask_ml"}
# The steps of a fit: rounds of dkernel and of boosting, parts of the data of Incremental.
LAST = {"dkernel": 32, "xgboost.dask": STEPS, "lightgbm.dask": STEPS, "dask-ml": PARTS}
LOOK = 0.1  # seconds between two looks
IDLE, LITTLE = 30.0, 3.0  # CPU seconds of all processes in the last so many seconds of one that does nothing
LIMIT = 768 * 2**20  # bytes of a worker, where data are to be twice what the workers have
TWICE = 2 * 2 * LIMIT // (4 * COLUMNS * LARGE_ROWS)  # parts of these data
DASK = [sys.executable, "-m", "dask"]


class Cluster:
    """A scheduler and two workers, which are started again when they end."""

    def __init__(self, place: Path, memory_limit: str) -> None:
        self.place, self.nannies = place, memory_limit != "0"
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{found.getsockname()[1]}"
        options = ["--nthreads", "1", "--no-dashboard", "--memory-limit", memory_limit, "--local-directory", str(place)]
        options += [] if self.nannies else ["--no-nanny"]
        scheduler = ["scheduler", "--host", "127.0.0.1", "--port", self.address.split(":")[-1], "--no-dashboard"]
        self.commands = [scheduler, *[["worker", self.address, *options]] * 2]
        self.processes = [self._started(command) for command in self.commands]

    def _started(self, command: Sequence[str]) -> Any:
        log = (self.place / "cluster.log").open("a")
        return psutil.Popen([*DASK, *command], stdout=log, stderr=log, start_new_session=True)

    def tend(self) -> None:
        """Start again what has ended."""
        for i, process in enumerate(self.processes):
            if process.poll() is not None:
                self.processes[i] = self._started(self.commands[i])

    def workers(self) -> list[Any]:
        """The processes of the workers, without their nannies."""
        if not self.nannies:
            return [process for process in self.processes[1:] if process.poll() is None]
        found = [child for process in self.processes[1:] for child in process.children()]
        return [child for child in found if "resource_tracker" not in " ".join(child.cmdline())]

    def close(self) -> None:
        """End everything."""
        for process in self.processes:
            for each in [*process.children(recursive=True), process]:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            process.wait()


@dataclass
class Fit:
    """A fit in a process of its own, on a cluster."""

    system: str
    cluster: Cluster
    data: str
    process: Any = None

    def start(self) -> None:
        """Start the command, for the first time or again."""
        place = self.cluster.place
        (place / "notes").mkdir(exist_ok=True)
        script = Path(__file__).with_name("promised_fits.py")
        words = [sys.executable, str(script), self.system, self.cluster.address, str(place), self.data]
        self.process = psutil.Popen(words, stdout=subprocess.DEVNULL, stderr=(place / "errors").open("w"))

    def noted(self, name: str) -> list[int]:
        """Processes that have come to this step, the first one first."""
        files = [*(self.cluster.place / "notes").glob(f"{name}.*")]
        return [int(file.name.split(".")[-2]) for file in sorted(files, key=lambda file: file.name.split(".")[-1])]

    def wait_for(self, name: str, deadline: float) -> bool:
        """Wait for a step; False where the fit ends first, or the time does."""
        while not self.noted(name):
            self.cluster.tend()
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(LOOK)
        return True

    def end(self, deadline: float) -> str:
        """Wait for the end: "finished", "refused", "hung" or "busy"."""
        before: float | None = None
        while time.monotonic() < deadline:
            self.cluster.tend()
            if (code := self.process.poll()) is not None:
                return "refused" if code else "finished"
            if before is None and time.monotonic() > deadline - IDLE:
                before = self._cpu()
            time.sleep(LOOK)
        idle = before is not None and self._cpu() - before < LITTLE
        self.process.kill()
        self.process.wait()
        return "hung" if idle else "busy"

    def _cpu(self) -> float:
        total = 0.0
        for process in [self.process, *self.cluster.workers()]:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def error(self) -> str:
        """What the command said at its end."""
        lines = [line.strip() for line in (self.cluster.place / "errors").read_text().splitlines()]
        errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception|KilledWorker|Cancelled)\w*\b", line)]
        return (errors or [line for line in lines if line] or ["no words"])[-1][:160]


def kill_worker(fit: Fit) -> None:
    """Kill a worker that has read rows."""
    there = {process.pid for process in fit.cluster.workers()}
    os.kill(next(pid for pid in reversed(fit.noted("read-*")) if pid in there), signal.SIGKILL)


def kill_workers(fit: Fit) -> None:
    """Kill all workers at one time."""
    for process in fit.cluster.workers():
        process.kill()


def kill_scheduler(fit: Fit) -> None:
    """Kill the scheduler, which is then started again at its address."""
    fit.cluster.processes[0].kill()


def kill_client(fit: Fit) -> None:
    """Kill the command."""
    fit.process.kill()


@dataclass(frozen=True)
class Case:
    """A fault or a limit.

    Parameters
    ----------
    data : as promised_fits.py names them
    at : the share of its steps after which the fault comes, 0 for the first rows that are read
    again : whether the command is run again when it has ended without a result
    same_rows : whether the rows are those of the fit without a fault
    """

    data: str = "usual"
    fault: Callable[[Fit], None] | None = None
    at: float = 0.0
    again: bool = False
    memory_limit: str = "0"
    same_rows: bool = True

    def step(self, system: str) -> str:
        """Name of the step at which the fault comes."""
        return f"step-{max(1, int(self.at * LAST[system]))}" if self.at else "read-*"


CASES = {
    "no fault": Case(),
    "a worker killed, reading": Case(fault=kill_worker),
    "a worker killed, half way": Case(fault=kill_worker, at=0.5),
    "a worker killed, at the end": Case(fault=kill_worker, at=0.95),
    "all workers killed": Case(fault=kill_workers, at=0.5),
    "scheduler killed and started": Case(fault=kill_scheduler, at=0.5, again=True),
    "client killed, same command again": Case(fault=kill_client, at=0.5, again=True),
    "empty partitions": Case(data="empty"),
    "a partition of NaN": Case(data="missing", same_rows=False),
    "data twice the workers' memory": Case(data=str(TWICE), memory_limit=str(LIMIT), same_rows=False),
}


def word_of(ended: str, found: dict[str, Any] | None, usual: dict[str, Any] | None) -> str:
    """The word for the end of a fit.

    Examples
    --------
    >>> usual = {"accuracy": 0.9, "sha256": "ab"}
    >>> word_of("finished", usual, usual), word_of("finished", usual | {"sha256": "cd"}, usual)
    ('same bytes', 'other bytes')
    >>> word_of("finished", {"accuracy": 0.7, "sha256": "ef"}, usual), word_of("hung", None, usual)
    ('wrong', 'hung')
    """
    if ended != "finished" or found is None:
        return ended
    if usual is None:
        return "finished"
    if found["sha256"] == usual["sha256"]:
        return "same bytes"
    return "other bytes" if found["accuracy"] > usual["accuracy"] - 0.01 else "wrong"


def _shown(word: str, case: Case) -> str:
    """The word, where other rows have bytes of their own."""
    return "finished" if word == "other bytes" and not case.same_rows else word


Result = dict[str, Any]


def run(system: str, case: Case, limit: float, usual: Result | None) -> tuple[Result, Result | None]:
    """What a system does in a case, in words and seconds; and its result."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        cluster = Cluster(place, case.memory_limit)
        fit = Fit(system, cluster, case.data)
        began, steps, said = time.monotonic(), [], []
        try:
            fit.start()
            if case.fault is not None and fit.wait_for(case.step(system), began + limit):
                case.fault(fit)
            for _ in range(1 + case.again):
                ended = fit.end(time.monotonic() + limit)
                if case.fault is kill_client and not steps and ended == "refused":
                    steps.append("killed")
                else:
                    if ended == "refused":
                        said.append(fit.error())
                    result = place / "result.json"
                    found = json.loads(result.read_text()) if result.exists() else None
                    steps.append(_shown(word_of(ended, found, usual), case))
                if ended == "finished" or not case.again or len(steps) > 1:
                    break
                fit.start()
        finally:
            with suppress(psutil.NoSuchProcess):
                fit.process.kill()
            cluster.close()
    line = {"result": ", then ".join(steps), "seconds": round(time.monotonic() - began), "said": "; ".join(said)}
    return line, found


def main(arguments: Sequence[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    ask.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    ask.add_argument("--limit", type=float, default=120.0, help="seconds after which a fit counts as hung")
    args = ask.parse_args(arguments)
    absent = [name for name in args.systems if importlib.util.find_spec(PACKAGES[name]) is None]
    if absent:
        print(f"not installed: {', '.join(absent)}. pip install xgboost lightgbm, or use --systems", file=sys.stderr)
        return 1
    lines = []
    for system in args.systems:
        usual: Result | None = None
        for name in dict.fromkeys(["no fault", *args.cases]):
            # a fit of other data has other bytes: it is only to end, with as many right answers
            line, found = run(system, CASES[name], args.limit, usual)
            if usual is None:
                usual = found
            lines.append({"system": system, "case": name, **line})
            print(lines[-1], file=sys.stderr)
    names = ("dask", "distributed", *(PACKAGES[name].replace("_", "-") for name in args.systems))
    versions = {name: _version(name) for name in names}
    finish("faults and limits", lines, json_only=args.json, limit=args.limit, versions=versions)
    return 0


def _version(name: str) -> str:
    with suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return str(importlib.import_module(name.replace("-", "_")).__version__)


if __name__ == "__main__":
    sys.exit(main())
