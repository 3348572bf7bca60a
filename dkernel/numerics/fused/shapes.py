"""Widths of the compiled loops and coefficients of their functions: what the loops and their instructions share."""

import numpy as np

PANEL = 64  # columns of a block that are made together
PRODUCT_STRIP = 4  # rows
LANES = 16  # partial sums of a score, a vector of AVX-512: more registers elsewhere, for the same bits

# Chebyshev fits, rounded to float32: of cos and sin of an angle in turns, and of exp2.
COSINE = tuple(np.float32(c) for c in (1.0, -19.7392025, 64.9390793, -85.4496994, 60.1656113, -25.9641647, 6.52815056))
SINE = tuple(np.float32(s) for s in (6.28318453, -41.3415565, 81.5993652, -76.6108475, 41.3351746, -12.4699392))
EXP2 = tuple(np.float32(e) for e in (1.0, 0.69314718, 0.24022211, 0.055503406, 0.0096707679, 0.0013395286))
