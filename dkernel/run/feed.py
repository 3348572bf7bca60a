"""The feed: which units of a source are in the workers' memory, read a bounded number ahead of their use."""

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Generic

import numpy as np

from dkernel.data.source import Source
from dkernel.errors import ClusterError, DKernelError
from dkernel.run.executors import Call, Executor, Handle
from dkernel.run.journal import Journal
from dkernel.run.pieces import Piece, bundle_size
from dkernel.run.places import Places
from dkernel.run.reduce import Growing, R, S, Statistic, joined, subtrees, tree_sum
from dkernel.run.shares import Share
from dkernel.run.together import calls_of

__all__ = ["Feed"]

FARTHEST = 16  # rounds to look ahead for units to read
ROW_OVERHEAD = 16  # bytes of a row beside its numbers, as the plan counts them
# Of a long reading, what a journal is told at a time: a sixteenth, and at least so many bytes of the source.
PARTS, PART_BYTES = 16, 256 * 2**20


class _Parts(Generic[S]):
    """The sum of a reading, and in a journal what it is made of; `with` it around the reading, whatever ends that.

    Parameters
    ----------
    least : units of a part
    """

    def __init__(self, merge: Callable[[S, S], S], journal: Journal, name: str, least: float) -> None:
        self.journal, self.name, self.least = journal, name, least
        self.units = 0
        self._sum = Growing(merge)
        self._new: list[tuple[int, list[S]]] = []
        for part in journal.parts(name):
            # A signal between a part's writing and its mark here has had it written twice.
            if part["first"] == self.units:
                self._add(part["units"], part["sums"])

    def add(self, units: int, sums: Iterable[S]) -> None:
        self._new.append((units, list(sums)))
        if sum(n for n, _ in self._new) >= self.least:
            self._keep()

    def total(self) -> S:
        """The sum over all units."""
        for units, sums in self._new:
            self._add(units, sums)
        return self._sum.total()

    def _keep(self) -> None:
        units, sums = sum(n for n, _ in self._new), [value for _, some in self._new for value in some]
        if units:
            self.journal.part(self.name, {"first": self.units, "units": units, "sums": sums})
            self._new = []
            self._add(units, sums)

    def _add(self, units: int, sums: Iterable[S]) -> None:
        self.units += units
        for value in sums:
            self._sum.add(value)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # What ended the reading counts more; the parts before this one stand.
            with suppress(OSError, DKernelError):
                self._keep()


