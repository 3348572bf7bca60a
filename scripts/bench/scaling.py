"""One worker process against two, and what a round and a call cost.

*Speedup*: the same training by 1 and by 2 worker processes in turns, the seconds of the pass and of the command, the
best of --repeats; the two models must be the same bytes. *Rounds*: calls that do nothing, of several numbers of calls.

    python scripts/bench/scaling.py
    python scripts/bench/scaling.py --rows 200000 --components 1024 --repeats 1
"""

import argparse
import hashlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from commands import make_files, phases_of, train
from report import finish, parser

from dkernel.streaming.execution.base import Call, Executor
from dkernel.streaming.execution.connect import connect

HEADS = 4
CALLS = (2, 4, 8, 16, 32)
SETTINGS = ("--kernel", "Gaussian(gamma=0.08)", "--features", "nystrom", "--scale", "global", "--metric", "identity")


def speedup(place: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each number of processes; refuses to go on if their models differ."""
    data, model = make_files(place, "npy", args.rows), place / "model.safetensors"
    options = [*SETTINGS, "--n-components", str(args.components), "--alpha", "1e-6", "--memory-limit", "4GiB"]
    best: dict[int, dict[str, Any]] = {}
    digests = set()
    for turn in range(args.repeats):
        for workers in (1, 2):
            found = train(data, model, [*options, "--workers", str(workers)], interval=60.0)
            digests.add(hashlib.sha256(model.read_bytes()).hexdigest())
            phases = phases_of(found["record"])
            line = {"workers": workers, "pass_s": phases["pass"], "survey_s": phases["survey"],
                    "setup_s": phases["setup"], "command_s": found["seconds"]}  # fmt: skip
            held = best.get(workers, line)
            best[workers] = {name: min(value, held[name]) for name, value in line.items()}
            print(f"turn {turn + 1}, {workers} workers: pass {phases['pass']:.2f} s", file=sys.stderr)
    if len(digests) > 1:
        raise SystemExit("The models of 1 and 2 workers differ: the speed of a wrong answer is of no interest.")
    for workers, line in best.items():
        line["pass_rows_s"] = args.rows / line["pass_s"]
        line["speedup_pass"] = best[1]["pass_s"] / line["pass_s"]
        line["speedup_fit"] = sum(best[1][f"{p}_s"] for p in ("survey", "setup", "pass")) / sum(
            best[workers][f"{p}_s"] for p in ("survey", "setup", "pass")
        )
    return [best[1], best[2]]


def nothing(coefficients: Any, number: int) -> Any:
    """What a round's task gives back, for no work."""
    return np.zeros((len(coefficients[0]), HEADS)), number


def one_round(executor: Executor, D: int, places: list[str | None], name: str) -> float:
    """Seconds of a round whose calls do nothing, with its coefficients and sums."""
    sent = np.random.default_rng(0).random((D, HEADS)).astype(np.float32), np.zeros(HEADS, np.float32)
    start = time.perf_counter()
    held = executor.keep(sent, f"{name}-at")
    executor.compute([Call(f"{name}-{i}", nothing, (held, i), at) for i, at in enumerate(places)])
    executor.release([held])
    return time.perf_counter() - start


def constants(D: int, rounds: int, workers: int = 2) -> list[dict[str, Any]]:
    """Lines of measured rounds."""
    lines = []
    with connect(workers=workers, memory_limit="2GiB") as executor:
        there = sorted(executor.processes())
        for n in CALLS:
            places: list[str | None] = [there[i * workers // n] for i in range(n)]
            cpu = time.process_time()
            found = sorted(one_round(executor, D, places, f"cost-{n}-{i}") for i in range(rounds + 3))
            cpu = (time.process_time() - cpu) / (rounds + 3)
            least, median = (1e3 * found[i] for i in (0, len(found) // 2))
            lines.append({"calls of a round": n, "least_ms": least, "median_ms": median, "client's cpu_ms": 1e3 * cpu})
    return lines


def main(arguments: list[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--rows", type=int, default=2_000_000)
    ask.add_argument("--components", type=int, default=4096)
    ask.add_argument("--repeats", type=int, default=3, help="turns of 1 and 2 workers")
    ask.add_argument("--rounds", type=int, default=100, help="rounds of each number of calls")
    ask.add_argument("--place", type=Path, help="folder for the data; a temporary one when it is not given")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        pair = speedup(args.place or Path(scratch), args)
    costs = constants(args.components, args.rounds)
    if not args.json:
        finish("1 and 2 processes", pair, json_only=False)
        finish("rounds that do nothing", costs, json_only=False)
    finish("scaling", [*pair, *costs], json_only=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
