"""Scores in one compiled walk: the columns of four rows and a panel stay in the first cache until they are added.

`tiling.scores` defines them, and makes them wherever this does not go. The columns of 256 rows, which it writes and
reads again for a product with the coefficients, would wait in the second cache. Scores add up in 16 lanes over a
tile's number of columns, on every processor: a row has the same bits wherever it stands.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import (
    PANEL,
    PRODUCT_STRIP,
    VectorBuilder,
    arrays_of,
    cgutils,
    exp2_block,
    in_strips,
    sincos_block,
)
from dkernel.numerics.tiling import PIECE_ROWS, TILE_COMPONENTS, TILE_ROWS, aligned, compiled, inner

LANES = 16  # partial sums of a score, a vector of AVX-512: more registers elsewhere, for the same bits
PANEL_PARTS = PANEL // LANES


@intrinsic
def _score(
    typingctx: Any,  # noqa: ARG001
    tile: Any,
    coef: Any,
    sums: Any,
    i: Any,
    row: Any,
    j: Any,
    layer: Any,
    h: Any,
) -> Any:
    """sums[row : row + 4, h] += tile[layer, i : i + 4] * coef[h, j, layer], each lane of the four vectors."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        maker, (C, W, S) = VectorBuilder(builder, LANES), arrays_of(context, builder, signature, arguments)
        of_row, row, panel, part, head = arguments[3:]
        whole = row.type
        of_tile, of_coef, of_sums = (
            cgutils.unpack_tuple(builder, array.shape, n) for array, n in ((C, 3), (W, 4), (S, 3))
        )
        coefs = [maker.load(W, maker.index(of_coef, (head, panel, part, whole(LANES * k)))) for k in range(PANEL_PARTS)]
        for r in range(PRODUCT_STRIP):
            place = maker.index(of_sums, (builder.add(row, whole(r)), head, whole(0)))
            total = maker.load(S, place)
            for k, c in enumerate(coefs):
                value = maker.load(C, maker.index(of_tile, (part, builder.add(of_row, whole(r)), whole(LANES * k))))
                total = maker.fma(value, c, total)
            maker.store(total, S, place)
        return context.get_dummy_value()

    return types.void(tile, coef, sums, i, row, j, layer, h), generate


@intrinsic
def sum_lanes(typingctx: Any, sums: Any, i: Any, h: Any) -> Any:  # noqa: ARG001
    """The sum of the lanes of sums[i, h], halves onto halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        maker, (S,) = VectorBuilder(builder, LANES), arrays_of(context, builder, signature, arguments)
        sizes = cgutils.unpack_tuple(builder, S.shape, 3)
        row, head = arguments[1:]
        value, width = maker.load(S, maker.index(sizes, (row, head, row.type(0)))), LANES
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(at, at + width)))
                )
                for at in (0, width)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float32(sums, i, h), generate


@inner()
def clear(numbers: Any) -> None:
    for at in range(numbers.size):
        numbers[at] = np.float32(0)


@inner()
def add_scores(tile: Any, coef: Any, sums: Any, i: Any, row: Any, j: Any) -> None:
    """sums[row : row + 4] += those of panel j, whose columns for these rows stand in tile[:, i : i + 4]."""
    for layer in range(tile.shape[0]):
        for h in range(coef.shape[0]):
            _score(tile, coef, sums, i, row, j, layer, h)  # type: ignore[call-arg] # numba gives the first


@inner()
def _add_lanes(sums: Any, S: Any, start: Any, n: Any) -> None:
    for i in range(n):
        for h in range(S.shape[1]):
            S[start + i, h] += sum_lanes(sums, i, h)  # type: ignore[call-arg]


_SCORE_SIGNATURE = (
    "void(float32[:, ::1], float32[:, :, ::1], float32[:, :, :, ::1], float32[:, :, ::1], "
    "float32[:, :, ::1], float32[::1], float32[:, ::1])"
)


@compiled(_SCORE_SIGNATURE)
def _exp2_walk(rows: Any, panels: Any, coef: Any, tile: Any, sums: Any, lanes: Any, S: Any) -> None:
    some = TILE_COMPONENTS // (PANEL * tile.shape[0])
    for start in range(0, rows.shape[0], sums.shape[0]):
        n = min(sums.shape[0], rows.shape[0] - start)
        for first in range(0, panels.shape[0], some):
            clear(lanes)
            for j in range(first, min(first + some, panels.shape[0])):
                for i in range(0, n, 4):
                    exp2_block(rows, panels[j : j + 1], tile, start + i, 0, 0)
                    add_scores(tile, coef, sums, 0, i, j)
            _add_lanes(sums, S, start, n)


@compiled(_SCORE_SIGNATURE)
def _sincos_walk(rows: Any, panels: Any, coef: Any, tile: Any, sums: Any, lanes: Any, S: Any) -> None:
    some = TILE_COMPONENTS // (PANEL * tile.shape[0])
    for start in range(0, rows.shape[0], sums.shape[0]):
        n = min(sums.shape[0], rows.shape[0] - start)
        for first in range(0, panels.shape[0], some):
            clear(lanes)
            for j in range(first, min(first + some, panels.shape[0])):
                for i in range(0, n, 4):
                    sincos_block(rows, panels[j : j + 1], tile, start + i, 0, 0)
                    add_scores(tile, coef, sums, 0, i, j)
            _add_lanes(sums, S, start, n)


SCORE_WALKS = {"exp2": _exp2_walk, "sincos": _sincos_walk}
"""Function of the components -> its walk."""


def scores(
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
    tile, sums = aligned((panels.layers, PRODUCT_STRIP, PANEL)), aligned((TILE_ROWS, heads, LANES))
    for start in range(0, len(X), PIECE_ROWS):
        rows = in_strips(prepared(X[start : start + PIECE_ROWS]))
        S = np.zeros((len(rows), heads), np.float32)
        SCORE_WALKS[panels.function](rows, panels.packed, laid, tile, sums, sums.reshape(-1), S)
        out[start : start + PIECE_ROWS] = (S + shift)[: len(X) - start]
    return out
