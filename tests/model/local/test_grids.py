"""Grids as a machine: integer sums in any order, a group's step against dense algebra, coefficients of 16 bits."""

import numpy as np
import pytest

from dkernel.model.local.binning import Binning, add_sums
from dkernel.model.local.grids import COUNT_BITS, LARGEST_COEF, FixedPoint, Tables, learn_group, unpack_sums


def rows_of(n):
    return np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)


def made(n, outputs=1):
    X, rng = rows_of(n), np.random.default_rng(1)
    y = np.sign(np.sin(3 * X[:, :outputs]) + 0.1 * rng.normal(size=(n, outputs))).astype(np.float32)
    binning = Binning.draw(1.0, 3, 8, 6, seed=1)
    return binning, binning.codes(X), y


def add_rows(binning, X, values, fixed, sums):
    """Add rows to sums and weights, by a packed table where there is one."""
    packs = fixed.packs(sums.shape[1] - 1)
    table = np.zeros((len(sums), 1), np.int64) if packs else sums
    add_sums(binning.codes(X), binning.starts, values, table)
    if packs:
        unpack_sums(table, sums)
        assert not table.any()


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_numpy_and_the_same_in_any_order(outputs, weighted):
    n, rng = 3000, np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    binning = Binning.draw(1.0, 3, 8, 6, seed=1)
    r, weight = rng.normal(size=(n, outputs)), rng.integers(1, 5, n).astype(np.float64)
    fixed = FixedPoint.of(8.0, weight.sum() if weighted else None)
    values = fixed.rows(r, weight if weighted else None)
    found = np.zeros((binning.n_bins, outputs + 1), np.int64)
    for some in np.array_split(rng.permutation(n), 7):
        add_rows(binning, X[some], values[some], fixed, found)
    whole = np.zeros_like(found)
    add_rows(binning, X, values, fixed, whole)
    np.testing.assert_array_equal(found, whole)
    codes, (unit, weight_unit), whole = binning.codes(X), fixed.units, whole.reshape(8, 64, -1)
    for g in range(8):
        for c in range(outputs):
            expected = np.bincount(codes[g], r[:, c] * (weight if weighted else 1.0), 64)
            np.testing.assert_allclose(whole[g, :, c] * unit, expected, atol=n * unit)
        counts = np.bincount(codes[g], weight if weighted else None, 64)
        np.testing.assert_allclose(whole[g, :, outputs] * weight_unit, counts, rtol=1e-12)


def test_weights_are_copies():
    rng = np.random.default_rng(3)
    X, r = rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=(200, 1))
    weight = rng.integers(0, 4, 200)
    binning, bins = Binning.draw(1.0, 3, 4, 6), (4 * 64, 2)
    weighted, copied = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    by_weight, by_copy = FixedPoint.of(4.0, float(weight.sum())), FixedPoint.of(4.0)
    add_rows(binning, X, by_weight.rows(r, weight.astype(float)), by_weight, weighted)
    rows = np.repeat(np.arange(200), weight)
    add_rows(binning, X[rows], by_copy.rows(r[rows], None), by_copy, copied)
    np.testing.assert_allclose(weighted * by_weight.units, copied * by_copy.units, atol=1e-4)


