"""The maps alone: how near they come to the kernel, landmarks of data in chunks, kinds, dtypes and names."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from dkernel import FourierFeatures, Gaussian, Laplacian, Linear, NystromFeatures
from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.kernels.distances import median_distance
from tests.estimators.data import ball


def normal(n, p, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(size=(n, p)).astype(dtype)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 2e-4), ("float64", 5e-5)])
def test_nystrom_comes_near_a_smooth_kernel(dtype, most):
    X = normal(1500, 4, dtype)
    phi = NystromFeatures(Gaussian(gamma=0.05), n_components=800).fit_transform(X)
    assert phi.dtype == dtype
    assert phi.shape[1] <= 800
    phi = phi.astype(np.float64)
    exact = RBF(length_scale=np.sqrt(10.0))(X.astype(np.float64))
    assert np.abs(phi @ phi.T - exact).max() <= most


@pytest.mark.parametrize(("n", "form"), [(4000, "pairs"), (3999, "offset")])
def test_fourier_comes_near_the_kernel(n, form):
    X = normal(200, 5)
    features = FourierFeatures(gamma=0.1, n_components=n).fit(X)
    phi = features.transform(X)
    assert phi.dtype == np.float32
    assert phi.shape == (200, n)
    assert features.map_.spec()["form"] == form
    assert np.abs(phi @ phi.T - Gaussian(gamma=0.1)(X, X)).max() < 0.08


def test_a_rank_leaves_fewer_columns():
    low = NystromFeatures(gamma=0.5, n_components=100, rank=7).fit(normal(300, 2))
    assert low.transform(normal(9, 2)).shape == (9, 7)
    assert low.landmarks_.shape == (100, 2)


@pytest.mark.parametrize("features", [FourierFeatures, NystromFeatures])
def test_kinds_and_dtypes(features):
    X = normal(90, 3)
    for given, dtype in ((X, "float32"), (X.astype(float), "float64"), (np.round(X).astype(int), "float64")):
        out = features(gamma=0.5, n_components=8).fit_transform(given)
        assert (type(out), out.dtype) == (np.ndarray, dtype)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    assert features(gamma=0.5, n_components=8).fit_transform(frame).dtype == "float32"
    lazy = dd.from_pandas(frame, npartitions=3)
    out = features(gamma=0.5, n_components=8).fit(lazy).transform(lazy)
    assert (out.npartitions, set(out.dtypes)) == (3, {np.dtype("float32")})
    np.testing.assert_allclose(out.compute(), features(gamma=0.5, n_components=8).fit_transform(frame), atol=1e-6)


def test_nothing_is_scaled_and_words_of_gamma_are_filled():
    X = normal(600, 3, "float64") * [1, 10, 100]
    median = 1 / (2 * median_distance(X, "l2") ** 2)
    for gamma in ("auto", "median"):
        assert FourierFeatures(gamma=gamma).fit(X).kernel_.gamma == pytest.approx(median, rel=1e-3)
    assert NystromFeatures(gamma="auto").fit(X).kernel_.gamma == pytest.approx(median, rel=1e-3)
    scale = NystromFeatures(gamma="scale", n_components=8).fit(X).kernel_.gamma
    assert scale == pytest.approx(1 / (3 * X.var()), rel=1e-6)
    assert NystromFeatures('Laplacian(gamma="median")', gamma=3.0, n_components=8).fit(X).kernel_.gamma != 3.0
    assert FourierFeatures("laplacian", gamma=3.0, n_components=8).fit(X).kernel_ == Laplacian(gamma=3.0)


def test_a_fourier_fit_with_given_gamma_reads_no_rows():
    def refuse(_):
        raise AssertionError("this was computed")

    lazy = da.zeros((100, 3), chunks=50).map_blocks(refuse, dtype="float64", meta=np.empty((0, 0)))
    assert FourierFeatures(gamma=1.0, n_components=4).fit(lazy).transform(lazy).shape == (100, 4)
    with pytest.raises(AssertionError, match="this was computed"):
        FourierFeatures(n_components=4).fit(lazy)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (FourierFeatures(Linear()), UnsupportedError, "not shift-invariant"),
        (FourierFeatures("polynomial"), UnsupportedError, "not shift-invariant"),
        (FourierFeatures(n_components="auto"), RecipeError, "n_components=.auto. is not valid"),
        (NystromFeatures(n_components="auto"), RecipeError, "n_components=.auto. is not valid"),
        (NystromFeatures(landmarks="k-means"), RecipeError, "landmarks='k-means'"),
        (NystromFeatures(n_components=5, rank=6), RecipeError, "rank=6"),
        (FourierFeatures(sampling="random"), RecipeError, "sampling='random'"),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused(features, error, message):
    with pytest.raises(error, match=message):
        features.fit(normal(20, 2))


@pytest.mark.parametrize("features", [FourierFeatures(n_components=8), NystromFeatures(n_components=8)], ids=str)
def test_bad_rows_are_named(features):
    X, _ = ball(300)
    X[299, 1] = np.inf
    for given in (X, da.from_array(X, chunks=(100, -1)), pd.DataFrame(X)):
        with pytest.raises(DataError, match="row 299, column '1': the value inf"):
            features.fit(given)
    features.fit(X[:200])
    with pytest.raises(DataError, match="row 299, column '1': the value inf"):
        features.transform(X)
    with pytest.raises(DataError, match="row 99 of a chunk of X, column '1'"):
        features.transform(da.from_array(X, chunks=(100, -1))).compute()
    with pytest.raises(DataError, match="2 features"):
        features.transform(X[:200, :2])
