"""A block in memory, whose pieces are summed like those of a source."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dkernel.data.block import Block
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.streaming.execution.base import Executor, Handle
from dkernel.streaming.reduction import R, S, Statistic
from dkernel.streaming.schedule import RowRange, RowSlice
from dkernel.streaming.shares import reduce


class KeptBlock(AbstractContextManager["KeptBlock"]):
    """A block that the workers keep until the context around it ends.

    Parameters
    ----------
    key : made of the content of the block
    """

    def __init__(self, executor: Executor, block: Block, key: str) -> None:
        self.executor, self.n, self.key = executor, len(block.X), key
        self._handle = executor.keep(block, key)

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers forget the block."""
        self.executor.release([self._handle])

    def reduce(
        self,
        statistic: Statistic[S, R],
        pieces: Sequence[RowSlice],
        key: str,
        *,
        following: Any = None,  # noqa: ARG002 - there is nothing to read ahead
        handle: Handle | None = None,
        broadcast: Handle | None = None,
    ) -> R:
        """Compute the statistic of these pieces; see `BlockReader.reduce`."""
        return reduce(self.executor, statistic, self._handle, pieces, key, handle=handle, broadcast=broadcast)

    def fold(self, statistic: Statistic[S, R], name: str, value: Any = None, size: int = PIECE_ROWS) -> R:
        """Compute the statistic of all rows.

        Parameters
        ----------
        name : name in the keys of the tasks
        value : value that `step` gets beside a piece
        size : rows of a piece
        """
        key = f"{self.key}-{name}"
        beside: AbstractContextManager[Handle | None] = nullcontext()
        if value is not None:
            beside = self.executor.broadcast(value, key)
        with self.executor.broadcast(statistic, f"{key}-{type(statistic).__name__}") as handle, beside as broadcast:
            return self.reduce(statistic, cut_rows(self.n, size), key, handle=handle, broadcast=broadcast)


def cut_rows(n: int, size: int) -> tuple[RowSlice, ...]:
    """Cut a block of n rows into pieces of `size` rows."""
    return tuple(
        RowSlice(i, RowRange(0, 0, start, min(n, start + size)), min(size, n - start), start)
        for i, start in enumerate(range(0, n, size))
    )
