"""Reads the units of a source into the workers' memory, a bounded number of them before they are needed."""

import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from itertools import chain
from typing import Any

from dkernel.data.failures import KilledCallError
from dkernel.data.source import Source
from dkernel.errors import DKernelWarning
from dkernel.model.journal import Journal
from dkernel.numerics.threads import one_blas_thread
from dkernel.streaming.execution.base import Call, Executor, Handle, Item
from dkernel.streaming.journaled_sum import JournaledSum
from dkernel.streaming.killer_search import KillerSearch
from dkernel.streaming.progress import Progress
from dkernel.streaming.read_groups import MOST_BYTES, call_each, group_units, make_packed_task, make_read_task
from dkernel.streaming.reduction import R, S, Statistic, merge_levels
from dkernel.streaming.row_memory import loaded_row_bytes, packed_groups
from dkernel.streaming.schedule import (
    ChunkCut,
    ChunkPieces,
    Partition,
    RowRange,
    Schedule,
    bundle_size,
    cut_pieces,
    join_rounds,
)
from dkernel.streaming.shares import (
    MOST_UNEVEN,
    Node,
    assign_workers,
    deal,
    is_even,
    make_calls,
    merge_calls,
    merge_chunks,
)

ROUNDS_AHEAD = 16  # rounds to look ahead for units to read
# Tasks of a window for each slot where units are small: one message to the workers serves all of them.
WINDOW_TASKS = 8
# A journal stores a long reading in parts of a sixteenth of the source, and of at least PART_BYTES.
JOURNAL_PARTS, PART_BYTES = 16, 256 * 2**20


