"""The feed holds a bounded number of units, however large a round is, and the sums do not know."""

import numpy as np
import pytest

from dkernel.run.executors import SerialExecutor
from dkernel.run.feed import Feed
from dkernel.run.pieces import cut_pieces, shuffled
from dkernel.run.reduce import Statistic
from dkernel.run.shares import BORROWED

from .sources import rings, source_of

UNITS = [(300, 211)] * 40


class Counted(SerialExecutor):
    """Counts the units that are held, and how often one is read."""

    def __init__(self):
        super().__init__()
        self.held = self.most = self.read = 0

    def compute(self, calls, ahead=()):
        self.held += len(ahead)
        self.read += len(ahead)
        self.most = max(self.most, self.held)
        return super().compute(calls, ahead)

    def release(self, handles):
        # A unit's blocks, which are not counted when they are picked, go with it: it has two.
        self.held -= len(list(handles)) // 3


class Total(Statistic):
    """The sum of the rows in float32, which the order of additions shows in."""

    def step(self, block, piece, broadcast):  # noqa: ARG002
        return block.X[piece.place.rows].sum(axis=0)

    def merge(self, left, right):
        return left + right


@pytest.fixture(scope="module")
def source():
    X, y = rings(sum(map(sum, UNITS)))
    return source_of(X, y, UNITS)


def total(source, keep, window=None):
    executor = Counted()
    feed = Feed(executor, source, keep)
    if window is not None:
        feed.__dict__["_window"] = window
    pieces = cut_pieces([unit.rows for unit in source.units])
    half = len(pieces) // 2
    found = [
        feed.reduce(Total(), pieces[:half], "first", following=pieces[half:]),
        feed.reduce(Total(), pieces[half:], "second"),
    ]
    return np.concatenate(found).tobytes(), executor


def test_a_round_of_many_units_is_summed_window_by_window_to_the_same_bits(source):
    whole, kept = total(source, keep=True)
    assert kept.most == len(UNITS)
    for window in (3, 7, 20):
        found, executor = total(source, keep=False, window=window)
        assert found == whole
        assert executor.most <= 2 * window
        assert executor.read == len(UNITS)  # each once


def test_a_window_is_what_the_plan_counts_on(source):
    feed = Feed(SerialExecutor(), source, keep=False)
    assert feed._window == len(UNITS)  # a small source is one bundle
    assert len(feed._windows(range(len(UNITS)))) == 1


def test_the_next_units_are_read_as_early_as_there_is_room(source):
    feed = Feed(SerialExecutor(), source, keep=False)
    pieces = cut_pieces([unit.rows for unit in source.units])
    by_unit = [[piece for piece in pieces if piece.place.unit == unit] for unit in range(4)]
    rounds = [by_unit[0], by_unit[0], by_unit[0], by_unit[1], by_unit[2], by_unit[3]]
    assert feed.following(rounds, 0) == by_unit[0] + by_unit[0] + by_unit[1]
    assert feed.following(rounds, 2) == by_unit[1]
    feed.__dict__["_window"] = 1
    two = [by_unit[0] + by_unit[1], by_unit[1], by_unit[2]]
    assert feed.following(two, 0) == by_unit[1]


@pytest.mark.parametrize("rounds", [5, 11])
def test_a_pass_holds_two_windows_however_its_rounds_lie_over_the_bundles(source, rounds):
    units = [unit.rows for unit in source.units]
    turns = shuffled(units, rounds, seed=3, epoch=0, bundle=4).rounds
    found = []
    for keep in (True, False):
        executor = Counted()
        feed = Feed(executor, source, keep)
        feed.__dict__["_window"] = len(UNITS) if keep else 4
        sums = [
            feed.reduce(Total(), turn, f"{i}", following=feed.following(turns, i) if i + 1 < rounds else ())
            for i, turn in enumerate(turns)
        ]
        found.append(np.stack(sums).tobytes())
    assert found[0] == found[1]
    assert executor.most <= 8
    assert executor.read == len(UNITS)  # each once


class Spread(Counted):
    """Says of units that they are in one of three processes, of one that it is nowhere."""

    workers, slots = 3, 3

    def __init__(self):
        super().__init__()
        self.calls, self.asked = [], 0

    def compute(self, calls, ahead=()):
        self.calls.append([call.key for call in calls])
        return super().compute(calls, ahead)

    def places(self, handles):
        self.asked += 1
        return [None if i == 4 else f"process {i % 3}" for i, _ in enumerate(handles)]


def test_what_is_on_one_worker_is_summed_in_one_task_and_the_sums_do_not_know(source):
    pieces = cut_pieces([unit.rows for unit in source.units])
    plain = Feed(Counted(), source, keep=True).reduce(Total(), pieces, "sum")
    executor = Spread()
    feed = Feed(executor, source, keep=True)
    for key in ("first", "second"):
        assert feed.reduce(Total(), pieces, key).tobytes() == plain.tobytes()
    first, second = (keys for keys in executor.calls if keys)
    # Three processes with a task each, and the chunk that is nowhere in one or more of its own.
    assert sum("together" in key for key in first) == 3
    assert all("together" in key or key.startswith("first-4-") for key in first)
    assert len(set(first) | set(second)) == len(first) + len(second)
    assert executor.asked == 2  # again for the one


