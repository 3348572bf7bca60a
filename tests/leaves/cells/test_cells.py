"""The machine of a cell: kernel ridge regression, weights as copies, equal rows, and the same answer in any block."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from dkernel.kernels import Matern
from dkernel.kernels.analysis.gradients import gradient_moment, metric_root
from dkernel.leaves.cells.cells import Cell, CellSettings, fit_cell, learn_root, relearn_root, typical_distance
from dkernel.losses.losses import parse_loss
from dkernel.numerics import linalg

SETTINGS = CellSettings(1.0, 0.1)


def fitted(X, root, Y, weight, settings, loss="squared"):
    """The machine that learns these targets from nothing."""
    return fit_cell(X, root, parse_loss(loss), Y, np.zeros_like(Y), weight, settings)


def problem(n=400, p=4, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)).astype(np.float32)
    root = rng.standard_normal((p, p)).astype(np.float32)
    return X, root, np.stack([np.sin(X[:, k]) + X[:, 0] for k in range(outputs)], axis=1).astype(np.float32)


def test_a_cell_is_kernel_ridge_regression():
    X, root, R = problem()
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    cell = fitted(X, root, R, weight, SETTINGS)
    Z = (X @ root).astype(np.float64)
    length = typical_distance(X @ root)
    K = np.exp(-cdist(Z, Z) / length)
    truth = K @ np.linalg.solve(K + np.diag(0.1 / weight), R.astype(np.float64))
    np.testing.assert_allclose(cell.scores(X), truth, atol=1e-4 * np.abs(truth).max())


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_steps_come_near_the_minimum_of_the_loss(loss):
    X, root, R = problem(150, outputs=1)
    Y, S = np.sign(R), (0.5 * R[::-1]).astype(np.float32)
    weight, loss = np.random.default_rng(1).uniform(0.5, 2, len(X)), parse_loss(loss)
    cell = fit_cell(X, root, loss, Y, S, weight, SETTINGS)
    Z = (X @ root).astype(np.float64)
    K = np.exp(-cdist(Z, Z) / typical_distance(X @ root))

    def objective(coef):
        f = K @ coef
        value = weight @ loss.value(Y, S + f[:, None])[:, 0] + 0.5 * 0.1 * loss.curvature * coef @ f
        slope = weight * loss.derivative(Y, S + f[:, None])[:, 0] + 0.1 * loss.curvature * coef
        return value, K @ slope

    least = minimize(objective, np.zeros(len(X)), jac=True, method="L-BFGS-B", options={"maxiter": 5000}).fun
    assert objective(cell.coef[:, 0])[0] < 1.1 * least


def test_a_row_of_weight_two_is_two_rows_and_equal_rows_are_one():
    X, root, R = problem(200)
    weight = np.ones(200)
    weight[:50] = 2
    twice = fitted(np.r_[X, X[:50]], root, np.r_[R, R[:50]], np.ones(250), SETTINGS)
    # The median distance is that of other rows: the same length is needed to compare.
    length = typical_distance(X @ root) / typical_distance(np.r_[X, X[:50]] @ root)
    once = fitted(X, root, R, weight, CellSettings(1 / length, 0.1))
    assert len(twice.Z) == 200
    np.testing.assert_allclose(twice.scores(X), once.scores(X), atol=1e-4)


def test_equal_rows_of_other_answers_and_no_ridge_to_speak_of_end_well():
    X = np.repeat(np.eye(4, dtype=np.float32), 50, axis=0)
    R = np.random.default_rng(0).standard_normal((200, 1)).astype(np.float32)
    cell = fitted(X, np.eye(4, dtype=np.float32), R, np.ones(200), CellSettings(1.0, 1e-6))
    np.testing.assert_allclose(cell.scores(X[::50]), R.reshape(4, 50).mean(axis=1, keepdims=True), atol=1e-4)
    near = (X + 1e-7 * np.arange(200)[:, None]).astype(np.float32)
    wide = fitted(near, np.eye(4, dtype=np.float32), R, np.ones(200), CellSettings(1e6, 1e-12))
    assert np.isfinite(wide.scores(near)).all()


@pytest.mark.parametrize("rounds", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_cells_of_few_rows(n, rounds):
    X, root, R = problem(n)
    found = fitted(X, root, R, np.ones(n), replace(SETTINGS, rounds=rounds))
    assert np.isfinite(found.scores(problem(5)[0])).all()


@pytest.mark.parametrize("nu", [0.5, 1.5])
def test_a_cell_finds_the_feature_that_counts(nu):
    X = problem(900, p=6)[0]
    y, one = np.sin(3 * X[:, :1]), np.eye(6, dtype=np.float32)
    plain, own = (fitted(X[:700], one, y[:700], np.ones(700), CellSettings(1.0, 1e-2, nu, k)) for k in (0, 1))
    metric = own.root @ own.root
    assert metric[0, 0] > 3 * np.diag(metric)[1:].max()
    error, better = (np.mean((cell.scores(X[700:]) - y[700:]) ** 2) for cell in (plain, own))
    assert better < 0.5 * error


def test_a_row_has_the_same_scores_alone_and_in_any_block():
    X, root, R = problem(1300)
    cell = fitted(X[:1000], root, R[:1000], np.ones(1000), SETTINGS)
    whole = cell.scores(X)
    np.testing.assert_array_equal(cell.scores(X[77:78])[0], whole[77])
    np.testing.assert_array_equal(cell.scores(X[::-1])[::-1], whole)
    np.testing.assert_array_equal(cell.scores(X[5:900:7]), whole[5:900:7])


def test_a_cell_without_rows_says_nothing():
    cell = Cell(np.eye(2, dtype=np.float32), np.zeros((0, 2), np.float32), np.zeros((0, 1), np.float32), 1.0)
    assert (cell.scores(np.ones((3, 2), np.float32)) == 0).all()


@pytest.mark.parametrize(("nu", "outputs"), [(0.5, 2), (1.5, 40)])
def test_a_metric_is_learned_in_float32_as_it_is_in_float64(nu, outputs):
    X, root, R = problem(300, outputs=2)
    R = np.concatenate([R] * (outputs // 2), axis=1)
    cell = fitted(X, root, R, np.ones(len(X)), replace(SETTINGS, nu=nu, ridge=1e-3))
    rows, Z, coef = (A.astype(np.float64) for A in (X @ root, cell.Z, cell.coef))
    moment = root @ gradient_moment(Matern(nu, cell.length), rows, Z, coef) @ root.T.astype(np.float64)
    np.testing.assert_allclose(relearn_root(cell, X), metric_root(moment, diagonal=False), atol=1e-4)


@pytest.mark.parametrize("threads", [2, 3])
def test_a_metric_has_the_same_bits_on_any_threads(monkeypatch, threads):
    monkeypatch.setattr(linalg, "usable_cores", lambda: 3)
    X, _, R = problem(1100)
    one, other = (learn_root(X, R, 1e-3, 600, rounds=1, threads=count) for count in (1, threads))
    np.testing.assert_array_equal(one, other)
