"""What a fit of up to a billion rows would take on up to a thousand workers: a simulation with measured prices.

    python scripts/bench/many_workers.py [--components 512] [--json]

A round is simulated call by call. The client makes the calls one after the other; the scheduler hands each on, and gets
its result and hands that back, one at a time; a worker sums its share of the rows; when the client has all results it
takes the step. A result has a sum for each chunk, of as many numbers as there are components: neighbouring chunks are
read by different workers. Prices are CPU seconds measured by `workers.py`, work is that of the plan (dkernel/cost.py).

Assumptions: a core is the one of the plan's table; every worker has a core and memory for its rows, reads at the plan's
speed, and ends its share in the same time; the network is as quick as the loopback; survey and choice are one round
each; nothing fails. `used` is what the plan takes of the workers, `all` would be the fit on every one of them.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from report import finish

from dkernel.cost import CALL_SECONDS, READ_BYTES, core_seconds
from dkernel.data import from_arrays
from dkernel.data.source import Source
from dkernel.execution.stated import StatedExecutor
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.recipe import Recipe
from dkernel.training.memory_plan import Plan, Stages

COLUMNS, UNIT = 28, 131_072
CLIENT = 0.3  # of the seconds of a call, the share that is the client's: half to send it, half to take its result
BYTE_SECONDS = 7e-9  # of client and scheduler together for a byte of a result: 11e-9 where a call takes 5e-3
STEP = 0.01  # seconds of the client between two rounds, at 512 components


@dataclass(frozen=True)
class Prices:
    """Seconds of the client and of the scheduler for a call, of the client for a step, of both for a byte."""

    client: float = CLIENT * CALL_SECONDS
    scheduler: float = (1 - CLIENT) * CALL_SECONDS
    step: float = STEP
    byte: float = BYTE_SECONDS


def round_seconds(calls: int, work: float, prices: Prices, results: int = 0) -> float:
    """Seconds of a round of `work` core seconds in so many equal calls, which return `results` bytes in all.

    Examples
    --------
    >>> round_seconds(1, 1.0, Prices(0.0, 0.0, 0.0)), round_seconds(4, 1.0, Prices(0.0, 0.0, 0.0))
    (1.0, 0.25)
    >>> round_seconds(1000, 1.0, Prices(0.001, 0.002, 0.0)) > 2.0
    True
    """
    sent = (np.arange(calls) + 1) * prices.client / 2
    ends: list[float] = []
    free = 0.0
    for at in sent:  # the scheduler hands calls on in their order, and results in that of their coming
        free = max(free, at) + prices.scheduler / 2
        ends.append(free + work / calls)
    for at in ends:
        free = max(free, at) + prices.scheduler / 2
    return max(free, float(sent[-1])) + calls * prices.client / 2 + results * prices.byte + prices.step


def rows_of(n: int) -> Source:
    """A source of about n rows that holds none of them: one unit stands in it again and again."""
    few = from_arrays(np.zeros((UNIT, COLUMNS), np.float32), np.arange(UNIT) % 2)
    return replace(few, units=few.units * max(1, n // UNIT), files=("rows.parquet",))


def line(n: int, workers: int, recipe: Recipe, prices: Prices) -> dict[str, Any]:
    """A fit of n rows with so many workers."""
    source, place = rows_of(n), StatedExecutor({f"worker {i}": 1 for i in range(workers)}, 4 * 2**30)
    plan, stages = Plan.of(source, recipe, place), Stages.of(source, recipe, place, 1)
    waits = stages.solve.readings * stages.sizes.rounds
    read = source.nbytes / READ_BYTES * (1 if plan.kept else plan.readings)
    work = core_seconds([stages.solve]) + read * stages.solve.readings / plan.readings
    others = core_seconds([stages.survey, stages.choice, stages.setup]) + read / plan.readings

    pieces = sum(-(-rows // PIECE_ROWS) for unit in source.units for rows in unit.rows)
    chunks = min(sum(len(unit.rows) for unit in source.units), pieces // stages.sizes.rounds)
    results = 8 * stages.sizes.components * chunks

    def fit(calls: int) -> float:
        rounds = waits * round_seconds(calls, work / waits, prices, results)
        return rounds + 2 * round_seconds(calls, others / 2, prices)

    found = {"rows": f"{n:,}", "workers": workers, "used": plan.slots, "in memory": plan.kept}
    return found | {"seconds": fit(plan.slots), "seconds, all": fit(workers), "one worker": fit(1)}


def main(arguments: Sequence[str] | None = None) -> int:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--components", type=int, default=512)
    ask.add_argument("--json", action="store_true", help="only the JSON line")
    args = ask.parse_args(arguments)
    recipe = Recipe(n_components=args.components, local="none", kernel="gaussian", gamma=0.1)
    sizes = [(n, workers) for n in (640_000, 10**7, 10**8, 10**9) for workers in (8, 64, 1000)]
    lines = [line(n, workers, recipe, Prices()) for n, workers in sizes]
    finish("many workers, simulated", lines, json_only=args.json, components=args.components)
    return 0


if __name__ == "__main__":
    sys.exit(main())
