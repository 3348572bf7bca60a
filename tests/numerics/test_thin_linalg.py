"""Squares times few columns: what numpy and SciPy find, the same bits on any number of threads."""

import numpy as np
import pytest
import scipy.linalg as sl

from dkernel.numerics import thin_linalg
from dkernel.numerics.thin_linalg import solve_triangular
from tests.combinations import every_two

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 513, 1030]


@pytest.mark.parametrize(("n", "heads"), every_two(SIZES, [1, 3, 4, 5, 8, 9]))
def test_products_and_solutions_are_those_of_scipy(n, heads):
    rng = np.random.default_rng(n)
    M, v = rng.standard_normal((n, n)), rng.standard_normal((n, heads))
    M = M @ M.T + n * np.eye(n)
    L = np.ascontiguousarray(sl.cholesky(M, lower=True))
    np.testing.assert_allclose(thin_linalg.product(M, v), M @ v, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(solve_triangular(L, v), sl.solve_triangular(L, v, lower=True), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solve_triangular(np.asfortranarray(L), v), solve_triangular(L, v), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        solve_triangular(L, v, transposed=True), sl.solve_triangular(L, v, lower=True, trans=1), rtol=1e-9, atol=1e-12
    )


def test_only_the_lower_half_of_a_factor_is_read_and_nothing_is_written():
    rng = np.random.default_rng(0)
    L, v = np.tril(rng.standard_normal((70, 70))) + 9 * np.eye(70), rng.standard_normal((70, 3))
    full, before = L + np.triu(np.full((70, 70), np.nan), 1), v.copy()
    np.testing.assert_array_equal(solve_triangular(full, v), solve_triangular(L, v))
    np.testing.assert_array_equal(solve_triangular(full, v, transposed=True), solve_triangular(L, v, transposed=True))
    np.testing.assert_array_equal(v, before)


@pytest.mark.parametrize("processors", [2, 3, 8])
@pytest.mark.parametrize("heads", [4, 7, 12])
def test_threads_move_no_bit(monkeypatch, processors, heads):
    rng = np.random.default_rng(0)
    M, v = rng.standard_normal((1303, 1303)), rng.standard_normal((1303, heads))
    L = np.tril(M) + 1303 * np.eye(1303)

    def found(count):
        monkeypatch.setattr(thin_linalg, "usable_cores", lambda: count)
        return thin_linalg.product(M, v), solve_triangular(L, v), solve_triangular(L, v, transposed=True)

    np.testing.assert_array_equal(found(1), found(processors))
