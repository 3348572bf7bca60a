"""One worker process against two, what a round and a call cost, and from these what 10, 100 and 1000 would do.

Three parts. *Speedup*: the same training by 1 and by 2 worker processes in turns, the seconds of the pass and of the
command, the best of --repeats; the two models must be the same bytes. *Constants*: rounds of calls that do nothing, of
several numbers of calls, as Dask's tasks, straight to the workers, and by way of one of them; lines through their
medians give what a round costs (a), a call that goes straight (b), one that is passed on (f), and of that what the
client does itself (r, its processor's seconds). *Model*: of W workers, by way of some where `Direct` does so, G = W / g
groups of g calls

    seconds of a round = n D t / (W T (1 - idle)) + a + b G + f (g - 1) + r (W - G) + D C (8 W + 4 G) bytes / B

t is the measured time of a feature on one worker, T the rounds of a pass by their rule, C the heads, B a network of
10 Gb/s at the client; `idle` is what workers wait for the last of a round where their units are where chance has put
them, as the very rule of the product spreads pieces (`run/shares.py`), and "idle alone" what they would wait without
it. Printed for one number of rows in all (the more workers, the less each has to do) and for one number a worker;
`fewest rows` is how many rows W workers need in all for an overhead of 5 %.

    python scripts/bench/scaling.py
    python scripts/bench/scaling.py --rows 200000 --components 1024 --repeats 1
"""

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from commands import made, phases_of, train
from report import finish

from dkernel.run import direct
from dkernel.run.cluster import connect
from dkernel.run.executors import Call, Executor
from dkernel.run.pieces import PIECE_ROWS
from dkernel.run.shares import evened, longest
from dkernel.run.sizes import Sizes

P = 28
NETWORK = 10e9 / 8
HEADS = 4
CALLS = (2, 4, 8, 16, 32)
UNIT = 131_072  # rows of a unit of the readers, of 28 columns
SETTINGS = ("--kernel", "Gaussian(gamma=0.08)", "--features", "nystrom", "--scale", "global", "--metric", "identity")


