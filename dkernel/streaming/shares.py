"""Calls that make up a sum: each thread of a worker gets an even share of the pieces that the worker has."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.streaming.execution.base import Call, Executor, Handle
from dkernel.streaming.reduction import R, S, Statistic, merge_levels, tree_nodes
from dkernel.streaming.schedule import ChunkPieces, RowSlice
from dkernel.streaming.stored_rows import StoredBlock, load_piece

T = TypeVar("T")
MOST_UNEVEN = 1.5  # a worker may read this many times its share: a round then takes at most half as long again
CHUNK_PARTS = 32  # a run begins at one of these parts of a chunk's pieces, so its sums are a few nodes

MERGED = 16  # calls whose results one of their workers merges; of less than four times as many the client does it

PieceRows = Mapping[int, Sequence[int]]
"""Position of a chunk in the sum -> rows of each of its pieces that a round has, in their order."""


@dataclass(frozen=True)
class PieceRun:
    """Pieces first, ..., last - 1 of the pieces of a chunk that a round has."""

    chunk: int
    first: int
    last: int


@dataclass(frozen=True)
class Share:
    """The pieces that one call sums, on the worker `at`, or on any worker if that is None."""

    at: str | None
    runs: tuple[PieceRun, ...]


@dataclass(frozen=True, order=True)
class Node:
    """A node of the tree of the chunks, or of the tree of the pieces of one chunk if `first` is not None.

    Parameters
    ----------
    chunk : position of its first chunk among those of the round
    first : number of its first piece, None for whole chunks
    level : the node is the sum of 2^level chunks or pieces; 0 for all pieces of a chunk
    """

    chunk: int
    first: int | None
    level: int

    @property
    def place(self) -> tuple[int, int]:
        """Its place in the order of the sum."""
        return self.chunk, self.first or 0

    def is_left_of(self, other: "Node") -> bool:
        """True if both together are a node of the tree, with this one on the left."""
        at, beside = (self.chunk, other.chunk) if self.first is None else (self.first, other.first or 0)
        alike = self.level == other.level and (self.first is None) == (other.first is None)
        same = self.first is None or self.chunk == other.chunk
        return alike and same and beside == at + (1 << self.level) and at % (2 << self.level) == 0


def make_shares(
    sizes: PieceRows, workers: Mapping[int, str | None], threads: Mapping[str, int], slots: int, stay: bool = False
) -> list[Share]:
    """Cut the chunks of each worker into an even share for each of its threads.

    If one worker has more than MOST_UNEVEN times its share, other workers copy the chunks above that. If that is not
    enough, or some workers are unknown, each of the slots gets an even share.

    Parameters
    ----------
    workers : chunk -> the worker that has it
    threads : worker -> its threads
    slots : calls that run at a time
    stay : whether every chunk stays on its worker, if that is known

    Examples
    --------
    >>> for share in make_shares({0: [10] * 8, 1: [10] * 8}, {0: "a", 1: "b"}, {"a": 2, "b": 1}, 3):
    ...     print(share)
    Share(at='a', runs=(PieceRun(chunk=0, first=0, last=4),))
    Share(at='a', runs=(PieceRun(chunk=0, first=4, last=8),))
    Share(at='b', runs=(PieceRun(chunk=1, first=0, last=8),))
    """
    by_worker = _group_chunks(workers, sizes, threads)
    if not threads or by_worker.keys() != threads.keys():
        return [Share(None, runs) for runs in _even(sizes, list(sizes), slots)]
    if not (stay or _is_shared(by_worker, sizes, threads)):
        holders = [[str(workers[chunk])] for chunk in sizes]
        assigned, _ = assign_workers([sum(pieces) for pieces in sizes.values()], holders, threads)
        by_worker = _group_chunks(dict(zip(sizes, assigned, strict=True)), sizes, threads)
        if not _is_shared(by_worker, sizes, threads):
            return [Share(None, runs) for runs in _even(sizes, list(sizes), slots)]
    return [Share(at, runs) for at, chunks in by_worker.items() for runs in _even(sizes, chunks, threads[str(at)])]


def is_even(rows: Mapping[str | None, int], threads: Mapping[str, int]) -> bool:
    """True if no worker has more than MOST_UNEVEN times its share of the rows, and no rows are elsewhere.

    Parameters
    ----------
    rows, threads : worker -> its rows; worker -> its threads

    Examples
    --------
    >>> is_even({"a": 30, "b": 20}, {"a": 1, "b": 1}), is_even({"a": 40, "b": 10}, {"a": 1, "b": 1})
    (True, False)
    """
    share = MOST_UNEVEN * sum(rows.values()) / max(1, sum(threads.values()))
    return all(n <= share * threads.get(worker or "", 0) for worker, n in rows.items())


def assign_workers(
    rows: Sequence[int], holders: Sequence[Sequence[str]], threads: Mapping[str, int]
) -> tuple[list[str | None], list[int]]:
    """Choose the worker to read each unit; return them, and the units that have to be copied for that.

    A unit is read where it is, until that worker would have more than MOST_UNEVEN times its share of the rows. Each of
    the other units goes to the worker with the fewest rows for its threads.

    Parameters
    ----------
    rows : rows of each unit
    holders : the workers that have each unit; empty for a unit that no worker has
    threads : worker -> its threads

    Examples
    --------
    >>> assign_workers([10] * 4, [["a"]] * 4, {"a": 1, "b": 1})
    (['a', 'a', 'a', 'b'], [3])
    >>> assign_workers([10] * 4, [["a"], ["b"], ["a"], ["a"]], {"a": 1, "b": 1})
    (['a', 'b', 'a', 'a'], [])
    """
    rows_read = dict.fromkeys(sorted(threads), 0)
    share = sum(rows) / max(1, sum(threads.values()))
    workers: list[str | None] = [None] * len(rows)
    rest = []

    def load(worker: str, more: int) -> float:
        return (rows_read[worker] + more) / threads[worker]

    for unit, n in enumerate(rows):
        there = [worker for worker in rows_read if worker in holders[unit]]
        at = min(there, key=lambda worker: load(worker, n), default=None)
        if at is None or load(at, n) > MOST_UNEVEN * share:
            rest.append(unit)
        else:
            workers[unit], rows_read[at] = at, rows_read[at] + n
    for unit in rest:
        n = rows[unit]
        at = min(rows_read, key=lambda worker: (load(worker, n), worker not in holders[unit]), default=None)
        if at is not None:
            workers[unit], rows_read[at] = at, rows_read[at] + n
    return workers, [unit for unit in rest if holders[unit] and workers[unit] not in holders[unit]]


def deal(
    groupings: Sequence[Sequence[Sequence[int]]], threads: Mapping[str, int], in_runs: bool = False
) -> dict[int, str]:
    """Choose a worker for each unit, so that each worker has its share of every group.

    Parameters
    ----------
    groupings : lists of groups of units; the first has all units, and its groups count most
    threads : worker -> its threads
    in_runs : whether a worker gets neighbours of a group of the first list, whose sums are few nodes of its tree

    Examples
    --------
    >>> deal([[[0, 2], [3, 1]], [[0, 1], [2, 3]]], {"a": 1, "b": 1})
    {0: 'a', 2: 'b', 3: 'a', 1: 'b'}
    >>> deal([[[3, 0, 2, 1]]], {"a": 1, "b": 1}, in_runs=True)
    {0: 'a', 1: 'a', 2: 'b', 3: 'b'}
    """
    names = sorted(threads)
    share = np.array([threads[worker] for worker in names])
    loads: dict[int, list[NDArray[np.int64]]] = {}
    for groups in groupings:
        for group in groups:
            load = np.zeros(len(names), np.int64)
            for unit in group:
                loads.setdefault(unit, []).append(load)
    workers = {}
    for group in groupings[0]:
        runs = split_evenly(sorted(group), [1] * len(group), int(share.sum())) if in_runs else [[u] for u in group]
        for run in runs:
            mine = [np.sum(each, axis=0) / share for each in zip(*(loads[unit] for unit in run), strict=True)]
            at = int(np.lexsort(mine[::-1])[0])
            for unit in run:
                workers[unit] = names[at]
                for load in loads[unit]:
                    load[at] += 1
    return workers


def _group_chunks(
    workers: Mapping[int, str | None], sizes: PieceRows, threads: Mapping[str, int]
) -> dict[str | None, list[int]]:
    """The chunks of each worker; None has the chunks whose worker is unknown."""
    by_worker: dict[str | None, list[int]] = {worker: [] for worker in sorted(threads)}
    for chunk in sizes:
        by_worker.setdefault(workers.get(chunk), []).append(chunk)
    return by_worker


def _is_shared(by_worker: Mapping[str | None, Sequence[int]], sizes: PieceRows, threads: Mapping[str, int]) -> bool:
    """True if no worker has many more rows than its share."""
    rows = {worker: sum(sum(sizes[chunk]) for chunk in chunks) for worker, chunks in by_worker.items()}
    return is_even(rows, threads)


def split_evenly(items: Sequence[T], rows: Sequence[int], parts: int) -> list[list[T]]:
    """Cut the items, in their order, into at most `parts` parts with about equal numbers of rows."""
    total, before = sum(rows), 0
    cut: dict[int, list[T]] = {}
    for item, n in zip(items, rows, strict=True):
        cut.setdefault(min(parts - 1, int((before + n / 2) * parts / max(1, total))), []).append(item)
        before += n
    return list(cut.values())


def _even(sizes: PieceRows, chunks: Sequence[int], parts: int) -> list[tuple[PieceRun, ...]]:
    """Cut the pieces of these chunks into runs, in at most `parts` parts with about equal numbers of rows."""
    ends = {chunk: _grains(len(sizes[chunk])) if parts > 1 else [(0, len(sizes[chunk]))] for chunk in chunks}
    grains = [PieceRun(chunk, first, last) for chunk in chunks for first, last in ends[chunk]]
    cut = split_evenly(grains, [sum(sizes[run.chunk][run.first : run.last]) for run in grains], parts)
    alike = ([list(run) for _, run in groupby(part, attrgetter("chunk"))] for part in cut)
    return [tuple(PieceRun(run[0].chunk, run[0].first, run[-1].last) for run in part) for part in alike]


def _grains(pieces: int) -> list[tuple[int, int]]:
    """Cut the pieces of a chunk into parts whose length is a power of two."""
    grain = 1 << max(0, (pieces // CHUNK_PARTS).bit_length() - 1)
    return [(first, min(first + grain, pieces)) for first in range(0, pieces, grain)]


def find_nodes(share: Share, sizes: PieceRows) -> list[tuple[Node, list[PieceRun]]]:
    """Find the nodes that a share sums, each with its runs; chunks are known by their positions in the sum."""
    nodes: list[tuple[Node, list[PieceRun]]] = []
    whole: list[PieceRun] = []
    for run in share.runs:
        if (run.first, run.last) == (0, len(sizes[run.chunk])):
            whole.append(run)
            continue
        for first, last, level in tree_nodes(run.first, run.last):
            nodes.append((Node(run.chunk, first, level), [PieceRun(run.chunk, first, last)]))
    while whole:
        begin, count = whole[0].chunk, 1
        while count < len(whole) and whole[count].chunk == begin + count:
            count += 1
        for first, last, level in tree_nodes(begin, begin + count):
            nodes.append((Node(first, None, level), whole[first - begin : last - begin]))
        del whole[:count]
    return nodes


def merge_chunks(
    results: Iterable[Iterable[tuple[Node, S]]], merge: Callable[[S, S], S], pieces: Mapping[int, int] | None = None
) -> dict[Node, S]:
    """Collect the sums of some calls; the sums of the parts of a chunk are merged to one.

    Parameters
    ----------
    pieces : chunk -> its pieces, if some parts may be missing: then the others stay as they are
    """
    sums = dict(chain.from_iterable(results))
    parts: dict[int, list[Node]] = {}
    for node in sorted(node for node in sums if node.first is not None):
        parts.setdefault(node.chunk, []).append(node)
    for chunk, mine in parts.items():
        if pieces is None or sum(1 << node.level for node in mine) == pieces[chunk]:
            sums[Node(chunk, None, 0)] = merge_levels([(node.level, sums.pop(node)) for node in mine], merge)
    return sums


def merge_results(statistic: Statistic[S, Any], pieces: Mapping[int, int], *results: Any) -> list[tuple[Node, S]]:
    """Merge what some calls have returned to the fewest nodes of the tree; runs on a worker."""
    nodes: list[tuple[Node, S]] = []
    # Copies: a task may run again on the values of others.
    for node, value in sorted(
        merge_chunks(deepcopy(results), statistic.merge, pieces).items(), key=lambda item: item[0].place
    ):
        while nodes and nodes[-1][0].is_left_of(node):
            left, before = nodes.pop()
            node, value = replace(left, level=left.level + 1), statistic.merge(before, value)
        nodes.append((node, value))
    return nodes


def merge_calls(
    executor: Executor, statistic: Any, calls: Sequence[Call], chunks: Mapping[int, Sequence[RowSlice]]
) -> tuple[list[Call], list[Handle]]:
    """Start many calls; return calls that merge the results of some neighbours each, and handles of the results."""
    if len(calls) < 4 * MERGED or not executor.processes():
        return list(calls), []
    calls = sorted(calls, key=lambda call: min(node.place for node, _ in call.args[-1]))
    handles, merged = executor.leave(calls), list[Call]()
    for i in range(0, len(calls), MERGED):
        some = calls[i : i + MERGED]
        parts = {node.chunk for call in some for node, _ in call.args[-1] if node.first is not None}
        args = statistic, {chunk: len(chunks[chunk]) for chunk in parts}, *handles[i : i + MERGED]
        merged.append(Call(f"merged-{some[0].key}", merge_results, args, some[0].at))
    return merged, handles


def sum_nodes(
    statistic: Statistic[S, Any],
    broadcast: Any,
    blocks: Sequence[Block | StoredBlock],
    nodes: Sequence[tuple[Node, Sequence[tuple[int, Sequence[RowSlice]]]]],
) -> list[tuple[Node, S]]:
    """Sum the pieces of each node, neighbouring lists with the number of their block; runs on a worker."""

    def merged(values: Iterable[S]) -> S:
        return merge_levels(((0, value) for value in values), statistic.merge)

    return [
        (
            node,
            merged(
                merged(statistic.step(*load_piece(blocks[number], piece), broadcast) for piece in some)
                for number, some in lists
            ),
        )
        for node, lists in nodes
    ]


def make_calls(
    statistic: Any,
    broadcast: Any,
    chunks: Mapping[int, Sequence[RowSlice]],
    blocks: Mapping[int, Handle],
    key: str,
    executor: Executor,
    workers: Mapping[int, str | None] | None = None,
    stay: bool = False,
) -> list[Call]:
    """Make the calls that together sum all pieces; `merge_chunks` merges their results.

    Parameters
    ----------
    chunks, blocks : position of each chunk in the sum -> its pieces, and the handle of their block
    workers : chunk -> the worker that has it, if that is known
    stay : see `make_shares`
    """
    sizes = {
        chunk: mine.rows().tolist() if isinstance(mine, ChunkPieces) else [piece.n for piece in mine]
        for chunk, mine in chunks.items()
    }
    threads = {} if workers is None else executor.processes()
    calls = []
    for share in make_shares(sizes, workers or {}, threads, executor.slots, stay):
        nodes = find_nodes(share, sizes)
        some = list(dict.fromkeys(blocks[run.chunk] for _, runs in nodes for run in runs))
        number = {block: i for i, block in enumerate(some)}
        pieces = [
            (node, [(number[blocks[run.chunk]], chunks[run.chunk][run.first : run.last]) for run in runs])
            for node, runs in nodes
        ]
        name = f"{key}-{share.runs[0].chunk}-{sha256(repr(share.runs).encode()).hexdigest()[:12]}"
        calls.append(Call(name, sum_nodes, (statistic, broadcast, some, pieces), share.at))
    return calls


def reduce(
    executor: Executor,
    statistic: Statistic[S, R],
    block: Handle,
    pieces: Sequence[RowSlice],
    key: str,
    *,
    handle: Handle | None = None,
    broadcast: Handle | None = None,
) -> R:
    """Compute the statistic of some pieces of a block.

    Parameters
    ----------
    key : made of the content of everything that decides the result
    handle : handle of the statistic, if it is large and the executor has it
    broadcast : handle of the value that `step` gets beside the piece
    """
    results, _ = executor.compute(make_calls(handle or statistic, broadcast, {0: pieces}, {0: block}, key, executor))
    (total,) = merge_chunks(results, statistic.merge).values()
    return statistic.finish(total)
