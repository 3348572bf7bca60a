"""Scores in one compiled walk: the columns of four rows and a panel stay in the first cache until they are added.

`tiling.scores` defines them, and makes them wherever this does not go. The columns of 256 rows, which it writes and
reads again for a product with the coefficients, would wait in the second cache. Scores add up in 16 lanes over a
tile's number of columns, on every processor: a row has the same bits wherever it stands.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import compile_walks, component_block, in_strips
from dkernel.numerics.fused.shapes import LANES, PANEL, PRODUCT_STRIP
from dkernel.numerics.loops import inner, instruction
from dkernel.numerics.tiling import PIECE_ROWS, TILE_COMPONENTS, TILE_ROWS, aligned_empty

_score, sum_lanes = instruction("score_lanes"), instruction("sum_lanes")


@inner()
def clear(numbers: Any) -> None:
    for at in range(numbers.size):
        numbers[at] = np.float32(0)


@inner()
def add_scores(tile: Any, coef: Any, sums: Any, i: Any, row: Any, j: Any) -> None:
    """sums[row : row + 4] += those of panel j, whose columns for these rows stand in tile[:, i : i + 4]."""
    for layer in range(tile.shape[0]):
        for h in range(coef.shape[0]):
            _score(tile, coef, sums, i, row, j, layer, h)


@inner()
def add_lanes(sums: Any, S: Any, start: Any, n: Any) -> None:
    for i in range(n):
        for h in range(S.shape[1]):
            S[start + i, h] += sum_lanes(sums, i, h)


_SCORE_SIGNATURE = (
    "void(float32[:, ::1], float32[:, :, ::1], float32[:, :, :, ::1], float32[:, :, ::1], "
    "float32[:, :, ::1], float32[::1], float32[:, ::1])"
)


@compile_walks(_SCORE_SIGNATURE)
def score_walks(rows: Any, panels: Any, coef: Any, tile: Any, sums: Any, lanes: Any, S: Any) -> None:
    some = TILE_COMPONENTS // (PANEL * tile.shape[0])
    for start in range(0, rows.shape[0], sums.shape[0]):
        n = min(sums.shape[0], rows.shape[0] - start)
        for first in range(0, panels.shape[0], some):
            clear(lanes)
            for j in range(first, min(first + some, panels.shape[0])):
                for i in range(0, n, 4):
                    component_block(rows, panels[j : j + 1], tile, start + i, 0, 0)
                    add_scores(tile, coef, sums, 0, i, j)
            add_lanes(sums, S, start, n)


def fused_scores(
    panels: PackedComponents, prepared: Callable[[Any], F32], X: Any, coef: NDArray[Any], intercept: NDArray[Any]
) -> F32:
    """S = columns(X) @ coef + intercept.

    Parameters
    ----------
    prepared : rows as the products have them, of some rows of X
    X : (n, p);  coef : (D, heads);  intercept : (heads,)

    Returns
    -------
    float32 (n, heads); the scores of a row do not depend on the rows beside it.
    """
    heads, shift = len(intercept), intercept.astype(np.float32)
    laid, out = panels.pack(coef), np.empty((len(X), heads), np.float32)
    tile, sums = aligned_empty((panels.layers, PRODUCT_STRIP, PANEL)), aligned_empty((TILE_ROWS, heads, LANES))
    for start in range(0, len(X), PIECE_ROWS):
        rows = in_strips(prepared(X[start : start + PIECE_ROWS]))
        S = np.zeros((len(rows), heads), np.float32)
        score_walks[panels.function](rows, panels.packed, laid, tile, sums, sums.reshape(-1), S)
        out[start : start + PIECE_ROWS] = (S + shift)[: len(X) - start]
    return out
