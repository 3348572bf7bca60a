"""Blocks of Hadamard transforms against the matrices that they stand for."""

import numpy as np
import pytest

from dkernel.numerics import hadamard
from dkernel.numerics.tiling import TILE_ROWS
from tests.numerics import references


@pytest.mark.parametrize("q", [1, 2, 4, 8, 32, 64, 512])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("permuted", [False, True])
def test_blocks_are_their_twin(q, steps, permuted):
    rng = np.random.default_rng(q)
    blocks, width = 3, 2 * q + max(q // 2, 1)  # the last one is cut off
    X = rng.standard_normal((q, TILE_ROWS)).astype(np.float32)
    factors = rng.standard_normal((blocks, steps, q)).astype(np.float32)
    order = np.argsort(rng.random((blocks, q)), axis=1).astype(np.int32) if permuted else None
    scales = rng.random(width).astype(np.float32)
    found, twin = np.full((2, TILE_ROWS, width), np.nan, np.float32)
    hadamard.hadamard_blocks(X, factors, order, scales, found)
    references.hadamard_blocks(X, factors, order, scales, twin)
    np.testing.assert_allclose(found, twin, atol=2e-6 * np.abs(twin).max())


def test_a_row_has_the_same_bits_among_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, TILE_ROWS)).astype(np.float32)
    factors, scales = rng.choice([-1, 1], (2, 3, 64)).astype(np.float32), np.ones(128, np.float32)
    one, other = np.empty((2, TILE_ROWS, 128), np.float32)
    hadamard.hadamard_blocks(X, factors, None, scales, one)
    X[:, 3:] = 0
    hadamard.hadamard_blocks(X, factors, None, scales, other)
    np.testing.assert_array_equal(one[:3], other[:3])
