"""Values that training never saw are counted beside another statistic, by one reading."""

import pyarrow as pa

from dkernel.data.block import Block
from dkernel.data.encoding import CategoryColumn, Encoding, NumberColumn
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import cut_pieces
from dkernel.streaming.unseen_rows import WithUnseen


class Rows(Statistic):
    """Number of rows."""

    def step(self, block, piece, broadcast):  # noqa: ARG002
        return piece.n

    def merge(self, left, right):
        return left + right


def test_every_row_is_counted_once():
    encoding = Encoding((NumberColumn("x", 2.0), CategoryColumn("s", ("a", "b"))))
    X, marks = encoding.encode(pa.table({"x": [1.0, None] * 1500, "s": ["b", "c", "a"] * 1000}), "float64")
    block, first, second = Block(X, marks=marks), *cut_pieces([[3000]])
    for known, counts in ((encoding, {"missing": {"x": 1500}, "unknown": {"s": 1000}}), (None, {})):
        statistic = WithUnseen(Rows(), known)
        found, unseen = statistic.finish(
            statistic.merge(statistic.step(block, first, None), statistic.step(block, second, None))
        )
        assert (found, unseen.rows, unseen.counts) == (3000, 3000, counts)
