"""KernelPCA and KernelKMeans against their exact twins, with all rows as landmarks; and from chunks."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV

from dkernel import Gaussian, KernelKMeans, KernelPCA
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, RecipeError
from tests.estimators.data import ball, chunked


def rings(n, seed=0):
    rng = np.random.default_rng(seed)
    angle, ring = rng.uniform(0, 2 * np.pi, n), rng.integers(0, 2, n)
    r = np.where(ring, 5.0, 1.0) + 0.1 * rng.normal(size=n)
    return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1), ring


@pytest.fixture(scope="module", name="X")
def rows_in_float64():
    return ball(300)[0].astype(np.float64)


@pytest.mark.parametrize(
    ("kernel", "twin"),
    [
        ("Gaussian(gamma=0.3)", {"kernel": "rbf", "gamma": 0.3}),
        ("Polynomial(degree=2, c=1.0)", {"kernel": "poly", "degree": 2, "gamma": 1.0}),
    ],
)
def test_all_rows_as_landmarks_give_kernel_pca(X, kernel, twin):
    mine = KernelPCA(5, kernel=kernel, n_map_components=300).fit(X)
    exact = sklearn.decomposition.KernelPCA(5, **twin).fit(X)
    np.testing.assert_allclose(mine.eigenvalues_, exact.eigenvalues_, rtol=1e-9)
    new = ball(100, seed=1)[0].astype(np.float64)
    for rows in (X, new):
        Z, wanted = mine.transform(rows), exact.transform(rows)
        signs = np.sign((Z * wanted).sum(axis=0))
        np.testing.assert_allclose(Z * signs, wanted, atol=1e-7 * np.abs(wanted).max())


def test_the_variance_of_components_is_their_eigenvalue(X):
    machine = KernelPCA(gamma=0.3, n_map_components=64)
    Z = machine.fit_transform(X)
    np.testing.assert_allclose((Z**2).sum(axis=0), machine.eigenvalues_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(Z.sum(axis=0), 0, atol=1e-9)
    assert machine.explained_variance_ratio_.sum() == pytest.approx(1)
    assert machine.n_components_ == Z.shape[1] <= 64


def test_random_features_are_near_it(X):
    exact = KernelPCA(2, kernel="Gaussian(gamma=0.1)", n_map_components=300).fit(X)
    drawn = KernelPCA(2, kernel="Gaussian(gamma=0.1)", features="fourier", n_map_components=1024).fit(X)
    np.testing.assert_allclose(drawn.eigenvalues_, exact.eigenvalues_, rtol=0.1)


@pytest.mark.parametrize("kind", [KernelPCA, KernelKMeans])
def test_chunks_and_a_source_give_the_same(X, kind):
    table = pd.DataFrame(X, columns=["0", "1", "2"])  # the names of a source are names
    machine = kind(3, gamma=0.3, n_map_components=32)
    wanted = machine.fit(X).transform(X)
    for rows, asked in ((chunked(X), X), (from_arrays(X, dtype="float64"), table)):
        np.testing.assert_allclose(machine.fit(rows).transform(asked), wanted, atol=1e-8)


def test_kernel_k_means_is_a_fixed_point_of_the_exact_step(X):
    """Exact kernel k-means knows only K: |φ(x) - c|² = K(x, x) - 2 mean K(x, C) + mean K(C, C)."""
    machine = KernelKMeans(4, kernel="Gaussian(gamma=0.3)", n_map_components=300, tol=0.0).fit(X)
    K = Gaussian(gamma=0.3)(X, X)
    member = np.eye(4)[machine.labels_]
    share = member / member.sum(axis=0)
    squares = np.diag(K)[:, None] - 2 * K @ share + np.einsum("ic,ij,jc->c", share, K, share)
    np.testing.assert_array_equal(squares.argmin(axis=1), machine.labels_)
    assert machine.inertia_ == pytest.approx(squares.min(axis=1).sum(), rel=1e-9)
    np.testing.assert_allclose(machine.transform(X) ** 2, squares, atol=1e-7)


def test_clusters_have_a_score_by_which_a_search_finds_how_many(X):
    machine = KernelKMeans(4, gamma=0.3, n_map_components=50, tol=0.0).fit(X)
    assert machine.score(X) == pytest.approx(-machine.inertia_, rel=1e-9)
    assert machine.score(da.from_array(X, chunks=(90, -1))) == pytest.approx(machine.score(X), rel=1e-9)
    search = GridSearchCV(KernelKMeans(gamma=0.3, n_map_components=50), {"n_clusters": [2, 6]}, cv=2).fit(X)
    assert search.best_params_ == {"n_clusters": 6}


def test_rings_that_no_plane_parts():
    X, ring = rings(1500)
    machine = KernelKMeans(2, gamma=0.05, n_map_components=128, random_state=1)
    assert adjusted_rand_score(ring, machine.fit_predict(X)) > 0.99
    new, wanted = rings(500, seed=1)
    assert adjusted_rand_score(wanted, machine.predict(new)) > 0.99
    lazy = machine.fit(chunked(X, 500))
    assert isinstance(lazy.labels_, da.Array)
    assert adjusted_rand_score(ring, lazy.labels_.compute()) > 0.99


def test_refusals(X):
    with pytest.raises(RecipeError, match="n_components=0"):
        KernelPCA(0).fit(X)
    with pytest.raises(DataError, match="n_clusters=400 of 300 row"):
        KernelKMeans(400).fit(X)
