"""Values that are far from the others: cosines stay cosines, and one row does not spoil a fit."""

import numpy as np
import pytest

from dkernel import Gaussian, KernelClassifier
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
    assert np.abs(machine.to_sklearn().decision_function(rows)).max() <= most * (1 + 1e-5)


def test_the_estimator_and_its_scikit_learn_pipeline_agree_as_far_as_float32_has_digits():
    X, y = ball(1000)
    machine = KernelClassifier(Gaussian(0.5), n_components=256, **FOURIER).fit(X, y)
    most = np.abs(machine.model_.coef).sum()
    for far in (1.0, 1e2, 1e4, 1e5):
        rows = far * X[:100]
        apart = machine.decision_function(rows) - machine.to_sklearn().decision_function(rows)
        assert np.abs(apart).max() <= most * (1e-5 + 1e-6 * far)


def test_one_row_far_off_does_not_spoil_a_fit():
    X, y = ball(3000)
    machine = KernelClassifier(Gaussian(0.5), n_components=256, **FOURIER)
    alone = machine.fit(X, y).score(X, y)
    for far in (1e10, 1e15):
        assert machine.fit(*with_a_row(X, y, far)).score(X, y) >= alone - 0.02
