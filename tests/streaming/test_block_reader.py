"""The reader holds a bounded number of units, however large a round is, and the sums do not know."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.base import Item
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.reduction import merge_levels
from dkernel.streaming.schedule import bundles, cut_pieces, shuffle_order
from dkernel.streaming.shares import find_nodes, make_shares, merge_chunks, merge_results, sum_nodes
from tests.streaming.execution.stand_ins import Counted
from tests.streaming.sources import rings, source_of
from tests.streaming.statistics import Sum, tree_sum

UNITS = [(300, 211)] * 40

pytestmark = pytest.mark.usefixtures("each_alone")


@pytest.fixture(scope="module")
def source():
    X, y = rings(sum(map(sum, UNITS)))
    return source_of(X, y, UNITS)


def total(source, keep, window=None):
    executor = Counted()
    reader = BlockReader(executor, source, keep)
    if window is not None:
        reader.__dict__["_window"] = window
    pieces = cut_pieces([unit.rows for unit in source.units])
    half = len(pieces) // 2
    found = [
        reader.reduce(Sum(), pieces[:half], "first", following=pieces[half:]),
        reader.reduce(Sum(), pieces[half:], "second"),
    ]
    return found, executor


def test_a_round_of_many_units_is_summed_by_windows_to_equal_bits(source):
    whole, kept = total(source, keep=True)
    assert kept.most == len(UNITS)
    for window in (3, 7, 20):
        found, executor = total(source, keep=False, window=window)
        assert found == whole
        assert executor.most <= 2 * window
        assert executor.read == len(UNITS)  # each once


def test_a_window_is_what_the_plan_counts_on(source):
    reader = BlockReader(SerialExecutor(), source, keep=False)
    assert reader._window == len(UNITS)  # a small source is one bundle
    assert len(reader._windows(range(len(UNITS)), ())) == 1


def test_the_next_units_are_read_as_early_as_there_is_room(source):
    reader = BlockReader(SerialExecutor(), source, keep=False)
    pieces = cut_pieces([unit.rows for unit in source.units])
    rounds = [of_units(pieces, unit) for unit in (0, 0, 0, 1, 2, 3)]
    assert list(reader.pieces_ahead(rounds, 0)) == [*rounds[1], *rounds[2], *rounds[3]]
    assert list(reader.pieces_ahead(rounds, 2)) == list(rounds[3])
    reader.__dict__["_window"] = 1
    two = [of_units(pieces, 0, 1), of_units(pieces, 1), of_units(pieces, 2)]
    assert list(reader.pieces_ahead(two, 0)) == list(two[1])


def of_units(pieces, *units):
    return pieces.part(np.array([piece.number for piece in pieces if piece.range.unit in units]))


@pytest.mark.parametrize("rounds", [5, 11])
def test_a_pass_holds_two_windows_however_its_rounds_lie_over_the_bundles(source, rounds):
    units = [unit.rows for unit in source.units]
    turns = shuffle_order(units, rounds, seed=3, epoch=0, bundle=4)
    found = []
    for keep in (True, False):
        executor = Counted()
        reader = BlockReader(executor, source, keep)
        reader.__dict__["_window"] = len(UNITS) if keep else 4
        sums = [
            reader.reduce(Sum(), turn, f"{i}", following=reader.pieces_ahead(turns, i) if i + 1 < rounds else ())
            for i, turn in enumerate(turns)
        ]
        found.append(sums)
    assert found[0] == found[1]
    assert executor.most <= 8
    assert executor.read == len(UNITS)  # each once


class Spread(Counted):
    """Says that its units are in three processes, in turns."""

    workers = 3

    def __init__(self):
        super().__init__(slots=3)
        self.calls = []

    def compute(self, calls, ahead=()):
        self.calls += calls
        return super().compute(calls, ahead)

    def find_workers(self, handles):
        return [f"process {i % 3}" for i, _ in enumerate(handles)]

    def processes(self):
        return {f"process {i}": 1 for i in range(3)}


@pytest.mark.parametrize("keep", [False, True])
def test_each_process_sums_its_rows_in_one_task_with_equal_sums(source, keep):
    pieces = cut_pieces([unit.rows for unit in source.units])
    plain = BlockReader(Counted(), source, keep=True).reduce(Sum(), pieces, "sum")
    executor = Spread()
    reader = BlockReader(executor, source, keep)
    reader.__dict__["_window"] = len(UNITS)
    assert reader.reduce(Sum(), pieces, "sum") == plain
    assert sorted(call.at for call in executor.calls) == [f"process {i}" for i in range(3)]
    assert len({call.key for call in executor.calls}) == 3


def test_slots_share_equally_a_round_of_which_a_process_has_no_rows(source):
    pieces = cut_pieces([unit.rows for unit in source.units], rounds=320)
    one = of_units(pieces, 0)[: len(pieces.chunks()[0])]
    plain = BlockReader(Counted(), source, keep=True).reduce(Sum(), one, "one")
    executor = Spread()
    assert BlockReader(executor, source, keep=True).reduce(Sum(), one, "one") == plain
    assert [call.at for call in executor.calls] == [None] * 3


class Homes(Spread):
    """Reads each unit where it is told to, or in turns; and sums each call's rows by the process."""

    def __init__(self, workers):
        super().__init__()
        self.slots = self.workers = workers
        self.at = {}

    def compute(self, calls, ahead=(), read_on=None):
        values, handles = super().compute(calls, ahead)
        self.at |= {
            h: w or f"process {i % self.slots}"
            for i, (h, w) in enumerate(zip(handles, read_on or [None] * len(handles), strict=True))
        }
        return values, handles

    def find_workers(self, handles):
        return [self.at.get(handle.whole if isinstance(handle, Item) else handle) for handle in handles]

    def processes(self):
        return {f"process {i}": 1 for i in range(self.slots)}


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_every_process_keeps_its_share_of_all_that_a_round_mixes(source, workers):
    units, executor = [unit.rows for unit in source.units], Homes(workers)
    passes = [bundles(units, 0, epoch, 8, 32) for epoch in range(2)]
    reader = BlockReader(executor, source, True, passes)
    cut = cut_pieces(units)
    reader.fold(Sum(), cut, "survey", Progress("none"))
    for epoch, most in enumerate((3 if workers == 3 else 8 // workers, 4)):
        for i, bundle in enumerate(passes[epoch]):
            executor.calls.clear()
            reader.reduce(Sum(), of_units(cut, *bundle), f"{epoch}-{i}")
            assert len(executor.calls) == workers
            assert max(len(call.args[-2]) // 2 for call in executor.calls) <= most  # blocks of two a unit


def test_where_a_worker_has_no_chunk_only_those_too_many_are_copied():
    places = dict(enumerate(f"w{i}" for i in (0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 6)))
    shares = make_shares({chunk: [10] for chunk in places}, places, {f"w{i}": 1 for i in range(8)}, 8)
    found = {run.chunk: share.at for share in shares for run in share.runs}
    # 1.5 shares are 2.25 chunks: w0 keeps two, and w7 has none
    assert [chunk for chunk, at in places.items() if found[chunk] != at] == [2, 3, 4]
    assert max(map(list(found.values()).count, found.values())) == 2
    assert found.keys() == places.keys()


@given(st.lists(st.integers(1, 70), min_size=1, max_size=9), st.integers(1, 4), st.integers(1, 3), st.integers(0, 99))
def test_the_nodes_of_any_shares_make_the_one_tree(counts, workers, threads, seed):
    sizes = {i: [3] * n for i, n in enumerate(counts)}
    rng = np.random.default_rng(seed)
    places = {chunk: f"w{rng.integers(workers)}" for chunk in sizes}
    words = {chunk: [f"{chunk}.{k}" for k in range(len(rows))] for chunk, rows in sizes.items()}

    def merge(left, right):
        return f"({left} {right})"

    results = []
    for share in make_shares(sizes, places, {f"w{i}": threads for i in range(workers)}, workers * threads):
        sums = {}
        for node, runs in find_nodes(share, sizes):
            lists = [words[run.chunk][run.first : run.last] for run in runs]
            sums[node] = merge_levels([(0, merge_levels([(0, word) for word in some], merge)) for some in lists], merge)
        results.append(list(sums.items()))
    wanted, pieces = tree_sum([tree_sum(some, merge) for some in words.values()], merge), dict(enumerate(counts))
    for together in (1, 2, len(results)):  # calls whose results are merged before
        groups = [results[i : i + together] for i in range(0, len(results), together)]
        merged = [merge_results(SimpleNamespace(merge=merge), pieces, *some) for some in groups]
        for some in (results, merged):
            found = merge_chunks(some, merge)
            assert merge_levels([(node.level, found[node]) for node in sorted(found)], merge) == wanted
    assert len(merged[0]) <= len(words).bit_length()


@pytest.mark.parametrize("keep", [True, False])
def test_the_sums_of_many_workers_are_merged_before_the_client_gets_them(keep):
    """To equal bits, and each worker has neighbours of a round: few nodes come."""
    X, y = rings(640 * 512)
    source = source_of(X, y, [(512,)] * 640)
    units = [unit.rows for unit in source.units]
    executor, rounds = Homes(80), shuffle_order(units, 4, 0, 0, 4)
    many = BlockReader(executor, source, keep, [bundles(units, 0, 0, 4, 4)])
    alone = BlockReader(SerialExecutor(), source, keep=True)
    many.__dict__["_window"] = 640
    for i, turn in enumerate(rounds):
        executor.calls.clear()
        assert many.reduce(Sum(), turn, f"{i}") == alone.reduce(Sum(), turn, f"{i}")
        sums, merges = (
            [call for call in executor.calls if call.function is each] for each in (sum_nodes, merge_results)
        )
        assert (len(sums), len(merges)) == (80, 5)
        assert sum(len(call.args[-1]) for call in sums) <= 160  # 160 chunks, two or so neighbours each
