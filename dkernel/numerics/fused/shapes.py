"""Widths of the compiled loops and coefficients of their functions: what the loops and their instructions share."""

import numpy as np

PANEL = 64  # columns of a block that are made together
PRODUCT_STRIP = 4  # rows
LANES = 16  # partial sums of a score, a vector of AVX-512: more registers elsewhere, for the same bits
NEAR_SQUARE = 1e-6  # a share of the squares of two rows: a smaller one of their difference has lost digits

# Chebyshev fits, rounded to float32: of cos and sin of an angle in turns, and of exp2.
COSINE = tuple(np.float32(c) for c in (1.0, -19.7392025, 64.9390793, -85.4496994, 60.1656113, -25.9641647, 6.52815056))
SINE = tuple(np.float32(s) for s in (6.28318453, -41.3415565, 81.5993652, -76.6108475, 41.3351746, -12.4699392))
EXP2 = tuple(np.float32(e) for e in (1.0, 0.69314718, 0.24022211, 0.055503406, 0.0096707679, 0.0013395286))
# In float64, of 2^f for |f| <= 1/2, to 2e-16.
EXP2_WIDE = (
    *(1.0, 0.69314718055995, 0.24022650695910097, 0.05550410866444772, 0.009618129107606888, 0.0013333558230164974),
    *(0.0001540353044173605, 1.5252657260200837e-05, 1.321544258792169e-06, 1.0208690299958306e-07),
    7.072585949269223e-09,
)
# In float64, of cos(2 pi f) in f², to 7e-15.
COSINE_WIDE = (
    *(0.9999999999999938, -19.739208802173774, 64.9393940220155, -85.45681717323633, 60.24464050055131),
    *(-26.426243739288743, 7.903417343930587, -1.7137170601324672, 0.2796922603463222, -0.03193726296857279),
)
# In float64, of sin(2 pi f) / f in f², to 2e-15.
SINE_WIDE = (
    *(6.2831853071795845, -41.34170224039827, 81.60524927587791, -76.70585974295835, 42.05869368182453),
    *(-15.094638639381966, 3.819916667624677, -0.7179191300472632, 0.10353197926616055, -0.010694441844600297),
)
LOG2_E = 1.4426950408889634  # turns exp into exp2
