"""A statistic of rows of a table, together with the values that were not in the training rows of an encoding."""

from dataclasses import dataclass
from typing import Any, TypeVar

from dkernel.data.block import Block
from dkernel.data.encoding import Encoding
from dkernel.data.encoding.unseen import UnseenValues
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice

S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class WithUnseen(Statistic[tuple[S, UnseenValues], tuple[R, UnseenValues]]):
    """Another statistic, together with the values that were not in the training rows; none without an encoding."""

    inner: Statistic[S, R]
    encoding: Encoding | None

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> tuple[S, UnseenValues]:
        marks = None if block.marks is None else block.marks[piece.range.rows]
        return self.inner.step(block, piece, broadcast), UnseenValues.of(self.encoding, marks, piece.n)

    def merge(self, left: tuple[S, UnseenValues], right: tuple[S, UnseenValues]) -> tuple[S, UnseenValues]:
        return self.inner.merge(left[0], right[0]), left[1].merge(right[1])

    def finish(self, total: tuple[S, UnseenValues]) -> tuple[R, UnseenValues]:
        return self.inner.finish(total[0]), total[1]
