"""Newton's method on a kernel expansion: its gradient at the end, and the machines of other hands."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.kernel_ridge import KernelRidge

from dkernel.kernels import Gaussian
from dkernel.losses.losses import LOSSES, parse_loss
from dkernel.solvers import newton
from dkernel.solvers.newton import Newton, raised_cholesky

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
K = Gaussian(gamma=0.5)(X, X)
W = RNG.uniform(size=60)
W[:3] = 0.0
W /= W.sum()
NUMBER = np.sin(2 * X[:, 0]) + RNG.standard_t(2, size=60)
CLASS = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
ALONE = [name for name in SMOOTH if name != "softmax"]  # which has an output a class


@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-6])
@pytest.mark.parametrize("name", ALONE)
def test_the_gradient_at_the_end(name, alpha):
    loss, y = parse_loss(name), (NUMBER if LOSSES[name].regresses else CLASS)[:, None]
    reached = Newton(K, y, W, loss).optimum(alpha)
    a, b = reached.v[:-1, 0], reached.v[-1, 0]
    slope = W * loss.derivative(y, (K @ a + b)[:, None])[:, 0]
    assert np.abs(K @ (slope + alpha * a)).max() < 1e-8
    assert abs(slope.sum()) < 1e-8
    assert (a[:3] == 0).all()


@pytest.mark.parametrize("name", ALONE)
def test_no_other_minimizer_gets_lower(name):
    loss, y, alpha = parse_loss(name), (NUMBER if LOSSES[name].regresses else CLASS)[:, None], 1e-3
    root = np.linalg.cholesky(K + 1e-12 * np.eye(60))

    def objective(u):
        s = (root @ u[:-1] + u[-1])[:, None]
        slope = W * loss.derivative(y, s)[:, 0]
        value = W @ loss.value(y, s)[:, 0] + 0.5 * alpha * u[:-1] @ u[:-1]
        return value, np.append(root.T @ slope + alpha * u[:-1], slope.sum())

    found = minimize(objective, np.zeros(61), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15})
    v = Newton(K, y, W, loss).optimum(alpha).v[:, 0]
    value = W @ loss.value(y, (K @ v[:-1] + v[-1])[:, None])[:, 0] + 0.5 * alpha * v[:-1] @ K @ v[:-1]
    assert value <= found.fun + 1e-10
    np.testing.assert_allclose(K @ v[:-1] + v[-1], root @ found.x[:-1] + found.x[-1], atol=2e-3)


def test_ridge_regression_is_scikit_learns():
    w = np.full(60, 1 / 60)
    y = NUMBER - NUMBER.mean()
    v = Newton(K, y[:, None], w, parse_loss("squared")).optimum(1e-2).v[:, 0]
    twin = KernelRidge(alpha=60 * 1e-2, kernel="precomputed").fit(K, y - v[-1])
    np.testing.assert_allclose(v[:-1], twin.dual_coef_, rtol=1e-8)


def test_each_output_alone_and_a_start_that_is_near():
    Y = np.stack([CLASS, -CLASS], axis=1)
    machine = Newton(K, Y, W, parse_loss("logistic"))
    reached = machine.optimum(1e-4)
    np.testing.assert_allclose(reached.v[:, 0], -reached.v[:, 1], atol=1e-8)
    assert machine.optimum(1e-4, start=reached.v).steps <= 2 < reached.steps
    assert machine.optimum(1e-4, tolerance=1e-2).steps < reached.steps


@pytest.mark.parametrize("name", [name for name in SMOOTH if not LOSSES[name].regresses])
@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_the_gradient_of_several_outputs(name, alpha):
    loss, Y = parse_loss(name), np.where(np.digitize(NUMBER, [-1, 0, 1])[:, None] == np.arange(4), 1.0, -1.0)
    reached = Newton(K, Y, W, loss).optimum(alpha)
    a, b = reached.v[:-1], reached.v[-1]
    slope = W[:, None] * loss.derivative(Y, K @ a + b)
    assert np.abs(K @ (slope + alpha * a)).max() < 1e-8
    assert np.abs(slope.sum(axis=0)).max() < 1e-8


@pytest.mark.parametrize("name", ["softmax", "logistic"])
def test_outputs_share_the_factors(name, monkeypatch):
    """One factor a step, however many outputs."""
    made = []
    monkeypatch.setattr(newton, "raised_cholesky", lambda *of: made.append(1) or raised_cholesky(*of))
    Y = np.where(np.arange(60)[:, None] % 30 == np.arange(30), 1.0, -1.0)
    reached = Newton(K, Y, W, parse_loss(name)).optimum(1e-3)
    assert len(made) == reached.steps < 20


def test_outputs_that_are_at_their_optima_are_left_alone(monkeypatch):
    solved, solve = [], newton._NewtonSystem.solve
    monkeypatch.setattr(
        newton._NewtonSystem, "solve", lambda of, r, rest: solved.append(r.shape[1]) or solve(of, r, rest)
    )
    Y = np.where(np.digitize(NUMBER, [-1, 0, 1])[:, None] == np.arange(4), 1.0, -1.0)
    machine = Newton(K, Y, W, parse_loss("logistic"))
    reached = machine.optimum(1e-4)
    assert solved[0] == 4 > min(solved)
    start = reached.v.copy()
    start[:, 0] = 0.0
    solved.clear()
    again = machine.optimum(1e-4, start=start)
    assert solved.count(4) < len(solved) / 2
    np.testing.assert_allclose(again.v, reached.v, atol=1e-6)
