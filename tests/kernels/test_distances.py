"""Distances in float64: as exact where the quick way cancels, and a row's own whatever stands beside it."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from dkernel.kernels.distances import PAIR_COLUMNS, median_distance, squared_l2

RNG = np.random.default_rng(4)


def obvious(X, Z):
    return ((X[:, None] - Z) ** 2).sum(axis=2)


@pytest.mark.parametrize("n", [1, 7, 5000])
def test_equals_the_obvious(n):
    X, Z = RNG.standard_normal((n, 6)) + 100, RNG.standard_normal((9, 6)) + 100
    np.testing.assert_allclose(squared_l2(X, Z, 1e-12), obvious(X, Z), atol=1e-12)


def test_what_cancels_is_taken_pair_by_pair():
    Z = RNG.standard_normal((8, 3)) * 1e-3
    X = np.vstack([Z + 1e-6, Z + 1e6, Z * 1e5])
    near = squared_l2(X, Z, 1e-14)
    np.testing.assert_allclose(near, obvious(X, Z), rtol=1e-10, atol=1e-13)
    clusters = np.vstack([Z + 1e5, Z - 1e5])
    np.testing.assert_allclose(squared_l2(clusters, clusters, 1e-12), obvious(clusters, clusters), rtol=1e-12)


def test_a_row_does_not_feel_its_neighbours():
    Z = RNG.standard_normal((8, 3))
    X = np.vstack([RNG.standard_normal((5, 3)), 1e7 * RNG.standard_normal((5, 3))])
    together = squared_l2(X, Z, 1e-12)
    np.testing.assert_allclose(together[:5], squared_l2(X[:5], Z, 1e-12), rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(together[5:], squared_l2(X[5:], Z, 1e-12))


@pytest.mark.parametrize("tolerance", [0.0, 1e-12, 1e-3])
def test_symmetric_with_a_zero_diagonal(tolerance):
    X = RNG.standard_normal((300, 4))
    D = squared_l2(X, X, tolerance)
    assert np.array_equal(D, D.T)
    assert (np.diag(D) == 0).all()
    assert (D >= 0).all()


@pytest.mark.parametrize(("metric", "name"), [("l2", "euclidean"), ("l1", "cityblock")])
@pytest.mark.parametrize(("n", "p"), [(3, 1), (33, 1), (65, 10), (70, 63), (70, 300)])
def test_the_median_distance_is_that_of_scipy(n, p, metric, name):
    X = RNG.standard_normal((n, p)) * RNG.random(p) * 10 + 100
    X[n // 2 :: 7] = X[0]  # pairs at distance zero do not count
    distances = pdist(X, name)
    exact = p < PAIR_COLUMNS or metric == "l1"
    assert median_distance(X, metric) == pytest.approx(np.median(distances[distances > 0]), rel=0 if exact else 1e-12)


@pytest.mark.parametrize("p", [1, 100])
def test_the_median_distance_of_equal_rows_is_one(p):
    assert median_distance(np.full((5, p), 0.1), "l2") == 1.0
    assert median_distance(np.zeros((1, p)), "l2") == 1.0
