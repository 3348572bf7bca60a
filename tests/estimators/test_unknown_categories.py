"""A warning where a column holds hardly a value that training knows, in memory, in Dask and on a cluster."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from dkernel import KernelClassifier
from dkernel.errors import UnknownCategoriesWarning

N = 300
SETTINGS = {"kernel": "gaussian", "gamma": 1.0, "n_components": 16, "alpha": 1e-3, "metric": "identity"}
TOLD = "'c': more than half of the values"


def table(share=0.0, gaps=0.0):
    """A number and a category, of which a share of the values that are there is unknown."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=N), "c": rng.choice(["a", "b"], N)})
    there = rng.permutation(N)[: int(N * (1 - gaps))]
    frame.loc[there[: int(len(there) * share)], "c"] = "new"
    frame["c"] = frame["c"].where(frame.index.isin(there))
    return frame


@pytest.fixture(scope="module")
def machine():
    frame = table(gaps=0.2)
    return KernelClassifier(**SETTINGS).fit(frame, (frame["c"] == "a") ^ (frame["x"] > 0))


@pytest.mark.parametrize("method", ["predict", "decision_function"])
@pytest.mark.parametrize(("share", "gaps", "told"), [(0.4, 0.0, 0), (0.6, 0.0, 1), (0.6, 0.7, 1), (0.4, 0.7, 0)])
def test_more_than_half_of_the_values_that_are_there(machine, method, share, gaps, told, monkeypatch):
    for rows in (8192, 50):  # in one block and in several
        monkeypatch.setattr("dkernel.estimators.prediction.BLOCK_ROWS", rows)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            getattr(machine, method)(table(share, gaps))
        assert [str(w.message).startswith(TOLD) for w in found if w.category is UnknownCategoriesWarning] == [
            True
        ] * told


def test_a_dask_frame_is_told_of_when_it_is_computed(machine):
    lazy = machine.predict(dd.from_pandas(table(1.0), npartitions=3))
    with pytest.warns(UnknownCategoriesWarning, match=TOLD):
        lazy.compute(scheduler="threads")


@pytest.mark.parametrize("lazy", [False, True])
def test_an_update_is_told_of_too(lazy):
    machine = KernelClassifier(**SETTINGS).fit(table(), table()["c"] == "a")
    given = [table(1.0), pd.Series(np.arange(N) % 2 == 0)]
    if lazy:
        given = [dd.from_pandas(each, npartitions=3) for each in given]
    with pytest.warns(UserWarning, match=TOLD):
        machine.partial_fit(*given).predict(table())


def test_an_array_is_told_of_too():
    X = np.column_stack([table()["x"], np.arange(N) % 2])
    machine = KernelClassifier(categorical_features=[1], **SETTINGS).fit(X, X[:, 0] > 0)
    X[:, 1] += 5
    with pytest.warns(UnknownCategoriesWarning, match="'1': more than half"):
        machine.predict(X)
    with pytest.warns(UnknownCategoriesWarning, match="'1': more than half"):
        machine.predict(da.from_array(X, chunks=(100, 1))).compute()


@pytest.mark.slow
def test_a_cluster_tells_its_client(machine):
    lazy = machine.predict(dd.from_pandas(table(1.0), npartitions=2))
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
        pytest.warns(UnknownCategoriesWarning, match=TOLD),
    ):
        lazy.compute()
