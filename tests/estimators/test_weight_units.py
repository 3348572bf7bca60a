"""Weights in another unit: shares of 1, as of AdaBoost, surveys and inverse probabilities, are as good as numbers."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from dkernel import KernelClassifier, KernelRegressor
from tests.combinations import every_two
from tests.estimators.test_weights import saved

GIVEN = {"kernel": "gaussian", "gamma": 0.3, "n_components": 64}
MACHINES = {
    "default": {},
    "exact": GIVEN | {"local": "none"},
    "passes": GIVEN | {"local": "grids", "solver": "psgd"},
    "normal": GIVEN | {"local": "none", "solver": "normal"},
    "calibrated": GIVEN | {"local": "none", "solver": "psgd", "calibration": "temperature"},
    "balanced": GIVEN | {"local": "none", "class_weight": "balanced"},
}


def noisy(n, seed=0):
    """Rows whose classes have a noise, the numbers behind these, and as many again to judge by."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * n, 3))
    score = 2 * np.sin(2 * X[:, 0]) + X[:, 1] - 1
    return X, score + rng.logistic(size=2 * n) > 0, score + 0.5 * rng.normal(size=2 * n)


def pairs(n):
    lognormal = np.random.default_rng(1).lognormal(size=n)
    return {"equal": (np.ones(n), np.ones(n) / n), "three": (3 * np.ones(n), np.full(n, 3e-9)),
            "lognormal": (lognormal, lognormal / lognormal.sum())}  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "weights"), every_two(sorted(MACHINES.keys() - {"normal"}), ["equal", "three", "lognormal"])
)
def test_probabilities_are_as_good_for_weights_that_add_up_to_1(machine, weights):
    n = 1500
    X, y, _ = noisy(n)

    def loss(weight):
        fitted = KernelClassifier(**MACHINES[machine]).fit(X[:n], y[:n], sample_weight=weight)
        return log_loss(y[n:], fitted.predict_proba(X[n:]))

    numbers, shares = (loss(weight) for weight in pairs(n)[weights])
    assert shares == pytest.approx(numbers, rel=0.1)
    assert shares < 0.85 * log_loss(y[n:], np.full(n, y[:n].mean()))


@pytest.mark.parametrize(
    ("machine", "weights"), every_two(["default", "exact", "normal"], ["equal", "three", "lognormal"])
)
def test_intervals_are_as_wide(machine, weights):
    n = 1500
    X, _, y = noisy(n)
    ends = [
        KernelRegressor(**MACHINES[machine]).fit(X[:n], y[:n], sample_weight=weight).predict_interval(X[n:])
        for weight in pairs(n)[weights]
    ]
    numbers, shares = ((high - low).mean() for low, high in (each.T for each in ends))
    assert shares == pytest.approx(numbers, rel=0.1)
    assert ((ends[1][:, 0] <= y[n:]) & (y[n:] <= ends[1][:, 1])).mean() > 0.85


def test_standard_errors_are_those_of_the_rows():
    n = 1500
    X, _, y = noisy(n)
    numbers, shares = (
        KernelRegressor(**MACHINES["normal"]).fit(X[:n], y[:n], sample_weight=weight).predict(X[n:], return_std=True)[1]
        for weight in (None, np.ones(n) / n)
    )
    np.testing.assert_allclose(shares, numbers, rtol=1e-3)


def test_rows_that_came_often_are_as_many():
    """Rows are merged before they are calibrated: their number is not that of the different ones."""
    n = 1500
    X, y, _ = noisy(n)
    X = np.round(np.clip(X[:, :1], -1, 1))
    numbers, shares = (KernelClassifier().fit(X[:n], y[:n], weight).predict_proba(X) for weight in pairs(n)["equal"])
    np.testing.assert_allclose(shares, numbers, atol=1e-3)


@pytest.mark.parametrize("solver", ["auto", "psgd"])
def test_classes_of_small_weights_keep_their_rows(solver):
    n = 1500
    X, y, _ = noisy(n)
    settings = GIVEN | {"local": "none", "solver": solver}
    weights = {False: 1.0, True: 2.0}, {False: 1e-3, True: 2e-3}
    numbers, shares = (
        KernelClassifier(**settings, class_weight=each).fit(X[:n], y[:n]).predict_proba(X[n:]) for each in weights
    )
    np.testing.assert_allclose(shares, numbers, atol=0.02)


