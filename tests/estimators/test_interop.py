"""Our estimators among the tools of scikit-learn and dask-ml."""

from functools import partial

import distributed
import numpy as np
import pytest
import sklearn
from dask_ml.model_selection import GridSearchCV as DaskGridSearchCV
from dask_ml.model_selection import IncrementalSearchCV
from dask_ml.model_selection import RandomizedSearchCV as DaskRandomizedSearchCV
from dask_ml.wrappers import Incremental, ParallelPostFit
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkernel import KernelClassifier, KernelRegressor, NystromFeatures
from tests.estimators.data import SMALL, ball, lazily, wave


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


def test_inside_parallel_post_fit():
    X, y = ball(1200)
    machine = ParallelPostFit(KernelClassifier(**SMALL)).fit(X, y)
    lazy, _ = lazily(X, y)
    np.testing.assert_array_equal(machine.predict(lazy).compute(), machine.estimator.predict(X))
    transformer = ParallelPostFit(NystromFeatures(gamma=0.4, n_components=8)).fit(X)
    np.testing.assert_allclose(transformer.transform(lazy).compute(), transformer.estimator.transform(X), atol=1e-6)


def test_inside_incremental_it_learns_what_partial_fit_does():
    X, y = ball(2400)
    lazy = lazily(X, y)
    machine = Incremental(KernelClassifier(**SMALL), shuffle_blocks=False).fit(*lazy, classes=[False, True])
    by_hand = KernelClassifier(**SMALL)
    for at in range(0, len(X), 400):
        by_hand.partial_fit(X[at : at + 400], y[at : at + 400], classes=[False, True])
    np.testing.assert_array_equal(machine.estimator_.component_coef_, by_hand.component_coef_)
    assert machine.score(*lazy) > 0.88
    number = Incremental(KernelRegressor(**(SMALL | {"n_components": 128})), shuffle_blocks=False)
    assert number.fit(*lazily(*wave(2400), rows=1200)).estimator_.score(*wave(500, seed=2)) > 0.9


@pytest.mark.parametrize(
    ("kind", "search"),
    [("numpy", DaskGridSearchCV), ("dask", partial(DaskRandomizedSearchCV, n_iter=2, random_state=0))],
)
def test_inside_dask_mls_search(kind, search):
    X, y = ball(800)
    rows = (X, y) if kind == "numpy" else lazily(X, y)
    found = search(KernelClassifier(**SMALL), {"gamma": [1e-4, 0.4]}, cv=2, scheduler="synchronous").fit(*rows)
    assert found.best_params_ == {"gamma": 0.4}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:decay_rate has been deprecated:FutureWarning")
@pytest.mark.parametrize("inner", [SGDClassifier(), KernelClassifier(**SMALL)], ids=["scikit-learn's", "ours"])
def test_no_incremental_search_of_dask_ml_runs_yet(inner, shared_cluster):
    """dask/dask-ml#1016: on Dask 2025.3 and later its client is an asynchronous one."""
    search = IncrementalSearchCV(inner, {"alpha": [1e-4, 1e-3]}, n_initial_parameters=2, max_iter=2)
    with distributed.Client(shared_cluster), pytest.raises(RuntimeError):
        search.fit(*lazily(*ball(800)), classes=[False, True])
