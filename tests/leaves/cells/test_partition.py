"""Laws of the partition: equal cells, a cell for each row whatever the block, bands on both sides of each cut."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dkernel.leaves.cells.partition import CellTree, grow, grow_partitions
from tests.combinations import examples


def rows(n=3000, p=5, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 7, 300, 999, 1000, 1001, 3217])
def test_all_cells_of_distinct_rows_are_equal_for_any_number_of_rows(n):
    _, visits, _ = grow(rows(n), np.eye(5), 100, 1, 0.5, 0)
    sizes = [int(visit.inside.sum()) for visit in visits]
    assert sum(sizes) == n
    assert max(sizes) <= 100
    assert len(sizes) == -(-n // 100)
    assert max(sizes) - min(sizes) <= 1 + np.log2(len(sizes))


@example(1, 101, 4, 1, 2.0)  # whose bands of all rows once met at the cut
@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 400), st.integers(1, 4), st.integers(1, 60), st.floats(0, 2))
def test_no_cell_has_more_different_rows_than_the_limit(seed, n, p, limit, overlap):
    # Few values: most rows are equal to others, and many projections tie.
    X = np.random.default_rng(seed).integers(0, 3, (n, p)).astype(np.float32)
    tree, visits, _ = grow(X, np.eye(p), limit, 1, overlap, seed)
    of = tree.cells(X)
    for cell, visit in enumerate(visits):
        own = visit.rows[visit.inside]
        np.testing.assert_array_equal(own, np.flatnonzero(of == cell))
        assert len(own) <= limit or len(np.unique(X[own], axis=0)) == 1
    assert tree.fits(p)


def test_a_row_has_the_same_cell_and_bands_alone_and_in_any_block():
    X = rows()
    tree, visits, _ = grow(X, np.eye(5), 200, 1, 0.5, 0)
    of = tree.cells(X)
    order = np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(tree.cells(X[order]), of[order])
    np.testing.assert_array_equal([tree.cells(X[i : i + 1])[0] for i in range(200)], of[:200])
    for cell, visit in tree.visits(X):
        np.testing.assert_array_equal(visit.rows, visits[cell].rows)
        np.testing.assert_array_equal(visit.depth, visits[cell].depth)
    alone = {cell for cell, visit in tree.visits(X[5:6]) if len(visit.rows)}
    assert alone == {cell for cell, visit in enumerate(visits) if 5 in visit.rows}


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 1.0])
def test_bands_hold_about_the_share_that_is_asked_for(overlap):
    X = rows(8000)
    _, visits, _ = grow(X, np.eye(5), 500, 1, overlap, 0)
    shares = [len(visit.rows) / visit.inside.sum() - 1 for visit in visits]
    assert np.mean(shares) == pytest.approx(overlap, abs=0.1)
    assert overlap > 0 or max(shares) == 0


def test_a_tree_of_the_sample_grows_until_its_cells_fit_the_limit():
    X = rows(6000)
    coarse, _, numbers = grow(X[:400], np.eye(5), 400 / 6000 * 300, 32, 0.5, 0)
    visits = dict(coarse.visits(X))
    below = [
        grow(X, np.eye(5), 300, 1, 0.5, 0, visit=visits[cell], number=numbers[cell]) for cell in range(coarse.n_cells)
    ]
    tree = coarse.join([tree for tree, _, _ in below])
    assert tree.fits(5)
    of, cells = tree.cells(X), [visit for _, some, _ in below for visit in some]
    for cell, visit in enumerate(cells):
        np.testing.assert_array_equal(visit.rows[visit.inside], np.flatnonzero(of == cell))
        assert visit.inside.sum() <= 300
    assert len({number for _, _, some in below for number in some}) == tree.n_cells
    again = CellTree.build(tree.arrays())
    np.testing.assert_array_equal(again.cells(X), of)


def test_a_tree_that_does_not_end_is_none():
    tree = grow(rows(400), np.eye(5), 100, 1, 0.5, 0)[0]
    assert tree.fits(5)
    assert not tree.fits(4)
    for place, child in [((0, 0), 0), ((1, 1), 0), ((1, 0), -9), ((2, 0), -1)]:
        children = tree.children.copy()
        children[place] = child
        assert not CellTree(tree.directions, tree.places, children).fits(5)


def test_several_partitions_have_all_rows_each():
    X = np.random.default_rng(0).standard_normal((900, 3)).astype(np.float32)
    one = np.eye(3)
    for partitions in (1, 2, 3):
        tree, numbers = grow_partitions(X, one, 200, 1, 0.25, 0, partitions)
        assert tree.fits(3)
        assert len(set(numbers)) == tree.n_cells == 5 * partitions
        own, seen = np.zeros(900, int), set()
        for number, visit in tree.visits(X):
            own[visit.rows[visit.inside]] += 1
            assert 150 <= visit.inside.sum() <= 200
            seen.add(number)
        assert (own == partitions).all()
        assert seen == set(range(tree.n_cells))
    single = grow(X, one, 200, 1, 0.25, 0)[0]
    np.testing.assert_array_equal(grow_partitions(X, one, 200, 1, 0.25, 0, 1)[0].directions, single.directions)
