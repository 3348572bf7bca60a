"""What tests know of the processor: of this one, or of the one that numba and BLAS were told to run on."""

import pytest
import threadpoolctl

from dkernel.numerics.fused import processor

WIDE_KERNELS = {"SkylakeX", "Cooperlake", "SapphireRapids"}  # of OpenBLAS, which OPENBLAS_CORETYPE may choose
BLAS = {library.get("architecture") for library in threadpoolctl.threadpool_info()}
WIDE = processor.registers() == processor.AVX512 and bool(BLAS & WIDE_KERNELS)
place_moves_bits = pytest.mark.xfail(
    not WIDE, reason="BLAS without AVX-512 rounds the products of a row by its place among the rows", strict=False
)
