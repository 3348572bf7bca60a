"""The operator: the dense formula, for every kind of rows."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dkernel import nystrom_operator
from dkernel.errors import DataError, UnsupportedError
from dkernel.features import NystromMap
from dkernel.kernels import Gaussian, Linear
from tests.reference import nystrom


def points(n=500, p=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p))


KINDS = {
    "numpy": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "dask": lambda X: da.from_array(X, chunks=(130, 3)),
    "frame": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "dask frame": lambda X: dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", [Gaussian(0.2), 2 * Gaussian(0.2) + Linear()], ids=repr)
def test_a_product_is_that_with_the_dense_matrix(kind, kernel):
    X = points().astype(np.float32).astype(float)
    Z = X[:40]
    G = nystrom_operator(NystromMap(kernel, Z), KINDS[kind](X))
    dense = nystrom(kernel(X, Z), kernel(Z, Z))
    V = points(500, 3, seed=1)
    assert G.shape == (500, 500)
    for found, wanted in ((G @ V[:, 0], dense @ V[:, 0]), (G @ V, dense @ V), (G.T @ V, dense @ V)):
        np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max())


def test_a_given_rank():
    X = points()
    map = NystromMap(Gaussian(0.2), X[:40], rank=9)
    phi = map(X)
    np.testing.assert_allclose(nystrom_operator(map, X) @ np.eye(500), phi @ phi.T, atol=1e-10)


def test_what_is_no_nystrom_map_is_refused():
    with pytest.raises(UnsupportedError, match="a NystromMap or a fitted NystromFeatures is needed"):
        nystrom_operator(Gaussian(0.2), points())
    with pytest.raises(DataError, match="X has 4 columns; the landmarks have 3"):
        nystrom_operator(NystromMap(Linear(), points(5, 3)), points())
