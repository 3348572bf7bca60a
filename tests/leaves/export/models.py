"""Models that leave: one of each map and kernel that can, fitted to a few rows."""

import functools

import numpy as np

from dkernel import Gaussian, KernelClassifier, KernelRegressor, Linear

P = 3
CLASSES = {
    "two": np.array([False, True]),
    "numbers": np.array([3, 5, 7]),
    "texts": np.array(["lower", "middle", "upper"]),
}
NYSTROM = {
    "Gaussian": "Gaussian(gamma=0.3)",
    "Gaussian by column": "Gaussian(gamma=[0.1, 0.3, 0.5])",
    "Laplacian": "Laplacian(gamma=0.3)",
    "Exponential": "Exponential(length=2.0)",
    "Matern 3/2": "Matern(nu=1.5, length=2.0)",
    "Matern 5/2": "Matern(nu=2.5, length=2.0)",
    "RationalQuadratic": "RationalQuadratic(alpha=2.0, length=2.0)",
    "Cauchy": "Cauchy(length=2.0)",
    "Linear": "Linear()",
    "Polynomial": "Polynomial(degree=3, c=1.0)",
    "sum": "0.5 * Laplacian(gamma=0.3) + Gaussian(gamma=0.2) * Polynomial(degree=2, c=0.5)",
}
RANDOM = {
    "fourier": {"kernel": "Gaussian(gamma=0.3)", "features": "fourier"},
    "fourier laplacian": {"kernel": "Laplacian(gamma=0.3)", "features": "fourier"},
    "exact": {"kernel": "Polynomial(degree=2, c=1.0)", "features": "exact"},
    "linear": {"kernel": "Linear()", "features": "exact"},
    "stacked": {"kernel": 0.5 * Gaussian(gamma=0.3) + Linear(), "features": "random"},
    "selected": {"kernel": Gaussian(gamma=0.3) + Linear().on([0, 2]), "features": "random"},
}


def rows(n, seed=0):
    """Off the origin and of unequal scales, as the columns of a table are."""
    return (np.random.default_rng(seed).normal(size=(n, P)) * [1.0, 5.0, 0.2] + [10.0, 0.0, -3.0]).astype(np.float32)


def height(X):
    z = (X - [10.0, 0.0, -3.0]) / [1.0, 5.0, 0.2]
    return np.sin(2 * z[:, 0]) + z[:, 1] * z[:, 2]


@functools.cache
def classifier(which, loss="logistic", **more):
    X = rows(600)
    values = CLASSES[which]
    cuts = np.quantile(height(X), np.arange(1, len(values)) / len(values))
    settings = {"n_components": 64, "alpha": 1e-3, "loss": loss, "metric": "identity", "solver": "psgd", **more}
    return KernelClassifier(**settings).fit(X, values[np.searchsorted(cuts, height(X))])


@functools.cache
def regressor(**more):
    X = rows(600)
    settings = {"n_components": 64, "alpha": 1e-3, "metric": "identity", "solver": "psgd", **more}
    return KernelRegressor(**settings).fit(X, height(X))


def wide_scores(model, X):
    """s(x) by the definition, all of it in float64, with the numbers that the model scales by, within its limits."""
    rows = model.scaling.in_dtype(model.recipe.dtype).apply(X.astype(np.float64), "float64")
    return model.clip(model.map.components(rows, "float64") @ model.coef + model.intercept)
