"""Estimators where a Dask client is: rows that a cluster holds already, and fits inside the tasks of a cluster."""

import dask.array as da
import distributed
import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from dkernel import KernelClassifier, KernelPCA
from tests.estimators.data import SMALL, ball

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("later", [False, True], ids=["as they are", "with tasks after"])
def test_rows_persisted_on_the_cluster_are_learned_from_there(client, later):
    X, y = ball(6000)
    shares = np.random.default_rng(0).lognormal(size=len(X)) / 1e4  # of less than a row each, so they are multiplied
    rows, labels, weights = (da.from_array(a, chunks=1500) for a in (X, y, shares))
    wanted = KernelClassifier(**SMALL).fit(rows, labels, weights)
    held, marks, shares = client.persist([rows, labels, weights])
    distributed.wait([held, marks, shares])
    if later:
        held, marks, shares = (held * 2) / 2, ~~marks, (shares * 2) / 2
    machine = KernelClassifier(**SMALL).fit(held, marks, shares)
    np.testing.assert_array_equal(machine.component_coef_, wanted.component_coef_)
    np.testing.assert_array_equal(machine.predict(held).compute(), wanted.predict(X))
    assert machine.score(held, marks) == wanted.score(X, y)
    assert KernelPCA(2, gamma=0.4, n_map_components=16).fit_transform(held).shape == (6000, 2)


def test_a_search_whose_fits_are_tasks_does_not_wait_for_itself(client):
    """The one thread of the worker is taken by the fit: tasks of the fit's own would wait for it for ever."""
    X, y = ball(600)
    search = GridSearchCV(KernelClassifier(**SMALL), {"gamma": [1e-4, 0.4]}, cv=2, error_score="raise")
    with joblib.parallel_config(backend="dask"):
        assert search.fit(X, y).best_params_ == {"gamma": 0.4}
    score = client.submit(lambda: KernelClassifier(**SMALL).fit(X, y).score(X, y)).result(timeout=60)
    assert score == KernelClassifier(**SMALL).fit(X, y).score(X, y)
