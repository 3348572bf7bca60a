"""Who sums which pieces of a round: the worker that has their chunk, or one that would wait for it.

A round waits for its last worker. Where each has many chunks of it they end together; where each has one or two, some
have twice as much as others. A worker with less then borrows the chunk of one with more and sums some of its pieces: a
run, whose sums are nodes of the chunk's tree (`reduce.nodes`), so no bit knows who made them. The blocks of a run are
copied to the borrower, which has to be worth it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["BORROWED", "Run", "Share", "evened", "longest", "shares"]

SLACK = 0.02  # of the mean that a worker may have more of than it
FINE = 32  # parts of a chunk's pieces between which a run may begin: the sums of a run are a few nodes then
BORROWED = 4  # chunks that a worker borrows of a round

Sizes = Mapping[int, Sequence[int]]
"""Chunk -> rows of each of its pieces that a round has, in their order."""


@dataclass(frozen=True)
class Run:
    """Pieces first, ..., last - 1 of those that a round has of a chunk."""

    chunk: int
    first: int
    last: int


@dataclass(frozen=True)
class Share:
    """What one call sums: on the worker `at`, which borrows the blocks from `lender` unless that is None."""

    at: str
    runs: tuple[Run, ...]
    lender: str | None = None


def evened(
    sizes: Sizes,
    places: Mapping[int, str],
    workers: Iterable[str],
    worth: Callable[[int, int], bool] = lambda chunk, rows: True,  # noqa: ARG005
    has: Mapping[str, Sequence[int]] | None = None,
) -> list[Share]:
    """A share for each worker of what is its own, and one of each worker that it borrows from.

    Parameters
    ----------
    places : chunk -> the worker that has it
    workers : all of them, those without a chunk too
    worth : of a chunk and the rows of a run, whether its pieces may be summed by a worker that has to fetch it
    has : worker -> chunks that it has borrowed before

    Examples
    --------
    >>> for share in evened({0: [10] * 8, 1: [10] * 8, 2: [10] * 8}, {0: "a", 1: "a", 2: "b"}, "ab"):
    ...     print(share)
    Share(at='a', runs=(Run(chunk=0, first=0, last=4), Run(chunk=1, first=0, last=8)), lender=None)
    Share(at='b', runs=(Run(chunk=2, first=0, last=8),), lender=None)
    Share(at='b', runs=(Run(chunk=0, first=4, last=8),), lender='a')
    """
    left = {chunk: len(pieces) for chunk, pieces in sizes.items()}
    own: dict[str, list[int]] = {worker: [] for worker in sorted({*workers, *places.values()})}
    for chunk in sizes:
        own[places[chunk]].append(chunk)
    loads = {worker: sum(sum(sizes[chunk]) for chunk in mine) for worker, mine in own.items()}
    mean = sum(loads.values()) / max(1, len(loads))
    takers = sorted((worker for worker in loads if loads[worker] < mean), key=loads.__getitem__, reverse=True)
    givers = sorted((worker for worker in loads if loads[worker] > (1 + SLACK) * mean), key=loads.__getitem__)
    lent: dict[tuple[str, str], list[Run]] = {}
    borrowed: dict[str, set[int]] = {}
    while givers and takers:
        giver, taker = givers[-1], takers[-1]
        wanted = min(loads[giver] - mean, mean - loads[taker])
        known = (has or {}).get(taker, ())
        order = sorted(own[giver], key=lambda chunk: (chunk not in known, -sum(sizes[chunk][: left[chunk]]), chunk))
        most = loads[giver] - loads[taker]
        run = next(filter(None, (_tail(sizes[chunk], left[chunk], wanted, most, chunk) for chunk in order)), None)
        rows = sum(sizes[run.chunk][run.first : run.last]) if run is not None else 0
        if run is None or not (run.chunk in known or worth(run.chunk, rows)):
            # What is too little for the one is too little for all.
            (givers if loads[giver] - mean <= mean - loads[taker] else takers).pop()
            continue
        left[run.chunk] = run.first
        lent.setdefault((taker, giver), []).append(run)
        loads[giver], loads[taker] = loads[giver] - rows, loads[taker] + rows
        borrowed.setdefault(taker, set()).add(run.chunk)
        if loads[giver] <= (1 + SLACK) * mean:
            givers.pop()
        if loads[taker] >= mean or len(borrowed[taker]) == BORROWED:
            takers.pop()
    mine = {worker: tuple(Run(chunk, 0, left[chunk]) for chunk in own[worker] if left[chunk]) for worker in own}
    kept = [Share(worker, runs) for worker, runs in mine.items() if runs]
    return kept + [Share(at, tuple(runs), lender) for (at, lender), runs in lent.items()]


def _tail(pieces: Sequence[int], left: int, wanted: float, most: float, chunk: int) -> Run | None:
    """The last of the first `left` pieces, so many that they have the rows that are wanted, of which `most` are too
    many; None for none. What is wanted is rounded up: many that had a little less each would leave much to one."""
    grain = _grain(len(pieces))
    rows, first = 0, left
    while first > 0 and rows < wanted:
        start = (first - 1) // grain * grain
        rows += sum(pieces[start:first])
        if rows >= most:
            break
        first = start
    return Run(chunk, first, left) if first < left else None


def _grain(pieces: int) -> int:
    """Pieces between two places where a run may begin: a power of two."""
    return 1 << max(0, (pieces // FINE).bit_length() - 1)


def shares(sizes: Sizes, evened: Iterable[Share], threads: int) -> list[Share]:
    """The same cut once more, so that each thread of a worker has as much as the others.

    Examples
    --------
    >>> [share.runs for share in shares({0: [10] * 8}, [Share("a", (Run(0, 0, 8),))], 2)]
    [(Run(chunk=0, first=0, last=4),), (Run(chunk=0, first=4, last=8),)]
    """
    if threads == 1:
        return list(evened)
    lines: dict[str, list[tuple[str | None, Run]]] = {}
    for share in evened:
        lines.setdefault(share.at, []).extend((share.lender, run) for run in share.runs)
    found = []
    for at, line in lines.items():
        total = sum(sum(sizes[run.chunk][run.first : run.last]) for _, run in line)
        calls: dict[tuple[int, str | None], list[Run]] = {}
        before = 0
        for lender, run in line:
            for first, last in _parts(sizes[run.chunk], run):
                rows = sum(sizes[run.chunk][first:last])
                thread = min(threads - 1, int((before + rows / 2) * threads / max(1, total)))
                mine = calls.setdefault((thread, lender), [])
                if mine and mine[-1].chunk == run.chunk and mine[-1].last == first:
                    mine[-1] = Run(run.chunk, mine[-1].first, last)
                else:
                    mine.append(Run(run.chunk, first, last))
                before += rows
        found += [Share(at, tuple(runs), lender) for (_, lender), runs in calls.items()]
    return found


def longest(sizes: Sizes, shares: Iterable[Share]) -> int:
    """Rows of the worker that has most of them."""
    loads: dict[str, int] = {}
    for share in shares:
        rows = sum(sum(sizes[run.chunk][run.first : run.last]) for run in share.runs)
        loads[share.at] = loads.get(share.at, 0) + rows
    return max(loads.values(), default=0)


def _parts(pieces: Sequence[int], run: Run) -> list[tuple[int, int]]:
    grain = _grain(len(pieces))
    ends = [*range((run.first // grain + 1) * grain, run.last, grain), run.last]
    return list(zip([run.first, *ends[:-1]], ends, strict=True))
