"""Random binning: codes equal their definition, bins follow the law of the kernel, hashes seldom meet."""

import numpy as np
import pytest

from dkernel.model.local.binning import LAST_INTERVAL, MISSING_INTERVAL, Binning


def rows(n, p, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p)).astype(np.float32)


def codes_reference(binning, X):
    h = np.repeat(binning.offset[:, None], len(X), axis=1)
    for j in range(X.shape[1]):
        x, a = X[None, :, j], binning.inverse[:, j, None]
        with np.errstate(invalid="ignore", over="ignore"):
            t = np.clip(x * a - binning.shift[:, j, None], -LAST_INTERVAL, LAST_INTERVAL)
            q = np.where(np.isnan(x), MISSING_INTERVAL, np.floor(t).astype(np.int32).view(np.uint32))
        h += np.where(a != 0, q * binning.multiplier[:, j, None], np.uint32(0))
    return h >> (32 - binning.bits)[:, None]


@pytest.mark.parametrize(("n", "p", "grids", "bits"), [(1, 1, 1, 1), (3000, 5, 7, 16), (1025, 12, 2, 24)])
def test_compiled_codes_equal_those_of_numpy(n, p, grids, bits):
    X = rows(n, p)
    binning = Binning.draw(0.7, p, grids, bits, seed=3)
    codes = binning.codes(X)
    np.testing.assert_array_equal(codes, codes_reference(binning, X))
    assert codes.max() < 1 << bits


def test_extreme_values_have_codes_and_missing_ones_a_bin_of_their_own():
    X = rows(8, 3)
    X[0, 0], X[1, 1], X[2, 2], X[3, 0] = np.nan, np.inf, -np.inf, 3e38
    binning = Binning.draw(1.0, 3, 64, 20)
    codes = binning.codes(X)
    np.testing.assert_array_equal(codes, codes_reference(binning, X))
    other = X.copy()
    other[0, 0] = 0.0
    assert (binning.codes(other)[:, 0] != codes[:, 0]).all()


def test_a_row_has_the_same_codes_alone_and_in_any_block():
    X = rows(2100, 4)
    binning = Binning.draw(0.5, 4, 9, 16)
    whole = binning.codes(X)
    for some in (slice(0, 1), slice(1023, 1025), slice(5, 2100, 7)):
        np.testing.assert_array_equal(binning.codes(X[some]), whole[:, some])
    np.testing.assert_array_equal(binning.part(3, 5).codes(X), whole[3:5])


def test_a_grid_depends_on_its_own_number_alone():
    many, few = Binning.draw(0.5, 4, 20, 16, seed=1), Binning.draw(0.5, 4, 5, 16, seed=1)
    np.testing.assert_array_equal(many.inverse[:5], few.inverse)
    np.testing.assert_array_equal(many.multiplier[:5], few.multiplier)
    assert not np.array_equal(few.inverse, Binning.draw(0.5, 4, 5, 16, seed=2).inverse)


@pytest.mark.parametrize("bits", [24, 8])
@pytest.mark.parametrize(("gamma", "used"), [(0.3, 1.0), ((0.1, 0.6, 0.0), 1.0), (0.5, 0.4), (1.0, (0.9, 0.2, 0.5))])
def test_rows_share_a_bin_with_the_probability_of_the_anova_kernel(gamma, used, bits):
    X, seeds, each = rows(24, 3, seed=4), 400, 5
    shared = np.zeros((24, 24))
    for seed in range(seeds):
        codes = Binning.draw(np.asarray(gamma), 3, each, bits, seed, np.asarray(used)).codes(X)
        shared += (codes[:, :, None] == codes[:, None, :]).mean(axis=0) / seeds
    alike = np.exp(-np.abs(X[:, None] - X[None]) * np.asarray(gamma))
    kernel = (1 - np.asarray(used) * (1 - alike)).prod(axis=2)
    error = np.sqrt(kernel * (1 - kernel) / (seeds * each))
    assert (np.abs(shared - kernel) <= 4 * error + 2.0**-bits).all()


def test_a_grid_that_uses_a_category_parts_all_of_it():
    X = np.arange(6, dtype=np.float32)[:, None] * np.float32(1000.0)
    codes = Binning.draw(1.0, 1, 4000, 24, used=0.6, categorical=np.array([True])).codes(X)
    shared = (codes[:, :1] == codes).mean(axis=1)
    assert set(shared) == {1.0, 1 / 6}
    assert (shared == 1.0).mean() == pytest.approx(0.4, abs=0.03)


@pytest.mark.parametrize(("p", "used"), [(1, 1.0), (3, 0.5), (8, 0.9)])
def test_tables_have_twice_the_bins_that_the_rows_occupy(p, used):
    X, n = rows(16_000, p), 8
    binning = Binning.draw(2.0, p, n, 16, used=used).for_rows(X[:4000], len(X), 16)
    occupied = [
        len(np.unique(grid.codes(X)))
        for grid in (Binning.draw(2.0, p, n, 22, used=used).part(g, g + 1) for g in range(n))
    ]
    share = np.array(occupied) / (1 << binning.bits.astype(int))
    assert (share[binning.bits > 6] > 0.15).all()
    assert (share[binning.bits < 16] < 0.8).all()
    assert binning.n_bins == (1 << binning.bits.astype(int)).sum() == binning.starts[-1]


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_bins_meet_in_one_code_about_as_often_as_chance_has_it(bits):
    q = np.stack(np.meshgrid(*[np.arange(12)] * 3), axis=-1).reshape(-1, 3).astype(np.float32)
    rng, met = np.random.default_rng(0), []
    for _ in range(40):
        multiplier = rng.integers(0, 2**32, (1, 3), dtype=np.uint32) | np.uint32(1)
        offset = rng.integers(0, 2**32, 1, dtype=np.uint32)
        ones, zeros = np.ones((1, 3), np.float32), np.zeros((1, 3), np.float32)
        codes = Binning(ones, zeros, multiplier, offset, np.array([bits], np.uint32)).codes(q)[0]
        _, counts = np.unique(codes, return_counts=True)
        met.append((counts * (counts - 1)).sum() / (len(q) * (len(q) - 1)))
    assert np.mean(met) <= 2.0**-bits * 2
