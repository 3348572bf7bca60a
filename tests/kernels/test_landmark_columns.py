"""The float32 tiles: as exact as float32 lets them be, offsets and all, and the same in every block."""

import numpy as np
import pytest

from dkernel.kernels import (
    COLUMN_BLOCK,
    Cauchy,
    Exp,
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Normalized,
    Polynomial,
    ProductCauchy,
    RationalQuadratic,
)
from dkernel.kernels.landmark_columns.base import power_inplace
from tests.combinations import every_two

RNG = np.random.default_rng(3)


def tiles(k, X, Z):
    columns = k.columns(Z)
    rows = columns.rows(X)
    blocks = []
    for first in range(0, columns.n, COLUMN_BLOCK):
        blocks.append(np.empty((len(X), min(COLUMN_BLOCK, columns.n - first)), np.float32))
        columns.fill(rows, first, blocks[-1])
    return np.hstack(blocks)


def kernels(p):
    length = p**0.5
    return {
        "gaussian": Gaussian(gamma=0.5 / p),
        "per column": Gaussian(gamma=[0.5 / p] * p),
        "laplacian": Laplacian(gamma=0.5 / p),
        "exponential": Exponential(length=length),
        "matern 3/2": Matern(nu=1.5, length=length),
        "matern 5/2": Matern(nu=2.5, length=length),
        "matern 3/4": Matern(nu=0.75, length=length),
        "matern 1": Matern(nu=1, length=length),
        "matern 7": Matern(nu=7, length=length),
        "rational": RationalQuadratic(alpha=0.7, length=length),
        "many rational": RationalQuadratic(alpha=30, length=length),
        "cauchy": Cauchy(length=length),
        "product cauchy": ProductCauchy(length=length),
    }


each = pytest.mark.parametrize("kind", kernels(1))


@pytest.mark.parametrize(
    ("kind", "p", "offset"), [*every_two(list(kernels(1)), [1, 5, 28, 784], [0]), *((k, 20, 5000) for k in kernels(1))]
)
def test_three_millionths_on_standardised_data_with_any_offset(kind, p, offset):
    X = (RNG.standard_normal((256, p)) + offset).astype(np.float32)
    Z = (RNG.standard_normal((1100, p)) + offset).astype(np.float32)
    Z[:100] = X[:100]
    k = kernels(p)[kind]
    assert np.abs(tiles(k, X, Z) - k(X.astype(float), Z.astype(float))).max() <= 3e-6


def one_hot(n, seed):
    """Standard scores of three numbers and of two categories of twelve levels."""
    rng = np.random.default_rng(seed)
    levels = [np.eye(12)[rng.geometric(0.3, n).clip(max=12) - 1] for _ in range(2)]
    return ((np.hstack([rng.standard_normal((n, 3)), *levels]) - 0.1) * 3).astype(np.float32)


def test_one_hot_inputs_are_taken_beside_their_usual_value():
    X, Z, k = one_hot(256, 0), one_hot(1100, 1), Laplacian(gamma=0.02)
    assert k.columns(Z.astype(float))._distances is not None
    assert k.columns(RNG.standard_normal((90, 3)))._distances is None
    X[0, -1], X[1, :] = 0.5, 7.0  # what no row of the training had
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
    others = Gaussian(gamma=0.1) + Linear(), Exp(Gaussian(gamma=0.1)).on([1, 2]), Normalized(Polynomial())
    for k in (*kernels(8).values(), Linear(), *others):
        shifted = np.roll(Z, COLUMN_BLOCK, axis=0)
        # Not to the bit: the mean of the landmarks is summed in their order.
        np.testing.assert_allclose(
            tiles(k, X, shifted), np.roll(tiles(k, X, Z), COLUMN_BLOCK, axis=1), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("kind", ["exponential", "matern 3/2", "matern 1", "cauchy", "product cauchy"])
def test_a_row_has_the_same_bits_whatever_stands_beside_it(kind):
    X = RNG.standard_normal((256, 6)).astype(np.float32)
    Z = X[:100].copy()
    k, far = kernels(6)[kind], X.copy()
    far[:128] *= 1000
    assert tiles(k, X, Z)[128:].tobytes() == tiles(k, far, Z)[128:].tobytes()


def test_a_landmark_sees_itself_sharply_where_there_is_a_cusp():
    X = RNG.standard_normal((256, 12)).astype(np.float32)
    near = tiles(Exponential(length=1.0), X, np.vstack([X, 50 * X]))
    np.testing.assert_allclose(np.diag(near), 1, atol=1e-6)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 7, 12, 31])
def test_power(degree):
    values = RNG.uniform(-1.5, 1.5, (6, 5))
    raised = values.copy()
    power_inplace(raised, degree)
    np.testing.assert_allclose(raised, values**degree, rtol=1e-14)