def speedup(place: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A line for each number of processes; refuses to go on if their models differ."""
    data, model = made(place, "npy", args.rows), place / "model.safetensors"
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


def constants(D: int, rounds: int, workers: int = 2) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Lines of measured rounds; and the seconds of a round, of a call that goes straight to its worker, of one that is
    passed on, and of that what the client does."""
    lines, ways = [], {"tasks": 0, "straight": 1, "passed on": max(CALLS)}
    with connect(workers=workers, memory_limit="2GiB") as executor:
        there = sorted(executor.processes())
        for way, group in ways.items():
            for n in CALLS:
                places = [there[i * workers // n] if group else None for i in range(n)]
                with patch.object(direct, "_by_one", lambda calls, group=group: max(1, min(calls, group))):
                    cpu = time.process_time()
                    found = sorted(one_round(executor, D, places, f"cost-{way}-{n}-{i}") for i in range(rounds + 3))
                    cpu = (time.process_time() - cpu) / (rounds + 3)
                least, median = (1e3 * found[i] for i in (0, len(found) // 2))
                lines.append({"way": way, "calls of a round": n, "least_ms": least, "median_ms": median,
                              "client's cpu_ms": 1e3 * cpu})  # fmt: skip

    def line(way: str, figure: str) -> tuple[float, float]:
        mine = [(each["calls of a round"], each[figure]) for each in lines if each["way"] == way]
        slope, at_zero = np.polyfit(*zip(*mine, strict=True), 1)
        return max(float(at_zero), 0.0) / 1e3, max(float(slope), 1e-5) / 1e3

    (a, b), (_, f), (_, r) = (
        line("straight", "median_ms"),
        line("passed on", "median_ms"),
        line("passed on", "client's cpu_ms"),
    )
    return lines, {"round": a, "call": b, "passed": f, "client": min(r, f)}


def always(chunk: int, rows: int) -> bool:  # noqa: ARG001
    """That a worker may borrow whatever evens the round out."""
    return True


def never(chunk: int, rows: int) -> bool:  # noqa: ARG001
    """That nobody borrows."""
    return False


def idle(n: float, workers: int, rounds: int, worth: Callable[[int, int], bool]) -> float:
    """Share of a round that workers wait for the last, where each has its share of the units, drawn by chance."""
    rng, found = np.random.default_rng(0), []
    units = max(1, round(n / UNIT))
    inside = max(1, round(units / rounds))
    for _ in range(5):
        places = {i: f"{unit % workers}" for i, unit in enumerate(rng.choice(units, inside, replace=False))}
        sizes = {i: [PIECE_ROWS] * (UNIT // PIECE_ROWS) for i in places}
        names = [f"{i}" for i in range(workers)]
        spread = evened(sizes, places, names, worth)
        found.append(inside * UNIT / workers / longest(sizes, spread))
    return 1 - float(np.mean(found))


def predicted(n: float, D: int, workers: int, feature: float, cost: dict[str, float]) -> tuple[float, float]:
    """Seconds of a pass with even loads, and which share of them is no work on the rows."""
    work = n * D * feature / workers
    group = direct._by_one(workers)
    groups = -(-workers // group)
    messages = (
        cost["round"] + cost["call"] * groups + cost["passed"] * (group - 1) + cost["client"] * (workers - groups)
    )
    sent = D * HEADS * (8 * workers + 4 * groups) / NETWORK
    overhead = Sizes.rounds_of(int(n), P, D) * (messages + sent)
    return work + overhead, overhead / (work + overhead)


def table(args: argparse.Namespace, feature: float, cost: dict[str, float]) -> list[dict[str, Any]]:
    """The model's lines."""
    lines = []
    for workers in (1, 2, 10, 100, 1000):
        overhead = predicted(0, args.components, workers, feature, cost)[0]  # of all 64 rounds
        fewest = 19 * overhead * workers / (args.components * feature)
        for n in (args.total, args.each * workers):
            seconds, share = predicted(n, args.components, workers, feature, cost)
            rounds = Sizes.rounds_of(int(n), P, args.components)
            waits, alone = (idle(n, workers, rounds, worth) for worth in (always, never))
            lines.append({
                "workers": workers, "rows": n, "pass_s": seconds * (share + (1 - share) / (1 - waits)),
                "overhead_%": 100 * share, "idle_%": 100 * waits, "idle alone_%": 100 * alone,
                "fewest rows": fewest,
            })  # fmt: skip
    return lines


def main(arguments: list[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--rows", type=int, default=2_000_000)
    ask.add_argument("--components", type=int, default=4096)
    ask.add_argument("--repeats", type=int, default=3, help="turns of 1 and 2 workers")
    ask.add_argument("--rounds", type=int, default=100, help="rounds of each number of calls")
    ask.add_argument("--total", type=float, default=1e9, help="rows of the model's table, in all")
    ask.add_argument("--each", type=float, default=1e7, help="rows of the model's table, a worker")
    ask.add_argument("--place", type=Path, help="folder for the data; a temporary one when it is not given")
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        pair = speedup(args.place or Path(scratch), args)
    costs, cost = constants(args.components, args.rounds)
    work = pair[0]["pass_s"] - Sizes.rounds_of(args.rows, P, args.components) * (cost["round"] + cost["call"])
    if work < pair[0]["pass_s"] / 2:
        print("rounds cost more than their work: too few rows, or a busy machine; the model is none", file=sys.stderr)
        work = pair[0]["pass_s"]
    feature = work / (args.rows * args.components)
    lines = table(args, feature, cost)
    facts = {**{f"{name}_ms": 1e3 * seconds for name, seconds in cost.items()}, "feature_ns": 1e9 * feature}
    said = ", ".join(f"{name} {value:.3g}" for name, value in facts.items())
    everything = [*pair, *costs, *lines]
    if not args.json:
        for title, part in (("1 and 2 processes", pair), ("rounds that do nothing", costs)):
            finish(title, part, json_only=False)
        finish(f"model: {said}", lines, json_only=False)
    finish(f"scaling: {said}", everything, json_only=True, **facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
