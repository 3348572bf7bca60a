"""Which kernels have linear functions."""

import numpy as np
import pytest

from dkernel.kernels import Gaussian, Linear, Polynomial, Selection
from dkernel.kernels.analysis.linearity import is_linear

X, Z = np.random.default_rng(0).normal(size=(2, 20, 3))
LINE = Linear() + 2.0 * Polynomial(degree=1, c=3.0)
CUBE, BUMP = Polynomial(degree=3), Gaussian(gamma=0.1)


@pytest.mark.parametrize("kernel", [LINE, Selection(Linear(), (0, 2)), CUBE, LINE + BUMP, LINE * LINE, 2.0 * BUMP])
def test_it_is_linear_where_the_middle_of_two_rows_has_their_mean(kernel):
    middle = kernel((X + Z) / 2, Z) - (kernel(X, Z) + kernel(Z, Z)) / 2
    assert is_linear(kernel) == bool(np.abs(middle).max() < 1e-12 * np.abs(kernel(Z, Z)).max())
