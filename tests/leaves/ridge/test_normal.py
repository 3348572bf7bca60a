"""The path of alpha of the normal equations, and its cross-validation, against single fits."""

import numpy as np
import pytest

from dkernel.data.collections.arrays import from_arrays
from dkernel.leaves.ridge.normal import GRAM_FOLDS, NORMAL_ALPHAS, solve_ridge
from dkernel.numerics.random_streams import row_hash
from dkernel.solvers.gram import GramSum
from tests.solvers.test_solvers import features, fit, ridge
from tests.streaming.sources import waves


def path_of(n=240, **changes):
    X, y = waves(n)
    result = fit(from_arrays(X, y), solver="normal", n_components=20, dtype="float64", **changes)
    return X, y, result.model, {k: np.array(v) for k, v in result.model.facts["ridge"].items()}


def test_the_path_is_that_of_single_fits():
    X, y, model, path = path_of(alpha="auto")
    assert tuple(path["alpha"]) == NORMAL_ALPHAS
    F = features(model, X)
    for i in (8, 20, 32, 40):
        alpha = path["alpha"][i]
        w, b = ridge(F, y, alpha)
        mse = np.mean((F @ w + b - y) ** 2)
        G = F - F.mean(axis=0)
        hat = G @ np.linalg.solve(G.T @ G / len(X) + alpha * np.eye(F.shape[1]), G.T) / len(X) + 1 / len(X)
        assert path["mse"][i] == pytest.approx(mse, rel=1e-6)
        assert path["freedom"][i] == pytest.approx(np.trace(hat), rel=1e-6)
        assert path["gcv"][i] == pytest.approx(mse / (1 - np.trace(hat) / len(X)) ** 2, rel=1e-6)
    assert float(model.recipe.alpha) == path["alpha"][path["kfold"].argmin()]
    assert 0 < path["kfold"].argmin() < len(NORMAL_ALPHAS) - 1


def test_leave_one_out_is_leaving_one_out():
    X, y, model, path = path_of(alpha=1e-2)
    F = features(model, X)
    rows = np.arange(len(X))
    errors = []
    for i in rows:
        rest = rows != i
        # The strength of the regularization is that of all rows: alpha n of n - 1 is alpha n / (n - 1).
        w, b = ridge(F[rest], y[rest], 1e-2 * len(X) / (len(X) - 1))
        errors.append(F[i] @ w + b - y[i])
    # The rows that are left out are the sample's; those beside it are few.
    assert path["loo"][0] == pytest.approx(np.mean(np.square(errors)), rel=0.1)
    A = np.c_[F, np.ones(len(F))]
    found = solve_ridge(GramSum(A.T @ A, A.T @ y[:, None], np.array([y @ y]), float(len(y))), 1.0)
    assert found.leave_one_out(F, y[:, None], [1e-2], 1.0)[0, 0] == pytest.approx(np.sum(np.square(errors)), rel=1e-9)


def test_k_folds_are_k_fits():
    X, y, model, path = path_of(4200, alpha=1e-3)  # of fewer rows equal ones are merged, in another order
    F = features(model, X)
    fold = row_hash(0, "folds", 0, len(X)) % np.uint64(GRAM_FOLDS)
    total = 0.0
    for k in range(GRAM_FOLDS):
        w, b = ridge(F[fold != k], y[fold != k], 1e-3)
        total += float(np.sum((F[fold == k] @ w + b - y[fold == k]) ** 2))
    assert path["kfold"][0] == pytest.approx(total / len(X), rel=1e-6)
