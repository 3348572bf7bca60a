"""The compiled figures of a block against numpy's."""

import numpy as np
import pytest

from dkernel.numerics.column_stats import tally
from tests.numerics import references


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "p"), [(1, 1), (3, 7), (2048, 54), (100, 600)])
def test_figures_are_numpys(dtype, n, p):
    rng = np.random.default_rng(n)
    X = (rng.standard_normal((n, p)) * 10.0 ** rng.integers(-3, 4, p) + 5).astype(dtype)
    X[0, 0] = -0.0
    odd = rng.integers(0, 2**63, n).astype(np.uint64) | np.uint64(1)
    (found, sums), (expected, known) = tally(X, odd), references.tally(X, odd)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-30)
    np.testing.assert_array_equal(found[2:], expected[2:])
    np.testing.assert_array_equal(sums, known)
