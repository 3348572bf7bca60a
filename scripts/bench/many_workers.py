"""What a fit of up to a billion rows would take on up to a thousand workers: a simulation with measured prices.

    python scripts/bench/many_workers.py [--components 512] [--json]

Some rounds are simulated call by call, with the pieces, shares and sums that a fit of such a source has. The client
makes the calls one after the other; the scheduler hands each on, and gets its result and hands that back, one at a
time; a worker copies the chunks of its share that others have, and sums the rows; when the client has all results it
takes the step. A result has a sum for each node of the tree that the share makes up. Prices are CPU seconds measured by
`workers.py`, work is that of the plan (dkernel/streaming/cost.py).

Assumptions: a core is the one of the plan's table; every worker has a core and memory for its rows, and reads at the
plan's speed; the network carries 1 GB/s to each worker; survey and choice are one even round each; nothing fails.
`used` is what the plan takes of the workers, `all` would be the fit on every one of them.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from report import finish, parser

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.source import Source
from dkernel.model.recipe import Recipe
from dkernel.streaming.cost import CALL_SECONDS, READ_BYTES, core_seconds
from dkernel.streaming.machine import Machine
from dkernel.streaming.schedule import bundle_size, shuffle_order
from dkernel.streaming.shares import find_nodes, is_even, make_shares
from dkernel.training.planning.memory_plan import Plan

COLUMNS, UNIT = 28, 131_072
CLIENT = 0.3  # of the seconds of a call, the share that is the client's: half to send it, half to take its result
BYTE_SECONDS = 7e-9  # of client and scheduler together for a byte of a result: 11e-9 where a call takes 5e-3
STEP = 0.01  # seconds of the client between two rounds, at 512 components
NETWORK = 1e9  # bytes a second that come to a worker
ROUNDS = 8  # of those of a pass, that are simulated


@dataclass(frozen=True)
class Prices:
    """Seconds of the client and of the scheduler for a call, of the client for a step, of both for a byte."""

    client: float = CLIENT * CALL_SECONDS
    scheduler: float = (1 - CLIENT) * CALL_SECONDS
    step: float = STEP
    byte: float = BYTE_SECONDS


def round_seconds(work: Sequence[float], prices: Prices, results: int = 0) -> float:
    """Seconds of a round of calls that take `work` seconds each, and return `results` bytes in all.

    Examples
    --------
    >>> round_seconds([1.0], Prices(0.0, 0.0, 0.0)), round_seconds([0.25] * 4, Prices(0.0, 0.0, 0.0))
    (1.0, 0.25)
    >>> round_seconds([0.001] * 1000, Prices(0.001, 0.002, 0.0)) > 2.0
    True
    """
    sent = (np.arange(len(work)) + 1) * prices.client / 2
    ends: list[float] = []
    free = 0.0
    for at, seconds in zip(sent, work, strict=True):  # the scheduler hands calls on in their order,
        free = max(free, at) + prices.scheduler / 2
        ends.append(free + seconds)
    for at in sorted(ends):  # and results in that of their coming
        free = max(free, at) + prices.scheduler / 2
    return max(free, float(sent[-1])) + len(work) * prices.client / 2 + results * prices.byte + prices.step


@dataclass(frozen=True)
class Round:
    """The calls of a round: rows that each sums, bytes that it copies before, and the sums that all return."""

    rows: tuple[int, ...]
    copied: tuple[int, ...]
    sums: int


def rounds_of(source: Source, rounds: int, workers: int, kept: bool) -> Iterator[Round]:
    """Some rounds of a pass over the source, whose units the workers have by turns, or read by turns for a round."""
    units = [unit.rows for unit in source.units]
    turns = shuffle_order(units, rounds, 0, 0, bundle_size(units, source.row_bytes))
    threads = {f"worker {i}": 1 for i in range(workers)}
    for turn in turns[:: -(-len(turns) // ROUNDS)]:
        chunks = list(dict.fromkeys(piece.chunk for piece in turn))
        number = {chunk: i for i, chunk in enumerate(chunks)}
        places = {i: f"worker {(chunk if kept else i) % workers}" for chunk, i in number.items()}
        sizes: dict[int, list[int]] = {}
        for piece in turn:
            sizes.setdefault(number[piece.chunk], []).append(piece.n)
        held = dict.fromkeys(threads, 0)
        for i, unit in enumerate(source.units if kept else [source.units[chunk] for chunk in chunks]):
            held[f"worker {i % workers}"] += unit.n_rows
        shares = make_shares(sizes, places, threads, workers, len(turn) <= workers and is_even(held, threads))
        busy = {share.at for share in shares}
        rows, copied, sums = list[int](), list[int](), 0
        for share in shares:
            nodes = find_nodes(share, sizes)
            runs = [run for _, some in nodes for run in some]
            first = places[runs[0].chunk]
            at = share.at or (first if first not in busy else None)
            busy.add(at)
            rows.append(sum(sum(sizes[run.chunk][run.first : run.last]) for run in runs))
            others = {run.chunk for run in runs if places[run.chunk] != at}
            copied.append(sum(source.units[chunks[i]].n_rows * source.row_bytes for i in others))
            sums += len(nodes)
        yield Round(tuple(rows), tuple(copied), sums)


def rows_of(n: int) -> Source:
    """A source of about n rows that holds none of them: one unit stands in it again and again."""
    few = from_arrays(np.zeros((UNIT, COLUMNS), np.float32), np.arange(UNIT) % 2)
    return replace(few, units=few.units * max(1, n // UNIT), files=("rows.parquet",))


def line(n: int, workers: int, recipe: Recipe, prices: Prices) -> dict[str, Any]:
    """A fit of n rows with so many workers."""
    source, names = rows_of(n), [f"worker {i}" for i in range(workers)]
    plan = Plan.of(source, recipe, Machine(dict.fromkeys(names, 1), dict.fromkeys(names, 4 * 2**30)))
    solve, rounds = plan.costs["solve"], plan.sizes.rounds
    waits = solve.readings * rounds
    read = source.nbytes / READ_BYTES * (1 if plan.keeps_rows else plan.readings)
    work = solve.seconds + read * solve.readings / plan.readings
    others = core_seconds(plan.costs[name] for name in ("survey", "choice", "setup")) + read / plan.readings

    row = work / solve.readings / source.n_rows

    def fit(calls: int) -> float:
        turns = [
            round_seconds(
                [n * row + copied / NETWORK for n, copied in zip(turn.rows, turn.copied, strict=True)],
                prices,
                8 * plan.sizes.components * turn.sums,
            )
            for turn in rounds_of(source, rounds, calls, plan.keeps_rows)
        ]
        return waits * float(np.mean(turns)) + 2 * round_seconds([others / 2 / calls] * calls, prices)

    found = {"rows": f"{n:,}", "workers": workers, "used": plan.used.slots, "in memory": plan.keeps_rows}
    return found | {"seconds": fit(plan.used.slots), "seconds, all": fit(workers), "one worker": fit(1)}


def main(arguments: Sequence[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--components", type=int, default=512)
    args = ask.parse_args(arguments)
    recipe = Recipe(n_components=args.components, local="none", kernel="gaussian", gamma=0.1)
    sizes = [(n, workers) for n in (640_000, 10**7, 10**8, 10**9) for workers in (8, 64, 1000)]
    lines = [line(n, workers, recipe, Prices()) for n, workers in sizes]
    finish("many workers, simulated", lines, json_only=args.json, components=args.components)
    return 0


if __name__ == "__main__":
    sys.exit(main())
