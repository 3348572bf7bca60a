"""What Dask has beside arrays and frames, rows that are lost, and clients that answer later: each refused in words."""

import asyncio
from itertools import product

import dask.array as da
import dask.bag
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from dask import delayed

from dkernel import KernelClassifier, KernelPCA, KernelPerceptron, NystromFeatures
from dkernel.errors import ClusterError, DataError, UnsupportedError

X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=list("abc"))
Y = (X.a > 0).astype(int)
SMALL = {"kernel": "gaussian", "gamma": 0.4, "n_components": 8, "local": "none"}
FITTED, MAP = KernelClassifier(**SMALL).fit(X, Y), NystromFeatures(gamma=0.4, n_components=8).fit(X)


def fresh():
    return KernelClassifier(**SMALL)


# Each call that reads rows, by the rows and labels that it is given.
READS = {
    "fit": lambda X, y: fresh().fit(X, y),
    "partial_fit": lambda X, y: fresh().partial_fit(X, y, classes=[0, 1]),
    "score": lambda X, y: FITTED.score(X, y),
    "conformalize": lambda X, y: FITTED.conformalize(X, y),
    "perceptron": lambda X, y: KernelPerceptron().fit(X, y),
    "features": lambda X, _: NystromFeatures(gamma=0.4, n_components=8).fit(X),
    "components": lambda X, _: KernelPCA(2, gamma=0.4).fit(X),
}
TAKES = {
    **{name: lambda part, call=call: call(part, Y) for name, call in READS.items()},
    "labels": lambda part: fresh().fit(X, part),
    "weights": lambda part: fresh().fit(X, Y, sample_weight=part),
    "eval_set": lambda part: fresh().fit(X, Y, eval_set=(part, Y)),
    "labels of score": lambda part: FITTED.score(X, part),
    "predict": FITTED.predict,
    "transform": MAP.transform,
}
MAKES = {"array": lambda v: da.from_array(v.to_numpy()), "frame": lambda v: dd.from_pandas(v, npartitions=2)}
PARTS = {"Delayed": delayed(X), "a list of Delayed": [delayed(X)], "Bag": dask.bag.from_sequence([1.0, 2.0])}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("take", TAKES)
def test_an_array_that_numpy_does_not_take(take, lazy):
    """PyData's sparse, as a tensor with a gradient: its RuntimeError came through, of Dask's blocks in the middle."""
    coo = pytest.importorskip("sparse").COO
    rows = (Y if "labels" in take or take == "weights" else X).to_numpy()
    with pytest.raises(DataError, match="Cannot convert a sparse array"):
        TAKES[take](da.from_array(rows, chunks=30).map_blocks(coo) if lazy else coo(rows))


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("part", PARTS)
def test_parts_are_refused_with_the_call_that_joins_them(part, take):
    with pytest.raises(DataError, match=r"no array and no frame.*dd\.from_delayed"):
        TAKES[take](PARTS[part])


@pytest.fixture(scope="module")
def client():
    with distributed.Client(processes=False, n_workers=1, dashboard_address=":0", silence_logs=50) as client:
        yield client


@pytest.mark.cluster
@pytest.mark.parametrize("take", TAKES)
def test_futures_are_refused(take, client):
    future = client.scatter(X)
    for part in (future, [future, future]):
        with pytest.raises(DataError, match=r"A Future.*no array and no frame"):
            TAKES[take](part)


@pytest.mark.cluster
@pytest.mark.usefixtures("client")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("read", READS)
def test_rows_that_were_cancelled_are_lost(read, make):
    rows, labels = make(X).persist(), make(Y)
    for future in distributed.futures_of(rows):
        future.cancel(force=True)
    with pytest.raises(ClusterError, match=r"persisted on the cluster at .* are lost.*Persist them again"):
        READS[read](rows, labels)


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_asynchronous_client_is_refused():
    async def use():
        asked = {"processes": False, "n_workers": 1, "dashboard_address": ":0", "silence_logs": 50}
        async with distributed.Client(asynchronous=True, **asked):
            for read, make in product(READS.values(), MAKES.values()):
                with pytest.raises(UnsupportedError, match="asynchronous=False"):
                    read(make(X), make(Y))

    asyncio.run(use())
