"""One worker process against two, what a round and a call cost, and from these what 10, 100 and 1000 would do.

Three parts. *Speedup*: the same training by 1 and by 2 worker processes in turns, the seconds of the pass and of the
command, the best of --repeats; the two models must be the same bytes. *Constants*: rounds of calls that do nothing, of
several numbers of calls, as Dask's tasks, straight to the workers, and by way of one of them; lines through their
medians give what a round costs (a), a call that goes straight (b), one that is passed on (f), and of that what the
client does itself (r, its processor's seconds). *Model*: of K calls that give V sums, by way of some workers where
`Direct` does so, G = K / g groups of g calls, each of which has h others help at most

    seconds of a round = n D t / (W T (1 - idle)) + a + b G + f (g - 1 + h) + r (K - G) + D C (8 V + 4 G) bytes / B

t is the measured time of a feature on one worker, T the rounds of a pass by their rule, C the heads, B a network of
10 Gb/s at the client. Each of W workers has its share of the units, and a round those that chance has put into it; who
then borrows what, and so K, V, h and `idle`, for how long workers wait for the last, is what the product's own rules
make of that (`run/shares.py`, `run/together.py`); "idle alone" is what they would wait without them. Printed for one
number of rows in all (the more workers, the less each has to do) and for one number a worker; `fewest rows` is how many
rows W workers need in all for an overhead of 5 %.

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
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from commands import made, phases_of, train
from report import finish

from dkernel.run import direct
from dkernel.run.cluster import connect
from dkernel.run.executors import Call, Executor, Held
from dkernel.run.pieces import PIECE_ROWS, Piece, Place
from dkernel.run.shares import evened, longest
from dkernel.run.sizes import Sizes
from dkernel.run.together import calls_of

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


class Spread(NamedTuple):
    """What a round is on average: share of it that workers wait for the last, calls, sums, most helpers of a call."""

    idle: float
    calls: float
    sums: float
    helpers: float


def spread(n: float, workers: int, rounds: int, worth: Callable[[int, int], bool]) -> Spread:
    """Of units drawn by chance, of which each worker has its share."""
    rng, found = np.random.default_rng(0), []
    units = max(1, round(n / UNIT))
    count = max(1, round(units / rounds))
    for _ in range(5):
        places = {i: f"{unit % workers}" for i, unit in enumerate(rng.choice(units, count, replace=False))}
        inside = {i: [Piece(k, Place(i, 0, 0, 1), PIECE_ROWS, 0, 1, i) for k in range(UNIT // PIECE_ROWS)]
                  for i in places}  # fmt: skip
        sizes = {i: [piece.n for piece in mine] for i, mine in inside.items()}
        shares = evened(sizes, places, [f"{i}" for i in range(workers)], worth)
        calls = calls_of(shares, inside, lambda _: Held(None), "", (None, None))
        waits = 1 - count * UNIT / workers / longest(sizes, shares)
        sums = sum(len(nodes) for _, nodes in calls)
        found.append((waits, len(calls), sums, max(len(call.helpers) for call, _ in calls)))
    return Spread(*np.mean(found, axis=0).tolist())


def predicted(
    n: float, D: int, workers: int, feature: float, cost: dict[str, float], made: Spread
) -> tuple[float, float]:
    """Seconds of a pass with even loads, and those of them that are no work on the rows."""
    group = direct._by_one(round(made.calls))
    groups = -(-made.calls // group)
    passed = cost["passed"] * (group - 1 + made.helpers) + cost["client"] * (made.calls - groups)
    sent = D * HEADS * (8 * made.sums + 4 * groups) / NETWORK
    overhead = Sizes.rounds_of(int(n), P, D) * (cost["round"] + cost["call"] * groups + passed + sent)
    return n * D * feature / workers + overhead, overhead


def table(args: argparse.Namespace, feature: float, cost: dict[str, float]) -> list[dict[str, Any]]:
    """The model's lines."""
    lines, D = [], args.components
    for workers in (1, 2, 10, 100, 1000):
        for n in (args.total, args.each * workers):
            rounds = Sizes.rounds_of(int(n), P, D)
            made, alone = (spread(n, workers, rounds, worth) for worth in (always, never))
            seconds, overhead = predicted(n, D, workers, feature, cost, made)
            lines.append({
                "workers": workers, "rows": n, "pass_s": overhead + (seconds - overhead) / (1 - made.idle),
                "overhead_%": 100 * overhead / seconds, "idle_%": 100 * made.idle, "idle alone_%": 100 * alone.idle,
                "calls": made.calls, "sums": made.sums, "fewest rows": 19 * overhead * workers / (D * feature),
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
