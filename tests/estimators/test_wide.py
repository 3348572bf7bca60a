"""Sparse rows of very many columns: what dense rows give, and rows times columns are nowhere in memory."""

import tracemalloc

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from dkernel import (
    FourierFeatures,
    KernelCCA,
    KernelClassifier,
    KernelFeatures,
    KernelKMeans,
    KernelPCA,
    NystromFeatures,
    OneClassSVM,
    SpectralClustering,
    load,
    save,
)
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.numerics.sparse_rows import RangeNames, SparseRows
from tests.estimators.wide import P, texts

FITTED = {"gamma": 0.5, "alpha": 1e-4, "n_components": 64, "metric": "identity", "solver": "psgd"}


def in_chunks(X, rows=500):
    """Rows as Dask's, in the same chunks whether dense or sparse."""
    if not sp.issparse(X):
        return da.from_array(X, chunks=(rows, -1))
    parts = [da.from_array(X[i : i + rows], chunks=X[i : i + rows].shape) for i in range(0, X.shape[0], rows)]
    return da.concatenate(parts)


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [
        ("gaussian", "none"),
        pytest.param("Polynomial(2, 1.0)", "maxabs", marks=pytest.mark.slow),
        pytest.param("gaussian", "maxabs", marks=pytest.mark.slow),
        pytest.param("Polynomial(2, 1.0)", "none", marks=pytest.mark.slow),
    ],
)
def test_a_fit_on_sparse_rows_is_that_on_the_rows(kernel, scale):
    X, y = texts(1500, 5000)
    given = {**FITTED, "kernel": kernel, "scale": scale} | ({} if kernel == "gaussian" else {"gamma": "auto"})
    sparse = KernelClassifier(**given).fit(in_chunks(X), da.from_array(y, chunks=500))
    dense = KernelClassifier(**given).fit(in_chunks(X.toarray()), da.from_array(y, chunks=500))
    assert isinstance(sparse.model_.map.landmarks, SparseRows)
    assert isinstance(dense.model_.map.landmarks, np.ndarray)
    found, wanted = sparse.decision_function(X), dense.decision_function(X.toarray())
    np.testing.assert_allclose(found, wanted, atol=2e-4 * np.abs(wanted).max())
    np.testing.assert_array_equal(sparse.decision_function(X.toarray()), found)  # zeros that are stored are left out
    assert sparse.score(X, y) == np.mean(sparse.predict(X) == y) > 0.9


def test_chunks_and_workers_change_nothing_and_a_file_holds_it(tmp_path):
    X, y = texts(3000)
    machine = KernelClassifier(**FITTED).fit(X, y)
    assert machine.chosen_["scale"].startswith("none, the best of none and maxabs")
    first, again = save(machine, tmp_path / "a"), save(KernelClassifier(**FITTED).fit(X, y), tmp_path / "b")
    assert first == again
    model = load(tmp_path / "a").model_
    assert model.columns == RangeNames(0, P)
    assert save(model, tmp_path / "c") == first
    assert (tmp_path / "a").stat().st_size < 2**17  # neither names nor factors nor rows of 2^20 columns
    np.testing.assert_array_equal(model.predict(X), machine.predict(X))
    np.testing.assert_array_equal(machine.predict(in_chunks(X)).compute(), machine.predict(X))


def test_rows_of_2_to_the_20_columns_are_never_dense():
    X, y = texts(4500)  # dense: 18 GiB
    tracemalloc.start()
    try:
        for features in ("nystrom", "fourier"):
            machine = KernelClassifier(**FITTED, features=features).fit(X[:4200], y[:4200])
            assert machine.score(X[4200:], y[4200:]) > 0.85
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 600 * 2**20  # some vectors of 2^20 columns, and never 256 rows of them


@pytest.mark.parametrize("features", [
    NystromFeatures(gamma=0.5, n_components=32),
    NystromFeatures(n_components=32, landmarks="rpcholesky"),
    FourierFeatures(gamma=0.5, n_components=64),
    FourierFeatures("laplacian", gamma=0.1, n_components=63),
    FourierFeatures(gamma="median", n_components=64, form="exponential"),
], ids=repr)  # fmt: skip
def test_transformers_take_sparse_rows(features):
    X, _ = texts(600)
    found = features.fit(X).transform(X)
    assert found.shape == (600, features.n_components_)
    assert found.dtype in (np.float32, np.complex64)
    assert features.map_.sparse
    if isinstance(features, NystromFeatures):
        rows = SparseRows.of(X)
        np.testing.assert_allclose(found @ found.T, features.map_(rows) @ features.map_(rows).T, atol=1e-4)
    else:
        kernel = features.kernel_ if features.kernel_.takes_sparse else None
        own = np.einsum("ij,ij->i", found, found.conj()).real
        np.testing.assert_allclose(own, 1.0, atol=0.6 if features.n_components == 63 else 1e-4)
        if kernel is not None:
            error = np.abs((found[:50] @ found[:50].conj().T).real - kernel(SparseRows.of(X[:50])))
            assert np.sqrt(np.mean(error**2)) < 0.2
    np.testing.assert_array_equal(features.transform(in_chunks(X, 200)).compute(), found)


