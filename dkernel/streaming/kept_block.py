"""A block in memory, whose pieces are summed as those of a source are."""

from collections.abc import Sequence

from dkernel.data.block import Block
from dkernel.execution.base import Executor, Handle
from dkernel.streaming.reduction import R, S, Statistic
from dkernel.streaming.schedule import RowSlice
from dkernel.streaming.shares import reduce


class KeptBlock:
    """A block that the workers have, until the context around it ends.

    Parameters
    ----------
    key : made of the content of the block
    """

    def __init__(self, executor: Executor, block: Block, key: str) -> None:
        self.executor, self.n = executor, len(block.X)
        self._handle = executor.keep(block, key)

    def __enter__(self) -> "KeptBlock":
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.release([self._handle])

    def reduce(
        self,
        statistic: Statistic[S, R],
        pieces: Sequence[RowSlice],
        key: str,
        *,
        following: Sequence[RowSlice] = (),  # noqa: ARG002 - there is nothing to read ahead
        held: Handle | None = None,
        broadcast: Handle | None = None,
    ) -> R:
        """The statistic of these pieces, see `BlockReader.reduce`."""
        items = [(self._handle, piece) for piece in pieces]
        return reduce(self.executor, statistic, items, key, held=held, broadcast=broadcast)