class Feed:
    """Handles of the blocks that pieces stand in.

    Parameters
    ----------
    keep : hold every unit once it is read (it fits in the workers' memory); else a unit is forgotten after the step
        that needs it, unless the next one needs it too, and each pass reads it again
    """

    def __init__(self, executor: Executor, source: Source, keep: bool) -> None:
        self.executor, self.source, self.keep = executor, source, keep
        self._units: dict[int, Handle] = {}
        self._blocks: dict[tuple[int, int], Handle] = {}
        self._places = Places(executor, source, keep)

    def reduce(
        self,
        statistic: Statistic[S, R],
        pieces: Sequence[Piece],
        key: str,
        *,
        following: Sequence[Piece] = (),
        held: Handle | None = None,
        broadcast: Handle | None = None,
    ) -> R:
        """The statistic of these pieces, while the units of the `following` ones are being read.

        The sum of each chunk's pieces, and over these sums the same tree again. Of a source that is not kept, a window
        of units at a time, while the next is read: what is not needed again first, to make room, and of that what is
        there.
        """
        sums: dict[int, S] = {}
        later = Counter(piece.place.unit for piece in following)
        windows = self._windows(sorted(_units(pieces), key=lambda unit: (unit in later, unit not in self._units)))
        # Of the coming round first the units that it has most of: they are not needed after it.
        new = sorted(set(later).difference(*windows, self._units), key=lambda unit: (-later[unit], unit))
        for window, coming in zip(windows, [*windows[1:], new[: self._window]], strict=True):
            self._read([unit for unit in window if unit not in self._units])
            ahead = [unit for unit in coming if unit not in self._units]
            there = set(window)
            mine = pieces if len(windows) == 1 else [piece for piece in pieces if piece.place.unit in there]
            sums |= self._sums(statistic, mine, key, held, broadcast, ahead, self._together(mine))
            if not self.keep:
                self._forget([unit for unit in window if unit not in later])
        return statistic.finish(tree_sum([sums[chunk] for chunk in _by_chunk(pieces)], statistic.merge))

    def following(self, rounds: Sequence[Sequence[Piece]], i: int) -> list[Piece]:
        """Pieces of the round after round i, and of those after it up to the first with new units, if these have room.

        So the next bundle is read in the gaps of all rounds of this one, and not in that of the last alone.
        """
        now, pieces = set(_units(rounds[i])), list(rounds[i + 1])
        if len(self._units) == len(self.source.units):  # nothing is left to read
            return pieces
        for k in range(i + 2, min(i + FARTHEST, len(rounds))):
            if len(now) > self._window or not now.issuperset(_units(pieces)):
                break
            pieces += rounds[k]  # no slice: a round's pieces are made when it is asked for
        return pieces

    @cached_property
    def _window(self) -> int:
        """Units of which a round's sums are made at a time, while as many are read: a bundle, enough for all slots."""
        if self.keep:
            return len(self.source.units)
        bundle = bundle_size([unit.rows for unit in self.source.units], self.source.row_bytes + ROW_OVERHEAD)
        return max(bundle, 2 * self.executor.slots)

    def _windows(self, units: Sequence[int]) -> list[Sequence[int]]:
        return [units[i : i + self._window] for i in range(0, len(units), self._window)]

    def _sums(
        self,
        statistic: Statistic[S, R],
        pieces: Sequence[Piece],
        key: str,
        held: Handle | None,
        broadcast: Handle | None,
        ahead: Sequence[int],
        together: Sequence[Share] = (),
    ) -> dict[int, S]:
        """Chunk -> the sum of its pieces, while the units `ahead` are read.

        A task stays in one chunk, or is a share of some that are `together` on one worker.
        """
        inside, sent = _by_chunk(pieces), (held or statistic, broadcast)
        # Blocks of units that were just read are not made yet where somebody asks for them straight.
        evened = calls_of(together, inside, self._block, key, sent, self.keep)
        calls = [call for call, _ in evened]
        shared = {run.chunk for share in together for run in share.runs}
        alone = [chunk for chunk in inside if chunk not in shared]
        # To ask for the slots takes a message.
        each = -(-max(1, self.executor.slots - len(calls)) // len(alone)) if alone else 1
        owners = []
        for chunk in alone:
            items = [(self._block(piece), piece) for piece in inside[chunk]]
            parts = each if self._places.worth_parts(inside[chunk], each) else 0
            made = subtrees(sent[0], items, f"{key}-{chunk}", parts, broadcast)
            calls += made
            owners += [chunk] * len(made)
        begun = time.monotonic()
        results, handles = self._compute(calls, ahead)
        self._places.took(time.monotonic() - begun, inside, together)
        self._units.update(zip(ahead, handles, strict=True))
        found: dict[int, list[tuple[int, int, S]]] = {chunk: [] for chunk in inside}
        for (_, sums), values in zip(evened, results[: len(evened)], strict=True):
            for (chunk, first, level), value in zip(sums, values, strict=True):
                found[chunk].append((first, level, value))
        for at, (chunk, value) in enumerate(zip(owners, results[len(evened) :], strict=True)):
            found[chunk].append((at, 0, value))
        ordered = {chunk: sorted(mine, key=lambda node: node[0]) for chunk, mine in found.items()}
        return {chunk: joined([node[1:] for node in mine], statistic.merge) for chunk, mine in ordered.items()}

    def _together(self, pieces: Sequence[Piece]) -> list[Share]:
        """What to sum in one task, and where: what each worker has, in as many parts as it has threads.

        A task costs a millisecond or two whatever it does, and a round waits for all of them. And Dask gives a task of
        one block to either worker, which then holds a copy of it: of several blocks, to the worker that has them.
        """
        # A block is made where its unit is; of a source that is not kept the unit is there before the block is.
        return self._places.shares(
            _by_chunk(pieces), lambda piece: self._block(piece) if self.keep else self._units[piece.place.unit]
        )

    def fold(
        self,
        statistic: Statistic[S, R],
        pieces: Sequence[Piece],
        key: str,
        progress: Any,
        *,
        held: Handle | None = None,
        broadcast: Handle | None = None,
        journal: Journal | None = None,
        name: str = "",
    ) -> R:
        """The statistic of the whole source: the sum of each chunk, and over these sums the same tree again.

        So what is read at once may follow the workers, and the result does not.

        Parameters
        ----------
        held : the handle of a statistic that is large
        broadcast : handle of what `step` gets beside the piece
        journal, name : where the sums are kept on the way, as parts of the stage of this name
        """
        inside: dict[int, array[int]] = {}  # numbers: all pieces at one time would be large
        for number, piece in enumerate(pieces):
            inside.setdefault(piece.place.unit, array("q")).append(number)
        share = max(1 / PARTS, PART_BYTES / self.source.nbytes)
        kept = _Parts(statistic.merge, journal or Journal(), name, share * len(inside))
        units = list(inside)[kept.units :]
        windows = [units[i : i + self.executor.slots] for i in range(0, len(units), self.executor.slots)]
        with kept:
            for window, following in zip(windows, [*windows[1:], []], strict=True):
                self._read([unit for unit in window if unit not in self._units])
                mine = [pieces[number] for unit in window for number in inside[unit]]
                ahead = [unit for unit in following if unit not in self._units]
                kept.add(len(window), self._sums(statistic, mine, key, held, broadcast, ahead).values())
                if not self.keep:
                    self._forget(window)
                progress.advance(sum(piece.n for piece in mine))
        return statistic.finish(kept.total())

    def each(self, function: Any, key: str, progress: Any, args: Any) -> list[Any]:
        """function(blocks, *args(unit)) of every unit, in order; runs on the workers, each unit once."""
        found: list[Any] = []
        units = range(len(self.source.units))
        for start in range(0, len(units), self.executor.slots):
            window = units[start : start + self.executor.slots]
            self._read([unit for unit in window if unit not in self._units])
            calls = [Call(f"{key}-{unit}", function, (self._units[unit], *args(unit))) for unit in window]
            found += self._compute(calls)[0]
            if not self.keep:
                self._forget(window)
            progress.advance(sum(self.source.units[unit].n_rows for unit in window))
        return found

    def _compute(self, calls: Sequence[Call], ahead: Sequence[int] = ()) -> tuple[list[Any], list[Handle]]:
        """As the executor does, but what ended its workers is named by the rows that it reads."""
        try:
            return self.executor.compute(calls, [self.source.units[unit].task for unit in ahead])
        except ClusterError as error:
            where = self._where(getattr(error, "key", ""), calls)
            if where is None:
                raise
            raise ClusterError(f"{where} {error}") from None

    def _where(self, key: str, calls: Sequence[Call]) -> str | None:
        """The unit that the call or the read of this key is of, in words."""
        numbers = [i for i, unit in enumerate(self.source.units) if key.startswith(unit.task.key)]
        for call in calls:
            if call.key == key:
                wanted = [handle for arg in call.args for handle in (arg if isinstance(arg, list) else [arg])]
                numbers = [unit for unit, handle in self._units.items() if any(handle is h for h in wanted)]
                numbers += [unit for (unit, _), handle in self._blocks.items() if any(handle is h for h in wanted)]
        if not numbers:
            return None
        number = numbers[0]
        unit = self.source.units[number]
        first = sum(other.n_rows for other in self.source.units[:number])
        size = unit.n_rows * self.source.n_in * np.dtype(self.source.dtype).itemsize
        others = len(set(numbers)) - 1
        or_one = f", or one of {others} other parts of the source that one task has to do with," if others else ""
        return (
            f"{unit.place}, rows {first + 1:,} to {first + unit.n_rows:,} of the source (about {size / 2**20:,.1f} MiB "
            f"when they are read){or_one} cannot be worked on."
        )

    def _read(self, units: Sequence[int]) -> None:
        if units:
            _, handles = self._compute([], units)
            self._units.update(zip(units, handles, strict=True))

    def _block(self, piece: Piece) -> Handle:
        where = (piece.place.unit, piece.place.block)
        if where not in self._blocks:
            self._blocks[where] = self.executor.pick(self._units[where[0]], where[1])
        return self._blocks[where]

    def _forget(self, units: Iterable[int]) -> None:
        gone = set(units)
        handles = [self._units.pop(unit) for unit in gone if unit in self._units]
        handles += [self._blocks.pop(where) for where in list(self._blocks) if where[0] in gone]
        self._places.forget(gone)
        self.executor.release(handles)

    def close(self) -> None:
        """Forget everything."""
        self._forget(list(self._units))


def _by_chunk(pieces: Sequence[Piece]) -> dict[int, list[Piece]]:
    inside: dict[int, list[Piece]] = {}
    for piece in pieces:
        inside.setdefault(piece.chunk, []).append(piece)
    return inside


def _units(pieces: Sequence[Piece]) -> list[int]:
    return list(dict.fromkeys(piece.place.unit for piece in pieces))
