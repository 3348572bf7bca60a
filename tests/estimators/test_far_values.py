"""Values that are far from the others: cosines stay cosines, and one row does not spoil a fit."""

import numpy as np
import pytest

from dkernel import Gaussian, KernelClassifier, Polynomial
from dkernel.errors import DataError
from tests.combinations import every_two
from tests.estimators.data import ball

FOURIER = {"features": "fourier", "metric": "identity", "scale": "none", "solver": "psgd", "random_state": 0}


def with_a_row(X, y, value):
    return np.concatenate([X, np.full((1, X.shape[1]), value, X.dtype)]), np.append(y, not y[-1])


@pytest.mark.parametrize("far", [1e8, 10**8.5, 1e10, 1e11, 1e15])
def test_a_score_is_never_more_than_its_coefficients(far):
    X, y = ball(1000)
    machine = KernelClassifier(Gaussian(0.5), n_components=256, **FOURIER).fit(X, y)
    most = np.abs(machine.model_.coef).sum() + np.abs(machine.model_.intercept).sum()
    rows = np.array([[far, 0, 0], [-far, 1, 1], [far, far, -far]], np.float32)
    assert np.abs(machine.decision_function(rows)).max() <= most * (1 + 1e-5)


def test_one_row_far_off_does_not_spoil_a_fit():
    X, y = ball(3000)
    machine = KernelClassifier(Gaussian(0.5), n_components=256, **FOURIER)
    alone = machine.fit(X, y).score(X, y)
    for far in (1e10, 1e15):
        assert machine.fit(*with_a_row(X, y, far)).score(X, y) >= alone - 0.02


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e-36), (np.float64, 1e-36), (np.float64, 1e-155)])
def test_the_unit_of_the_columns_changes_nothing(dtype, unit):
    X, y = ball(300)
    X = X.astype(dtype)
    settings = {"gamma": 0.3, "metric": "identity", "scale": "standard", "alpha": 1e-3, "dtype": np.dtype(dtype).name}
    usual, tiny = (KernelClassifier("gaussian", **settings).fit(X * dtype(a), y) for a in (1.0, unit))
    assert tiny.decision_function(X * dtype(unit)) == pytest.approx(usual.decision_function(X), abs=1e-3)


@pytest.mark.parametrize(
    ("p", "kernel"),
    every_two([2, 6, 20], ["gaussian", "exponential", "matern", "cauchy", "rationalquadratic", "laplacian"]),
)
def test_a_row_that_is_far_from_all_landmarks_is_like_none(kernel, p):
    X, y = ball(600, p=p)
    settings = {"features": "nystrom", "n_components": 64, "scale": "none", "metric": "identity", "solver": "psgd"}
    machine = KernelClassifier(kernel, random_state=0, **settings).fit(X, y)
    for far in (1e18, 1.8e19, 1e25, 3e38, -3e38):
        rows = np.zeros((2, p), np.float32)
        rows[0], rows[1, 0] = far, far
        assert machine.decision_function(rows) == pytest.approx(np.repeat(machine.intercept_, 2), rel=1e-5)


@pytest.mark.parametrize("kernel", ["gaussian", "matern"])
def test_a_landmark_that_is_far_from_all_rows_is_like_none(kernel):
    X, y = ball(600)
    Z, _ = with_a_row(X[:63], y[:63], 3e38)
    settings = {"gamma": 0.3} if kernel == "gaussian" else {}
    machine = KernelClassifier(kernel, landmarks=Z, n_components=64, scale="none", metric="identity", solver="psgd",
                               features="nystrom", **settings)  # fmt: skip
    assert machine.fit(X, y).score(X, y) > 0.9


OVERFLOWS = [
    (Polynomial(degree=1_000_000), None, "auto"),
    (Polynomial(degree=40), None, "psgd"),
    (Polynomial(degree=3), 1e18, "psgd"),
    (Polynomial(degree=3), 1e30, "lbfgs"),
    (Polynomial(degree=3), 3e38, "pcg"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("kernel", "far", "solver"), OVERFLOWS)
def test_a_fit_that_overflows_says_so(kernel, far, solver):
    X, y = ball(1000)
    if far is not None:
        X[5, 1] = far
    machine = KernelClassifier(kernel, n_components=64, scale="none", metric="identity", solver=solver,
                               loss="squared" if solver == "pcg" else "squared_hinge")  # fmt: skip
    with pytest.raises(DataError, match="The fit overflows") as refused:
        machine.fit(X, y)
    assert "scale='standard'" in str(refused.value)
