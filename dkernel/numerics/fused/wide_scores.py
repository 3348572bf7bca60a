"""Scores in float64 in one compiled walk: products of rows with a block, a function of each, and its coefficients.

They are for coefficients that cancel each other, and for lines through a row that are to be smooth. Products, functions
and sums stay in registers. Sums are of 16 lanes, as those of `fused.scores`, so a row has the same bits wherever it
stands and on every processor. The first column of rows and block is added to the products, which saves two of the
columns that squared distances would have.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F64
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import in_strips
from dkernel.numerics.fused.scores import add_lanes, clear
from dkernel.numerics.fused.shapes import LANES
from dkernel.numerics.loops import CompiledLoop, instruction
from dkernel.numerics.tiling import PIECE_ROWS, TILE_ROWS, aligned_empty

MOST_POWER = 8  # of a product, or of a reciprocal
FUNCTIONS = (
    *("sincos", "gaussian", "exponential", "matern3", "matern5"),
    *(f"{word} {degree}" for word in ("power", "rational") for degree in range(1, MOST_POWER + 1)),
)
"""Of products z, or of squared distances z in units in which exp is 2^: 2^-z, 2^-√z times a polynomial, z^d and
(1 + z)^-d."""


def _walk(rows: Any, panels: Any, coef: Any, sums: Any, lanes: Any, S: Any) -> None:
    for start in range(0, rows.shape[0], sums.shape[0]):
        n = min(sums.shape[0], rows.shape[0] - start)
        clear(lanes)
        for j in range(panels.shape[0]):
            for i in range(0, n, 4):
                score_block(rows, panels, coef, sums, start, i, j)
        add_lanes(sums, S, start, n)


score_block = instruction("intrinsic_scores", "gaussian")
"""What a walk calls by this name, in which each has the scores of its own function."""
_SIGNATURE = (
    "void(float64[:, ::1], float64[:, :, ::1], float64[:, :, :, ::1], float64[:, :, ::1], float64[::1], "
    "float64[:, ::1])"
)
WALKS = {
    name: CompiledLoop(
        _walk, _SIGNATURE, parts={"score_block": instruction("intrinsic_scores", name)}, name=name.replace(" ", "")
    )
    for name in FUNCTIONS
}


def fused_wide_scores(
    panels: PackedComponents, prepared: Callable[[Any], F64], X: Any, coef: NDArray[np.floating]
) -> F64:
    """S = columns(X) @ coef, float64 (n, heads); the scores of a row do not depend on the rows beside it.

    Parameters
    ----------
    panels : of float64
    prepared : rows as the products have them, of some rows of X
    X : (n, p);  coef : (D, heads)
    """
    parts = coef.shape[1], panels.layers
    laid, out = panels.pack(coef), np.zeros((len(X), coef.shape[1]))
    sums = aligned_empty((TILE_ROWS, math.prod(parts), LANES), np.float64)
    for start in range(0, len(X), PIECE_ROWS):
        rows = in_strips(prepared(X[start : start + PIECE_ROWS]))
        S = np.zeros((len(rows), math.prod(parts)))
        WALKS[panels.function](rows, panels.packed, laid, sums, sums.reshape(-1), S)
        out[start : start + PIECE_ROWS] = S[: len(X) - start].reshape(-1, *parts).sum(axis=2)
    return out
