"""Machines of losses with kinks, against libsvm, a general solver of quadratic programs, and their own dual."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR

from dkernel.errors import UnsupportedError
from dkernel.losses.losses import LOSSES, EpsilonInsensitive, Hinge, Quantile
from dkernel.numerics.threads import one_blas_thread
from dkernel.solvers.interior_point import minimize_boxed


@pytest.fixture(autouse=True)
def one_thread():
    with one_blas_thread():
        yield


def rows(n=100, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where((X**2).sum(axis=1) + rng.normal(size=n) > 2.4, 1.0, -1.0)
    return rbf_kernel(X, gamma=0.3), y, 2 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=n)


def objective(loss, K, y, w, alpha, v):
    a, b = v[:-1], v[-1]
    return float(w @ loss.value(y, K @ a + b) + alpha / 2 * a @ K @ a)


def of_libsvm(machine, n):
    v = np.zeros(n + 1)
    v[machine.support_], v[-1] = machine.dual_coef_[0], machine.intercept_[0]
    return v


@pytest.mark.filterwarnings("ignore:Solver terminated early")  # libsvm, at the largest C
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_objectives_are_those_of_libsvm_or_smaller(C, weighted):
    K, y, t = rows()
    n = len(y)
    w = np.random.default_rng(1).integers(1, 4, n) / 1.0 if weighted else np.ones(n)
    alpha, share = 1 / (C * w.sum()), w / w.sum()
    svc = SVC(C=C, kernel="precomputed", tol=1e-5, max_iter=100_000)
    svr = SVR(C=C, epsilon=0.1, kernel="precomputed", tol=1e-5, max_iter=100_000)
    for loss, machine, target in ((Hinge(), svc, y), (EpsilonInsensitive(0.1), svr, t)):
        found = minimize_boxed(K, target[:, None], share, loss, alpha)
        machine.fit(K, target, sample_weight=w)
        mine = objective(loss, K, target, share, alpha, found.v[:, 0])
        theirs = objective(loss, K, target, share, alpha, of_libsvm(machine, n))
        assert found.moved <= 1e-9
        assert mine <= theirs * (1 + 1e-9)
        assert C > 1e2 or mine >= theirs * (1 - 1e-4)  # beyond it libsvm gives up, and the gap is what is known


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("loss", "gap"), [(Hinge(), 1e-9), (EpsilonInsensitive(0.1), 1e-3), (Quantile(0.9), 1e-5)])
def test_a_strength_that_leaves_few_digits_ends_where_rounding_begins(loss, gap, weighted):
    K, y, t = rows()
    n = len(y)
    w = np.random.default_rng(1).integers(1, 4, n) / 1.0 if weighted else np.ones(n)
    target = y if loss.name == "hinge" else t
    found = minimize_boxed(K, target[:, None], w / w.sum(), loss, 1 / (1e6 * w.sum()))
    assert found.moved <= gap
    assert found.steps < 30


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1e-2])
@pytest.mark.parametrize("loss", [Quantile(0.5), Quantile(0.9), EpsilonInsensitive(0.01)], ids=lambda loss: loss.text)
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "smooth"])
def test_no_strength_ends_above_the_optimum_of_a_larger_one(kernel, loss, noise):
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(200, 3))
    K = {"linear": X @ X.T, "polynomial": (1 + X @ X.T) ** 2, "smooth": rbf_kernel(X, gamma=0.01)}[kernel]
    t = X[:, 0] * (X[:, 1] if kernel == "polynomial" else 1.0) + X[:, 2]
    t, w = t / t.std() + noise * rng.normal(size=200), np.full(200, 1 / 200)
    before = np.zeros(201)
    for alpha in 10.0 ** -np.arange(0, 11):
        found = minimize_boxed(K, t[:, None], w, loss, alpha)
        v = found.v[:, 0]
        assert found.moved <= 1e-5
        assert objective(loss, K, t, w, alpha, v) <= objective(loss, K, t, w, alpha, before) + 1e-5
        before = v


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
def test_half_quantiles_are_regression_without_a_tube(C):
    K, _, t = rows()
    n = len(t)
    alpha = 1 / (C * n)
    found = minimize_boxed(K, t[:, None], np.full(n, 1 / n), Quantile(0.5), alpha)
    tube = minimize_boxed(K, t[:, None], np.full(n, 1 / n), EpsilonInsensitive(0.0), 2 * alpha)
    values = [objective(Quantile(0.5), K, t, np.full(n, 1 / n), alpha, each.v[:, 0]) for each in (found, tube)]
    assert values[0] == pytest.approx(values[1], rel=1e-7)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.2), Quantile(0.8)], ids=lambda loss: loss.text)
@pytest.mark.parametrize("alpha", [1e-3, 1e-1])
def test_a_general_solver_finds_the_same(loss, alpha):
    K, y, t = (each[:14] for each in rows())
    K, target, w = K[:, :14], y if loss.name == "hinge" else t, np.arange(1.0, 15.0) / 105
    found = minimize_boxed(K, target[:, None], w, loss, alpha)
    origin, sides = loss.sides(target, w)
    sign, upper, cost = (np.concatenate(part) for part in zip(*sides, strict=True))
    fold = np.concatenate([np.diag(side[0]) for side in sides], axis=1)

    def dual(x):
        beta = origin + fold @ x
        return beta @ K @ beta / (2 * alpha) + cost @ x, fold.T @ (K @ beta) / alpha + cost

    general = minimize(
        dual, upper / 2, jac=True, bounds=list(zip(0 * upper, upper, strict=True)), method="SLSQP",
        constraints={"type": "eq", "fun": lambda x: sign @ x + origin.sum(), "jac": lambda x: sign},  # noqa: ARG005
        options={"maxiter": 2000, "ftol": 1e-15},
    )  # fmt: skip
    lower = -general.fun + origin @ target
    assert objective(loss, K, target, w, alpha, found.v[:, 0]) == pytest.approx(lower, rel=1e-6)


def test_a_row_of_weight_k_is_k_rows_and_one_of_weight_0_none():
    K, y, _ = rows(60)
    k = np.random.default_rng(2).integers(0, 4, 60)
    copies = np.repeat(np.arange(60), k)
    weighted = minimize_boxed(K, y[:, None], k / k.sum(), Hinge(), 1e-3).v[:, 0]
    share = np.full(len(copies), 1 / len(copies))
    other = minimize_boxed(K[np.ix_(copies, copies)], y[copies, None], share, Hinge(), 1e-3).v[:, 0]
    np.testing.assert_allclose(K @ weighted[:-1] + weighted[-1], K[:, copies] @ other[:-1] + other[-1], atol=1e-5)
    assert (weighted[:-1][k == 0] == 0).all()


def test_each_output_is_solved_alone_also_with_equal_rows():
    K, y, _ = rows(80)
    twice = np.repeat(np.arange(80), 2)
    K, y = K[np.ix_(twice, twice)], y[twice]
    w = np.full(160, 1 / 160)
    both = minimize_boxed(K, np.stack([y, -y], axis=1), w, Hinge(), 1e-5)
    alone = minimize_boxed(K, y[:, None], w, Hinge(), 1e-5)
    np.testing.assert_array_equal(both.v[:, 0], alone.v[:, 0])
    assert both.moved <= 1e-9


@pytest.mark.parametrize("alpha", [1e-1, 1e-9])
def test_targets_that_a_tube_holds_are_solved_in_a_few_steps(alpha):
    K, _, target = rows()
    found = minimize_boxed(K, target[:, None], np.full(100, 0.01), EpsilonInsensitive(100.0), alpha)
    assert found.steps < 20
    assert found.moved <= 1e-9
    np.testing.assert_allclose(K @ found.v[:-1], 0, atol=1e-9)


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if not loss.boxed])
def test_losses_without_a_box_are_refused(name):
    with pytest.raises(UnsupportedError, match="has no box"):
        LOSSES[name].sides(np.ones(2), np.ones(2))