class Passing(Spread):
    """Also notes which process a call is to go to."""

    def compute(self, calls, ahead=()):
        self.at = {call.key: call.at for call in calls} or getattr(self, "at", {})
        return super().compute(calls, ahead)


@pytest.mark.parametrize("keep", [False, True])
def test_what_is_not_kept_is_summed_together_too_by_tasks_alone(source, keep):
    pieces = cut_pieces([unit.rows for unit in source.units])
    plain = Feed(Counted(), source, keep=True).reduce(Total(), pieces, "sum")
    executor = Passing()
    feed = Feed(executor, source, keep)
    feed.__dict__["_window"] = len(UNITS)
    assert feed.reduce(Total(), pieces, "sum").tobytes() == plain.tobytes()
    together = [at for key, at in executor.at.items() if "together" in key]
    assert len(together) == 3
    assert all((at is not None) == keep for at in together)
    assert (len(feed._places) > 0) == keep  # read again, a unit may be elsewhere


class Uneven(Passing):
    """Says that the first process read all units but one."""

    workers, slots = 2, 2

    def compute(self, calls, ahead=()):
        self.last = list(calls) or getattr(self, "last", [])
        return super().compute(calls, ahead)

    def places(self, handles):
        self.asked += 1
        return ["process 1" if i == 2 else "process 0" for i, _ in enumerate(handles)]

    def processes(self):
        return {"process 0": 1, "process 1": 1}


@pytest.mark.parametrize(("pace", "parts"), [(0.0, 5), (1e-12, 1), (1.0, 5)])
def test_a_chunk_that_is_not_kept_is_parted_where_that_wins_more_than_its_copy_costs(source, pace, parts):
    executor = Uneven()
    feed = Feed(executor, source, keep=False)
    pieces = cut_pieces([unit.rows for unit in source.units], rounds=320)
    plain = feed.reduce(Total(), pieces, "before")
    feed._places.pace = pace
    one = [piece for piece in pieces if piece.chunk == 0]
    found = feed.reduce(Total(), one, "one")
    assert len(executor.last) == parts
    assert found.tobytes() == Feed(Counted(), source, keep=True).reduce(Total(), one, "one").tobytes()
    assert plain.tobytes() == Feed(Counted(), source, keep=True).reduce(Total(), pieces, "all").tobytes()


class Even(Uneven):
    """Says that the processes read the units in turns."""

    def places(self, handles):
        return [f"process {i % 2}" for i, _ in enumerate(handles)]


@pytest.mark.parametrize(("chunks", "together"), [((0, 1), 2), ((0, 1, 2), 2), ((0,), 0)])
def test_where_every_process_has_some_chunk_none_is_parted(source, chunks, together):
    executor = Even()
    feed = Feed(executor, source, keep=False)
    pieces = cut_pieces([unit.rows for unit in source.units], rounds=320)
    mine = [piece for piece in pieces if piece.chunk in chunks]
    found = feed.reduce(Total(), mine, "some")
    keys = [call.key for call in executor.last]
    assert sum("together" in key for key in keys) == together
    assert (len(keys) == together) == (len(chunks) > 1)  # one alone is parted
    assert found.tobytes() == Feed(Counted(), source, keep=True).reduce(Total(), mine, "some").tobytes()


def rows_of(calls, at):
    return sum(piece.n for call in calls if call.at == at for part in call.args[-1] for _, piece in part)


def test_a_process_that_read_little_borrows_from_others_where_rows_take_long(source):
    pieces = cut_pieces([unit.rows for unit in source.units])
    plain = Feed(Counted(), source, keep=True).reduce(Total(), pieces, "sum")
    executor = Uneven()
    feed = Feed(executor, source, keep=True)
    assert feed.reduce(Total(), pieces, "first").tobytes() == plain.tobytes()
    assert [call.lender for call in executor.last] == [None, None]  # nobody knows yet how long a row takes
    whole = sum(unit.n_rows for unit in source.units)
    for key in ("second", "third"):
        feed._places.pace = 1.0
        assert feed.reduce(Total(), pieces, key).tobytes() == plain.tobytes()
        lent = [(call.at, call.lender) for call in executor.last if call.lender is not None]
        assert lent == [("process 1", "process 0")]
        before, rows = 300, rows_of(executor.last, "process 1")
        assert before < rows <= before + BORROWED * 300  # some blocks, and no more
        assert rows + rows_of(executor.last, "process 0") == whole
    assert executor.asked == 1
    feed._places.pace = 0.0
    feed._places._borrowed = {}
    feed.reduce(Total(), pieces, "fourth")
    assert [call.lender for call in executor.last] == [None, None]
