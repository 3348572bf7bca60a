"""The compiled profiles are their numpy twins."""

import math

import numpy as np
import pytest

from dkernel.numerics import elementwise
from tests.numerics import references

RNG = np.random.default_rng(0)
LN2 = math.log(2)


@pytest.mark.parametrize(("b", "c"), [(0.0, 0.0), (LN2, 0.0), (LN2, LN2**2 / 3)])
def test_decay_is_its_twin(b, c):
    squares = np.concatenate([RNG.uniform(0, 15_000, 20_000), np.logspace(-12, 4, 5000), [0, 1, 4, -1e-6, -5, 1e30]])
    tile = squares.astype(np.float32).reshape(-1, 2)
    twin = tile.copy()
    elementwise.decay_inplace(tile, b, c)
    references.decay_inplace(twin, b, c)
    np.testing.assert_allclose(tile, twin, rtol=4e-6)


def test_decay_at_its_ends():
    tile = np.array([0.0, -3.0, 1e4, np.float32(3e38)], dtype=np.float32)
    elementwise.decay_inplace(tile)
    assert tile[:2].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(tile[2:], [2.0**-100, 2.0**-126], rtol=1e-5)


@pytest.mark.parametrize("spread", [0.5, 0.01])  # near pairs in all stretches, or in some
@pytest.mark.parametrize("m", [17, elementwise.STRETCH, 3 * elementwise.STRETCH + 1])
@pytest.mark.parametrize("p", [1, 3, 40])
def test_refine_is_its_twin(p, m, spread):
    X, Z = RNG.standard_normal((40, p)).astype(np.float32), RNG.standard_normal((m, p)).astype(np.float32)
    Z[-9:] = X[:9]
    out = (((X[:, None] - Z) ** 2).sum(axis=2) + RNG.uniform(-0.1, 0.1, (40, m)) * spread).astype(np.float32)
    x, z = (RNG.uniform(0, spread * p**0.5, n).astype(np.float32) for n in out.shape)
    twin, before = out.copy(), out.copy()
    elementwise.refine_squared(X, Z, x, z, out)
    references.refine_squared(X, Z, x, z, twin)
    np.testing.assert_allclose(out, twin, rtol=2e-6)
    near = before < np.add.outer(x, z) ** 2
    assert np.array_equal(out[~near], before[~near])
    assert near.any()


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 17), (60, 300, 20)])
def test_cauchy_products_are_their_twin(shape):
    n, p, m = shape
    X, Z = RNG.standard_normal((n, p)).astype(np.float32), RNG.standard_normal((p, m)).astype(np.float32)
    out, twin = np.full((n, m), np.nan, np.float32), np.empty((n, m), np.float32)
    elementwise.cauchy_products(X, Z, out)
    references.cauchy_products(X, Z, twin)
    np.testing.assert_allclose(out, twin, rtol=2e-5, atol=1e-37)
