"""The hot loops of kernels of a distance: squared distances refined where they cancel, and profiles of them.

The rules of `numerics.tiling` hold here too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.loops import FLAGS, compile_loop
from dkernel.numerics.tiling import exp2_of

STRETCH = 128  # pairs that are looked through together before any of them is computed again


@compile_loop("void(float32[::1], float32, float32)")
def _decay(z: Any, b: Any, c: Any) -> None:
    for i in range(z.size):
        s = min(max(z[i], np.float32(0.0)), np.float32(126.0 * 126.0))
        t = np.sqrt(s)
        z[i] = exp2_of(-t) * (np.float32(1.0) + b * t + c * s)


@compile_loop("void(float32[:, ::1], float32[:, ::1], float32[::1], float32[::1], float32[:, ::1])")
def refine_squared(X: Any, Z: Any, x: Any, z: Any, out: Any) -> None:
    """out[i, j] <- ‖X[i] - Z[j]‖² wherever it was below (x[i] + z[j])²: what the Gram trick cancelled, pair by pair.

    Parameters
    ----------
    X : float32 (rows, p);  Z : float32 (m, p);  x : float32 (rows,);  z : float32 (m,);  out : float32 (rows, m); all
        C-contiguous
    """
    for i in range(out.shape[0]):
        for first in range(0, out.shape[1], STRETCH):
            squares, others = out[i, first : first + STRETCH], z[first : first + STRETCH]
            near = np.int32(0)
            for j in range(squares.size):  # without a branch, so in wide registers
                nearest = x[i] + others[j]
                near |= np.int32(squares[j] < nearest * nearest)
            for j in range(squares.size if near else 0):
                nearest = x[i] + others[j]
                if squares[j] < nearest * nearest:
                    total = np.float32(0.0)
                    for k in range(X.shape[1]):
                        d = X[i, k] - Z[first + j, k]
                        total += d * d
                    squares[j] = total


# Products that overflow are values of 0, and a reciprocal that is estimated would be off the same way in every value.
@compile_loop("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])", FLAGS - {"arcp", "ninf"})
def cauchy_products(X: Any, Z_transposed: Any, out: Any) -> None:
    """out[i, j] <- product over k of 1 / (1 + (X[i, k] - Z_transposed[k, j])²).

    Parameters
    ----------
    X : float32 (rows, p);  Z_transposed : float32 (p, m);  out : float32 (rows, m); all C-contiguous
    """
    one = np.float32(1.0)
    for i in range(X.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = one
        for k in range(X.shape[1]):
            x = X[i, k]
            for j in range(out.shape[1]):
                d = x - Z_transposed[k, j]
                out[i, j] *= one + d * d
        for j in range(out.shape[1]):
            out[i, j] = one / out[i, j]


def decay_inplace(tile: NDArray[np.float32], b: float = 0.0, c: float = 0.0) -> None:
    """z <- (1 + b t + c t²) 2^-t with t = sqrt(max(z, 0)), error below 2e-6 relative; t over 126 is 126.

    With t = a log₂e the profiles exp(-a), (1 + a) exp(-a) and (1 + a + a²/3) exp(-a) of a Matern kernel.

    Parameters
    ----------
    tile : float32, C-contiguous, any shape, squares on entry, overwritten

    Examples
    --------
    >>> tile = np.array([[0.0, 1.0, 4.0]], dtype=np.float32)
    >>> decay_inplace(tile)
    >>> tile.round(6).tolist()
    [[1.0, 0.5, 0.25]]
    """
    _decay(tile.reshape(-1), np.float32(b), np.float32(c))
