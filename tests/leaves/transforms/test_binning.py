"""BinningFeatures: an estimate of the Laplacian, the same in every kind of collection, with scikit-learn's manners."""

import pickle

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from dkernel import BinningFeatures, Laplacian
from dkernel.errors import DataError, RecipeError, UnsupportedError


def normal(n, p, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=(n, p)).astype(dtype)


def test_products_of_rows_estimate_the_laplacian():
    X = normal(60, 3)
    Z = BinningFeatures(gamma=0.4, n_grids=2000, n_bins=2**16).fit_transform(X)
    assert isinstance(Z, sp.csr_array)
    assert np.abs((Z @ Z.T).toarray() - Laplacian(gamma=0.4)(X, X)).max() < 0.06


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_frames_and_dask_collections_have_the_same_bins(dtype):
    X = normal(300, 4, dtype)
    frame = pd.DataFrame(X, columns=list("abcd"))
    features = BinningFeatures(gamma=0.5, n_grids=16, n_bins=1024)
    Z = features.fit_transform(X)
    assert (Z.dtype, Z.shape, Z.nnz) == (dtype, (300, 16 * 1024), 300 * 16)
    for given in (frame, da.from_array(X, chunks=(70, 2)), dd.from_pandas(frame, npartitions=3)):
        lazy = features.fit(given).transform(given)
        found = lazy.compute() if hasattr(lazy, "compute") else lazy
        assert found.dtype == dtype
        assert (found != Z).nnz == 0
    assert (features.fit(X).transform(X[17:18]) != Z[17:18]).nnz == 0


def test_rows_far_from_zero_keep_their_bins():
    X = normal(200, 3, "float64")
    near, far = (BinningFeatures(gamma=0.5, n_grids=64).fit_transform(X + a) for a in (0.0, 2.0**30))
    assert (near != far).nnz <= 2 * near.nnz * 0.001, "only rows on the edge of a bin, by the rounding of the sum"


def test_a_linear_model_on_the_bins_follows_a_rough_target():
    X = np.random.default_rng(0).uniform(size=(4000, 2))
    y = (np.floor(6 * X[:, 0]) + np.floor(6 * X[:, 1])) % 2
    machine = make_pipeline(BinningFeatures(gamma=5.0, n_grids=128), RidgeClassifier(alpha=0.1))
    assert machine.fit(X[:3000], y[:3000]).score(X[3000:], y[3000:]) > 0.9


def test_the_seed_decides_the_grids_and_a_pickle_keeps_them():
    X = normal(50, 2)
    one = BinningFeatures(n_grids=8, random_state=1).fit(X)
    assert (pickle.loads(pickle.dumps(one)).transform(X) != one.transform(X)).nnz == 0
    other = BinningFeatures(n_grids=8, random_state=2).fit(X)
    assert (other.transform(X) != one.transform(X)).nnz > 0
    assert one.n_components_ == 8 * 2**14


@pytest.mark.parametrize(
    ("parameters", "X", "error", "message"),
    [
        ({"n_bins": 1000}, normal(9, 2), RecipeError, "n_bins=1000 .* a power of two"),
        ({"n_bins": 2**25}, normal(9, 2), RecipeError, "from 2 to 2"),
        ({"gamma": "wide"}, normal(9, 2), RecipeError, "gamma"),
        ({}, normal(9, 2) * np.float32(np.nan), DataError, "nan"),
        ({}, sp.random_array((20, 5000), density=0.001, format="csr"), UnsupportedError, "must be dense"),
    ],
)
def test_refusals(parameters, X, error, message):
    with pytest.raises(error, match=message):
        BinningFeatures(**parameters).fit(X)
