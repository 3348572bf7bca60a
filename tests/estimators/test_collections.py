"""What goes in comes out: kinds, chunks and dtypes, nothing computed before it is asked for."""

import pickle
import sys
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from dkernel import (
    BinningFeatures,
    KernelCCA,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelPerceptron,
    KernelRegressor,
    NystromFeatures,
)
from dkernel.errors import DataError
from dkernel.estimators import prediction
from tests.combinations import every_two
from tests.estimators.data import SMALL, ball, chunked, wave
from tests.fuzz import dask_graphs

F, QUICK = dask_graphs.F, {"gamma": 0.5, "alpha": 1e-3, "local": "none"}


@pytest.fixture(scope="module")
def fitted():
    return KernelClassifier(loss="logistic", **SMALL).fit(*ball(1200))


def frame(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


def refuse(_):
    raise AssertionError("this was computed")


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_dask_arrays_are_answered_lazily_in_their_chunks():
    """Every answer of every estimator, of chunks of columns, beside an empty one and of unknown sizes."""
    X = dask_graphs.rows()[F].to_numpy()
    whole = chunked(X, rows=60, columns=1)
    twice = da.concatenate([whole, whole[:0], whole])
    unread = whole.map_blocks(refuse, dtype=float, meta=np.empty((0, 0)))
    for ask in dask_graphs.answers().rows.values():
        found, wanted = ask(twice), ask(X)
        assert ask(unread).chunks[0] == whole.chunks[0]
        assert (found.chunks[0], found.dtype) == (twice.chunks[0], wanted.dtype)
        dask_graphs.same(found.compute(), np.concatenate([wanted, wanted]))
        dask_graphs.same(ask(whole[whole[:, 0] > 0.2]).compute(), wanted[X[:, 0] > 0.2])


def test_pandas_gives_numpy_and_dask_dataframes_keep_their_partitions():
    X, y = ball(600)
    machine = KernelClassifier(loss="logistic", **SMALL).fit(frame(X), pd.Series(y, name="outside"))
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    assert machine.model_.columns == ("a", "b", "c")
    assert machine.model_.label == "outside"
    assert type(machine.predict(frame(X))) is np.ndarray
    lazy = dd.from_pandas(frame(X), npartitions=3)
    proba = machine.predict_proba(lazy)
    assert (proba.columns.tolist(), proba.divisions) == (["probability_False", "probability_True"], lazy.divisions)
    with pytest.raises(DataError, match="feature names should match"):
        machine.predict(frame(X)[["b", "a", "c"]])
    with pytest.raises(DataError, match="feature names should match"):
        machine.predict(lazy[["b", "a", "c"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        machine.predict(X)


def test_scores_of_dask_collections_are_those_of_numpy(fitted):
    X, y = ball(1000, seed=1)
    weight = np.random.default_rng(0).uniform(size=1000)
    lazy = [da.from_array(a, chunks=300) for a in (y, weight)]
    assert fitted.score(chunked(X), lazy[0]) == pytest.approx(fitted.score(X, y))
    assert fitted.score(chunked(X), *lazy) == pytest.approx(fitted.score(X, y, weight))
    sparse = chunked(X, rows=300).map_blocks(sp.csr_matrix)
    assert fitted.score(sparse, lazy[0]) == pytest.approx(fitted.score(X, y))
    X, y = wave(1500)
    machine = KernelRegressor(**SMALL).fit(X, y)
    assert machine.score(chunked(X), da.from_array(y, chunks=250)) == pytest.approx(machine.score(X, y))


def test_large_arrays_are_computed_by_threads_to_the_same_bits(fitted):
    X, _ = ball(2 * prediction.BLOCK_ROWS + 77, seed=2)
    S = fitted.decision_function(X)
    parts = [fitted.decision_function(part) for part in np.array_split(X, 9)]
    np.testing.assert_array_equal(S, np.concatenate(parts))
    np.testing.assert_array_equal(S[:40], np.concatenate([fitted.decision_function(row[None]) for row in X[:40]]))
    big = pd.DataFrame(X)
    np.testing.assert_array_equal(KernelClassifier(**SMALL).fit(big, X[:, 0] > 0).predict(big).shape, len(X))
    X[-1, 2] = np.inf
    with pytest.raises(DataError, match=f"row {len(X) - 1}, column '2': the value inf"):
        fitted.predict(X)


def test_a_task_does_not_carry_the_model():
    X, y = ball(6000)
    machine = KernelClassifier(**(SMALL | {"n_components": 2000})).fit(X, y)
    features = NystromFeatures(gamma=0.4, n_components=512).fit(X)
    size = len(pickle.dumps(machine.model_))
    assert size > 40_000
    for ask in (machine.predict, machine.decision_function, features.transform):
        lazy = ask(chunked(X))
        graph = dict(dask.optimize(lazy)[0].__dask_graph__())
        carrying = [key for key, task in graph.items() if len(pickle.dumps(task)) > 0.5 * size]
        assert len(carrying) == 1
        assert str(carrying[0]).startswith("dkernel-predict-(")
        names = {
            key: len(pickle.dumps(task))
            for key, task in graph.items()
            if isinstance(key, tuple) and "predict" in key[0]
        }
        assert len(names) >= 24
        assert max(names.values()) < 4000
    # Equal models are one task: asked twice, a cluster holds one.
    again = pickle.loads(pickle.dumps(machine)).predict(chunked(X))
    assert again.name == machine.predict(chunked(X)).name


def calls_of(function, *args):
    """How many functions of Python a call calls."""
    seen = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, arg: seen.append(1) if event == "call" else None)  # noqa: ARG005
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return len(seen)


def test_one_row_is_not_wrapped_in_a_graph(fitted):
    row = ball(1)[0]
    fitted.predict(row)
    # A Dask graph of one block is thousands of calls.
    assert calls_of(fitted.predict, row) - calls_of(fitted.model_.predict, row) < 400


@pytest.mark.slow
def test_one_row_costs_no_more_than_its_tile(fitted):
    row = ball(1)[0]
    fitted.predict(row)

    def seconds(function):
        began = time.perf_counter()
        for _ in range(20):
            function(row)
        return (time.perf_counter() - began) / 20

    through, bare = (min(seconds(f) for _ in range(5)) for f in (fitted.predict, fitted.model_.predict))
    assert through - bare < 1e-3


@pytest.mark.parametrize("method", ["transform", "fit_transform"])
def test_set_output_of_dask_dataframes_stays_lazy_with_names_and_index(method):
    table = frame(ball(600)[0]).set_index(np.arange(5, 605))
    lazy = dd.from_pandas(table, npartitions=3)
    machine = NystromFeatures(gamma=0.4, n_components=8).set_output(transform="pandas").fit(table)
    found = getattr(machine, method)(lazy)
    assert isinstance(found, dd.DataFrame)
    assert found.npartitions == 3
    wanted = getattr(machine, method)(table)
    pd.testing.assert_index_equal(found.compute().index, table.index)
    assert found.columns.tolist() == wanted.columns.tolist()
    np.testing.assert_allclose(found.compute().to_numpy(), wanted.to_numpy(), atol=1e-6)
    same = getattr(NystromFeatures(gamma=0.4, n_components=8).fit(table), method)(lazy)
    pd.testing.assert_frame_equal(same.compute(), found.compute())
    assert isinstance(getattr(machine, method)(table), pd.DataFrame)


def test_empty_partitions_of_a_dataframe():
    X, y = ball(400)
    lazy = dd.from_pandas(frame(X), npartitions=2)
    first = lazy.partitions[0]
    with_empty = dd.concat([first, first.loc[first.a > 100], lazy.partitions[1]])
    assert with_empty.map_partitions(len).compute().tolist() == [200, 0, 200]
    label = dd.from_pandas(pd.Series(y), npartitions=2)
    machine = KernelClassifier(**SMALL).fit(with_empty, label)
    np.testing.assert_array_equal(machine.component_coef_, KernelClassifier(**SMALL).fit(lazy, label).component_coef_)
    assert machine.predict(with_empty).compute().shape == (400,)


FITS = {
    "regressor": lambda q: KernelRegressor("gaussian", **QUICK).fit(q[F], q.y).predict,
    "table": lambda q: KernelRegressor("gaussian", **QUICK).fit(q[[*F, "site"]], q.y, q.k + 1).predict,
    "classifier": lambda q: KernelClassifier("gaussian", **QUICK).fit(q[F], q[["word"]]).decision_function,
    "decomposition": lambda q: KernelPCA(1, gamma=0.5, n_map_components=16).fit(q[F]).transform,
    "views": lambda q: KernelCCA(1, gamma=0.5, n_map_components=16).fit(q[F], q.y).transform,
    "perceptron": lambda q: KernelPerceptron(gamma=0.5).fit(q[F], q.a > 0).decision_function,
}


@pytest.mark.parametrize(("fit", "source"), every_two([*FITS], [*dask_graphs.SOURCES]))
def test_a_fit_of_every_kind_of_dataframe_is_that_of_its_rows(fit, source, tmp_path):
    q = dask_graphs.SOURCES[source](tmp_path)
    rows = q.compute()
    columns = [*F, "site"] if fit == "table" else F
    np.testing.assert_allclose(FITS[fit](q)(rows[columns]), FITS[fit](rows)(rows[columns]), atol=1e-4)


# Each is near 1 where every row has its own y and its own weight.
JUDGED = {
    "fit": lambda m, q: m.fit(q[F], q.y).score(*here(q)),
    "weights": lambda m, q: m.fit(q[F], q.y.where(q.a > 0, 99), (q.a > 0) * 1).score(*here(q[q.a > 0])),
    "table": lambda m, q: m.fit(q[[*F, "site"]], q.y).score(*here(q, [*F, "site"])),
    "partial_fit": lambda m, q: m.partial_fit(q[F], q.y).score(*here(q)),
    "score": lambda m, q: m.fit(*here(q)).score(q[F], q.y),
    "eval_set": lambda m, q: 1 - m.fit(*here(q), eval_set=(q[F], q.y)).history_[-1]["rmse"],
    "conformalize": lambda m, q: 1 - m.fit(*here(q)).conformalize(q[F], q.y).model_.conformal.radii(0.9, 1).max(),
    "correlations": lambda _, q: KernelCCA(1, gamma=0.5).fit(*here(q)).correlations(q[F], q.y)[0],
    "views": lambda _, q: KernelCCA(1, gamma=0.5).fit(q[F], q.y).correlations_[0],
    "perceptron": lambda _, q: accuracy(KernelPerceptron(gamma=0.5).fit(q[F], q.a > 0), here(q)[0]),
}


def here(q, columns=F):
    rows = q.compute()
    return rows[columns], rows.y


def accuracy(machine, X):
    return machine.score(X, X.a > 0)


@pytest.mark.parametrize("judged", [*JUDGED])
def test_rows_that_were_shuffled_keep_their_labels_and_weights(judged):
    q = dd.from_pandas(dask_graphs.rows(), npartitions=4, sort=False).assign(i=lambda q: q.k).set_index("i")
    machine = KernelRegressor("gaussian", solver="lbfgs", n_components=32, **QUICK)
    assert JUDGED[judged](machine, q) > 0.7


def test_labels_of_a_fit_and_sparse_rows_lie_beside_the_rows(tmp_path):
    q = dask_graphs.SOURCES["read_parquet"](tmp_path)
    means = KernelKMeans(3, gamma=0.5, n_map_components=16, n_init=1).fit(q[F])
    both = q.assign(label=means.labels_).compute()
    np.testing.assert_array_equal(both.label, means.predict(both[F]))
    bins = BinningFeatures(gamma=0.5, n_grids=4, n_bins=16).fit(q[F])
    np.testing.assert_array_equal(bins.transform(q[F]).compute().toarray(), bins.transform(both[F]).toarray())