def test_frequencies_by_column_have_the_law_of_the_kernel():
    X, _ = texts(40, 6000)
    found = FourierFeatures(gamma=0.5, n_components=2**14).fit(X).transform(X)
    error = np.abs(found @ found.T - FourierFeatures(gamma=0.5).fit(X).kernel_(X.toarray()))
    assert error.max() < 5 / np.sqrt(2**14 / 2)


@pytest.mark.parametrize("name", ["HashingVectorizer", "FeatureHasher"])
def test_texts_through_dask_ml(name):
    import dask.bag as db
    from dask_ml.feature_extraction import text

    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 1200)
    words = [["apple", "tart", "cake", "pie"], ["car", "race", "road", "wheel"]]
    lines = [[*rng.choice(words[kind], 3), *rng.choice(["red", "fast", "old"], 2)] for kind in kinds]
    hashed = name == "HashingVectorizer"
    hasher = getattr(text, name)(**({} if hashed else {"input_type": "string"}))
    X = hasher.transform(db.from_sequence([" ".join(line) for line in lines] if hashed else lines, npartitions=3))
    assert X.shape[1] == P
    machine = KernelClassifier(**{**FITTED, "features": "nystrom"}).fit(X, da.from_array(kinds, chunks=400))
    assert machine.model_.map.sparse
    assert np.mean(machine.predict(X).compute() == kinds) > 0.98


REFUSED = [
    ({"scale": "standard"}, RecipeError, "scale='standard' shifts the columns"),
    ({"kernel": "laplacian", "gamma": 0.5}, UnsupportedError, "cannot be taken of sparse rows"),
    ({"metric": "full"}, UnsupportedError, "metric='full'"),
    ({"features": "tensorsketch", "kernel": "Linear()", "gamma": "auto"}, UnsupportedError, "sparse rows dense"),
    ({"landmarks": "kmeans"}, UnsupportedError, "landmarks='kmeans'"),
    ({"kernel": "Linear().on([1, 2])", "gamma": "auto"}, UnsupportedError, "cannot be taken of sparse rows"),
    ({"gamma": "scale"}, UnsupportedError, "gamma='scale'"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "message"), REFUSED)
def test_what_would_make_them_dense_is_refused_by_name(given, error, message):
    X, y = texts(600)
    with pytest.raises(error, match=message):
        KernelClassifier(**FITTED | given).fit(X, y)


def test_frequencies_drawn_for_all_columns_together_are_refused():
    with pytest.raises(UnsupportedError, match="sampling='sobol'"):
        FourierFeatures(gamma=0.5, n_components=64, sampling="sobol").fit(texts(100)[0])
    with pytest.raises(UnsupportedError, match="none that are drawn alone"):
        FourierFeatures("Gaussian(gamma=0.5) * Laplacian(gamma=0.1)", n_components=64).fit(texts(100)[0])


def test_bad_rows_and_other_widths_are_named():
    X, y = texts(600)
    machine = KernelClassifier(**FITTED).fit(X, y)
    with pytest.raises((DataError, ValueError), match="1048575 features"):
        machine.predict(X[:, :-1])
    X.data[5] = np.nan
    with pytest.raises(DataError, match=r"row 0, column .*: the value nan .* SimpleImputer"):
        machine.predict(X)


def test_the_rule_is_width_and_what_is_stored():
    narrow, wide = sp.csr_matrix((10, 4096)), sp.csr_matrix((10, 4097))
    full = sp.csr_matrix(np.ones((10, 4097)))
    assert [from_arrays(X).sparse for X in (narrow, wide, full)] == [False, True, False]
    assert from_arrays(in_chunks(full)).sparse  # of Dask's nothing is known before it is read
    assert sp.issparse(from_arrays(wide).X.compute())


def test_components_clusters_and_one_class_take_sparse_rows():
    X, y = texts(900)
    assert KernelPCA(3, gamma=0.5, n_map_components=64).fit(X).transform(X).shape == (900, 3)
    for machine in (
        KernelKMeans(2, gamma=0.5, n_map_components=64),
        SpectralClustering(2, gamma=0.5, n_map_components=64),
    ):
        found = machine.fit(X).predict(X)
        assert max(np.mean(found == y), np.mean(found != y)) > 0.9
    usual = OneClassSVM(0.1, gamma=0.5, n_components=64).fit(X)
    assert 0.05 < np.mean(usual.predict(X) == -1) < 0.2
    for kernel, features in (("polynomial", "maclaurin"), ("gaussian", "random")):
        with pytest.raises(UnsupportedError, match="would make them dense"):
            KernelFeatures(kernel, features=features, n_components=16).fit(X)
    with pytest.raises(UnsupportedError, match="NystromFeatures before it"):
        KernelCCA(1, gamma=0.5, n_map_components=64).fit(X, y[:, None] + 0.0)
