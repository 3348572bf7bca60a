"""Landmark rules: one catalogue, every rule under every law; and what each of them is chosen for."""

import numpy as np
import pytest

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.features import NystromMap
from dkernel.features.landmarks import RULES, leverage_scores, ridge_at, select_landmarks
from dkernel.kernels import Gaussian, Laplacian, Linear, Polynomial
from dkernel.kernels.parse import parse
from dkernel.model.parameters import PARAMETERS
from tests.combinations import every_two
from tests.reference import leverage

ROWS_OF = [rule for rule in RULES if rule != "kmeans"]
KERNELS = [Gaussian(0.3), Laplacian(0.2), Linear(), Polynomial(degree=2, c=1.0)]


def points(n, p=4, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal((n, p)).astype(dtype)


def some_classes(n, seed=0):
    return np.random.default_rng(seed).choice(3, n, p=[0.9, 0.08, 0.02])


def clusters(n, k=40, p=6, seed=0):
    """Rows near k centres of very different sizes, in random order."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(0.3 * np.ones(k))
    return (4 * rng.standard_normal((k, p)))[rng.choice(k, n, p=share)] + 0.3 * rng.standard_normal((n, p))


def with_outliers(n, few=60, p=6, seed=0):
    """Rows in a small ball, and a few anywhere."""
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((n, p))
    X[rng.choice(n, few, replace=False)] = 6 * rng.standard_normal((few, p))
    return X


def trace_error(kernel, X, landmarks):
    return float(NystromMap(kernel, landmarks.points).residual(X).mean())


@pytest.fixture(params=RULES)
def rule(request):
    return request.param


def test_the_recipe_knows_every_rule():
    assert PARAMETERS["landmarks"].words == RULES


@pytest.mark.parametrize(("rule", "kernel", "n"), every_two(list(RULES), KERNELS, [1, 7, 90, 399]), ids=repr)
def test_there_are_as_many_as_asked_for_and_no_row_twice(rule, kernel, n):
    X = points(400)
    found = select_landmarks(rule, kernel, X, n, 0, some_classes(400))
    assert found.points.shape == (n, 4)
    assert found.points.dtype == X.dtype
    assert found.points.flags.c_contiguous
    if rule == "kmeans":
        assert found.rows is None
        assert np.isfinite(found.points).all()
    else:
        assert (np.diff(found.rows) > 0).all()
        np.testing.assert_array_equal(found.points, X[found.rows])


def test_the_seed_alone_decides(rule):
    X, kernel, classes = points(1200), Gaussian(0.3), some_classes(1200)
    before = X.copy()
    first, again, other = (select_landmarks(rule, kernel, X, 50, seed, classes).points for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(X, before)
    # Uniform rows, classes' rows and k-means begin with the sample's first rows, which follow the fit's seed already.
    assert np.array_equal(first, other) == (rule in ("uniform", "stratified", "kmeans"))


@pytest.mark.parametrize("n", [20, 25])
def test_a_sample_that_is_too_small_is_taken_whole(rule, n):
    X = points(20)
    found = select_landmarks(rule, Gaussian(0.3), X, n)
    np.testing.assert_array_equal(found.points, X)
    np.testing.assert_array_equal(found.rows, np.arange(20))


def test_rows_that_are_all_alike(rule):
    X = np.ones((700, 3), np.float32)
    found = select_landmarks(rule, Gaussian(0.3), X, 30, 0, np.zeros(700, int))
    np.testing.assert_array_equal(found.points, X[:30])
    assert found.rows is None or len(set(found.rows.tolist())) == 30


@pytest.mark.parametrize("rule", ROWS_OF)
def test_more_landmarks_than_the_kernel_has_directions(rule):
    X = points(800)
    found = select_landmarks(rule, Linear(), X, 100, 0, some_classes(800))
    assert len(set(found.rows.tolist())) == 100
    np.testing.assert_allclose(NystromMap(Linear(), found.points).residual(X), 0, atol=1e-9)


def test_a_rule_that_does_not_exist():
    with pytest.raises(RecipeError, match=r"landmarks='best' is not valid. Possible: uniform \| stratified"):
        select_landmarks("best", Linear(), points(9), 3)


class TestStratified:
    def test_no_class_has_more_than_three_times_the_rarest(self):
        classes = some_classes(5000)
        found = select_landmarks("stratified", Linear(), points(5000), 300, 0, classes)
        counts = np.bincount(classes[found.rows])
        assert counts.min() >= 0.9 * counts.max() / 3
        assert counts.sum() == 300
        for k in range(3):  # of each class the first rows
            np.testing.assert_array_equal(
                found.rows[classes[found.rows] == k], np.flatnonzero(classes == k)[: counts[k]]
            )

    def test_classes_alike_in_size_keep_their_shares(self):
        classes = np.random.default_rng(0).choice(2, 5000, p=[0.4, 0.6])
        found = select_landmarks("stratified", Linear(), points(5000), 200, 0, classes)
        assert abs(classes[found.rows].mean() - 0.6) < 0.01

    def test_a_class_of_one_row_does_not_leave_too_few(self):
        classes = np.zeros(1000, int)
        classes[777] = 1
        found = select_landmarks("stratified", Linear(), points(1000), 500, 0, classes)
        assert len(found.rows) == 500
        assert 777 in select_landmarks("stratified", Linear(), points(1000), 999, 0, classes).rows

    def test_without_labels_it_is_refused(self):
        with pytest.raises(DataError, match="pass y"):
            select_landmarks("stratified", Linear(), points(9), 3)


@pytest.mark.parametrize("seed", range(3))
def test_kmeans_leaves_less_of_clusters_than_uniform_rows(seed):
    X, kernel = clusters(3000, seed=seed), Gaussian(0.05)
    left = {rule: trace_error(kernel, X, select_landmarks(rule, kernel, X, 30, seed)) for rule in ("uniform", "kmeans")}
    assert left["kmeans"] < 0.9 * left["uniform"]


def test_kmeans_centres_are_means_whatever_the_origin():
    X = clusters(2000, k=5)
    near = select_landmarks("kmeans", Linear(), X, 5)
    far = select_landmarks("kmeans", Linear(), X + 1e4, 5)
    np.testing.assert_allclose(far.points, near.points + 1e4, atol=1e-6)
    nearest = ((X[:, None] - near.points) ** 2).sum(axis=2).argmin(axis=1)
    means = np.array([X[nearest == k].mean(axis=0) for k in range(5)])
    np.testing.assert_allclose(near.points, means, atol=0.05)


@pytest.mark.parametrize(("rule", "share"), [("rpcholesky", 0.5), ("leverage", 0.8)])
def test_outliers_are_found(rule, share):
    X, kernel = with_outliers(3000), Gaussian(0.2)
    left = {r: trace_error(kernel, X, select_landmarks(r, kernel, X, 100)) for r in ("uniform", rule)}
    assert left[rule] < share * left["uniform"]


def test_pivots_are_nearly_the_best_there_are():
    """Within twice the trace of the best approximation of a quarter of the rank (Chen, Epperly, Tropp, Webber 2024)."""
    X, kernel = points(1000, dtype="float64"), Gaussian(0.1)
    values = np.linalg.eigvalsh(kernel(X, X))[::-1]
    for seed in range(3):
        left = 1000 * trace_error(kernel, X, select_landmarks("rpcholesky", kernel, X, 80, seed))
        assert values[80:].sum() <= left <= 2 * values[20:].sum()


def test_the_first_pivot_is_drawn_by_the_diagonal():
    X = np.sqrt(np.arange(1.0, 9.0))[:, None]
    drawn = [int(select_landmarks("rpcholesky", Linear(), X, 1, seed).rows[0]) for seed in range(400)]
    share = np.bincount(drawn, minlength=8) / 400
    np.testing.assert_allclose(share, np.arange(1, 9) / 36, atol=0.08)


@pytest.mark.parametrize(("kernel", "dimension"), every_two([Gaussian(0.3), Polynomial(degree=2, c=1.0)], [4, 8]))
def test_leverage_scores_are_near_the_exact_ones(kernel, dimension):
    X = with_outliers(1100, few=30, p=3, seed=1)
    ridge = ridge_at(kernel, X, dimension)
    exact = leverage(kernel(X, X), ridge)
    assert exact.sum() == pytest.approx(dimension, rel=1e-3)
    found = leverage_scores(kernel, X, ridge)
    assert (found <= 2 * exact).all()
    assert (found >= exact / 2).all()
    assert found.sum() == pytest.approx(dimension, rel=0.2)


def test_leverage_scores_of_few_rows_are_exact():
    X, kernel = points(300, dtype="float64"), Gaussian(0.3)
    np.testing.assert_allclose(leverage_scores(kernel, X, 1e-3), leverage(kernel(X, X), 1e-3), rtol=1e-6)


@pytest.mark.parametrize("rule", ROWS_OF)
def test_rows_of_strings(rule):
    rng = np.random.default_rng(0)
    X = np.array([["".join(rng.choice(list("abc"), 8))] for _ in range(600)], dtype=object)
    kernel = parse("SpectrumKernel(2)")
    found = select_landmarks(rule, kernel, X, 40, 0, np.zeros(600, int))
    map = NystromMap(kernel, found.points)
    assert map.n_out == 9  # pairs of three letters
    np.testing.assert_allclose(map.residual(X), 0, atol=1e-6)
    with pytest.raises(UnsupportedError, match="which choose existing rows"):
        select_landmarks("kmeans", kernel, X, 40)
