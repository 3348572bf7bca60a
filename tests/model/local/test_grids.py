"""Grids as a machine: integer sums in any order, joined rounds against dense algebra, a loss that never rises."""

import numpy as np
import pytest

from dkernel.model.local.binning import Binning, add_sums
from dkernel.model.local.grids import COUNT_BITS, FixedPoint, join_steps


def made(n, p=3, n_grids=8, bits=6, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(np.float32)
    y = np.sign(np.sin(3 * X[:, :outputs]) + 0.1 * rng.normal(size=(n, outputs))).astype(np.float32)
    binning = Binning.draw(1.0, p, n_grids, bits, seed=1)
    return binning, binning.codes(X), y


def add_scores(codes, coef, scores):
    """The plain way: one grid after the other."""
    for g, grid in enumerate(codes):
        scores += coef[g, grid]


def add_rows(binning, X, values, fixed, sums):
    """Add rows to sums and weights, by a packed table where there is one."""
    packs = fixed.packs(sums.shape[2] - 1)
    table = np.zeros((*sums.shape[:2], 1), np.int64) if packs else sums
    add_sums(binning.codes(X), values, table)
    if packs:
        fixed.unpack(table, sums)
        assert not table.any()


def tables(codes, r, weight, n_bins, fixed):
    """Sums and weights of the bins of `codes`, by numpy."""
    table = np.zeros((len(codes), n_bins, r.shape[1] + 1), np.int64)
    values = fixed.rows(r, weight)
    for g, grid in enumerate(codes):
        np.add.at(table[g], grid, values)
    return table


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_numpy_and_the_same_in_any_order(outputs, weighted):
    n, rng = 3000, np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    binning = Binning.draw(1.0, 3, 8, 6, seed=1)
    r, weight = rng.normal(size=(n, outputs)), rng.integers(1, 5, n).astype(np.float64)
    fixed = FixedPoint.of(8.0, weight.sum() if weighted else None)
    values = fixed.rows(r, weight if weighted else None)
    found = np.zeros((8, binning.n_bins, outputs + 1), np.int64)
    for some in np.array_split(rng.permutation(n), 7):
        add_rows(binning, X[some], values[some], fixed, found)
    whole = np.zeros_like(found)
    add_rows(binning, X, values, fixed, whole)
    np.testing.assert_array_equal(found, whole)
    codes, (unit, weight_unit) = binning.codes(X), fixed.units
    for g in range(8):
        for c in range(outputs):
            expected = np.bincount(codes[g], r[:, c] * (weight if weighted else 1.0), binning.n_bins)
            np.testing.assert_allclose(whole[g, :, c] * unit, expected, atol=n * unit)
        counts = np.bincount(codes[g], weight if weighted else None, binning.n_bins)
        np.testing.assert_allclose(whole[g, :, outputs] * weight_unit, counts, rtol=1e-12)


def test_weights_are_copies():
    rng = np.random.default_rng(3)
    X, r = rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=(200, 1))
    weight = rng.integers(0, 4, 200)
    binning, bins = Binning.draw(1.0, 3, 4, 6), (4, 64, 2)
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
def test_a_joined_round_is_the_least_squares_solution(outputs):
    binning, codes, y = made(400, outputs=outputs)
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.5, 2.0, 400)
    coef = rng.normal(size=(8, binning.n_bins, outputs)).astype(np.float32) * np.float32(0.1)
    ridge = 0.7
    scores = np.zeros((400, outputs), np.float32)
    add_scores(codes, coef, scores)
    r = (y - scores).astype(np.float64)
    fixed = FixedPoint.of(8.0, float(weight.sum()))
    whole = tables(codes, r, weight, binning.n_bins, fixed)
    change = join_steps(coef, whole, fixed, ridge, codes, weight)
    table = whole * np.array([fixed.units[0]] * outputs + [fixed.units[1]])
    for c in range(outputs):
        w = coef[:, :, c].astype(np.float64)
        d = (table[..., c] - ridge * w) / (table[..., outputs] + ridge)
        F = np.stack([d[g, codes[g]] for g in range(8)], axis=1)
        # min over eta of |r - F eta|^2_weight + ridge |w + eta d|^2, as one dense least-squares problem
        root = np.sqrt(weight)
        blocks = np.zeros((8 * binning.n_bins, 8))
        for g in range(8):
            blocks[g * binning.n_bins : (g + 1) * binning.n_bins, g] = d[g]
        A = np.vstack([F * root[:, None], np.sqrt(ridge) * blocks])
        b = np.concatenate([r[:, c] * root, -np.sqrt(ridge) * w.ravel()])
        eta = np.linalg.lstsq(A, b)[0]
        np.testing.assert_allclose(change[:, :, c], eta[:, None] * d, atol=2e-5)


@pytest.mark.parametrize("sampled", [4000, 500])
def test_the_objective_never_rises_and_rounds_reach_the_ridge_solution(sampled):
    binning, codes, y = made(4000, n_grids=12)
    weight, ridge = np.ones(4000), 12 * 0.05
    coef, fixed = np.zeros((12, binning.n_bins, 1), np.float32), FixedPoint.of(8.0, 4000.0)
    scores = np.zeros((4000, 1), np.float32)
    objective = [0.5 * np.sum(y.astype(np.float64) ** 2)]
    for k in range(120):
        some = slice(4 * (k % 3), 4 * (k % 3) + 4)
        table = tables(codes[some], (y - scores).astype(np.float64), weight, binning.n_bins, fixed)
        sample = np.ascontiguousarray(codes[some, :sampled])
        change = join_steps(coef[some], table, fixed, ridge, sample, weight[:sampled])
        coef[some] += change
        add_scores(codes[some], change, scores)
        r = (y - scores).astype(np.float64)
        objective.append(0.5 * np.sum(r * r) + 0.5 * ridge * np.sum(coef.astype(np.float64) ** 2))
    assert (np.diff(objective) <= 1e-6 * objective[0]).all()
    Z = np.zeros((4000, 12 * binning.n_bins))
    for g in range(12):
        Z[np.arange(4000), g * binning.n_bins + codes[g]] = 1.0
    w = np.linalg.solve(Z.T @ Z + ridge * np.eye(Z.shape[1]), Z.T @ y[:, 0])
    best = 0.5 * np.sum((y[:, 0] - Z @ w) ** 2) + 0.5 * ridge * np.sum(w * w)
    assert objective[-1] <= best * 1.02
