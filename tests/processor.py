"""What tests know of the processor: of this one, or of the one that numba was told to compile for."""

import pytest

from dkernel.numerics.fused import processor

WIDE = processor.registers() == processor.AVX512
place_moves_bits = pytest.mark.xfail(
    not WIDE, reason="BLAS without AVX-512 rounds the products of a row by its place among the rows", strict=False
)
