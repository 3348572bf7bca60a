"""Fused products and functions: the bits of the product and of the function that define them."""

import numpy as np
import pytest

from dkernel.numerics import fused_products, tiling
from dkernel.numerics.threads import one_blas_thread

FUSED = fused_products.packed(np.zeros((2, 64), np.float32)) is not None
needs_wide_registers = pytest.mark.skipif(not FUSED, reason="this processor has no AVX-512")


def operands(k, width, rows=256):
    rng = np.random.default_rng([k, width])
    A = rng.normal(size=(rows, k)).astype(np.float32)
    return A, (2 * rng.normal(size=(k, width)) / np.sqrt(k)).astype(np.float32)


@needs_wide_registers
@pytest.mark.parametrize(("k", "width"), [(1, 64), (3, 128), (10, 512), (30, 512), (56, 256), (92, 64), (128, 512)])
def test_the_bits_are_those_of_the_product_and_the_function(k, width):
    A, B = operands(k, width)
    with one_blas_thread():
        product = A @ B
    panels = fused_products.packed(B)
    wanted, found = product.copy(), np.full((256, width), np.nan, np.float32)
    tiling.exp2_inplace(wanted)
    fused_products.exp2_products(A, panels, found)
    assert found.tobytes() == wanted.tobytes()
    pair, both = np.stack([product, product]), np.full((2, 256, width), np.nan, np.float32)
    tiling.sincos_turns_inplace(pair)
    fused_products.sincos_products(A, panels, both)
    assert both.tobytes() == pair.tobytes()


@needs_wide_registers
def test_far_exponents_and_angles_are_those_of_the_functions():
    A = np.array([[-300.0], [-126.5], [-0.0], [4.0]], np.float32)
    panels = fused_products.packed(np.ones((1, 64), np.float32))
    wanted, found = np.repeat(A, 64, axis=1), np.empty((4, 64), np.float32)
    fused_products.exp2_products(A, panels, found)
    tiling.exp2_inplace(wanted)
    assert found.tobytes() == wanted.tobytes()
    assert found[0, 0] == np.float32(2.0**-126)
    assert found[3, 0] == 1.0
    A = np.array([[2.0**22 + 0.5], [-(2.0**23) - 1], [1e10], [3e38]], np.float32)
    pair, both = np.stack([np.repeat(A, 64, axis=1)] * 2), np.empty((2, 4, 64), np.float32)
    tiling.sincos_turns_inplace(pair)
    fused_products.sincos_products(A, panels, both)
    assert both.tobytes() == pair.tobytes()
    assert both[0, 0, 0] == pytest.approx(-1.0)
    assert (both[0, 1:] == 1.0).all()


def test_what_does_not_fit_is_refused_and_left_to_the_library():
    assert fused_products.packed(np.zeros((3, 100), np.float32)) is None
    assert fused_products.packed(np.zeros((fused_products.MOST + 1, 64), np.float32)) is None
    panels = np.zeros((2, 3, 64), np.float32)
    assert fused_products.fits(panels, np.empty((256, 128), np.float32))
    assert not fused_products.fits(panels, np.empty((256, 64), np.float32))
    assert not fused_products.fits(panels, np.empty((255, 128), np.float32))
