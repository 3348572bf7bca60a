"""The Gram matrix of numpy and of Dask are one; and a fit finds the columns that a kernel names."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dkernel import Gaussian, KernelClassifier, Laplacian, Linear, NystromFeatures, gram
from dkernel.errors import DataError, RecipeError

X = np.random.default_rng(0).standard_normal((90, 3))
NAMES = ["a", "b", "c"]
K = "Gaussian(gamma=0.5) + Linear()"


def test_blocks_are_the_whole():
    whole = gram(K, X)
    lazy = gram(K, da.from_array(X, chunks=(40, 2)))
    assert lazy.chunks == ((40, 40, 10), (40, 40, 10))
    np.testing.assert_allclose(lazy.compute(), whole, atol=1e-13)
    corner = lazy[:40, :40].compute()
    assert np.array_equal(corner, corner.T)
    beside = gram(K, da.from_array(X, chunks=(40, 3)), X[:7])
    assert beside.chunks == ((40, 40, 10), (7,))
    np.testing.assert_allclose(beside.compute(), whole[:, :7], atol=1e-13)
    np.testing.assert_allclose(gram(K, X[:7], da.from_array(X, chunks=(40, 3))).compute(), whole[:7], atol=1e-13)


def test_the_type_follows_and_nothing_is_computed():
    lazy = gram(K, da.from_array(X.astype(np.float32), chunks=(40, 3)))
    assert lazy.dtype == lazy.compute().dtype == np.float32
    with dask.config.set(scheduler=lambda *_, **__: pytest.fail("computed")):
        gram(K, da.from_array(X, chunks=(40, 3)))
    assert gram(K, da.from_array(X, chunks=(40, 3))).name == gram(K, da.from_array(X, chunks=(40, 3))).name


def test_frames_name_their_columns():
    frame = pd.DataFrame(X, columns=NAMES)
    k = Gaussian(gamma=0.5).on(["c", "a"])
    expected = Gaussian(gamma=0.5)(X[:, [2, 0]])
    np.testing.assert_allclose(gram(k, frame), expected, atol=1e-13)
    lazy = gram(k, dd.from_pandas(frame, npartitions=3))
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-13)


def test_a_function_is_a_kernel():
    np.testing.assert_array_equal(gram(lambda A, B: A @ B.T, X[:5]), X[:5] @ X[:5].T)


def test_refusals_come_before_tasks():
    lazy = da.from_array(X, chunks=(40, 3))
    with pytest.raises(DataError, match="3 and of 2 columns"):
        gram(K, lazy, X[:, :2])
    with pytest.raises(RecipeError, match="chosen from the data"):
        gram("rbf", lazy)
    with pytest.raises(RecipeError, match="bind_columns"):
        gram(Linear().on("a"), lazy)
    with pytest.raises(DataError, match="3 dimensions"):
        gram(K, da.ones((2, 2, 2)))


def test_a_fit_finds_the_columns():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.standard_normal((600, 3)).astype(np.float32), columns=NAMES)
    y = (frame["c"] ** 2 + frame["a"] > 1).to_numpy()
    k = Gaussian().on(["c"]) * Laplacian(gamma=0.1).on(["a"]) + Linear().on("a")
    fitted = KernelClassifier(k, n_components=64, alpha=1e-4, scale="none").fit(frame, y)
    assert "on(['c'], at=[2])" in fitted.model_.recipe.kernel
    assert fitted.score(frame, y) > 0.9
    with pytest.raises(DataError, match="of a column 'd', which the data lack"):
        KernelClassifier(Gaussian(gamma=1.0).on("d")).fit(frame, y)
    features = NystromFeatures(Gaussian().on("b"), n_components=40).fit(frame)
    assert features.kernel_.at == (1,)
    phi = np.asarray(features.transform(frame.iloc[:50]), dtype=float)
    np.testing.assert_allclose(phi @ phi.T, features.kernel_(frame.iloc[:50].to_numpy(float)), atol=0.05)
