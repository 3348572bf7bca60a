"""Every row is in one piece, whatever the layout; equal layouts give equal schedules."""

import pickle
import tracemalloc
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.streaming.schedule import cut_pieces, interleave_order, join_rounds, shuffle_order

layouts = st.lists(
    st.lists(st.one_of(st.integers(0, 5), st.integers(0, 300), st.integers(1, 9000)), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
).filter(lambda units: sum(map(sum, units)) > 0)
turns = st.sampled_from([1, 2, 3, 16, 32, 64])


def pieces_in(schedule):
    return [list(turn) for turn in schedule]


def pieces_of(schedule):
    """All pieces of a pass by their numbers."""
    return sorted((piece for turn in schedule for piece in turn), key=lambda piece: piece.number)


def rows_of(pieces, units):
    """Global row numbers, twice: as the pieces say them, and by where they stand."""
    starts, first = {}, 0
    for unit, chunks in enumerate(units):
        for block, n in enumerate(chunks):
            starts[unit, block] = (first, n)
            first += n
    said, stand = [], []
    for piece in pieces:
        said.append(piece.first + piece.step * np.arange(piece.n))
        first, n = starts[piece.range.unit, piece.range.block]
        stand.append(first + np.arange(n)[piece.range.rows])
    return np.concatenate(said), np.concatenate(stand)


def check(pieces, units):
    total = sum(map(sum, units))
    said, stand = rows_of(pieces, units)
    assert said.tolist() == stand.tolist()
    assert sorted(said.tolist()) == list(range(total))
    assert [piece.number for piece in pieces] == list(range(len(pieces)))
    assert all(0 < piece.n <= PIECE_ROWS for piece in pieces)
    chunks = [(unit, block) for unit, sizes in enumerate(units) for block in range(len(sizes))]
    assert all(chunks[piece.chunk] == (piece.range.unit, piece.range.block) for piece in pieces)


@given(layouts, turns)
def test_cut_pieces_hold_every_row_once_and_in_order(units, rounds):
    pieces = cut_pieces(units, rounds)
    check(pieces, units)
    assert rows_of(pieces, units)[0].tolist() == list(range(sum(map(sum, units))))


@given(layouts, turns, st.integers(0, 3), st.integers(0, 3))
def test_a_pass_in_any_order_holds_every_row_once(units, rounds, seed, epoch):
    for order in (partial(shuffle_order, seed=seed, epoch=epoch), interleave_order):
        schedule = order(units, rounds)
        check(pieces_of(schedule), units)
        check_rounds(schedule, rounds)
        assert pieces_in(schedule) == pieces_in(order([list(unit) for unit in units], rounds))


def check_rounds(schedule, rounds):
    assert 1 <= len(schedule) <= rounds
    for turn in schedule:
        assert turn
        assert [piece.number for piece in turn] == sorted(piece.number for piece in turn)


@pytest.mark.parametrize("rounds", [4, 32, 64])
def test_the_rounds_are_nearly_equal(rounds):
    units = [[30_000, 12_000], [100], [70_000], [55_001]]
    for schedule in (shuffle_order(units, rounds, 0, 0), interleave_order(units, rounds)):
        rows = [sum(piece.n for piece in turn) for turn in schedule]
        assert len(rows) == rounds
        assert max(rows) - min(rows) <= 2 * PIECE_ROWS


def test_each_interleaved_round_has_its_share_of_every_chunk():
    units = [[9000], [5000, 4000]]
    for turn in interleave_order(units, 8):
        shares = np.bincount([piece.chunk for piece in turn], [piece.n for piece in turn])
        np.testing.assert_allclose(shares, [9000 / 8, 5000 / 8, 4000 / 8], atol=1)


def test_each_pass_reads_every_unit_once_in_another_order():
    units = [[4096, 4096]] * 12
    seen = []
    for epoch in range(3):
        order = [piece.range.unit for turn in shuffle_order(units, 16, 0, epoch) for piece in turn]
        firsts = list(dict.fromkeys(order))
        spans = {unit: (order.index(unit), len(order) - 1 - order[::-1].index(unit)) for unit in firsts}
        # Within a round pieces stand by number; across rounds a unit is left before the next but one begins.
        assert all(last - first < 4 + 2 * 3 for first, last in spans.values())
        seen.append(tuple(firsts))
    assert len(set(seen)) == 3
    assert pieces_in(shuffle_order(units, 16, 1, 0)) != pieces_in(shuffle_order(units, 16, 0, 0))


def test_few_rows_are_cut_finer_so_that_there_are_rounds():
    assert len(shuffle_order([[6400]], 32, 0, 0)) == 32
    assert [piece.n for piece in cut_pieces([[100]], 32)] == [50, 50]
    assert [piece.n for piece in cut_pieces([[3]], 32)] == [3]


def test_chunks_without_rows_have_no_pieces_and_keep_their_numbers():
    pieces = cut_pieces([[0, 10], [0], [20]])
    assert [(piece.chunk, piece.n) for piece in pieces] == [(1, 10), (3, 20)]


@pytest.mark.parametrize("rounds", [19, 64])
def test_a_round_has_as_much_of_each_unit_as_of_any_other(rounds):
    units = [[131_072]] * 8
    for turn in shuffle_order(units, rounds, 0, 0, bundle=8):
        found = np.bincount([piece.range.unit for piece in turn], minlength=8)
        assert found.max() - found.min() <= 1 + (rounds == 64)


def test_the_pieces_of_many_rows_are_made_when_they_are_asked_for():
    units = [[131_072]] * 250
    tracemalloc.start()
    try:
        schedules = shuffle_order(units, 64, 0, 0, bundle=4), interleave_order(units, 64)
        for schedule in schedules:
            assert sum(piece.n for turn in schedule for piece in turn) == 250 * 131_072
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()
    cut = cut_pieces([[3000], [10]])
    assert (cut[-1], list(cut[1:])) == (cut[2], [cut[1], cut[2]])
    with pytest.raises(IndexError):
        cut[3]


@given(layouts, turns, st.randoms())
def test_the_pieces_of_each_chunk_are_sent_as_numbers(units, rounds, random):
    """In the order of the chunks' first pieces; so what is sent for a chunk does not grow with its pieces."""
    for cut in (cut_pieces(units, rounds), join_rounds(interleave_order(units, rounds))):
        numbers = list(range(len(cut)))
        random.shuffle(numbers)
        for part in (cut, cut.part(np.array(numbers[: 1 + len(numbers) // 2]))):
            wanted = {}
            for piece in part:
                wanted.setdefault(piece.chunk, []).append(piece)
            found = pickle.loads(pickle.dumps(part.chunks()))
            assert [list(some) for some in found] == list(wanted.values())
            assert [some.rows().tolist() for some in found] == [[piece.n for piece in some] for some in wanted.values()]
            assert part.rows().tolist() == [piece.n for some in wanted.values() for piece in some]
            assert part.units() == Counter(piece.range.unit for piece in part)
    (chunk,) = cut_pieces([[10**9]]).chunks()
    assert len(pickle.dumps(chunk)) < 256
