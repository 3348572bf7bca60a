"""The gradient of a loss over rows in one compiled walk: columns, scores, derivative, gradient, a few rows at a time.

`tiling.accumulate` defines it, and does the work wherever this does not go. Two things are won. The columns of so few
rows stay in a core's own cache until the derivative of the loss is known, while those of 256 rows wait in one that all
cores share; and no step of it is a call from Python, for many of which a tile of a thousand columns has no time.

Columns are kept panel by panel, (panels, layers, rows, 64): each is written and read as one run of memory. Scores add
up in 16 lanes, gradients in float32 over at least FLUSH rows and in float64 beyond. It takes what `products`
takes, and has the same bits on every processor that it takes.
"""

import math
from typing import Any

import numpy as np

from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.products import compile_walks, component_block, in_strips
from dkernel.numerics.fused.scores import add_scores, clear, sum_lanes
from dkernel.numerics.fused.shapes import LANES, PANEL, PRODUCT_STRIP
from dkernel.numerics.loops import inner, instruction
from dkernel.numerics.tiling import aligned_empty, scratch

TILE_BYTES = 2**19  # bytes of a tile of columns: half of the second cache of common processors
SUMS_BYTES = 2**17  # bytes of the scores' lanes beside them
FLUSH = 256  # rows whose gradients add up in float32


DERIVATIVES = {
    name: code
    for code, name in enumerate(
        ("", "squared_hinge", "hinge", "logistic", "perceptron", "squared", "huber", "epsilon_insensitive", "quantile")
    )
}
"""Losses whose derivative is compiled, and its number here; `losses.losses` defines them. Of "" it is the score."""


def fused_gradient(
    panels: PackedComponents,
    rows: F32,
    coef: F32,
    intercept: F32,
    Y: F32,
    weight: F32 | None,
    derivative: tuple[str, float],
) -> tuple[F64, F64, F32]:
    """G = columns.T @ R, g = the sum of the rows of R, and the scores S = columns @ coef + intercept.

    R = weight * (dℓ/ds)(y, s); head h has the target of output h mod outputs.

    Parameters
    ----------
    rows : prepared, float32 (n, k);  coef : (D, heads);  intercept : (heads,);  Y : (n, outputs);  weight : (n, 1)
    derivative : name of a loss among DERIVATIVES, and its number, where it takes one

    Returns
    -------
    G : float64 (D, heads);  g : float64 (heads,);  S : float32 (n, heads)
    """
    n, heads = len(rows), len(intercept)
    strips, targets = in_strips(rows), in_strips(Y)
    tall = _tall(len(panels.packed) * panels.layers, heads)
    w = np.zeros(len(strips), np.float32)
    w[:n] = 1.0 if weight is None else weight[:, 0]
    shape = (len(panels.packed), panels.layers, tall, PANEL)
    tile = scratch(math.prod(shape))[: math.prod(shape)].reshape(shape)
    laid = panels.pack(coef)
    G, g, S = np.zeros(laid.size), np.zeros(heads), np.empty((len(strips), heads), np.float32)
    part, sums, R = aligned_empty(laid.shape), aligned_empty((tall, heads, LANES)), np.empty((tall, heads), np.float32)
    part[...] = 0.0
    data = strips, panels.packed, laid, intercept.astype(np.float32), targets, w
    loss = DERIVATIVES[derivative[0]], np.float32(derivative[1])
    work = tile, sums, sums.reshape(-1), R, part, part.reshape(-1)
    gradient_walks[panels.function](*data, *loss, *work, G, g, S)
    return panels.unpack(G.reshape(laid.shape)), g, S[:n]


def _tall(panels: int, heads: int) -> int:
    """Rows of a tile: a function of columns and heads alone, since it is part of the result's bits."""
    rows = min(TILE_BYTES // (4 * PANEL * panels), SUMS_BYTES // (4 * LANES * heads), FLUSH)
    return max(2, rows // PRODUCT_STRIP) * PRODUCT_STRIP


_several, _single = instruction("several_gradients"), instruction("single_gradient")


@inner()
def _derivative(code: Any, number: Any, y: Any, s: Any) -> Any:
    """(dℓ/ds)(y, s) of a loss of DERIVATIVES, in float32."""
    one, zero, m, r = np.float32(1), np.float32(0), y * s, s - y
    if code == 0:
        return s
    if code == 1:
        return -y * max(one - m, zero)
    if code == 2:
        return -y if m < one else zero
    if code == 3:
        e = np.exp(-abs(m))
        return -y * (e if m >= zero else one) / (one + e)
    if code == 4:
        return -y if m <= zero else zero
    if code == 5:
        return r
    if code == 6:
        return min(max(r, -number), number)
    if code == 7:
        return (one if r > zero else -one) if abs(r) > number else zero
    return one - number if r > zero else (-number if r < zero else zero)


@inner()
def _flush(whole: Any, G: Any) -> None:
    for at in range(G.size):
        G[at] += whole[at]
    clear(whole)


@inner()
def _add_gradients(start: Any, n: Any, shift: Any, targets: Any, weight: Any, loss: Any, work: Any, out: Any) -> None:
    """Scores, derivatives and gradients of n rows whose columns are there."""
    code, number = loss
    tile, sums, _, R, part, _ = work
    _, g, S = out
    heads = part.shape[0]
    for i in range(n):
        for h in range(heads):
            s = sum_lanes(sums, i, h) + shift[h]
            S[start + i, h] = s
            y = targets[start + i, h % targets.shape[1]]
            R[i, h] = weight[start + i] * _derivative(code, number, y, s)
            g[h] += R[i, h]
    for j in range(tile.shape[0]):
        for layer in range(tile.shape[1]):
            h = 0
            while h + 4 <= heads:
                _several(tile, R, part, n, j, layer, h)
                h += 4
            while h < heads:
                _single(tile, R, part, n, j, layer, h)
                h += 1


_GRADIENT_SIGNATURE = (
    "void(float32[:, ::1], float32[:, :, ::1], float32[:, :, :, ::1], float32[::1], float32[:, ::1], float32[::1], "
    "int64, float32, "
    "float32[:, :, :, ::1], float32[:, :, ::1], float32[::1], float32[:, ::1], float32[:, :, :, ::1], float32[::1], "
    "float64[::1], float64[::1], float32[:, ::1])"
)


@compile_walks(_GRADIENT_SIGNATURE)
def gradient_walks(
    rows: Any,
    panels: Any,
    coef: Any,
    shift: Any,
    targets: Any,
    weight: Any,
    code: Any,
    number: Any,
    tile: Any,
    sums: Any,
    lanes: Any,
    R: Any,
    part: Any,
    whole: Any,
    G: Any,
    g: Any,
    S: Any,
) -> None:
    loss, work, out = (code, number), (tile, sums, lanes, R, part, whole), (G, g, S)
    since = 0
    for start in range(0, rows.shape[0], tile.shape[2]):
        n = min(tile.shape[2], rows.shape[0] - start)
        clear(lanes)
        for j in range(panels.shape[0]):
            for i in range(0, n, 4):
                component_block(rows, panels[j : j + 1], tile[j], start, i, 0)
                add_scores(tile[j], coef, sums, i, i, j)
        _add_gradients(start, n, shift, targets, weight, loss, work, out)
        since += n
        if since >= FLUSH or start + n == rows.shape[0]:
            _flush(whole, G)
            since = 0
