"""One tree, however it is cut into tasks and whatever is held in memory."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.data.block import Block
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.local import ThreadsExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import RowRange, RowSlice, cut_pieces, interleave_order, shuffle_order
from dkernel.streaming.shares import make_calls, reduce
from tests.streaming.execution.stand_ins import Counted
from tests.streaming.sources import source_of
from tests.streaming.statistics import Sum, Words, tree_sum

pytestmark = pytest.mark.usefixtures("each_alone")


def some_rows(executor, n):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((3 * n, 1)) * 10 ** rng.uniform(-6, 6, (3 * n, 1))).astype(np.float32)
    pieces = [RowSlice(i, RowRange(0, 0, 3 * i, 3 * i + 3), 3, 3 * i) for i in range(n)]
    return executor.keep(Block(X, None, None), "block"), pieces


@pytest.mark.parametrize("slots", range(1, 9))
def test_tasks_compute_subtrees_of_the_one_tree(slots):
    executor = Counted(slots)
    for n in range(1, 41):
        block, pieces = some_rows(executor, n)
        leaves = [Sum().step(block.value, piece, None) for piece in pieces]
        wanted = tuple(tree_sum(leaves, Sum().merge))
        assert reduce(executor, Sum(), block, pieces, "sum") == wanted
        words = tree_sum([str(i) for i in range(n)], Words().merge)
        assert reduce(executor, Words(), block, pieces, "words") == words


@given(st.integers(1, 300), st.integers(1, 40))
def test_any_number_of_pieces_and_slots(n, slots):
    executor = Counted(slots)
    block = executor.keep(Block(np.zeros((n, 1), np.float32), None, None), "block")
    pieces = [RowSlice(i, RowRange(0, 0, i, i + 1), 1, i) for i in range(n)]
    calls = make_calls(Words(), None, {0: pieces}, {0: block}, "words", executor)
    assert len({call.key for call in calls}) == len(calls) <= slots
    assert len(calls) == min(n, slots) or min(n, slots) > 16  # a call begins at a multiple of a 32nd of the pieces
    assert reduce(executor, Words(), block, pieces, "words") == tree_sum([str(i) for i in range(n)], Words().merge)


def test_what_is_broadcast_reaches_every_piece_held_or_not():
    executor = ThreadsExecutor(2)
    block, pieces = some_rows(executor, 9)
    plain = reduce(executor, Sum(2.0), block, pieces, "sum", broadcast=executor.keep(5.0, "five"))
    held = executor.keep(Sum(2.0), "statistic")
    assert reduce(executor, Sum(2.0), block, pieces, "sum", handle=held, broadcast=executor.keep(5.0, "five")) == plain
    assert plain != reduce(executor, Sum(2.0), block, pieces, "sum")


@pytest.fixture(scope="module")
def source():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((7001, 2)) * 10 ** rng.uniform(-6, 6, (7001, 1))).astype(np.float32)
    return source_of(X, np.arange(7001.0), [(500, 700), (1300,), (1, 9, 1490), (3001,)])


def units_of(source):
    return [unit.rows for unit in source.units]


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_what_the_feed_keeps_changes_no_bit(source, slots):
    schedules = [shuffle_order(units_of(source), 5, 0, 0), interleave_order(units_of(source), 5)]
    found = {True: [], False: []}
    for keep in found:
        executor = Counted(slots)
        feed = BlockReader(executor, source, keep)
        for rounds in schedules:
            for i, pieces in enumerate(rounds):
                following = rounds[i + 1] if i + 1 < len(rounds) else ()
                found[keep].append(feed.reduce(Sum(), pieces, f"round-{i}", following=following))
        found[keep].append(feed.fold(Sum(), cut_pieces(units_of(source)), "fold", Progress("none")))
        feed.close()
        assert not executor.held
    assert found[True] == found[False]
    whole = sum(n for _, n in found[True][: len(schedules[0])])
    assert whole == source.n_rows


def test_the_fold_is_the_same_tree_for_every_number_of_slots(source):
    pieces = cut_pieces(units_of(source))
    sums = {BlockReader(Counted(n), source, False).fold(Sum(), pieces, "f", Progress("none")) for n in range(1, 9)}
    assert len(sums) == 1
    (words,) = {BlockReader(Counted(n), source, True).fold(Words(), pieces, "f", Progress("none")) for n in range(1, 9)}
    inside = {}
    for piece in pieces:
        inside.setdefault(piece.chunk, []).append(str(piece.number))
    assert words == tree_sum([tree_sum(numbers, Words().merge) for numbers in inside.values()], Words().merge)


def test_units_that_are_not_kept_are_read_once_a_pass_and_few_at_a_time():
    X = np.zeros((16 * 4096, 1), np.float32)
    source = source_of(X, np.zeros(len(X)), [(4096,)] * 16)
    executor = Counted()
    feed = BlockReader(executor, source, keep=False)
    for epoch in range(2):
        rounds = shuffle_order(units_of(source), 16, 0, epoch)
        for i, pieces in enumerate(rounds):
            feed.reduce(Sum(), pieces, f"{epoch}-{i}", following=rounds[i + 1] if i + 1 < len(rounds) else ())
    assert executor.read == 32
    assert executor.most <= 3
    kept = Counted()
    feed = BlockReader(kept, source, keep=True)
    for epoch in range(2):
        for i, pieces in enumerate(shuffle_order(units_of(source), 16, 0, epoch)):
            feed.reduce(Sum(), pieces, f"{epoch}-{i}")
    assert kept.read == 16


def test_each_gives_every_unit_in_order(source):
    def rows(blocks, name):
        return name, sum(block.rows for block in blocks)

    for keep in (True, False):
        executor = Counted(3)
        feed = BlockReader(executor, source, keep)
        _, found = feed.leave_each(rows, "rows", Progress("none"), lambda unit: (f"u{unit}",), list)
        assert list(chain.from_iterable(found)) == [(f"u{i}", unit.n_rows) for i, unit in enumerate(source.units)]
        feed.close()
        assert not executor.held
