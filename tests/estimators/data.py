"""Small data for the estimators' tests, and small settings, so that a fit takes a tenth of a second."""

import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator

import dkernel

PUBLIC = [getattr(dkernel, name) for name in dkernel.__all__]
ESTIMATORS = [kind for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, BaseEstimator)]
# To choose kernel and metric, or to solve exactly, is most of a small fit; tests of these have settings of their own.
SMALL = {
    "kernel": "gaussian", "metric": "identity", "gamma": 0.4, "n_components": 64, "alpha": 1e-4, "scale": "standard",
    "solver": "psgd",
}  # fmt: skip


def ball(n, seed=0, p=3):
    """Rows in float32; whether they lie outside a ball, with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).astype(np.float32)
    return X, (X**2).sum(axis=1) + 0.3 * rng.normal(size=n) > 0.8 * p


def wave(n, seed=0):
    """A smooth function of three columns with noise of 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 3)).astype(np.float32)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


def chunked(values, rows=250, columns=-1):
    """The same as a Dask array of chunks of so many rows and columns."""
    return da.from_array(values, chunks=(rows, columns)[: values.ndim])


def lazily(X, y, rows=400):
    """Rows and labels as Dask arrays of the same chunks."""
    return chunked(X, rows), chunked(y, rows)