def test_balanced_classes_are_balanced():
    n = 1500
    X, y, _ = noisy(n)
    numbers, shares = (
        KernelClassifier(**MACHINES["balanced"]).fit(X[:n], y[:n], weight).decision_function(X[n:])
        for weight in (None, np.ones(n) / n)
    )
    np.testing.assert_allclose(shares, numbers, atol=1e-3 * np.abs(numbers).max())


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_the_c_of_a_support_vector_machine_is_of_given_weights(scale):
    from sklearn.svm import SVC

    X, y, _ = noisy(150)
    weight = scale * np.random.default_rng(0).uniform(0.1, 1.0, len(X))
    ours = KernelClassifier("gaussian", gamma=0.4, loss="hinge", alpha="C=1", scale="none", metric="identity")
    scores = ours.fit(X, y, weight).decision_function(X)
    wanted = SVC(C=1.0, gamma=0.4, tol=1e-6).fit(X, y, weight).decision_function(X)
    np.testing.assert_allclose(scores, wanted, atol=2e-3 * np.abs(wanted).max())


def test_a_holdout_of_groups_and_one_that_is_given_have_rows_too():
    n = 1500
    X, y, _ = noisy(n)
    shares, groups, losses = np.ones(n) / n, np.arange(n) % 50, []
    machine = KernelClassifier(**GIVEN, local="none", solver="psgd")
    for weight in (np.ones(n), shares):
        losses.append(log_loss(y[n:], machine.fit(X[:n], y[:n], weight, groups=groups).predict_proba(X[n:])))
        judged = X[n : n + 500], y[n : n + 500], weight[:500]
        losses.append(log_loss(y[n:], machine.fit(X[:n], y[:n], weight, eval_set=judged).predict_proba(X[n:])))
    np.testing.assert_allclose(losses[2:], losses[:2], rtol=0.01)


def test_chunks_of_dask_have_the_weights_of_all_rows(tmp_path):
    """Each chunk alone would have another unit; the tasks behind a chunk stay tasks."""
    n = 6000
    X, y, _ = noisy(n // 2)
    weight = np.sort(np.random.default_rng(1).lognormal(size=n)) / n
    machine = KernelClassifier(**GIVEN, alpha=1e-4, local="none")  # two alphas are equally good to the fourth digit
    lazy = [da.from_array(each, chunks=(n // 4, *each.shape[1:])) for each in (X, y, weight)]
    shifted = [lazy[0] + 0.0, lazy[1], 2 * lazy[2] / 2]
    files = [saved(machine.fit(*rows), tmp_path / "m") for rows in (lazy, shifted)]
    assert files[0] == files[1]
    assert machine.fit(X, y, weight).predict_proba(X[:500]) == pytest.approx(
        machine.fit(*lazy).predict_proba(X[:500]), abs=0.05
    )


def test_an_update_has_rows_too():
    n = 1500
    X, _, y = noisy(n)
    machine = KernelRegressor(gamma=0.5, local="cells", random_state=0)
    moved = [
        machine.fit(X[:n], y[:n]).partial_fit(X[n:], y[n:] + 3, weight).predict(X[n:])
        for weight in (np.ones(n), np.ones(n) / n)
    ]
    np.testing.assert_allclose(moved[1], moved[0], atol=0.01)


def test_means_of_a_wide_category_too():
    n = 1500
    rng = np.random.default_rng(0)
    level = rng.integers(0, 150, n)
    X = pd.DataFrame({"k": pd.Categorical([f"v{i}" for i in level]), "z": rng.normal(size=n)})
    y = rng.normal(size=150)[level] + 0.3 * rng.normal(size=n)
    machine = KernelRegressor("gaussian", local="none")
    numbers, shares = (machine.fit(X, y, weight).predict(X) for weight in pairs(n)["equal"])
    assert np.sqrt(np.mean((shares - numbers) ** 2)) < 0.1 * y.std()
