"""Calls of a round that workers even out among themselves: one of each, one sum a chunk, bits as of one process."""

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from dkernel.run import together
from dkernel.run.executors import Held, SerialExecutor
from dkernel.run.pieces import Piece, Place
from dkernel.run.reduce import Statistic, joined, tree_sum
from dkernel.run.shares import evened, shares
from dkernel.run.together import calls_of
from tests.run.test_shares import merged, rounds


class Path(Statistic):
    """In which order pieces were summed, as text."""

    def step(self, block, piece, broadcast):
        assert block == f"block {piece.chunk}"
        return f"{broadcast}{piece.number},"

    merge = staticmethod(merged)


def pieces_of(sizes):
    return {
        chunk: [Piece(k, Place(chunk, 0, 0, n), n, 0, 1, chunk) for k, n in enumerate(mine)]
        for chunk, mine in sizes.items()
    }


def called(sizes, found, many=0):
    def block(piece):
        return Held(f"block {piece.chunk}")

    with patch.object(together, "MANY", many):
        return calls_of(found, pieces_of(sizes), block, "key", (Path(), Held("p")))


@given(rounds(), st.integers(1, 3), st.sampled_from([0, 8, 1000]))
def test_every_sum_of_a_round_is_that_of_one_process(case, threads, many):
    sizes, places, workers = case
    made = called(sizes, shares(sizes, evened(sizes, places, workers), threads), many)
    values, _ = SerialExecutor().compute([call for call, _ in made])
    sums = {chunk: [] for chunk in sizes}
    for (_, nodes), found in zip(made, values, strict=True):
        for (chunk, first, level), value in zip(nodes, found, strict=True):
            sums[chunk].append((first, level, value))
    for chunk, mine in sizes.items():
        nodes = [(level, value) for _, level, value in sorted(sums[chunk])]
        assert joined(nodes, merged) == tree_sum([f"p{k}," for k in range(len(mine))], merged)


@given(rounds())
def test_a_worker_of_one_thread_has_one_call_and_answers_with_one_sum_a_chunk(case):
    sizes, places, workers = case
    found = evened(sizes, places, workers)
    made = called(sizes, found)
    asked = [call.at for call, _ in made if call.lender is None]
    assert len(set(asked)) == len(asked)
    assert sorted(node for _, nodes in made for node in nodes) == [(chunk, 0, 0) for chunk in sorted(sizes)]
    helpers = [helper for call, _ in made for helper in call.helpers]
    assert all(helper.lender == call.at for call, _ in made for helper in call.helpers)
    assert len(helpers) == sum(share.lender is not None for share in found)
    assert len({call.key for call, _ in made} | {helper.key for helper in helpers}) == len(made) + len(helpers)
