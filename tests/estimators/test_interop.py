"""Our estimators among the tools of scikit-learn and dask-ml, and what travels to the workers of a Dask graph."""

import pickle

import dask.array as da
import distributed
import numpy as np
import pytest
import sklearn
from dask_ml.model_selection import GridSearchCV as DaskGridSearchCV
from dask_ml.model_selection import IncrementalSearchCV
from dask_ml.preprocessing import MinMaxScaler as DaskMinMaxScaler
from dask_ml.preprocessing import StandardScaler as DaskStandardScaler
from dask_ml.wrappers import Incremental, ParallelPostFit
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkernel import KernelClassifier, KernelRegressor, NystromFeatures
from tests.estimators.data import SMALL, ball, wave


def chunked(X, y, rows=400):
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def test_weights_are_routed_through_a_pipeline_and_a_search():
    X, y = ball(600)
    weight = np.where(y, 5.0, 0.2)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = KernelClassifier(**SMALL).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, machine)
        routed = pipeline.fit(X, y, sample_weight=weight)[-1]
        search = GridSearchCV(pipeline, {"kernelclassifier__gamma": [0.4]}, cv=2, error_score="raise")
        assert search.fit(X, y, sample_weight=weight).best_score_ > 0.8
    direct = KernelClassifier(**SMALL).fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    np.testing.assert_array_equal(routed.component_coef_, direct.component_coef_)
    assert not np.array_equal(
        routed.component_coef_, KernelClassifier(**SMALL).fit(StandardScaler().fit_transform(X), y).component_coef_
    )


def test_behind_dask_mls_scaling():
    X, y = chunked(*ball(1200))
    for scaler in (DaskStandardScaler(), DaskMinMaxScaler()):
        pipeline = make_pipeline(scaler, KernelClassifier(**(SMALL | {"gamma": "median"}))).fit(X, y)
        answer = pipeline.predict(X)
        assert isinstance(answer, da.Array)
        assert answer.chunks[0] == X.chunks[0]
        assert float((answer == y).mean().compute()) > 0.85


def test_inside_parallel_post_fit():
    X, y = ball(1200)
    machine = ParallelPostFit(KernelClassifier(**SMALL)).fit(X, y)
    lazy, _ = chunked(X, y)
    np.testing.assert_array_equal(machine.predict(lazy).compute(), machine.estimator.predict(X))
    transformer = ParallelPostFit(NystromFeatures(gamma=0.4, n_components=8)).fit(X)
    np.testing.assert_allclose(transformer.transform(lazy).compute(), transformer.estimator.transform(X), atol=1e-6)


def test_inside_incremental_it_learns_what_partial_fit_does():
    X, y = ball(2400)
    lazy = chunked(X, y)
    machine = Incremental(KernelClassifier(**SMALL), shuffle_blocks=False).fit(*lazy, classes=[False, True])
    by_hand = KernelClassifier(**SMALL)
    for at in range(0, len(X), 400):
        by_hand.partial_fit(X[at : at + 400], y[at : at + 400], classes=[False, True])
    np.testing.assert_array_equal(machine.estimator_.component_coef_, by_hand.component_coef_)
    assert machine.score(*lazy) > 0.88
    number = Incremental(KernelRegressor(**(SMALL | {"n_components": 128})), shuffle_blocks=False)
    assert number.fit(*chunked(*wave(2400), rows=1200)).estimator_.score(*wave(500, seed=2)) > 0.9


@pytest.mark.parametrize("kind", ["numpy", "dask"])
def test_inside_dask_mls_search(kind):
    X, y = ball(800)
    rows = (X, y) if kind == "numpy" else chunked(X, y)
    search = DaskGridSearchCV(KernelClassifier(**SMALL), {"gamma": [1e-4, 0.4]}, cv=2, scheduler="synchronous").fit(
        *rows
    )
    assert search.best_params_ == {"gamma": 0.4}


@pytest.mark.parametrize("method", ["predict", "transform"])
def test_the_model_travels_once_and_not_with_each_task(method):
    """Bytes of each task of the graph, pickled: one holds the model, the others hardly anything but their rows' key."""
    X, y = ball(4000)
    if method == "predict":
        machine = KernelClassifier(**(SMALL | {"n_components": 512})).fit(X, y)
    else:
        machine = NystromFeatures(gamma=0.4, n_components=512).fit(X)
    rows = da.random.random((100_000, 3), chunks=(1000, 3))
    graph = dict(getattr(machine, method)(rows).__dask_graph__())
    sizes = sorted(len(pickle.dumps(task)) for key, task in graph.items() if "random" not in str(key))
    model = 512 * 3 * 4
    assert len(sizes) == 101
    assert sizes[-1] > model
    assert max(sizes[:-1]) < 4096


@pytest.mark.slow  # a minute of starting processes, for what is not ours
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:decay_rate has been deprecated:FutureWarning")
@pytest.mark.xfail(
    strict=True,
    raises=RuntimeError,
    reason="dask/dask-ml#1016: no incremental search of dask-ml runs on Dask 2025.3 and later (asynchronous Client)",
)
@pytest.mark.parametrize("inner", [SGDClassifier(), KernelClassifier(**SMALL)], ids=["scikit-learn's", "ours"])
def test_incremental_search_of_dask_ml(inner):
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
    ):
        search = IncrementalSearchCV(inner, {"alpha": [1e-4, 1e-3]}, n_initial_parameters=2, max_iter=2)
        search.fit(*chunked(*ball(800)), classes=[False, True])
        assert search.score(*chunked(*ball(800))) > 0.5
