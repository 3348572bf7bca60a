"""What a fit of up to ten billion rows would take on up to a thousand workers: a simulation with measured prices.

    python scripts/bench/many_workers.py [--components 512] [--json]

The reader of a fit makes the calls of its survey and of some rounds, for workers on paper. The client makes and packs
the calls, which is measured here (CPU seconds); the scheduler hands each on, and gets its result and hands that back,
one at a time; a worker copies the chunks of its share that others have, and sums the rows; when the client has all
results it takes the step. A result has a sum for each node of the tree that the share makes up, and of each of the
HEADS that a large fit learns; workers merge those of many calls. Prices are CPU seconds measured by `workers.py`, work
is that of the plan (dkernel/streaming/cost.py).

Assumptions: a core is the one of the plan's table; every worker has a core and memory for its rows, and reads at the
plan's speed; the network carries 1 GB/s to each worker; survey and choice are one even round each; nothing fails.
`used` is what the plan takes of the workers, `all` would be the fit on every one of them; `client` is the work of
client and scheduler for the survey, and for a round with its MB of calls and sums.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from dask.delayed import Delayed
from report import finish, parser

from dkernel.data.collections.arrays import from_arrays
from dkernel.data.source import Source, Unit
from dkernel.model.recipe import Recipe
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.cost import CALL_SECONDS, READ_BYTES, core_seconds
from dkernel.streaming.execution.base import Call, Executor, Handle, Item, resolve
from dkernel.streaming.execution.payload import Payload
from dkernel.streaming.execution.tasks import Slot
from dkernel.streaming.machine import Machine
from dkernel.streaming.progress import Progress
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import bundle_size, bundles, cut_pieces, shuffle_order
from dkernel.streaming.shares import merge_results
from dkernel.training.planning.memory_plan import Plan

COLUMNS, UNIT = 28, 131_072
CLIENT = 0.3  # of the seconds of a call, the share that is the client's: half to send it, half to take its result
BYTE_SECONDS = 7e-9  # of client and scheduler together for a byte of a result: 11e-9 where a call takes 5e-3
STEP = 0.01  # seconds of the client between two rounds, at 512 components
NETWORK = 1e9  # bytes a second that come to a worker
HEADS = 4  # that a large fit of two classes learns: an alpha each
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


@dataclass
class Window:
    """Calls at one time: the rows that each sums, the bytes that it copies before, the sums that merging workers and
    the client get, and bytes of the calls."""

    rows: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)
    sums: int = 0
    sent: int = 0


@dataclass(frozen=True)
class Round:
    """The windows of a round, and CPU seconds of the client to make and pack their calls."""

    windows: list[Window]
    client: float

    def busy(self, prices: Prices, node: int) -> float:
        """Seconds of client and scheduler, with sums of `node` bytes."""
        calls = sum(len(window.rows) + len(window.merged) for window in self.windows)
        sums = sum(window.sums for window in self.windows)
        return self.client + calls * (prices.client + prices.scheduler) + sums * node * prices.byte


class Nothing(Statistic[float, float]):
    """A sum of nothing."""

    def step(self, *_: Any) -> float:
        return 0.0

    def merge(self, *_: Any) -> float:
        return 0.0


@dataclass(frozen=True, eq=False)
class Place(Handle):
    """A value of a worker on paper."""

    at: str | None
    value: Any = None


class Paper(Executor):
    """So many workers on paper, which note what a round asks of them; `aside` are CPU seconds that a client has not."""

    name, slots = "paper", 0

    def __init__(self, workers: int, row_bytes: int) -> None:
        super().__init__()
        self.slots, self.row_bytes, self.aside = workers, row_bytes, 0.0
        self.workers, self.turn = [f"worker {i}" for i in range(workers)], 0
        self.windows, self.window = list[Window](), Window()

    def processes(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    def find_workers(self, handles: Sequence[Handle]) -> list[str | None]:
        return [_whole(handle).at for handle in handles]

    def keep(self, value: Any, key: str) -> Handle:  # noqa: ARG002
        return Place(None, value)

    def leave(self, calls: Sequence[Call]) -> list[Handle]:
        return [Place(call.at, self._note(call)) for call in calls]  # merged by the next calls

    def compute(
        self, calls: Sequence[Call], ahead: Sequence[Any] = (), read_on: Sequence[str | None] = ()
    ) -> tuple[list[Any], list[Handle]]:
        places = read_on or sorted(self.workers[(self.turn + i) % self.slots] for i in range(len(ahead)))
        self.turn += len(ahead)
        results = [self._note(call) for call in calls]
        if calls:
            self.window.sums += sum(map(len, results))
            self.windows.append(self.window)
            self.window = Window()
        return results, [Place(at, UNIT) for at in places]

    def _note(self, call: Call) -> Any:
        needs: dict[Handle, int] = {}
        args = tuple(resolve(arg, lambda handle: Slot(needs.setdefault(handle, len(needs)))) for arg in call.args)
        self.window.sent += Payload.of((call.function, args)).nbytes
        begun = time.process_time()
        try:
            if call.function is merge_results:
                self.window.merged.append(sum(len(result.value) for result in call.args[2:]))
                return call.function(*resolve(list(call.args), lambda handle: handle.value))
            blocks, nodes = call.args[2:]
            rows = sum(int(pieces.rows().sum()) for _, lists in nodes for _, pieces in lists)
            self.window.rows.append(rows)
            first = call.at or _whole(blocks[0]).at
            others = {_whole(block) for block in blocks if _whole(block).at != first}
            self.window.copied.append(sum(place.value for place in others) * self.row_bytes)
            return [(node, 0.0) for node, _ in nodes]
        finally:
            self.aside += time.process_time() - begun

    def during(self, work: Callable[[], Any]) -> Round:
        """What this work of the client asks of the workers."""
        self.windows, self.aside, begun = [], 0.0, time.process_time()
        work()
        return Round(self.windows, time.process_time() - begun - self.aside)


def _whole(handle: Any) -> Place:
    return _whole(handle.whole) if isinstance(handle, Item) else handle


def rounds_of(source: Source, rounds: int, workers: int, kept: bool) -> Iterator[Round]:
    """The survey, and then some rounds of a pass over the source."""
    units, paper = [unit.rows for unit in source.units], Paper(workers, source.row_bytes)
    bundle = bundle_size(units, source.row_bytes)
    turns = shuffle_order(units, rounds, 0, 0, bundle)
    reader = BlockReader(paper, source, kept, [bundles(units, 0, 0, bundle, rounds)])
    said = {"handle": Place(None, Nothing()), "broadcast": Place(None)}
    yield paper.during(lambda: reader.fold(Nothing(), cut_pieces(units), "survey", Progress("none"), **said))
    for i in range(0, len(turns) - 1, -(-len(turns) // ROUNDS)):
        ahead = reader.pieces_ahead(turns, i)
        yield paper.during(lambda: reader.reduce(Nothing(), turns[i], f"{i}", following=ahead, **said))  # noqa: B023


def rows_of(n: int) -> Source:
    """A source of about n rows that holds none of them."""
    few = from_arrays(np.zeros((UNIT, COLUMNS), np.float32), np.arange(UNIT) % 2)
    keys = [f"dkernel-read-part-{i:06d}.parquet-0-{UNIT}-abcdef0123456789" for i in range(max(1, n // UNIT))]
    units = tuple(Unit((UNIT,), Delayed(key, {key: (min,)}), key) for key in keys)
    return replace(few, units=units, files=("rows.parquet",))


def line(n: int, workers: int, recipe: Recipe, prices: Prices) -> dict[str, Any]:
    """A fit of n rows with so many workers."""
    source, names = rows_of(n), [f"worker {i}" for i in range(workers)]
    plan = Plan.of(source, recipe, Machine(dict.fromkeys(names, 1), dict.fromkeys(names, 4 * 2**30)))
    solve, rounds = plan.costs["solve"], plan.sizes.rounds
    waits = solve.readings * rounds
    read = source.nbytes / READ_BYTES * (1 if plan.keeps_rows else plan.readings)
    work = solve.seconds + read * solve.readings / plan.readings
    others = core_seconds(plan.costs[name] for name in ("survey", "choice", "setup")) + read / plan.readings
    row, node = work / solve.readings / source.n_rows, 8 * HEADS * plan.sizes.components
    waiting = replace(prices, step=0.0)

    def window_seconds(window: Window) -> float:
        works = [n * row + copied / NETWORK for n, copied in zip(window.rows, window.copied, strict=True)]
        if not window.merged:
            return round_seconds(works, waiting, window.sums * node)
        merging = round_seconds([nodes * node / NETWORK for nodes in window.merged], waiting, window.sums * node)
        return round_seconds(works, replace(waiting, client=prices.client / 2)) + merging

    def turn_seconds(turn: Round) -> float:
        return turn.client + prices.step + sum(map(window_seconds, turn.windows))

    def fit(calls: int) -> tuple[float, dict[str, Any]]:
        survey, *turns = rounds_of(source, rounds, calls, plan.keeps_rows)
        said = survey.busy(prices, 0)
        even = round_seconds([others / 2 / calls] * calls, prices)
        mb = [sum(window.sent + window.sums * node for window in turn.windows) / 1e6 for turn in turns]
        seconds = waits * float(np.mean([turn_seconds(turn) for turn in turns])) + even + max(even, said)
        return seconds, {
            "client: survey": said,
            "a round": float(np.mean([turn.busy(prices, node) for turn in turns])),
            "MB": float(np.mean(mb)),
        }

    used, client = fit(plan.used.slots)
    found = {"rows": f"{n:,}", "workers": workers, "used": plan.used.slots, "in memory": plan.keeps_rows}
    return found | {"seconds": used, "seconds, all": fit(workers)[0]} | client


def main(arguments: Sequence[str] | None = None) -> int:
    ask = parser(__doc__)
    ask.add_argument("--components", type=int, default=512)
    args = ask.parse_args(arguments)
    recipe = Recipe(n_components=args.components, local="none", kernel="gaussian", gamma=0.1)
    sizes = [(n, workers) for n in (640_000, 10**7, 10**8, 10**9, 10**10) for workers in (8, 64, 1000)]
    lines = [line(n, workers, recipe, Prices()) for n, workers in sizes]
    finish("many workers, simulated", lines, json_only=args.json, components=args.components)
    return 0


if __name__ == "__main__":
    sys.exit(main())
