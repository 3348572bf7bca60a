"""Data on which a covariance is singular up to rounding are fitted: none of them is ill."""

import numpy as np
import pytest

from dkernel import Gaussian, KernelClassifier, Laplacian


def quadratic(n=10_000):
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, 28)), rng.normal(size=28)
    return X.astype(np.float32), ((X * X) @ w > w.sum()).astype(int)


def levels():
    """One of 60 levels a row, as columns of 0 and 1."""
    level = np.random.default_rng(0).integers(0, 60, 6000)
    return np.eye(60, dtype=np.float32)[level], level % 3 == 0


def outlier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5001, 5)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] > 0
    X[0] = 1000
    return X, y


@pytest.mark.parametrize(
    ("data", "settings", "least"),
    [
        (quadratic, {"kernel": Laplacian(gamma=0.001), "n_components": 512}, 0.92),
        pytest.param(quadratic, {"kernel": Gaussian(gamma=1e-5), "n_components": 512}, 0.7, marks=pytest.mark.slow),
        (levels, {"kernel": "gaussian", "n_components": 256}, 1.0),
        (outlier, {"kernel": "gaussian", "gamma": 0.3, "scale": "standard"}, 0.95),
    ],
)
def test_cosines_of_a_small_gamma_or_of_few_different_rows(data, settings, least):
    X, y = data()
    machine = KernelClassifier(features="fourier", **settings).fit(X, y)
    assert machine.score(X, y) >= least


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_exact_machine_of_few_rows_under_unequal_weights(loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y, weight = X[:, 0] * X[:, 1] > 0, np.full(300, 1e-6)
    weight[0] = 1.0
    machine = KernelClassifier("polynomial", solver="exact", alpha=1e-12, loss=loss).fit(X, y, sample_weight=weight)
    assert np.isfinite(machine.decision_function(X)).all()
