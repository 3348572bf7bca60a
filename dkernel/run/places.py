"""Where the blocks of a source are, and so who sums which pieces of a round."""

from collections.abc import Callable, Mapping, Sequence

from dkernel.data.source import Source
from dkernel.run.executors import Executor, Handle
from dkernel.run.pieces import Piece
from dkernel.run.shares import BORROWED, Share, evened, longest, shares

__all__ = ["Inside", "Places"]

# A block is lent to a worker that would wait where that wins more seconds, over these rounds at most, than the copy of
# its bytes takes: 15 MB between two processes are 30 ms of both.
MOST_TURNS, COPY = 16, 2e-9

Inside = Mapping[int, Sequence[Piece]]
"""Chunk -> its pieces of a round."""


class Places:
    """The worker of each block, as the cluster last told.

    Parameters
    ----------
    keep : whether a block stays where it is, once it is read
    """

    def __init__(self, executor: Executor, source: Source, keep: bool) -> None:
        self.executor, self.source, self.keep = executor, source, keep
        self.pace = 0.0
        """Seconds of a row in the last round; nobody is lent anything before there was one."""
        self._known: dict[tuple[int, int], str] = {}
        self._workers: dict[str, int] = {}  # and threads of each
        self._borrowed: dict[str, list[int]] = {}  # chunks, the last that were
        self._moves = 0

    def __len__(self) -> int:
        return len(self._known)

    def forget(self, units: set[int]) -> None:
        """These are read again, or never."""
        self._known = {where: place for where, place in self._known.items() if where[0] not in units}

    def took(self, seconds: float, inside: Inside, found: Sequence[Share]) -> None:
        """So long a round took, of which these were shares; the rest was spread by others."""
        sizes = {chunk: [piece.n for piece in mine] for chunk, mine in inside.items()}
        even = sum(map(sum, sizes.values())) / max(1, len(self._workers))
        self.pace = seconds / max(even, longest(sizes, found))

    def worth_parts(self, pieces: Sequence[Piece], slots: int) -> bool:
        """Whether these pieces of one chunk are to be several tasks: processes that take one have a copy of it each."""
        if self.keep or not self._workers or not self.pace:
            return True  # the copies stay for the next rounds, there are none, or nobody knows yet
        rows = sum(piece.n for piece in pieces)
        return rows * self.pace * (1 - 1 / max(2, slots)) > self._copying(pieces[0])

    def _rows_of_chunk(self, piece: Piece) -> int:
        return self.source.units[piece.place.unit].rows[piece.place.block]

    def _copying(self, piece: Piece) -> float:
        """Seconds that a copy of this piece's chunk takes."""
        return self._rows_of_chunk(piece) * self.source.row_bytes * COPY

    def shares(self, inside: Inside, handle: Callable[[Piece], Handle]) -> list[Share]:
        """The shares of all chunks whose places are known; `handle` is of a value that is where a piece's block is."""
        where = self._find(inside, handle)
        sizes = {chunk: [piece.n for piece in inside[chunk]] for chunk in where}

        def worth(chunk: int, rows: int) -> bool:
            piece = inside[chunk][0]
            turns = min(MOST_TURNS, self._rows_of_chunk(piece) / sum(sizes[chunk]))
            return self.keep and turns * rows * self.pace > self._copying(piece)

        found = evened(sizes, where, self._workers, worth, self._borrowed)
        for share in found:
            if share.lender is not None:
                mine = [*self._borrowed.get(share.at, ()), *(run.chunk for run in share.runs)]
                self._borrowed[share.at] = [*dict.fromkeys(mine)][-BORROWED:]
        if not (self.keep and self.pace):
            # Tasks, of which Dask may give those of one chunk to several workers, where some have nothing to do.
            all_have = len({share.at for share in found}) == len(self._workers)
            found = [share for share in found if all_have or len(share.runs) > 1]
        return shares(sizes, found, -(-sum(self._workers.values()) // max(1, len(self._workers))))

    def _find(self, inside: Inside, handle: Callable[[Piece], Handle]) -> dict[int, str]:
        """Chunk -> worker."""
        if self._moves != self.executor.moves:
            self._known, self._moves = {}, self.executor.moves
        blocks = {chunk: (mine[0].place.unit, mine[0].place.block) for chunk, mine in inside.items()}
        unknown = [chunk for chunk in inside if blocks[chunk] not in self._known]
        if unknown:
            places = self.executor.places([handle(inside[chunk][0]) for chunk in unknown])
            told = zip((blocks[chunk] for chunk in unknown), places, strict=True)
            self._known |= {block: place for block, place in told if place is not None}
            self._workers, self._borrowed = self.executor.processes(), {}
        return {chunk: self._known[block] for chunk, block in blocks.items() if block in self._known}
