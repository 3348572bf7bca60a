"""Factors and products in blocks: what SciPy finds, the same bits on any number of threads, nothing else is read."""

import numpy as np
import pytest
import scipy.linalg as sl

from dkernel.numerics import linalg
from dkernel.numerics.threads import one_blas_thread
from tests.combinations import every_two

SIZES = [1, 2, 255, 256, 257, 512, 700, 1290]


def square(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize("n", SIZES)
def test_factor_and_solutions_are_those_of_scipy(n):
    A, rows = square(n), np.random.default_rng(1).standard_normal((37, n))
    L = linalg.cholesky(A.copy())
    np.testing.assert_allclose(L, sl.cholesky(A, lower=True), rtol=1e-9, atol=1e-9)
    assert not np.triu(L, 1).any()
    np.testing.assert_allclose(
        linalg.forward(L, rows), sl.solve_triangular(L, rows.T, lower=True).T, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize(("n", "k"), every_two(SIZES, [1, 5]))
def test_a_small_solution_is_that_of_scipy(n, k):
    A, B = square(n), np.random.default_rng(1).standard_normal((n, k))
    expected, held = sl.cho_solve(sl.cho_factor(A, lower=True), B), B.copy()
    np.testing.assert_allclose(linalg.solve_here(np.tril(A), B), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(B, held)
    A[n // 2, n // 2] = -1.0
    with pytest.raises(sl.LinAlgError):
        linalg.solve_here(A, B)
    with pytest.raises(ValueError, match="do not fit together"):
        linalg.solve_here(square(n + 1), B)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 700, 1290])
def test_a_factor_in_blocks_solves_alike_on_any_number_of_threads(monkeypatch, n, dtype):
    monkeypatch.setattr(linalg, "usable_cores", lambda: 3)
    A, B = square(n).astype(dtype), np.random.default_rng(1).standard_normal((n, 2)).astype(dtype)
    with one_blas_thread():
        whole = linalg.factor_matrix(np.tril(A))(B)
        one, *others = (linalg.factor_matrix(np.tril(A), threads)(B) for threads in (1, 2, 3))
    np.testing.assert_allclose(one, whole, rtol=0, atol=(1e-2 if dtype == "float32" else 1e-9) * np.abs(whole).max())
    for other in others:
        np.testing.assert_array_equal(one, other)
    A[n // 2, n // 2] = -1.0
    with pytest.raises(sl.LinAlgError):
        linalg.factor_matrix(A, 2)


def test_of_a_symmetric_square_the_lower_half_is_read():
    A = square(600)
    np.testing.assert_array_equal(linalg.cholesky(np.tril(A)), linalg.cholesky(A.copy()))


@pytest.mark.parametrize("processors", [2, 3, 8])
def test_threads_move_no_bit(monkeypatch, processors):
    A, rows = square(1300), np.random.default_rng(1).standard_normal((1100, 1300))

    def found(count):
        monkeypatch.setattr(linalg, "usable_cores", lambda: count)
        with one_blas_thread():
            L = linalg.cholesky(A.copy())
            return L, linalg.forward(L, rows)

    for one, other in zip(found(1), found(processors), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("at", [0, 300, 699])
def test_a_square_that_was_refused_can_be_mirrored(at):
    A = square(700)
    A[at, at] = -1.0
    held = A.copy()
    with pytest.raises(sl.LinAlgError):
        linalg.cholesky(held)
    linalg.mirror(held, A.diagonal())
    np.testing.assert_array_equal(held, np.triu(A) + np.triu(A, 1).T)


@pytest.mark.parametrize("processors", [1, 2])
def test_a_block_that_is_not_positive_ends_all_that_wait_for_it(monkeypatch, processors):
    monkeypatch.setattr(linalg, "usable_cores", lambda: processors)
    A = square(1300)
    A[300, 300] = -1.0
    with pytest.raises(sl.LinAlgError, match="not positive definite"):
        linalg.cholesky(A)


@pytest.mark.parametrize(
    ("L", "rows"),
    [
        (square(70), np.ones((11, 60))),
        (square(70).astype(np.float32), np.ones((11, 70))),
        (np.asfortranarray(square(70)), np.ones((11, 70))),
        (square(70)[:60], np.ones((11, 70))),
    ],
)
def test_solutions_of_what_does_not_fit_are_refused(L, rows):
    with pytest.raises(ValueError, match="do not fit together"):
        linalg.forward(L, rows)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 40), (500, 301)])
def test_squares_are_added_below_the_diagonal(kind, m, n):
    rows = np.random.default_rng(0).standard_normal((m, n)).astype(kind)
    total = np.full((n, n), 7.0, kind)
    linalg.add_squares(total, rows)
    tolerance = 1e-3 if kind == np.float32 else 1e-10
    np.testing.assert_allclose(np.tril(total), np.tril(7.0 + rows.T @ rows), rtol=tolerance, atol=tolerance)
    assert (total[np.triu_indices(n, 1)] == 7.0).all()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_squares_in_blocks_have_the_same_bits_on_any_number_of_threads(monkeypatch, kind):
    monkeypatch.setattr(linalg, "SQUARE", 64)
    rows = np.random.default_rng(0).standard_normal((300, 201)).astype(kind)
    sums = [np.full((201, 201), 7.0, kind) for _ in range(3)]
    with one_blas_thread():
        for total, threads in zip(sums, (1, 2, 5), strict=True):
            linalg.add_squares(total, rows, threads)
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    tolerance = 1e-3 if kind == np.float32 else 1e-10
    np.testing.assert_allclose(np.tril(sums[0]), np.tril(7.0 + rows.T @ rows), rtol=tolerance, atol=tolerance)
    assert (sums[0][np.triu_indices(201, 1)] == 7.0).all()


@pytest.mark.parametrize(
    ("total", "rows"),
    [
        (np.zeros((4, 4)), np.zeros((9, 4), np.float32)),
        (np.zeros((4, 4)), np.zeros((4, 9))),
        (np.zeros((4, 4), np.int64), np.zeros((9, 4), np.int64)),
        (np.zeros((4, 4)), np.zeros((4, 9)).T),
        (np.zeros((8, 8))[::2, ::2], np.zeros((9, 4))),
    ],
)
def test_squares_of_what_does_not_fit_are_refused(total, rows):
    with pytest.raises(ValueError, match="do not fit together"):
        linalg.add_squares(total, rows)
