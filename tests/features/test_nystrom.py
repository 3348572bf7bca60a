"""Nystrom maps: the structural facts of the approximation, and the two ways to its columns."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest

from dkernel.errors import RecipeError
from dkernel.features import NystromMap, map_from
from dkernel.kernels import Gaussian, Laplacian, Linear, Polynomial
from dkernel.numerics.tiling import TILE_COMPONENTS, TILE_ROWS
from tests.reference import truncated_approximation

KERNELS = [
    Gaussian(0.3),
    Laplacian(0.2),
    Linear(),
    Polynomial(degree=2),
    0.5 * Gaussian(1.0) + Linear(),
    Gaussian(0.3) * Polynomial(degree=2),
]


def points(n, p=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, p)).astype(np.float32)


@pytest.fixture(params=KERNELS, ids=repr)
def kernel(request):
    return request.param


def test_exact_where_a_landmark_is_one_of_the_two_points(kernel):
    X, Z = points(200), points(60, seed=1)
    phi = NystromMap(kernel, Z)
    K = kernel(X.astype(float), Z.astype(float))
    np.testing.assert_allclose(phi(X) @ phi(Z).T, K, atol=1e-5 * np.abs(K).max())


@pytest.mark.parametrize("rank", [1, 7, 30])
def test_a_given_rank_is_the_truncated_eigendecomposition(kernel, rank):
    X, Z = points(100).astype(float), points(40, seed=1).astype(float)
    phi = NystromMap(kernel, Z, rank=rank)
    if phi.n_out < rank:  # the linear kernel has as many directions as columns
        assert isinstance(kernel, Linear | Polynomial)
        return
    wanted = truncated_approximation(kernel(X, Z), kernel(Z, Z), rank)
    np.testing.assert_allclose(phi(X) @ phi(X).T, wanted, atol=1e-8 * np.abs(wanted).max())
    assert phi(X).shape == (100, rank)


def test_solver_coordinates_measure_the_functions_norm(kernel):
    """With T w = α: |w|^2 = α^T M α, up to the small ridge in M."""
    Z = points(30, seed=1)
    map = NystromMap(kernel, Z)
    v = np.random.default_rng(2).standard_normal((30, 2))
    coordinates = map.coordinates()
    alpha = coordinates.expand(v)
    norms = np.einsum("ij,ij->j", alpha, kernel(Z.astype(float), Z.astype(float)) @ alpha)
    np.testing.assert_allclose(np.einsum("ij,ij->j", v, coordinates.metric @ v), norms, rtol=1e-5)


@pytest.mark.parametrize("m", [1, 37, 512, 1030])
def test_float32_columns_are_the_float64_ones(kernel, m):
    X = points(TILE_ROWS)
    map = NystromMap(kernel, points(m, seed=1))
    K = kernel(X.astype(float), map.landmarks.astype(float))
    np.testing.assert_allclose(map.components(X), K, rtol=1e-12, atol=1e-12)
    assert map.components(X, "float32").dtype == np.float32
    np.testing.assert_allclose(map.components(X, "float32"), K, rtol=2e-5, atol=1e-5)
    covered = []
    rows = map.rows(X)
    for first, tiles, width in map.groups:
        out = np.full((tiles, TILE_ROWS, width), np.nan, np.float32)
        map.fill(rows, first, out)
        covered += range(first, first + tiles * width)
        np.testing.assert_allclose(out[0], K[:, first : first + width], rtol=2e-5, atol=1e-5)
    assert covered == list(range(m))
    assert all(tiles * width <= TILE_COMPONENTS for _, tiles, width in map.groups)


def test_landmarks_that_stand_twice_are_one():
    Z = np.repeat(points(20, seed=1), 3, axis=0)
    phi, once = NystromMap(Gaussian(0.3), Z), NystromMap(Gaussian(0.3), Z[::3])
    X = points(50)
    assert phi.n_out <= 20
    np.testing.assert_allclose(phi(X) @ phi(X).T, once(X) @ once(X).T, atol=1e-6)
    np.linalg.cholesky(phi.coordinates().metric)


def test_one_landmark():
    phi = NystromMap(Gaussian(1.0), np.zeros((1, 2)))
    np.testing.assert_allclose(phi(np.array([[1.0, 0.0]])), [[np.exp(-1)]])


def test_a_rank_is_positive_and_one_beyond_the_landmarks_is_none():
    with pytest.raises(RecipeError, match="rank=0"):
        NystromMap(Linear(), points(3), rank=0)
    assert NystromMap(Linear(), points(3), rank=3).rank is None


@pytest.mark.parametrize("rank", [None, 5])
def test_pickle_and_spec_make_it_again(kernel, rank):
    map = NystromMap(kernel, points(20, seed=1), rank)
    X = points(TILE_ROWS)
    map(X), map.rows(X), map.coordinates()
    for again in (
        pickle.loads(pickle.dumps(map)),
        map_from(json.loads(json.dumps(map.spec())), map.arrays()),
    ):
        np.testing.assert_array_equal(again(X), map(X))
        assert (again.kernel, again.rank, again.n_components, again.n_in, again.n_out) == (
            map.kernel, map.rank, map.n_components, map.n_in, map.n_out,
        )  # fmt: skip


def test_what_travels_to_the_workers_holds_no_factor():
    map = NystromMap(Gaussian(0.3), points(200, seed=1))
    before = len(pickle.dumps(map))
    map(points(5)), map.coordinates(), map.gram
    assert len(pickle.dumps(map)) == before < 2 * map.landmarks.nbytes


@pytest.mark.parametrize("rank", [None, 10])
def test_the_residual_is_what_the_map_leaves(kernel, rank):
    X, Z = points(300), points(40, seed=1)
    map = NystromMap(kernel, Z, rank)
    K = kernel.diag(X.astype(float))
    left = map.residual(X)
    np.testing.assert_allclose(left, K - (map(X) ** 2).sum(axis=1), atol=1e-6 * K.max())
    assert left.min() >= -1e-6
    if rank is None:
        np.testing.assert_allclose(map.residual(Z), 0, atol=1e-6)


def test_the_mean_residual_never_grows_with_more_landmarks(kernel):
    X, Z = points(300), points(128, seed=1)
    left = [float(NystromMap(kernel, Z[:m]).residual(X).mean()) for m in (1, 4, 16, 64, 128)]
    scale = float(kernel.diag(X.astype(float)).mean())
    assert all(later <= earlier + 1e-9 * scale for earlier, later in pairwise(left))
    assert left[-1] < left[0]


def test_a_row_unlike_the_landmarks_leaves_all_of_itself():
    map = NystromMap(Gaussian(0.3), points(100, seed=1))
    assert map.residual(np.full((1, 4), 30.0))[0] == pytest.approx(1.0)
    assert map.residual(np.empty((0, 4))).shape == (0,)


def test_the_residual_of_many_landmarks_of_a_smooth_kernel():
    X = points(1500)
    left = NystromMap(Gaussian(0.01), X[:1000]).residual(X)
    assert -1e-6 <= left.min() <= left.max() <= 1e-5


def test_effective_rank():
    assert NystromMap(Gaussian(1.0), 100.0 * np.arange(7.0)[:, None]).effective_rank == pytest.approx(7)
    assert NystromMap(Gaussian(1.0), np.ones((7, 2))).effective_rank == pytest.approx(1)


def test_eigenvalues_come_near_those_of_the_full_gram_matrix():
    X, kernel = points(1200).astype(float), Gaussian(0.1)
    exact = np.linalg.eigvalsh(kernel(X, X))[::-1][:6]
    off = [np.abs(NystromMap(kernel, X[:m]).eigenvalues(1200)[:6] / exact - 1).max() for m in (50, 400, 1200)]
    assert off[1] < 0.15
    assert off[2] < 1e-8
    map = NystromMap(kernel, X[:50])
    np.testing.assert_allclose(map.eigenvalues(), map.eigenvalues(50))
    assert (np.diff(map.eigenvalues()) <= 0).all()


def test_eigenfunctions_are_orthonormal_and_expand_the_kernel(kernel):
    X, Z = points(50).astype(float), points(40, seed=1).astype(float)
    map = NystromMap(kernel, Z)
    F = map.eigenfunctions(Z)
    np.testing.assert_allclose(F.T @ F / 40, np.eye(map.n_out), atol=1e-6)
    # They extend the eigenvectors of the landmarks' Gram matrix.
    np.testing.assert_allclose(map.gram @ F, F * map.eigenvalues(), atol=1e-8 * np.abs(map.gram).max() * 40)
    G = (map.eigenfunctions(X) * (map.eigenvalues() / 40)) @ map.eigenfunctions(X).T
    np.testing.assert_allclose(G, map(X) @ map(X).T, atol=1e-8 * np.abs(G).max())


@pytest.mark.parametrize("Z", [[[1, 1], [-1, -1], [1, -1], [-1, 1]], [[1.0], [-1.0]]], ids=["square", "pair"])
def test_the_metric_is_regular_where_ones_are_taken_to_zero(Z):
    """The Gram matrix of a linear kernel at centred rows has ones in its null space."""
    map = NystromMap(Linear(), np.array(Z, np.float32))
    metric = map.coordinates().metric
    added = np.diagonal(metric) - np.diagonal(map.gram)
    np.testing.assert_allclose(added, 1e-9 * np.linalg.eigvalsh(map.gram)[-1], rtol=0.01)