class BlockReader:
    """Reads the units of a source, and has the handles of their blocks.

    Parameters
    ----------
    keep : whether every unit stays in the workers' memory once it is read; else a unit is forgotten after the step that
        needs it, unless the next step needs it too, and each pass reads it again
    mixed : for each pass the units that its rounds mix, as `bundles` returns them; each worker keeps some of each
    """

    def __init__(
        self, executor: Executor, source: Source, keep: bool, mixed: Sequence[Sequence[Sequence[int]]] = ()
    ) -> None:
        self.executor, self.source, self.keep, self.mixed = executor, source, keep, mixed
        groups = group_units(source.units, loaded_row_bytes(source))
        self._groups = {unit: group for group in groups for unit in group}
        self._packed = packed_groups(source) if keep else ()
        self._read: dict[range, Handle] = {}
        self._loaded: set[int] = set()
        self._even: tuple[int, Mapping[str, int], bool] = (-1, {}, False)
        self.on_disk = False  # whether the blocks are on the workers' disks
        self._unfinished: list[Call] = []  # calls whose results the calls that are being computed need

    def reduce(
        self,
        statistic: Statistic[S, R],
        pieces: Partition,
        key: str,
        *,
        following: Partition | None = None,
        handle: Handle | None = None,
        broadcast: Handle | None = None,
    ) -> R:
        """Compute the statistic of these pieces while the units of the `following` pieces are read.

        The pieces of each chunk are summed first, and then these sums, by the same tree. A source that is not kept is
        summed by windows of units, each while the next window is read. Units that are not needed again come first, to
        make room, and among them those that are loaded.
        """
        by_unit: dict[int, dict[int, ChunkPieces]] = {}
        for position, chunk in enumerate(pieces.chunks()):
            by_unit.setdefault(chunk.cut.unit, {})[position] = chunk
        later = following.units() if following else {}
        windows = self._windows(by_unit, later)
        # Units with the most pieces in the next round come first: they are not needed after it.
        new = sorted(set(later).difference(*windows, self._loaded), key=lambda unit: (-later[unit], unit))

        def inside(window: Sequence[int]) -> dict[int, ChunkPieces]:
            return dict(sorted(chain.from_iterable(by_unit[unit].items() for unit in window)))

        sums: dict[Node, S] = {}
        for _, some in self._sums(
            statistic, windows, inside, key, handle, broadcast, following=new[: self._window], needed=later
        ):
            sums |= some
        return statistic.finish(merge_levels(((node.level, sums[node]) for node in sorted(sums)), statistic.merge))

    def pieces_ahead(self, rounds: Schedule, i: int) -> Partition:
        """Return the pieces of round i + 1, and of later rounds up to the first with new units, if these have room.

        So the next bundle is read during all rounds of this bundle, and not during the last round alone.
        """
        last = i + 1
        if len(self._loaded) < len(self.source.units):  # something is left to read
            now = rounds[i].units().keys()
            while (
                last + 1 < min(i + ROUNDS_AHEAD, len(rounds))
                and len(now) <= self._window
                and rounds[last].units().keys() <= now
            ):
                last += 1
        return join_rounds(rounds[i + 1 : last + 1])

    @cached_property
    def _homes(self) -> dict[int, str | None]:
        """The worker that is to read each unit; empty if any worker may read any unit."""
        units = self.source.units
        # A unit of files is one task; a unit of a collection also needs the values of other tasks.
        if all(len(unit.task.__dask_graph__()) == 1 for unit in units):
            return self._dealt
        holders = self.executor.holders([unit.task for unit in units])
        if not any(holders):
            return {}
        workers, moved = assign_workers([unit.n_rows for unit in units], holders, self.executor.processes())
        if moved:
            warnings.warn(
                f"A worker holds more than {MOST_UNEVEN} times its share of the rows: {len(moved)} of {len(units)} "
                "chunks are copied to others. client.rebalance() before the fit spreads them.",
                DKernelWarning,
                stacklevel=2,
            )
        return dict(enumerate(workers))

    @cached_property
    def _dealt(self) -> dict[int, str | None]:
        """The worker that reads and keeps each unit of files, chosen so that each worker has a share of every round.

        If a round has fewer units than there are slots, some workers would have none: then any worker reads any unit.
        """
        threads, slots = self.executor.processes(), self.executor.slots
        if not self.keep or not threads or not self.mixed or not slots <= len(self.mixed[0][0]) < len(self._groups):
            return {}
        near = [range(i, min(i + slots, len(self._groups))) for i in range(0, len(self._groups), slots)]
        groupings = [[[self._groups[unit].start for unit in some] for some in way] for way in (*self.mixed, near)]
        return dict(deal(groupings, threads, in_runs=len(self.mixed) == 1))

    @cached_property
    def _window(self) -> int:
        """Number of units that are summed at a time while as many are read: a bundle, or enough for all slots."""
        if self.keep:
            return len(self.source.units)
        bundle = bundle_size([unit.rows for unit in self.source.units], loaded_row_bytes(self.source))
        return max(bundle, 2 * self.executor.slots)

    def _windows(self, units: Iterable[int], later: Container[int]) -> list[list[int]]:
        return self.windows(sorted(units, key=lambda unit: (unit in later, unit not in self._loaded)))

    def _sums(
        self,
        statistic: Statistic[S, Any],
        windows: Sequence[Sequence[int]],
        inside: Callable[[Sequence[int]], Mapping[int, ChunkPieces]],
        key: str,
        handle: Handle | None,
        broadcast: Handle | None,
        following: Sequence[int] = (),
        needed: Container[int] = (),
    ) -> Iterator[tuple[Sequence[int], dict[Node, S]]]:
        """Sum window after window; yield each window with the nodes of the tree that its tasks have summed.

        Parameters
        ----------
        inside : window -> positions of its chunks or blocks in the whole sum, each with its pieces
        following, needed : see `visit`
        """

        def calls(window: Sequence[int]) -> list[Call]:
            chunks = inside(window)
            workers = self.executor.find_workers([self._handle(mine.cut.unit) for mine in chunks.values()])
            blocks = {chunk: self.block(mine.cut) for chunk, mine in chunks.items()}
            by_chunk = dict(zip(chunks, workers, strict=True))
            stay = self.rows_stay(sum(map(len, chunks.values())))
            what = handle or statistic
            self._unfinished = make_calls(what, broadcast, chunks, blocks, key, self.executor, by_chunk, stay)
            merged, left[:] = merge_calls(self.executor, what, self._unfinished, chunks)
            return merged

        left: list[Handle] = []
        results = self.visit(windows, calls, following=following, needed=needed)
        try:
            for window, values in zip(windows, results, strict=True):
                self.executor.release(left)
                yield window, merge_chunks(values, statistic.merge)
        finally:
            self.executor.release(left)

    def fold(
        self,
        statistic: Statistic[S, R],
        pieces: Partition,
        key: str,
        progress: Any,
        *,
        handle: Handle | None = None,
        broadcast: Handle | None = None,
        journal: Journal | None = None,
        name: str = "",
    ) -> R:
        """Compute the statistic of the whole source: each block is summed first, and then these sums, by the same tree.

        So the number of workers decides what is read at once, and does not change the result.

        Parameters
        ----------
        handle : the handle of a statistic that is large
        broadcast : handle of what `step` gets beside the piece
        journal, name : journal that stores the sums of each part, and name of the stage that the parts belong to
        """
        inside = pieces.by_unit()
        # Without a journal no part is kept apart from the sum, since the sums of a task may be large.
        share = 0.0 if journal is None else max(1 / JOURNAL_PARTS, PART_BYTES / self.source.nbytes)
        parts = JournaledSum(statistic.merge, journal or Journal(), name, share * len(inside))
        units = list(chain.from_iterable(self._by_group(inside)))[parts.units :]
        windows = self._windows_of_groups(units)

        def blocks(window: Sequence[int]) -> dict[int, ChunkPieces]:
            return dict(enumerate(chain.from_iterable(inside[unit] for unit in window), parts.blocks))

        with parts:
            for window, sums in self._sums(statistic, windows, blocks, key, handle, broadcast):
                parts.add(len(window), [(node.level, sums[node]) for node in sorted(sums)])
                progress.advance(sum(self.source.units[unit].n_rows for unit in window))
        return statistic.finish(parts.total())

    def leave_each(self, function: Any, key: str, progress: Any, args: Any, summary: Any) -> tuple[list[Handle], Any]:
        """Call function(blocks, *args(unit)) on the workers, once for every unit, and leave the results there as lists.

        Return the handles of the lists and the summary of each list, in order.
        """
        handles: list[Handle] = []

        def calls(window: Sequence[int]) -> list[Call]:
            groups = {group[0]: [(self._handle(u), *args(u)) for u in group] for group in self._by_group(window)}
            self._unfinished = [Call(f"{key}-{first}", call_each, (function, some)) for first, some in groups.items()]
            new = self.executor.leave(self._unfinished)
            handles.extend(new)
            return [
                Call(f"{key}-of-{call.key}", call_each, (summary, [(handle,)]))
                for call, handle in zip(self._unfinished, new, strict=True)
            ]

        windows, summaries = self._windows_of_groups(range(len(self.source.units))), list[Any]()
        try:
            for window, values in zip(windows, self.visit(windows, calls), strict=True):
                summaries += chain.from_iterable(values)
                progress.advance(sum(self.source.units[unit].n_rows for unit in window))
        except BaseException:
            self.executor.release(handles)
            raise
        self._unfinished = []
        return handles, summaries

    def with_stored(self, handles: Sequence[Handle]) -> "BlockReader":
        """Make a reader of the same units with the blocks that `leave_each` has left; this reader forgets its own."""
        reader = BlockReader(self.executor, self.source, keep=True)
        groups = dict.fromkeys(self._groups.values())
        for group, handle in zip(groups, handles, strict=True):
            reader._read[group] = Item(handle, (0,)) if len(group) == 1 else handle
        reader._loaded.update(self._groups)
        reader.on_disk = True
        self.close()
        return reader

    def visit(
        self,
        windows: Sequence[Sequence[int]],
        calls: Callable[[Sequence[int]], list[Call]],
        *,
        following: Sequence[int] = (),
        needed: Container[int] = (),
        read_on: Mapping[int, str | None] | None = None,
    ) -> Iterator[list[Any]]:
        """Yield the results of the calls of each window of units, while the next window is read.

        The blocks of a window are kept until the next window is asked for.

        Parameters
        ----------
        following : units that are read while the calls of the last window run
        needed : units that are not forgotten after their window
        read_on : unit -> address of the worker that is to read it; None for any
        """
        for window, coming in zip(windows, [*windows[1:], following], strict=True):
            self._compute([], [unit for unit in window if unit not in self._loaded], read_on)
            yield self._compute(calls(window), [unit for unit in coming if unit not in self._loaded], read_on)
            if not self.keep:
                self._forget([unit for unit in window if unit not in coming and unit not in needed])

    def windows(self, units: Sequence[int]) -> list[list[int]]:
        """Cut these units into windows of as many as are held; a source that is kept is one window."""
        return [list(units[i : i + self._window]) for i in range(0, len(units), self._window)]

    def worker(self, unit: int) -> str | None:
        """The worker that has a unit; None if the unit was not read or the worker is unknown."""
        return self.executor.find_workers([self._handle(unit)])[0] if unit in self._loaded else None

    def rows_stay(self, pieces: int) -> bool:
        """True if this many pieces are summed where their rows are, even if some workers have none of them.

        Rows stay if the cluster held them before the fit, or if no thread gets more than one piece. They are copied if
        one worker has many more of the rows that are read than its share.
        """
        if pieces > self.executor.slots and not self._homes:
            return False
        threads, units = self.executor.processes(), sorted(self._loaded)
        if not self.keep or self._even[:2] != (len(units), threads):  # rows that are kept move with their workers alone
            rows = Counter[str | None]()
            workers = self.executor.find_workers([self._handle(unit) for unit in units])
            for unit, worker in zip(units, workers, strict=True):
                rows[worker] += self.source.units[unit].n_rows
            self._even = len(units), threads, is_even(rows, threads)
        return self._even[2]

    def _windows_of_groups(self, units: Sequence[int]) -> list[list[int]]:
        """Cut these units into windows of one task for each slot, or of several tasks where groups are small."""
        # A window of few units would have those of one worker alone, and they would be copied to the others.
        if self.keep and self._homes and not self._dealt:
            return [list(units)]
        row_bytes, slots = loaded_row_bytes(self.source), self.executor.slots
        # A call of a worker sums all that it has of a window, and a journal needs several windows. Rows that are not
        # kept have the room that rounds have: two units for each slot.
        several = max(1, min(WINDOW_TASKS if self.keep else 2, len(self._groups) // (JOURNAL_PARTS * slots)))
        least = slots * (WINDOW_TASKS if self._dealt else several)
        windows: list[list[list[int]]] = []
        loaded = 0
        for group in self._by_group(units):
            size = sum(self.source.units[unit].n_rows for unit in group) * row_bytes
            little = loaded + size <= slots * MOST_BYTES and windows and len(windows[-1]) < slots * WINDOW_TASKS
            if little or (windows and len(windows[-1]) < least):
                windows[-1].append(group)
                loaded += size
            else:
                windows.append([group])
                loaded = size
        return [list(chain.from_iterable(window)) for window in windows]

    def _by_group(self, units: Iterable[int]) -> list[list[int]]:
        """Group these units by the task that reads them together."""
        groups: dict[range, list[int]] = {}
        for unit in units:
            groups.setdefault(self._groups[unit], []).append(unit)
        return list(groups.values())

    def _compute(
        self, calls: Sequence[Call], ahead: Sequence[int] = (), read_on: Mapping[int, str | None] | None = None
    ) -> list[Any]:
        """Compute calls; if a task ended its workers, the error names the rows of the task."""
        if not calls and not ahead:
            return []
        groups = [group for group in dict.fromkeys(self._groups[unit] for unit in ahead) if group not in self._read]
        try:
            tasks = [make_read_task(self.source.units[group.start : group.stop]) for group in groups]
            if self._packed:
                tasks = [make_packed_task(task, self._packed) for task in tasks]
            if read_on or self._homes:
                workers = [(read_on or self._homes).get(group.start) for group in groups]
                results, handles = self.executor.compute(calls, tasks, workers)
            else:
                results, handles = self.executor.compute(calls, tasks)
        except KilledCallError as error:
            loaded = {self._handle(unit): unit for unit in self._loaded}
            search = KillerSearch(self.executor, self.source, self._groups)
            raise search.explain(error, [*calls, *self._unfinished], loaded) from None
        self._read |= zip(groups, handles, strict=True)
        self._loaded.update(ahead)
        return results

    def block(self, place: RowRange | ChunkCut) -> Handle:
        """The handle of the block of some rows; its unit must have been read."""
        return Item(self._handle(place.unit), (place.block,))

    def _handle(self, unit: int) -> Handle:
        """The handle of the blocks of a unit that is loaded."""
        group = self._groups[unit]
        return self._read[group] if len(group) == 1 else Item(self._read[group], (unit - group.start,))

    def _forget(self, units: Iterable[int]) -> None:
        """Forget these units; the values of a task are released once none of its units is loaded."""
        self._loaded.difference_update(units)
        for group in dict.fromkeys(self._groups[unit] for unit in units):
            if group in self._read and self._loaded.isdisjoint(group):
                self.executor.release([self._read.pop(group)])

    def close(self) -> None:
        """Forget everything."""
        self._forget(list(self._loaded))


def read_once(
    source: Source,
    statistic: Statistic[Any, R],
    executor: Executor,
    key: str,
    *,
    large: bool = False,
    broadcast: Any = None,
    progress: Progress | None = None,
) -> R:
    """Compute the statistic of the rows of a source by one reading, which keeps none of them.

    Parameters
    ----------
    large : whether the statistic is large, and sent to each worker once
    broadcast : what its steps get beside the rows
    """
    values = {"statistic": statistic if large else None, "broadcast": broadcast}
    handles = {name: executor.keep(value, f"{key}-{name}") for name, value in values.items() if value is not None}
    pieces, reader = cut_pieces([unit.rows for unit in source.units]), BlockReader(executor, source, keep=False)
    with closing(reader), one_blas_thread():
        try:
            return reader.fold(
                statistic,
                pieces,
                key,
                progress or Progress("none"),
                handle=handles.get("statistic"),
                broadcast=handles.get("broadcast"),
            )
        finally:
            executor.release(list(handles.values()))
