"""All rows that are asked for as landmarks are all rows, and the fit is then kernel ridge regression."""

import numpy as np
import pytest

from dkernel import KernelRegressor

ALPHA = 0.005
SETTINGS = {"gamma": 0.05, "alpha": ALPHA, "scale": "none", "metric": "identity", "local": "none"}


def rows(n=100):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    return X, 100 + 50 * np.sin(X[:, 0]) + 20 * X[:, 1]


def exact(X, y):
    """Kernel ridge regression with an intercept that no penalty is on."""
    n, K = len(X), np.exp(-0.05 * ((X[:, None] - X) ** 2).sum(axis=2))
    one = np.ones((n, 1))
    solution = np.linalg.solve(np.block([[K + n * ALPHA * np.eye(n), one], [one.T, np.zeros((1, 1))]]), np.append(y, 0))
    return K @ solution[:n] + solution[n]


@pytest.mark.parametrize("more", [0, 50])
@pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky"])
@pytest.mark.parametrize("solver", ["normal", "pcg", "lbfgs"])
def test_a_fit_of_all_rows_is_kernel_ridge_regression(solver, landmarks, more):
    X, y = rows()
    machine = KernelRegressor(
        "gaussian", solver=solver, landmarks=landmarks, n_components=100 + more, holdout=0, **SETTINGS
    )
    machine.fit(X, y)
    assert machine.n_components_ == 100
    assert machine.chosen_.get("n_components") == ("100: all rows; 150 were asked for" if more else None)
    np.testing.assert_allclose(machine.predict(X), exact(X, y), atol=1e-4 * y.std())


@pytest.mark.parametrize("solver", ["normal", "pcg", "lbfgs"])
def test_a_holdout_is_left_out_and_nothing_else(solver):
    machine = KernelRegressor("gaussian", solver=solver, n_components=100, **SETTINGS).fit(*rows())
    assert machine.chosen_["n_components"] == "95: all rows except the holdout; 100 were asked for"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"solver": "psgd"}, "86: all rows except the holdout and 9 that measure the step"),
        ({"solver": "psgd", "holdout": 0}, "90: all rows except 10 that measure the step"),
        ({"solver": "lbfgs", "holdout": 0, "alpha": "auto"}, "90: all rows except 10 that judge alphas"),
    ],
)
def test_rows_that_are_not_taken_have_a_reason(settings, why):
    machine = KernelRegressor("gaussian", n_components=100, **(SETTINGS | settings)).fit(*rows())
    assert machine.chosen_["n_components"] == f"{why}; 100 were asked for"


@pytest.mark.slow
def test_more_rows_than_the_exact_solver_takes_are_all_taken():
    X, y = rows(4200)
    machine = KernelRegressor("gaussian", solver="normal", n_components=4200, holdout=0, **SETTINGS).fit(X, y)
    assert machine.n_components_ == 4200
