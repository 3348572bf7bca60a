"""Who sums what in a round: each piece once, all workers nearly the same, few blocks copied."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkernel.run.reduce import joined, nodes, tree_sum
from dkernel.run.shares import BORROWED, Run, Share, evened, longest, shares


def never(chunk, rows):  # noqa: ARG001
    return False


def merged(left, right):
    return f"({left}{right})"


@given(st.integers(1, 70), st.lists(st.integers(0, 70), max_size=5))
def test_runs_of_a_chunk_are_nodes_of_its_tree(n, cuts):
    ends = sorted({0, n, *(cut for cut in cuts if cut < n)})
    leaves = [f"{i}," for i in range(n)]
    found = [
        (level, joined([(0, leaf) for leaf in leaves[first:last]], merged))
        for start, stop in pairwise(ends)
        for first, last, level in nodes(start, stop)
    ]
    assert joined(found, merged) == tree_sum(leaves, merged)


@st.composite
def rounds(draw):
    workers = [f"w{i}" for i in range(draw(st.integers(1, 8)))]
    chunks = draw(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(workers)), min_size=1, max_size=20))
    sizes = {i: [draw(st.sampled_from([100, 99, 31]))] * n for i, (n, _) in enumerate(chunks)}
    return sizes, {i: place for i, (_, place) in enumerate(chunks)}, workers


def pieces_of(found):
    return sorted((run.chunk, k) for share in found for run in share.runs for k in range(run.first, run.last))


@given(rounds(), st.integers(1, 4))
def test_each_piece_is_summed_once_and_borrowed_from_whom_has_it(case, threads):
    sizes, places, workers = case
    found = shares(sizes, evened(sizes, places, workers), threads)
    assert pieces_of(found) == sorted((chunk, k) for chunk, pieces in sizes.items() for k in range(len(pieces)))
    for share in found:
        assert all(places[run.chunk] == (share.lender or share.at) for run in share.runs)
        assert share.lender != share.at
    for worker in workers:
        borrowed = {run.chunk for share in found if share.at == worker and share.lender for run in share.runs}
        assert len(borrowed) <= BORROWED


@given(rounds())
def test_the_longest_share_never_grows_and_costly_copies_are_not_made(case):
    sizes, places, workers = case
    alone = evened(sizes, places, workers, never)
    assert all(share.lender is None for share in alone)
    assert longest(sizes, evened(sizes, places, workers)) <= longest(sizes, alone)


@pytest.mark.parametrize("workers", [10, 100])
def test_workers_with_one_chunk_or_two_of_a_round_end_together(workers):
    chunks = round(1.2 * workers)
    sizes = {i: [2048] * 64 for i in range(chunks)}
    places = {i: f"w{i % workers}" for i in range(chunks)}
    names = [f"w{i}" for i in range(workers)]
    mean = chunks * 64 * 2048 / workers
    assert longest(sizes, evened(sizes, places, names, never)) > 1.6 * mean
    assert longest(sizes, evened(sizes, places, names)) < 1.09 * mean


def test_a_chunk_that_was_borrowed_before_is_borrowed_again():
    sizes, places = {i: [10] * 4 for i in range(6)}, {i: "a" if i < 5 else "b" for i in range(6)}
    for known in range(5):
        found = evened(sizes, places, "ab", has={"b": [known]})
        assert [share.runs[0].chunk for share in found if share.lender] == [known]


def test_threads_of_a_worker_have_as_much_as_each_other():
    sizes = {0: [10] * 16, 1: [10] * 8}
    found = shares(sizes, [Share("a", (Run(0, 0, 16), Run(1, 0, 8)))], 3)
    assert [sum(10 * (run.last - run.first) for run in share.runs) for share in found] == [80, 80, 80]
