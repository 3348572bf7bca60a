"""Machines on features beside the exact machines that they approximate, with C, alpha and epsilon translated."""

import numpy as np
import pytest
from dask.distributed import Client
from sklearn.svm import SVC, SVR

import dkernel
from dkernel import Gaussian, KernelClassifier, KernelKMeans, KernelPerceptron, OneClassSVM
from dkernel.data.collections.arrays import from_arrays
from dkernel.model.recipe import Recipe
from dkernel.streaming.execution.local import SerialExecutor
from dkernel.training.fit import train
from tests.estimators.data import ball, wave

KERNEL = Gaussian(gamma=0.4)
BASE = Recipe(
    solver="psgd",
    kernel=repr(KERNEL),
    scale="none",
    metric="identity",
    holdout=0.0,
    dtype="float64",
    passes=40,
    n_components=300,
)


def fitted(X, y, **changes):
    return train(from_arrays(X, y, dtype="float64"), BASE.replace(**changes), SerialExecutor(), landmarks=X).model


def objective(K, coef, intercept, loss, C):
    """1/2 |w|² + C Σ loss, as libsvm has it, of w = Σ coef φ."""
    return 0.5 * coef @ K @ coef + C * loss(K @ coef + intercept).sum()


@pytest.mark.parametrize("C", [0.1, 0.3])
def test_hinge_is_svc_with_alpha_one_over_c_n(C):
    X, y = ball(300)
    X, sign = X.astype(float), 2.0 * y - 1
    K, n = KERNEL(X, X), len(X)
    twin = SVC(C=C, gamma=0.4, tol=1e-8).fit(X, y)
    dual = np.zeros(n)
    dual[twin.support_] = twin.dual_coef_[0]
    model = fitted(X, y, loss="hinge", alpha=1 / (C * n))

    def hinge(s):
        return np.maximum(0, 1 - sign * s)

    best = objective(K, dual, twin.intercept_[0], hinge, C)
    found = objective(K, model.coef[:, 0], model.intercept[0], hinge, C)
    assert best * (1 - 1e-6) <= found <= 1.05 * best
    new = ball(2000, seed=1)[0].astype(float)
    assert (model.predict(new) == twin.predict(new)).mean() > 0.97


def test_epsilon_insensitive_is_svr():
    X, y = wave(300)
    X = X.astype(float)
    y = (y - y.mean()) / y.std()  # the unit of epsilon
    K, n, C = KERNEL(X, X), len(X), 0.5
    twin = SVR(C=C, gamma=0.4, epsilon=0.2, tol=1e-8).fit(X, y)
    dual = np.zeros(n)
    dual[twin.support_] = twin.dual_coef_[0]
    model = fitted(X, y, loss="epsilon_insensitive(0.2)", alpha=1 / (C * n), task="regress")

    def tube(s):
        return np.maximum(0, np.abs(s - y) - 0.2)

    best = objective(K, dual, twin.intercept_[0], tube, C)
    found = objective(K, model.coef[:, 0], model.intercept[0], tube, C)
    assert best * (1 - 1e-6) <= found <= 1.05 * best
    new = wave(500, seed=1)[0].astype(float)
    assert np.sqrt(np.mean((model.predict(new) - twin.predict(new)) ** 2)) < 0.06


def test_the_perceptron_on_features_is_as_good_as_the_exact_one():
    X, y = ball(1500)
    new, truth = ball(3000, seed=1)
    exact = KernelPerceptron(KERNEL, max_iter=20).fit(X, y).score(new, truth)
    settings = {"n_components": 200, "scale": "none", "metric": "identity", "passes": 2, "random_state": 0}
    on_features = KernelClassifier(KERNEL, loss="perceptron", **settings).fit(X, y).score(new, truth)
    assert exact > 0.8
    assert on_features > exact - 0.02


@pytest.mark.parametrize("k", [2, 3])
def test_clusters_leave_as_a_model(k, tmp_path):
    X = ball(600)[0]
    machine = KernelKMeans(k, kernel=KERNEL, n_map_components=50, random_state=0).fit(X)
    dkernel.save(machine, tmp_path / "m")
    model = dkernel.load(tmp_path / "m").model_
    assert model.classes.tolist() == list(range(k))
    assert (model.predict(X) == machine.labels_).mean() > 0.999


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine",
    [OneClassSVM(gamma=0.4, n_components=40, max_iter=4), KernelKMeans(gamma=0.4, n_map_components=40, max_iter=4)],
)
def test_workers_change_no_byte(machine, tmp_path):
    X = from_arrays(ball(9000)[0])
    dkernel.save(machine.fit(X), tmp_path / "alone")
    with Client(n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        dkernel.save(machine.fit(X), tmp_path / "cluster")
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "cluster").read_bytes()
