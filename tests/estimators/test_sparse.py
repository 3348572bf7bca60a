"""Sparse rows: what is learned and answered is what the dense rows give, and all rows are never dense at one time."""

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline

from dkernel import (
    FourierFeatures,
    KernelClassifier,
    KernelFeatures,
    KernelRegressor,
    NystromFeatures,
    Tuner,
    save,
)
from dkernel.data.block import chunk_limit
from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError
from tests.combinations import every_two
from tests.estimators.data import SMALL
from tests.estimators.test_checks import ESTIMATORS


def counts(n=300, p=6, dtype="float32", seed=0):
    """Rows that are mostly zero."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.3)).astype(dtype)


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor])
def test_a_fit_on_sparse_rows_is_that_on_the_rows(kind, tmp_path):
    X = counts(2000)
    y = X[:, 0] > X[:, 1] if kind is KernelClassifier else X[:, 0] - X[:, 1]
    dense, sparse = kind(**SMALL).fit(X, y), kind(**SMALL).fit(sp.csr_matrix(X), y)
    save(dense, tmp_path / "dense"), save(sparse, tmp_path / "sparse")
    assert (tmp_path / "dense").read_bytes() == (tmp_path / "sparse").read_bytes()
    many = np.tile(X, (10, 1))
    np.testing.assert_array_equal(sparse.predict(sp.csr_matrix(many)), dense.predict(many))
    assert sparse.score(sp.csr_array(X), y) == dense.score(X, y) > 0.5


STORED = {  # dense rows -> these, and as sparse ones
    "matrix": lambda X: (X, sp.csr_matrix(X)),
    "blocks": lambda X: ((cut := da.from_array(X, chunks=(80, -1))), cut.map_blocks(sp.csr_matrix)),
    "blocks of columns": lambda X: ((cut := da.from_array(X, chunks=(80, 2))), cut.map_blocks(sp.csc_matrix)),
}
QUICK = {"gamma": 0.4, "alpha": 1e-3, "local": "none", "random_state": 0}
WAYS = {
    "fit": lambda m, X, y, _: m.fit(X, y),
    "support": lambda m, X, y, _: m.set_params(n_components="auto").fit(X, y),
    "eval_set": lambda m, X, y, dense: m.fit(dense, y, eval_set=(X, y)),
    "partial_fit": lambda m, X, y, dense: m.fit(dense, y).partial_fit(X, y),
    "conformalize": lambda m, X, y, dense: m.fit(dense, y).conformalize(X, y),
    "search": lambda m, X, y, _: Tuner(m, {"alpha": [1e-3, 1e-2]}, budget=2).fit(X, y).best_estimator_,
}


@pytest.mark.parametrize(("way", "stored", "missing"), every_two([*WAYS], [*STORED], [False, True]))
def test_narrow_sparse_rows_are_read_as_dense_ones(way, stored, missing):
    X = counts(1200, dtype="float64")
    y = X[:, 0] > X[:, 1]
    X[::7, 2] = np.nan if missing else X[::7, 2]
    machines = []
    for rows in STORED[stored](X):
        machines.append(WAYS[way](KernelClassifier("gaussian", n_components=48, **QUICK), rows, y, X))
        assert machines[-1].score(rows, y) == machines[0].score(X, y)
    dense, sparse = (machine.decision_function(X) for machine in machines)
    np.testing.assert_array_equal(sparse, dense)


def test_rows_that_are_to_be_dense_become_so_one_chunk_at_a_time():
    rows, p = 3 * chunk_limit(20_000), 20_000
    X = sp.random_array((rows, p), density=1e-4, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    source = from_arrays(X, sparse=False)
    assert source.chunk_rows == (chunk_limit(p),) * 3
    (block,) = dask.compute(source.units[1].task, scheduler="sync")[0]
    np.testing.assert_array_equal(block.X, X[chunk_limit(p) : 2 * chunk_limit(p)].toarray())


def test_bad_sparse_rows_are_named():
    X = counts()
    X[250, 3] = np.inf
    features = NystromFeatures(n_components=8)
    with pytest.raises(DataError, match="row 250, column '3': the value inf"):
        features.fit(sp.csr_matrix(X))
    features.fit(sp.csr_matrix(X[:200]))
    with pytest.raises(DataError, match="row 250, column '3': the value inf"):
        features.transform(sp.csr_matrix(X))
    with pytest.raises(DataError, match="5 features"):
        features.transform(sp.csr_matrix(X[:, :5]))
    with pytest.raises(DataError, match=r"no rows|0 sample"):
        features.fit(sp.csr_matrix((0, 3)))


def test_texts_by_hashing():
    words = [["apple", "tart", "cake", "pie"], ["car", "race", "road", "wheel"]]
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, 300)
    texts = [" ".join([*rng.choice(words[kind], 3), *rng.choice(["red", "fast", "old"], 2)]) for kind in kinds]
    labels = np.array(["food", "car"])[kinds]
    machine = KernelClassifier("gaussian", gamma=0.5, n_components=48, alpha=1e-4, metric="identity", local="none")
    pipeline = make_pipeline(HashingVectorizer(n_features=2**12), machine).fit(texts[:200], labels[:200])
    assert pipeline.score(texts[200:], labels[200:]) > 0.98
    assert pipeline.predict(["an apple", "the road"]).tolist() == ["food", "car"]


def plain(answer):
    answer = answer.compute() if hasattr(answer, "compute") else answer
    return answer.toarray() if hasattr(answer, "toarray") else np.asarray(answer)


MORE = [
    FourierFeatures(n_components=8, form="exponential"),
    NystromFeatures(n_components=16, landmarks="rpcholesky"),
    KernelFeatures(features="random", n_components=16),
]


@pytest.mark.parametrize("estimator", [*ESTIMATORS, *MORE], ids=lambda estimator: type(estimator).__name__)
def test_every_estimator_learns_and_answers_sparse_rows_as_the_dense_ones(estimator):
    rows = counts(60, dtype="float64")
    y = rows[:, 0] > np.median(rows[:, 0])
    name = "predict" if hasattr(type(estimator), "predict") else "transform"
    wanted = plain(getattr(clone(estimator).fit(rows, y), name)(rows))
    for kind in (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array):
        ask = getattr(clone(estimator).fit(kind(rows), y), name)
        for some in (kind(rows), da.from_array(rows, chunks=(20, -1)).map_blocks(sp.csr_array)):
            np.testing.assert_allclose(plain(ask(some)), wanted, atol=1e-5)
