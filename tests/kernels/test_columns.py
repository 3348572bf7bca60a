"""The float32 tiles: as exact as float32 lets them be, offsets and all, and the same in every block."""

import numpy as np
import pytest

from dkernel.kernels import COLUMN_BLOCK, Gaussian, Laplacian, Linear
from dkernel.kernels.columns import power_inplace

RNG = np.random.default_rng(3)


def tiles(k, X, Z):
    columns = k.columns(Z)
    rows = columns.rows(X)
    blocks = []
    for first in range(0, columns.n, COLUMN_BLOCK):
        blocks.append(np.empty((len(X), min(COLUMN_BLOCK, columns.n - first)), np.float32))
        columns.fill(rows, first, blocks[-1])
    return np.hstack(blocks)


@pytest.mark.parametrize("kind", [Gaussian, Laplacian])
@pytest.mark.parametrize("p", [1, 5, 28, 100, 784])
def test_three_millionths_on_standardised_data(kind, p):
    X = RNG.standard_normal((256, p)).astype(np.float32)
    Z = RNG.standard_normal((1100, p)).astype(np.float32)
    Z[:100] = X[:100]
    k = kind(gamma=0.5 / p)
    assert np.abs(tiles(k, X, Z) - k(X.astype(float), Z.astype(float))).max() <= 3e-6


@pytest.mark.parametrize("kind", [Gaussian, Laplacian])
def test_an_offset_costs_nothing(kind):
    X = (RNG.standard_normal((256, 20)) + 5000).astype(np.float32)
    Z = (RNG.standard_normal((64, 20)) + 5000).astype(np.float32)
    k = kind(gamma=0.5 / 20)
    assert np.abs(tiles(k, X, Z) - k(X.astype(float), Z.astype(float))).max() <= 3e-6


def test_values_are_at_most_one_and_at_least_zero():
    X = RNG.standard_normal((256, 6)).astype(np.float32)
    near = tiles(Gaussian(gamma=1), X, X)
    assert (np.abs(np.diag(near) - 1) <= 1e-5).all()
    for values in (near, tiles(Gaussian(gamma=5), X, np.vstack([X, X + 1000]))):
        assert values.max() <= 1
        assert values.min() >= 0


def test_a_landmark_has_the_same_column_wherever_it_stands():
    X = RNG.standard_normal((256, 8)).astype(np.float32)
    Z = RNG.standard_normal((2 * COLUMN_BLOCK, 8)).astype(np.float32)
    for k in (Gaussian(gamma=0.1), Laplacian(gamma=0.1), Linear(), Gaussian(gamma=0.1) + Linear()):
        shifted = np.roll(Z, COLUMN_BLOCK, axis=0)
        # Not to the bit: the mean of the landmarks is summed in their order.
        np.testing.assert_allclose(
            tiles(k, X, shifted), np.roll(tiles(k, X, Z), COLUMN_BLOCK, axis=1), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 7, 12, 31])
def test_power(degree):
    values = RNG.uniform(-1.5, 1.5, (6, 5))
    raised = values.copy()
    power_inplace(raised, degree)
    np.testing.assert_allclose(raised, values**degree, rtol=1e-14)
