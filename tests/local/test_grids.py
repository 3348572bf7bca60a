"""Grids as a machine: integer sums in any order, joined rounds against dense algebra, a loss that never rises."""

import numpy as np
import pytest

from dkernel.local.binning import Binning
from dkernel.local.grids import add_scores, add_sums, fixed_point, joined, to_fixed


def made(n, p=3, n_grids=8, bits=6, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(np.float32)
    y = np.sign(np.sin(3 * X[:, :outputs]) + 0.1 * rng.normal(size=(n, outputs))).astype(np.float32)
    binning = Binning.draw(1.0, p, n_grids, bits, seed=1)
    return binning, binning.codes(X), y


def tables(codes, r, weight, n_bins, k=30):
    table = np.zeros((len(codes), n_bins, r.shape[1] + 1), np.int64)
    add_sums(codes, np.column_stack([to_fixed(r * weight[:, None], k), to_fixed(weight, k)]), table)
    return np.ldexp(table.astype(np.float64), -k)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sums_are_those_of_numpy_and_the_same_in_any_order(outputs):
    binning, codes, y = made(3000, outputs=outputs)
    values = np.column_stack([to_fixed(y, 20), np.ones(3000, np.int64)])
    table = np.zeros((binning.n_grids, binning.n_bins, outputs + 1), np.int64)
    add_sums(codes, values, table)
    for g, grid in enumerate(codes):
        for c in range(outputs + 1):
            expected = np.zeros(binning.n_bins, np.int64)
            np.add.at(expected, grid, values[:, c])
            np.testing.assert_array_equal(table[g, :, c], expected)
    other = np.zeros_like(table)
    order = np.random.default_rng(1).permutation(3000)
    for some in np.array_split(order, 7):
        add_sums(np.ascontiguousarray(codes[:, some]), values[some], other)
    np.testing.assert_array_equal(other, table)


def test_no_sum_of_fixed_point_numbers_overflows():
    for bound, rows in ((1.0, 10), (1e-6, 10**9), (1e30, 10**6)):
        k = fixed_point(bound, rows)
        largest = int(to_fixed(np.array([bound]), k)[0]) * rows
        assert 2**58 < largest < 2**63


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
    table = tables(codes, r, weight, binning.n_bins)
    change = joined(coef, table[..., :outputs], table[..., outputs], ridge, codes, weight)
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
    coef = np.zeros((12, binning.n_bins, 1), np.float32)
    scores = np.zeros((4000, 1), np.float32)
    objective = [0.5 * np.sum(y.astype(np.float64) ** 2)]
    for k in range(120):
        some = slice(4 * (k % 3), 4 * (k % 3) + 4)
        table = tables(codes[some], (y - scores).astype(np.float64), weight, binning.n_bins)
        change = joined(
            coef[some], table[..., :1], table[..., 1], ridge, codes[some, :sampled], weight[:sampled] * 4000 / sampled
        )
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
