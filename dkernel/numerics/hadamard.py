"""Random structured projections: blocks of Hadamard transforms and diagonals, applied to a tile of rows at a time.

A projection of rows in q coordinates costs 3 log2(q) sums a frequency instead of q products. One compiled function does
all blocks of a tile: what a block works on stays in the nearest cache, and no step returns to Python.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.loops import FLAGS, compile_loop, inner

# Products are rounded before they are added ("contract" is left out): with factors that are no signs, too.
_ROUNDED = FLAGS - {"contract"}
_SLAB = 128  # rows that one block transforms at a time: 32 KiB of 64 coordinates, which stay in the nearest cache


@inner()
def _hadamard(z: Any) -> None:
    n, h = z.shape[0], 1
    while 4 * h <= n:  # two steps at once: half the walks through the memory
        for start in range(0, n, 4 * h):
            for j in range(start, start + h):
                for i in range(z.shape[1]):
                    a, b, c, d = z[j, i], z[j + h, i], z[j + 2 * h, i], z[j + 3 * h, i]
                    s, t, u, v = a + b, a - b, c + d, c - d
                    z[j, i], z[j + h, i], z[j + 2 * h, i], z[j + 3 * h, i] = s + u, t + v, s - u, t - v
        h *= 4
    if h < n:
        for j in range(h):
            for i in range(z.shape[1]):
                a, b = z[j, i], z[j + h, i]
                z[j, i], z[j + h, i] = a + b, a - b


@inner(_ROUNDED)
def _times(x: Any, factor: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = x[i] * factor


@inner(_ROUNDED)
def _turn(z: Any, scales: Any, out: Any, row: Any, first: Any, width: Any) -> None:
    for i in range(0, z.shape[1], 8):  # few lines at a time, whose distance is a power of two: they share places
        for j in range(width):
            factor = scales[first + j]
            for k in range(i, i + 8):
                out[row + k, first + j] = z[j, k] * factor


@compile_loop(
    "void(float32[:, ::1], float32[:, :, ::1], int32[:, ::1], float32[::1], float32[:, :, ::1], float32[:, ::1])",
    _ROUNDED,
)
def _blocks(X: Any, factors: Any, order: Any, scales: Any, work: Any, out: Any) -> None:
    q = X.shape[0]
    for row in range(0, X.shape[1], _SLAB):
        for b in range(factors.shape[0]):
            for j in range(q):
                _times(X[j, row : row + _SLAB], factors[b, 0, j], work[0, j])
            _hadamard(work[0])
            now = 0
            for step in range(1, factors.shape[1]):
                for j in range(q):
                    _times(work[now, order[b, j]], factors[b, step, j], work[1 - now, j])
                now = 1 - now
                _hadamard(work[now])
            _turn(work[now], scales, out, row, b * q, min(q, out.shape[1] - b * q))


def hadamard_blocks(
    X: NDArray[np.float32],
    factors: NDArray[np.float32],
    order: NDArray[np.int32] | None,
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """out[:, block b] <- (S_b H D_bk Π_b ... H D_b2 Π_b H D_b1 x)^T of every x, in log2(q) walks instead of a product.

    H is the Hadamard matrix of Sylvester, entries 1 and -1.

    Parameters
    ----------
    X : float32 (q, TILE_ROWS), q a power of two; a vector stands in a column, so that the sums of neighbours are sums
        of whole lines
    factors : float32 (blocks, k, q), the diagonals D
    order : int32 (blocks, q), Π z = z[order]; None: Π = I
    scales : float32 (width,), the diagonals S, the last one cut off
    out : float32 (TILE_ROWS, width), width in (blocks - 1) q + 1 ... blocks q, overwritten; all C-contiguous

    Examples
    --------
    >>> from dkernel.numerics.tiling import TILE_ROWS
    >>> X, out = np.ones((4, TILE_ROWS), np.float32), np.empty((TILE_ROWS, 4), np.float32)
    >>> hadamard_blocks(X, np.ones((1, 1, 4), np.float32), None, np.ones(4, np.float32), out)
    >>> out[0].tolist()
    [4.0, 0.0, 0.0, 0.0]
    """
    blocks, _, q = factors.shape
    if order is None:
        order = np.broadcast_to(np.arange(q, dtype=np.int32), (blocks, q)).copy()
    _blocks(X, factors, order, scales, np.empty((2, q, _SLAB), np.float32), out)
