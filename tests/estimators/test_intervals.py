"""predict_interval, predict_set, conformalize and groups of the estimators."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dkernel import KernelRegressor
from dkernel.errors import DataError, UnsupportedError
from tests.training.test_uncertainty import waves

QUICK = {"gamma": 0.3, "n_components": 64, "alpha": 1e-4, "metric": "identity", "solver": "psgd", "holdout": 0.2}


@pytest.fixture(scope="module")
def regressor():
    return KernelRegressor("gaussian", **QUICK).fit(*waves(3000))


def test_several_targets_are_covered_each():
    X, y = waves(3000)
    machine = KernelRegressor("gaussian", **QUICK).fit(X, np.column_stack([y, 5 - 3 * y]))
    X, y = waves(2000, seed=1)
    found = machine.predict_interval(X)
    assert found.shape == (2000, 2, 2)
    for j, target in enumerate([y, 5 - 3 * y]):
        assert np.mean((found[:, j, 0] <= target) & (target <= found[:, j, 1])) == pytest.approx(0.9, abs=0.04)


def test_sparse_rows_and_objects_have_intervals():
    from scipy.sparse import random as sparse_rows

    rng = np.random.default_rng(0)
    X = sparse_rows(2000, 5000, 0.004, format="csr", random_state=0, dtype=np.float32)
    y = np.asarray(X[:, :50].sum(axis=1)).ravel() + 0.1 * rng.normal(size=2000)
    settings = {**QUICK, "n_components": 64, "scale": "none"}
    machine = KernelRegressor("Gaussian(gamma=0.1)", **{k: v for k, v in settings.items() if k != "gamma"})
    low, high = machine.fit(X[:1500], y[:1500]).predict_interval(X[1500:]).T
    assert np.mean((low <= y[1500:]) & (y[1500:] <= high)) == pytest.approx(0.9, abs=0.06)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda m, X, y: m.predict_interval(X, groups=y), UnsupportedError, "have no groups"),
        (lambda m, X, y: m.conformalize(X, y, groups=y), DataError, "list of text"),
        (lambda m, X, y: m.fit(X, y, groups=y[:3]), DataError, "one for each row"),
        (lambda m, X, y: m.fit(X, y, groups=y > 0, eval_set=(X, y)), DataError, "give one of them"),
    ],
)
def test_mistakes_are_answered(ask, error, words, regressor):
    X, y = waves(100, seed=2)
    machine = clone_of(regressor)
    with pytest.raises(error, match=words):
        ask(machine, X, y)


ROWS = np.arange(100.0)


@pytest.mark.parametrize(
    ("y", "weight", "words"),
    [
        (np.where(ROWS == 3, None, ROWS), None, "row 3, column 'y': the label is None"),
        (ROWS.astype("M8[s]"), None, "type datetime64"),
        (ROWS.astype(str), None, "text such as '0.0', and the model predicts numbers"),
        (ROWS, np.ma.masked_less(ROWS, 3), "3 masked"),
        (ROWS, ROWS.astype("M8[s]"), "one number per row"),
        (ROWS, np.zeros(100), "0 in all 100 rows"),
    ],
)
def test_labels_and_weights_pass_the_gate_of_a_fit(y, weight, words, regressor):
    with pytest.raises(DataError, match=words):
        clone_of(regressor).conformalize(waves(100)[0], y, sample_weight=weight)


def test_groups_of_dask_collections_are_those_of_their_rows(regressor):
    X, y = waves(900, seed=1)
    groups = np.where(X[:, 1] > 0, "up", "down")
    machine = clone_of(regressor).conformalize(X[:500], y[:500], groups=groups[:500])
    X, groups = X[500:], groups[500:]
    expected = machine.predict_interval(X, groups=groups)
    lazy = da.from_array(X, chunks=(150, 2))
    for given in (groups, da.from_array(groups, chunks=150)):
        found = machine.predict_interval(lazy, groups=given)
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), expected)
    frame = pd.DataFrame(X, columns=["0", "1"]).assign(where=groups)
    parts = dd.from_pandas(frame, npartitions=3)
    machine = KernelRegressor("gaussian", **QUICK).fit(frame[["0", "1"]], y[500:])
    machine.conformalize(parts[["0", "1"]], y[500:], groups=parts["where"])
    found = machine.predict_interval(parts[["0", "1"]], groups=parts["where"])
    np.testing.assert_array_equal(found.compute(), machine.predict_interval(frame[["0", "1"]], groups=groups))


def clone_of(fitted):
    """The same fitted machine, whose conformity scores may be replaced."""
    machine = type(fitted)(**fitted.get_params())
    machine.__dict__.update(fitted.__dict__)
    return machine


def test_groups_of_another_kind_than_the_rows_are_refused():
    X, y = waves(200, seed=2)
    machine = KernelRegressor("gaussian", **QUICK).fit(*waves(600))
    machine.conformalize(X, y, groups=np.where(X[:, 0] > 0, "east", "west"))
    with pytest.raises(UnsupportedError, match="must be a Dask array of its chunks"):
        machine.predict_interval(da.from_array(X, chunks=(50, 2)), groups=da.from_array(np.array(["east"] * 200)))
    with pytest.raises(DataError, match="200 rows and groups has 7"):
        machine.predict_interval(da.from_array(X, chunks=(50, 2)), groups=["east"] * 7)
    frame = dd.from_pandas(pd.DataFrame(X, columns=["0", "1"]), npartitions=2)
    named = KernelRegressor("gaussian", **QUICK).fit(frame.compute(), y)
    named.conformalize(frame, y, groups=y > 0)
    with pytest.raises(UnsupportedError, match="must be a Dask series"):
        named.predict_interval(frame, groups=["east"] * 200)
    with pytest.raises(UnsupportedError, match="divide rows in memory"):
        machine.fit(dd.from_pandas(pd.DataFrame(X), npartitions=1), y, groups=y > 0)