def test_no_sum_of_fixed_point_numbers_overflows():
    for bound, weight in ((1.0, 10.0), (1e-6, 1e9), (1e30, 1e6)):
        fixed = FixedPoint.of(bound, weight)
        largest = np.abs(fixed.rows(np.array([[bound]]), np.array([weight])))
        assert 2**58 < int(largest[0, 0]) < 2**63
    packed = FixedPoint.of(3.0)
    value = int(packed.rows(np.array([[-1e9]]), None)[0, 0])
    assert value < 0, "a residual beyond the bound counts as the bound"
    assert -(2**63) < value * (2**COUNT_BITS - 1) < 0


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("sampled", [4000, 1000])
def test_a_group_moves_by_half_of_the_best_step_of_its_sum(outputs, sampled):
    """Each grid has s / (n + ridge), and the step is that of a line search on the rows, here by dense algebra."""
    binning, codes, y = made(4000, outputs=outputs)
    weight, ridge, X = np.random.default_rng(2).uniform(0.5, 2.0, 4000), 3.0, rows_of(4000)
    fixed, sums = FixedPoint.of(8.0, float(weight.sum())), np.zeros((binning.n_bins, outputs + 1), np.int64)
    add_rows(binning, X, fixed.rows(y, weight), fixed, sums)
    tables = learn_group(binning, sums, fixed, ridge, X[:sampled], weight[:sampled])
    found = np.zeros((4000, outputs), np.float32)
    binning.add_scores(X, tables.coef, tables.unit, found)
    for c in range(outputs):
        n = [np.bincount(grid, weight, 64) for grid in codes]
        s = [np.bincount(grid, weight * y[:, c], 64) for grid in codes]
        d = sum((sums / (count + ridge))[grid] for sums, count, grid in zip(s, n, codes, strict=True))
        wanted = 0.5 * (weight * d) @ y[:, c] / ((weight * d) @ d) * d
        np.testing.assert_allclose(found[:, c], wanted, atol=1e-3 if sampled == 4000 else 0.1 * np.abs(wanted).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_row_has_the_same_score_alone_and_in_a_block(outputs, dtype):
    rng, binning, X = np.random.default_rng(0), Binning.draw(1.0, 3, 70, 6), rows_of(900)[:, :3]
    coef = rng.integers(-(2**15), 2**15, (binning.n_bins, outputs)).astype(np.int16)
    unit = rng.uniform(0.1, 1.0, (70, outputs)).astype(np.float32)

    def scores(rows):
        found = np.zeros((len(rows), outputs), dtype)
        binning.add_scores(rows, coef, unit, found)
        return found

    assert np.array_equal(scores(X), np.concatenate([scores(X[i : i + 9]) for i in range(0, 900, 9)]))


def test_coefficients_are_16_bits_in_a_unit_of_their_grid():
    binning = Binning.draw(1.0, 3, 4, 6)
    d = np.random.default_rng(0).normal(size=(256, 2)) * np.repeat([1e-6, 1.0, 1e6, 0.0], 64)[:, None]
    largest = np.abs(d).reshape(4, 64, 2).max(axis=1).astype(np.float32)
    tables = Tables.rounded(d, binning.starts, largest)
    back = tables.coef * np.repeat(tables.unit, 64, axis=0)
    assert np.abs(back - d).max() <= 0.51 / LARGEST_COEF * largest.max()
    assert (np.abs(back - d).reshape(4, -1).max(axis=1) <= 0.51 / LARGEST_COEF * largest.max(axis=1)).all()
    twice = tables.plus(tables, binning.starts)
    np.testing.assert_allclose(twice.coef * np.repeat(twice.unit, 64, axis=0), 2 * back, rtol=1e-6)
    whole = Tables.joined([tables, twice])
    assert (len(whole.coef), len(whole.unit)) == (512, 8)


def test_groups_one_after_the_other_never_raise_the_loss():
    _, _, y = made(4000)
    binning, X, weight = Binning.draw(1.0, 3, 160, 6, used=0.5), rows_of(4000), np.ones(4000)
    fixed, scores = FixedPoint.of(8.0, 4000.0), np.zeros((4000, 1), np.float32)
    losses = [np.mean(np.square(y))]
    for first in range(0, 160, 8):
        part, sums = binning.part(first, first + 8), np.zeros((512, 2), np.int64)
        add_rows(part, X, fixed.rows(y - scores, weight), fixed, sums)
        tables = learn_group(part, sums, fixed, 5.0, X[:500], weight[:500])
        part.add_scores(X, tables.coef, tables.unit, scores)
        losses.append(np.mean(np.square(y - scores)))
    assert (np.diff(losses) <= 0).all()
    assert losses[-1] < 0.5 * losses[0]
