"""The survey against numpy, whatever the chunks, and the reservoir against a sort of all hashes."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dkernel.errors import DataError
from dkernel.numerics.random_streams import row_hash
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.streaming.progress import Progress
from dkernel.streaming.schedule import cut_pieces, interleave_order, join_rounds
from dkernel.streaming.survey import MOST_LABELS, MOST_PARTS, ColumnMoments, RowSample, Survey
from tests.combinations import examples
from tests.streaming.sources import source_of
from tests.streaming.statistics import tree_sum


def survey(source, size=100, seed=0, pieces=None):
    statistic = Survey(seed, source.n_rows, size)
    pieces = pieces or cut_pieces([unit.rows for unit in source.units])
    return BlockReader(SerialExecutor(), source, False).fold(statistic, pieces, "survey", Progress("none"))


def data(n=20_000, p=5):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((n, p)) * [1, 1e3, 1e-3, 1, 1] + [0, 1e4, 0, -5, 0]).astype(np.float32)
    return X, rng.choice(np.array(["a", "bb", "ccc"]), n, p=[0.5, 0.3, 0.2])


@pytest.mark.parametrize("units", [[(20_000,)], [(9000, 1), (10_000, 999)], [(100,)] * 200])
def test_moments_are_numpys(units):
    X, y = data()
    found = survey(source_of(X, y, units))
    X64 = X.astype(np.float64)
    assert found.moments.n == 20_000
    np.testing.assert_allclose(found.moments.mean, X64.mean(axis=0), rtol=1e-12, atol=1e-12 * X64.std(axis=0).max())
    np.testing.assert_allclose(found.moments.variance, X64.var(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found.low, X64.min(axis=0))
    np.testing.assert_array_equal(found.high, X64.max(axis=0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_of_many_rows_a_compiled_function_finds_the_same(monkeypatch, dtype):
    X, _ = data()
    X, y = X.astype(dtype), np.arange(len(X)) % 3
    X[::7, 2], X[1::7, 2] = 0.0, -0.0
    found = survey(source_of(X, y, [(9000, 1), (10_999,)]))
    monkeypatch.setattr("dkernel.streaming.survey.COMPILED_ROWS", 1)
    tallied = survey(source_of(X, y, [(9000, 1), (10_999,)]))
    for name in ("low", "high", "sums", "weight", "labels"):
        np.testing.assert_array_equal(getattr(tallied, name), getattr(found, name))
    np.testing.assert_allclose(tallied.moments.mean, found.moments.mean, rtol=1e-13)
    np.testing.assert_allclose(tallied.moments.squares, found.moments.squares, rtol=1e-13)
    assert tallied.chunks[1][1] == found.chunks[1][1]


def test_moments_of_a_large_offset():
    x = 1e9 + np.random.default_rng(0).standard_normal((5000, 1))
    parts = [ColumnMoments.of(part) for part in np.array_split(x, 37)]
    np.testing.assert_allclose(tree_sum(parts, ColumnMoments.merge).variance, x.var(axis=0), rtol=1e-7)


def test_labels_counts_and_targets():
    X, y = data()
    found = survey(source_of(X, y, [(9000, 1), (10_999,)]))
    names, counts = np.unique(y, return_counts=True)
    assert found.labels == dict(zip(names.tolist(), counts.tolist(), strict=True))
    assert found.target is None
    assert found.weight == 20_000
    assert sorted(found.chunks) == [0, 1, 2]
    assert [found.chunks[i][0].n for i in range(3)] == [9000, 1, 10_999]
    np.testing.assert_allclose(found.chunks[0][0].mean, X[:9000].mean(axis=0, dtype=np.float64), rtol=1e-10)
    whole = {name: sum(found.chunks[i][1].get(name, 0) for i in range(3)) for name in found.labels}
    assert whole == found.labels


@pytest.mark.parametrize("kind", ["bool", "int64", "float64"])
def test_a_label_of_numbers_has_moments(kind):
    X, _ = data(1000)
    y = np.random.default_rng(1).integers(0, 2, 1000).astype(kind)
    found = survey(source_of(X, y, [(400,), (600,)]))
    np.testing.assert_allclose(found.target.variance, [y.astype(float).var()], rtol=1e-12)
    assert found.labels == {0: float((y == 0).sum()), 1: float((y == 1).sum())}


def test_weights_are_summed_and_stay_with_their_rows():
    X, y = data(3000)
    weight = np.random.default_rng(1).random(3000)
    found = survey(source_of(X, y, [(1000, 500), (1500,)], weight), size=50)
    np.testing.assert_allclose(found.weight, weight.sum())
    chosen = np.argsort(row_hash(0, "reservoir", 0, 3000))[:50]
    np.testing.assert_array_equal(found.reservoir.weight, weight[chosen])
    np.testing.assert_array_equal(found.reservoir.part(slice(3, 9)).weight, weight[chosen[3:9]])


def test_labels_of_two_types_are_refused():
    X, _ = data(100)
    feed = [survey_piece(X[:50], np.arange(50)), survey_piece(X[50:], np.array(["a"] * 50))]
    with pytest.raises(DataError, match="text in one part of the data and numbers in another"):
        Survey(0, 100, 10).merge(*feed)


def survey_piece(X, y):
    source = source_of(X, y, [(len(X),)])
    (piece,) = cut_pieces([(len(X),)])
    return Survey(0, 100, 10).step(source.units[0].task.compute(scheduler="sync")[0], piece, None)


def test_too_many_labels_are_no_classes_and_take_no_memory():
    n = MOST_LABELS + 3000
    X = np.zeros((n, 1), np.float32)
    found = survey(source_of(X, np.arange(n) + 0.5, [(n // 2,), (n - n // 2,)]))
    assert found.labels is None
    assert sorted(found.chunks) == [0, 1]
    assert all(labels is None for _, labels in found.chunks.values())
    np.testing.assert_allclose(found.target.mean, [n / 2])
    assert len(survey(source_of(X[:MOST_LABELS], np.arange(MOST_LABELS), [(MOST_LABELS,)])).labels) == MOST_LABELS


def test_what_is_kept_of_many_pieces_is_few_arrays():
    """A hundred million rows are fifty thousand pieces: what the client holds may not grow with them."""
    X, y = data()
    source = source_of(X, y, [(20,)] * 1000)
    statistic = Survey(7, 20_000, 300)
    sums = [
        statistic.step(source.units[piece.range.unit].task.compute(scheduler="sync")[0], piece, None)
        for piece in cut_pieces([unit.rows for unit in source.units])
    ]
    for parts in (sums[:33], sums[:500], sums):
        assert 1 <= len(tree_sum(parts, statistic.merge)[1]) <= MOST_PARTS
    found = statistic.finish(tree_sum(sums, statistic.merge)).reservoir
    chosen = np.argsort(row_hash(7, "reservoir", 0, 20_000))[:300]
    np.testing.assert_array_equal(found.X, X[chosen])
    np.testing.assert_array_equal(found.y, y[chosen])


@examples(25)
@given(
    st.lists(st.lists(st.integers(0, 700), min_size=1, max_size=4), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.1, 0.9, 1.0]),
    st.booleans(),
)
def test_the_reservoir_is_the_rows_of_the_smallest_hashes(units, share, interleave):
    """Neither chunks nor the order of arrival change it."""
    n = sum(map(sum, units))
    assume(n > 1)
    X, y = data(n)
    size = max(1, int(share * n))
    hashes = row_hash(7, "reservoir", 0, n)
    chosen = np.argsort(hashes)[:size]
    pieces = join_rounds(interleave_order(units, 4)) if interleave else None
    found = survey(source_of(X, y, [tuple(unit) for unit in units]), size, seed=7, pieces=pieces).reservoir
    for name, expected in {"X": X, "y": y, "hashes": hashes}.items():
        np.testing.assert_array_equal(getattr(found, name), expected[chosen])
    assert found.weight is None
    assert len(found) == size


@pytest.mark.parametrize(("n", "size"), [(1_000_000, 100), (1_000_000, 20_000), (3000, 10), (5000, 4000), (10, 10)])
def test_the_threshold_keeps_enough_and_little_more(n, size):
    for seed in range(20):
        statistic = RowSample(seed, n, size)
        kept = int((row_hash(seed, "reservoir", 0, n) <= np.uint64(statistic.threshold)).sum())
        assert size <= kept <= min(n, size + 13 * size**0.5 + 40)
