"""One pass by threads and by worker processes, taken apart into milliseconds of a round; and whole commands.

    python scripts/bench/rounds.py
    python scripts/bench/rounds.py --data FOLDER --label label --workers 0 2 --components 1024 --repeats 5 --json

Everything is given to the fit, so that survey and pass are all that it does; 0 workers are threads. The ways take
turns, and of each the run with the shortest pass counts. `client` and `loop` are CPU of the thread that solves, the
`step` in it, and of the one that carries messages, the scheduler's part among them; `cpu` is that of all workers, and
of this process where threads compute. The other columns are Dask's task stream: the longest `sum` of a round, and of a
worker on average blocks that are `copied` from others, values that are `unpacked` and units that are `read`. A worker
is `idle` while it does none of these. On a busy machine only CPU says something. All models of as many components must
be the same bytes.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
from report import finish, markdown, parser

from dkernel.data.opening import open_source
from dkernel.model.model_file import compute_digest
from dkernel.model.recipe import Recipe
from dkernel.solvers.sgd_round import SGDHeads
from dkernel.streaming.execution.base import Executor
from dkernel.streaming.execution.connect import connect
from dkernel.streaming.progress import Progress
from dkernel.training.fit import train

GIVEN = {
    "kernel": "Gaussian(gamma=0.02)", "features": "fourier", "scale": "standard", "metric": "identity",
    "alpha": 1e-6, "loss": "squared_hinge", "local": "none",
}  # fmt: skip
FEATURES = 28
TASKS = 100_000  # of the stream, more than a fit has
Seconds = dict[str, float]


def cpu_of(process: psutil.Process) -> float:
    """CPU seconds of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def marks_of(executor: Executor, source: Any, recipe: Recipe) -> tuple[list[tuple[str, Seconds]], str]:
    """The phases of a fit, each with the clocks at its begin, and the hash of the model."""
    me, main = psutil.Process(), threading.get_native_id()
    workers, marks, steps = me.children(recursive=True), list[tuple[str, Seconds]](), [0.0, 0.0]
    begin, step = Progress.phase, SGDHeads.step

    def phase(self: Progress, name: str, *args: Any, **figures: Any) -> None:
        client = {thread.id: thread.user_time + thread.system_time for thread in me.threads()}
        clocks = {"time": time.time(), "client": client.pop(main), "loop": sum(client.values())}
        clocks |= {"cpu": sum(map(cpu_of, workers or [me])), "step": steps[0], "rounds": steps[1]}
        marks.append((name, clocks))
        begin(self, name, *args, **figures)

    def timed(self: SGDHeads, *args: Any) -> Any:
        start = time.perf_counter()
        after = step(self, *args)
        steps[:] = steps[0] + time.perf_counter() - start, steps[1] + 1
        return after

    Progress.phase, SGDHeads.step = phase, timed  # type: ignore[method-assign]
    try:
        digest = compute_digest(train(source, recipe, executor).model)
    finally:
        Progress.phase, SGDHeads.step = begin, step  # type: ignore[method-assign]
    return marks, digest


