"""Sums that are exact in any order, over rows that have a state from one reading to the next.

Sums of integers need no tree: each call adds its rows to one total, and the sum of the totals does not depend on which
call has which rows. The state of a row (its scores so far) stays in the process that has read it last
(`dkernel.streaming.execution.process_cache`). A process that has lost the state is sent the values to make it again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from dkernel.data.block import Block
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution import process_cache
from dkernel.streaming.execution.base import Call, Handle
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.shares import split_evenly
from dkernel.streaming.stored_rows import StoredBlock, load_piece

T = TypeVar("T")


class ExactStatistic(ABC, Generic[T]):
    """A sum over rows that is the same in any order, of rows that have a state."""

    @abstractmethod
    def zero(self, broadcast: Any) -> T:
        """The sum over no rows."""

    @abstractmethod
    def add(self, total: T, block: Block, piece: RowSlice, broadcast: Any) -> bool:
        """Add the rows of a piece to a total in place; return False, and add nothing, if their state is lost."""

    @abstractmethod
    def finish(self, total: T) -> T:
        """Make the form of a total that is sent to the client, where totals are merged."""

    @abstractmethod
    def merge(self, left: T, right: T) -> T:
        """The sum of two totals; may reuse `left`."""


def add_up(
    statistic: ExactStatistic[T],
    broadcast: Any,
    blocks: Sequence[Block | StoredBlock],
    pieces: Sequence[tuple[int, RowSlice]],
) -> tuple[T, list[int]]:
    """Sum some pieces, each with the number of its block; return also the pieces whose state is lost."""
    total = statistic.zero(broadcast)
    lost = [
        piece.number
        for number, piece in pieces
        if not statistic.add(total, *load_piece(blocks[number], piece), broadcast)
    ]
    return statistic.finish(total), lost


class RepeatedReading(AbstractContextManager["RepeatedReading"]):
    """Reads the same pieces several times; each piece is read by the process that had it before.

    Use it in a `with` statement around the readings.

    Parameters
    ----------
    reader : reader of the blocks
    pieces : pieces of every reading
    run : name of the run in the process cache
    """

    def __init__(self, reader: BlockReader, pieces: Iterable[RowSlice], run: str) -> None:
        self.reader, self.run = reader, run
        self._pieces: dict[int, list[RowSlice]] = {}
        for piece in pieces:
            self._pieces.setdefault(piece.range.unit, []).append(piece)
        self._homes: dict[int, str] = {}

    def total(
        self,
        statistic: ExactStatistic[T],
        handle: Handle,
        broadcast: Handle,
        restore: Callable[[], AbstractContextManager[Handle]],
        key: str,
        advance: Callable[[int], None],
        last: bool,
    ) -> T:
        """The sum over all pieces.

        Parameters
        ----------
        handle, broadcast : handles of the statistic and of the value that its methods get
        restore : broadcasts the value for pieces whose state is lost
        key : made of the content of everything that decides the result
        advance : called with the rows of each window
        last : whether no reading follows this one
        """
        executor, windows = self.reader.executor, self.reader.windows(list(self._pieces))
        totals: list[T] = []

        def calls(window: Sequence[int]) -> list[Call]:
            pieces = [piece for unit in window for piece in self._pieces[unit]]
            return [
                self._call(f"{key}-{some[0].number}", handle, broadcast, some, at) for at, some in self._deal(pieces)
            ]

        read_on = {unit: self._homes.get(pieces[0].number) for unit, pieces in self._pieces.items()}
        results = self.reader.visit(windows, calls, following=() if last else windows[0], read_on=read_on)
        for window, answers in zip(windows, results, strict=True):
            lost = {number for _, numbers in answers for number in numbers}
            if lost:
                again = [piece for unit in window for piece in self._pieces[unit] if piece.number in lost]
                with restore() as whole:
                    more = [
                        self._call(f"{key}-again-{some[0].number}", handle, whole, some, at)
                        for at, some in self._deal(again)
                    ]
                    answers = [*answers, *executor.compute(more)[0]]
            for total, _ in answers:
                totals = [statistic.merge(totals[0], total)] if totals else [total]
            advance(sum(piece.n for unit in window for piece in self._pieces[unit]))
        return totals[0]

    def _call(self, key: str, handle: Handle, broadcast: Handle, pieces: Sequence[RowSlice], at: str | None) -> Call:
        blocks: dict[tuple[int, int], tuple[int, Handle]] = {}
        numbered = []
        for piece in pieces:
            block = piece.range.unit, piece.range.block
            if block not in blocks:
                blocks[block] = len(blocks), self.reader.block(piece.range)
            numbered.append((blocks[block][0], piece))
        of_blocks = [of_block for _, of_block in blocks.values()]
        return Call(f"{key}-{len(pieces)}", add_up, (handle, broadcast, of_blocks, numbered), at)

    def _deal(self, pieces: Sequence[RowSlice]) -> list[tuple[str | None, list[RowSlice]]]:
        """List the pieces of each call with its worker, which had the pieces before or has their block."""
        threads = self.reader.executor.processes()
        if not threads:
            return [(None, some) for some in _cut(pieces, self.reader.executor.slots)]
        rows = dict.fromkeys(sorted(threads), 0)
        mine: dict[str, list[RowSlice]] = {worker: [] for worker in rows}
        workers = {piece.range.unit: self.reader.worker(piece.range.unit) for piece in pieces}
        spread = set(workers.values()) >= threads.keys() or self.reader.rows_stay(len(pieces))
        for piece in pieces:
            home = self._homes.get(piece.number)
            if home not in threads:
                worker = workers[piece.range.unit]
                least = min(rows, key=lambda worker: rows[worker] / threads[worker])
                home = worker if spread and worker is not None else least
                self._homes[piece.number] = home
            assert home is not None
            rows[home] += piece.n
            mine[home].append(piece)
        return [(at, some) for at, dealt in mine.items() if dealt for some in _cut(dealt, threads[at])]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Forget the states of the rows; after an error other processes forget them when the lease of tasks ends."""
        process_cache.drop(self.run)
        workers = self.reader.executor.processes() if kind is None else {}
        calls = [Call(f"{self.run}-drop-{at}", process_cache.drop, (self.run,), at) for at in workers]
        if calls:
            self.reader.executor.compute(calls)


def _cut(pieces: Sequence[RowSlice], parts: int) -> list[list[RowSlice]]:
    return split_evenly(pieces, [piece.n for piece in pieces], parts)
