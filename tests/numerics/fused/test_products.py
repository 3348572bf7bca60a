"""Fused products and functions: sums in one order on every processor, and the functions that define them."""

import numpy as np
import pytest

from dkernel.numerics import tiling
from dkernel.numerics.fused import products
from dkernel.numerics.threads import one_blas_thread
from tests.processor import WIDE

needs_vectors = pytest.mark.skipif(not products.supports_products(2), reason="no vector registers")
SIZES = [(1, 64), (3, 128), (10, 512), (30, 512), (56, 256), (92, 64), (128, 512)]


def operands(k, width, rows=256):
    rng = np.random.default_rng([k, width])
    A = rng.normal(size=(rows, k)).astype(np.float32)
    return A, (2 * rng.normal(size=(k, width)) / np.sqrt(k)).astype(np.float32)


def in_order(A, B):
    """A @ B by fused multiplications and additions over k, one after the other."""
    sums = np.zeros((len(A), B.shape[1]), np.float32)
    for a, b in zip(A.T.astype(np.float64), B.astype(np.float64), strict=True):
        sums = (sums + np.multiply.outer(a, b)).astype(np.float32)
    return sums


def assert_products(A, B, product):
    """The walks give the functions of these products."""
    panels = products.pack_panels(B)
    wanted, found = product.copy(), np.full(product.shape, np.nan, np.float32)
    tiling.exp2_inplace(wanted)
    products.product_walks["exp2"](A, panels, found[None])
    assert found.tobytes() == wanted.tobytes()
    pair, both = np.stack([product, product]), np.full((2, *product.shape), np.nan, np.float32)
    tiling.sincos_turns_inplace(pair)
    products.product_walks["sincos"](A, panels, both)
    assert both.tobytes() == pair.tobytes()


@needs_vectors
@pytest.mark.parametrize(("k", "width"), SIZES)
def test_the_sums_run_over_k_in_order_on_every_processor(k, width):
    A, B = operands(k, width, rows=16)
    assert_products(A, B, in_order(A, B))


@pytest.mark.skipif(not WIDE, reason="BLAS without AVX-512 has another order")
@pytest.mark.parametrize(("k", "width"), SIZES)
def test_the_bits_are_those_of_the_product_and_the_function(k, width):
    A, B = operands(k, width)
    with one_blas_thread():
        product = A @ B
    assert_products(A, B, product)


@pytest.mark.parametrize(("n", "k", "width"), [(0, 3, 3), (1, 1, 1), (7, 28, 28), (300, 90, 65), (5, 200, 200)])
def test_products_of_any_size_are_those_of_numpy(n, k, width):
    A, B = operands(k, width, rows=n)
    found = products.products(A, B)
    assert found.shape == (n, width)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, A @ B, atol=1e-4)


@needs_vectors
@pytest.mark.parametrize("k", [28, 129, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_of_a_row_has_the_same_bits_anywhere(k, dtype):
    A, B = (each.astype(dtype) for each in operands(k, k, rows=300))
    whole = products.products(A, B)
    for i in (0, 1, 130, 299):
        assert products.products(A[i : i + 1], B).tobytes() == whole[i : i + 1].tobytes()
        assert products.products(A[i:], B).tobytes() == whole[i:].tobytes()


@needs_vectors
def test_far_exponents_and_angles_are_those_of_the_functions():
    A = np.array([[-300.0], [-126.5], [-0.0], [4.0]], np.float32)
    panels = products.pack_panels(np.ones((1, 64), np.float32))
    wanted, found = np.repeat(A, 64, axis=1), np.empty((4, 64), np.float32)
    products.product_walks["exp2"](A, panels, found[None])
    tiling.exp2_inplace(wanted)
    assert found.tobytes() == wanted.tobytes()
    assert found[0, 0] == np.float32(2.0**-126)
    assert found[3, 0] == 1.0
    A = np.array([[2.0**22 + 0.5], [-(2.0**23) - 1], [1e10], [3e38]], np.float32)
    pair, both = np.stack([np.repeat(A, 64, axis=1)] * 2), np.empty((2, 4, 64), np.float32)
    tiling.sincos_turns_inplace(pair)
    products.product_walks["sincos"](A, panels, both)
    assert both.tobytes() == pair.tobytes()
    assert both[0, 0, 0] == pytest.approx(-1.0)
    assert (both[0, 1:] == 1.0).all()


def test_what_does_not_fit_is_refused_and_left_to_the_library():
    assert products.pack_panels(np.zeros((3, 100), np.float32)) is None
    assert products.pack_panels(np.zeros((products.MOST_DATA_COLUMNS + 1, 64), np.float32)) is None
    panels = np.zeros((2, 3, 64), np.float32)
    assert products.is_whole(panels, np.empty((256, 128), np.float32))
    assert not products.is_whole(panels, np.empty((256, 64), np.float32))
    assert not products.is_whole(panels, np.empty((255, 128), np.float32))
