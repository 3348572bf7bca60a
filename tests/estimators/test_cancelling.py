"""Coefficients that cancel each other: equal landmarks have one coefficient, and float64 has the scores."""

import numpy as np
import pytest

from dkernel import KernelClassifier


@pytest.fixture(scope="module")
def copies():
    """Three different rows, and labels of which a tenth are wrong."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 500)
    return np.eye(3)[level], (level == 0) ^ (rng.random(500) < 0.1)


@pytest.mark.parametrize("solver", ["psgd", "exact"])
def test_equal_landmarks_have_one_coefficient(copies, solver):
    machine = KernelClassifier("gaussian", gamma=1.0, n_components=64, solver=solver, alpha=1e-8, local="none")
    machine.fit(*copies)
    assert np.count_nonzero(np.abs(machine.component_coef_).sum(axis=1)) <= 3
    assert np.abs(machine.component_coef_).max() < 1000


def test_scores_of_cancelling_coefficients_are_exact():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 1))
    machine = KernelClassifier("gaussian", gamma=0.05, n_components=32, solver="exact", alpha=1e-8, local="none")
    machine.fit(X, np.sin(4 * X[:, 0]) > 0)
    model = machine.model_
    assert model.rounding > 1e-3
    assert model.is_wide
    exact = model.map.components(model.scaling.apply(X.astype(np.float32))) @ model.coef + model.intercept
    np.testing.assert_allclose(machine.decision_function(X), exact[:, 0], atol=1e-6 * np.abs(exact).max())


def test_scores_of_small_coefficients_stay_quick():
    X = np.random.default_rng(1).normal(size=(400, 2))
    machine = KernelClassifier("laplacian", gamma=10.0, n_components=32, alpha=1.0, local="none").fit(X, X[:, 0] > 0)
    assert not machine.model_.is_wide
