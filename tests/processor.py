"""What tests know of the processor."""

import pytest
from llvmlite import binding

WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
place_moves_bits = pytest.mark.xfail(
    not WIDE, reason="BLAS without AVX-512 rounds the products of a row by its place among the rows", strict=False
)