def stream_of(tasks: Sequence[dict[str, Any]], first: float, last: float, workers: int) -> Seconds:
    """Seconds of a pass by Dask's task stream: the longest sums of its rounds, and the others of a worker on average.

    Examples
    --------
    >>> spans = [{"action": "transfer", "start": 1.0, "stop": 1.5}, {"action": "compute", "start": 1.5, "stop": 3.5}]
    >>> key = "dkernel-pass-(k-fit-pass-0-3-{i}-a)-r"
    >>> tasks = [{"key": key.format(i=i), "worker": i, "startstops": spans[i:]} for i in (0, 1)]
    >>> stream_of(tasks, 1.0, 4.0, 2)
    {'sum': 2.0, 'copied': 0.25, 'unpacked': 0.0, 'read': 0.0, 'idle': 0.75}
    """
    sums: dict[str, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
    found, total = dict.fromkeys(("sum", "copied", "unpacked", "read", "idle"), 0.0), 0.0
    words = {"transfer": "copied", "deserialize": "unpacked"}
    for task in tasks:
        for span in task["startstops"]:
            seconds = span["stop"] - span["start"]
            if span["start"] < first or span["stop"] > last:
                continue
            total += seconds
            if span["action"] in words:
                found[words[span["action"]]] += seconds / workers
            elif "-pass-(" in task["key"]:
                sums["-".join(task["key"].split("(")[1].split("-")[:-3])][task["worker"]] += seconds
            else:
                found["read"] += seconds / workers
    found["sum"] = sum(max(of_round.values()) for of_round in sums.values())
    return found | {"idle": last - first - total / workers}


def measure(data: Path, label: str, workers: int, recipe: Recipe, memory: str) -> dict[str, Any]:
    """One fit: seconds of its phases, and milliseconds of a round."""
    options: dict[str, Any] = {"workers": workers, "memory_limit": memory} if workers else {}
    with connect(**options) as executor:
        client = getattr(executor, "client", None)
        if client is not None:
            client.get_task_stream()  # begins to be kept
        marks, digest = marks_of(executor, open_source([str(data)], label=label), recipe)
        seconds = {name.split(" ")[0]: b["time"] - a["time"] for (name, a), (_, b) in pairwise(marks)}
        at = next(i for i, (name, _) in enumerate(marks) if name.startswith("pass"))
        before, after = marks[at][1], marks[at + 1][1]
        used = {name: after[name] - before[name] for name in before}
        if client is not None:
            time.sleep(1.0)  # the stream's last tasks
            used |= stream_of(client.get_task_stream(count=TASKS), before["time"], after["time"], workers)
    rounds = used.pop("rounds")
    of_round = {name: 1e3 * value / rounds for name, value in used.items()}
    return {
        "digest": digest,
        "survey": seconds["survey"],
        "pass": seconds["pass"],
        "round": of_round.pop("time"),
        **of_round,
    }


def command(data: Path, label: str, workers: int, components: int, memory: str, out: Path) -> float:
    """Seconds of the whole command."""
    words = [sys.executable, "-Pm", "dkernel", "train", str(data), "--label", label, "--out", str(out), "--overwrite"]
    given = {**GIVEN, "n_components": components, "progress": "none"}
    words += [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    start = time.perf_counter()
    subprocess.run(
        [*words, *(["--workers", str(workers), "--memory-limit", memory] if workers else [])],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - start


def made(folder: Path, rows: int) -> Path:
    """Parquet files of so many rows."""
    script = Path(__file__).parents[1] / "make_data.py"
    options = {"--rows": rows, "--features": FEATURES, "--out": folder / "rows", "--format": "parquet", "--files": 16}
    words = [str(word) for option in options.items() for word in option]
    subprocess.run([sys.executable, str(script), *words], check=True, stdout=subprocess.DEVNULL)
    return folder / "rows"


def main(arguments: Sequence[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--data", type=Path, help="a folder; by default --rows rows are made")
    ask.add_argument("--label", default="label")
    ask.add_argument("--rows", type=int, default=4_000_000)
    ask.add_argument("--workers", type=int, nargs="+", default=[0, 2, 8])
    ask.add_argument("--components", type=int, nargs="+", default=[512, 1024, 4096])
    ask.add_argument("--memory-limit", default="1GiB", help="of each worker")
    ask.add_argument("--repeats", type=int, default=3)
    args = ask.parse_args(arguments)
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        data, out = args.data or made(Path(place), args.rows), Path(place) / "out.model"
        for components in args.components:
            runs: dict[int, list[dict[str, Any]]] = defaultdict(list)
            for _ in range(args.repeats):
                for workers in args.workers:
                    recipe = Recipe(n_components=components, **GIVEN)
                    run = measure(data, args.label, workers, recipe, args.memory_limit)
                    whole = command(data, args.label, workers, components, args.memory_limit, out)
                    runs[workers].append({"command": whole, **run})
            if len({run.pop("digest") for some in runs.values() for run in some}) > 1:
                raise SystemExit(f"The models of {components} components differ.")
            for workers, some in runs.items():
                best = min(some, key=lambda run: run["pass"]) | {"command": min(run["command"] for run in some)}
                lines.append({"components": components, "workers": workers, **best})
    if not args.json:
        heads = list(max(lines, key=len))
        print(markdown(heads, [[_shown(line.get(head)) for head in heads] for line in lines]))
    finish("a round taken apart", lines, json_only=args.json)
    return 0


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
