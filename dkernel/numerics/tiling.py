"""The hot loops over the cache tiles of a block: components, scores and gradients, in float32.

A numpy function of the same name in tests/numerics/references.py defines each compiled one. A tile is a C-contiguous
float32 array, and a loop is compiled for one signature (`loops`). The in-place functions take
ONE array: with two, LLVM cannot rule out that they overlap and gives up vectorising.

The arithmetic is range reduction to a short polynomial: cos and sin of an angle in turns (the 1 / (2 pi) is folded into
the frequencies), exp2 of a clamped exponent. Coefficients are Chebyshev fits, rounded to float32. The nearest integer
is that of `rint`, exact for every float32: adding and taking away 1.5 * 2^23 is as fast, and is one only below 2^22.
"""

import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.fused.shapes import COSINE, EXP2, SINE
from dkernel.numerics.loops import compile_loop, inner, instruction
from dkernel.numerics.rows import pad

# The shape of a tile is part of the bits of every result: constant, and 512 KiB, which common L2 caches hold.
TILE_ROWS = 256
TILE_COMPONENTS = 512  # see above
PIECE_ROWS = 8 * TILE_ROWS  # what a piece of the data costs beside its rows is a percent; chunks are multiples of it
LINE = 16  # float32 numbers of a line of the caches

_float_from_bits = instruction("float_from_bits")


@inner()
def exp2_of(u: Any) -> Any:
    """2^u of an exponent from -126 to 0."""
    k = np.rint(u)
    f = u - k
    r = EXP2[4] + f * EXP2[5]
    r = EXP2[3] + f * r
    r = EXP2[2] + f * r
    r = EXP2[1] + f * r
    r = EXP2[0] + f * r
    return r * _float_from_bits((np.int32(k) + np.int32(127)) << np.int32(23))


@inner()
def _cosine(s: Any) -> Any:
    """cos(2 pi f) of s = f²."""
    c = COSINE[5] + s * COSINE[6]
    c = COSINE[4] + s * c
    c = COSINE[3] + s * c
    c = COSINE[2] + s * c
    c = COSINE[1] + s * c
    return COSINE[0] + s * c


@compile_loop("void(float32[::1])")
def _exp2(z: Any) -> None:
    for i in range(z.size):
        z[i] = exp2_of(max(min(z[i], np.float32(0.0)), np.float32(-126.0)))


@compile_loop("void(float32[::1])")
def _cos_turns(z: Any) -> None:
    for i in range(z.size):
        f = z[i] - np.rint(z[i])
        z[i] = _cosine(f * f)


@compile_loop("void(float32[:, ::1])")
def _sincos_turns(z: Any) -> None:
    for i in range(z.shape[1]):
        f = z[0, i] - np.rint(z[0, i])
        s = f * f
        q = SINE[4] + s * SINE[5]
        q = SINE[3] + s * q
        q = SINE[2] + s * q
        q = SINE[1] + s * q
        q = SINE[0] + s * q
        z[0, i] = _cosine(s)
        z[1, i] = f * q


@compile_loop("void(float32[:, ::1], float32[:, ::1], float32[:, ::1])")
def l1_distances(X: Any, Z_transposed: Any, out: Any) -> None:
    """out[i, j] <- sum over k of |X[i, k] - Z_transposed[k, j]|.

    Parameters
    ----------
    X : float32 (rows, p);  Z_transposed : float32 (p, m);  out : float32 (rows, m); all C-contiguous
    """
    for i in range(X.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.float32(0.0)
        for k in range(X.shape[1]):
            x = X[i, k]
            for j in range(out.shape[1]):
                out[i, j] += abs(x - Z_transposed[k, j])


@compile_loop("void(float32[:, ::1], float32[:, ::1], float32[::1], float32[:, ::1], float32[::1], float32[:, ::1])")
def _l1_beside(X: Any, Z_transposed: Any, usual: Any, apart: Any, base: Any, out: Any) -> None:
    for i in range(X.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = base[j]
        for k in range(X.shape[1]):
            x = X[i, k]
            if x != usual[k]:
                for j in range(out.shape[1]):
                    out[i, j] += abs(x - Z_transposed[k, j]) - apart[k, j]


def exp2_inplace(tile: NDArray[np.float32]) -> None:
    """z <- 2^min(z, 0), relative error below 1e-6; exponents under -126 give 2^-126.

    Parameters
    ----------
    tile : float32, C-contiguous, any shape, overwritten

    Examples
    --------
    >>> tile = np.array([[0.0, -1.0, -2.0]], dtype=np.float32)
    >>> exp2_inplace(tile)
    >>> tile.round(6).tolist()
    [[1.0, 0.5, 0.25]]
    """
    _exp2(tile.reshape(-1))


def cos_turns_inplace(tile: NDArray[np.float32]) -> None:
    """z <- cos(2 pi z), absolute error below 2e-6 for every finite z.

    Parameters
    ----------
    tile : float32, C-contiguous, any shape, overwritten; angles in turns
    """
    _cos_turns(tile.reshape(-1))


def sincos_turns_inplace(tiles: NDArray[np.float32]) -> None:
    """(z, anything) <- (cos(2 pi z), sin(2 pi z)), absolute error below 2e-6 for every finite z.

    Parameters
    ----------
    tiles : float32, C-contiguous, shape (2, ...), overwritten; tiles[0] holds angles in turns
    """
    _sincos_turns(tiles.reshape(2, -1))


class UsualDistances:
    """L1 distances of rows most of whose numbers have the usual value of their column, as one-hot inputs have 0.

    The distances of a row of usual values are there, and each number that is another one changes them.

    Parameters
    ----------
    usual : float32 (p,);  Z_transposed : float32 (p, m)

    Examples
    --------
    >>> distances, out = UsualDistances(np.zeros(2, np.float32), np.float32([[1], [3]])), np.empty((1, 1), np.float32)
    >>> distances(np.float32([[0, 5]]), out)
    >>> out.tolist()
    [[3.0]]
    """

    def __init__(self, usual: NDArray[np.float32], Z_transposed: NDArray[np.float32]) -> None:
        self._usual, self._landmarks = usual, Z_transposed
        self._apart = np.abs(usual[:, None] - Z_transposed)
        self._base = self._apart.sum(axis=0, dtype=np.float64).astype(np.float32)

    def __call__(self, X: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Write the distances of rows (n, p) into out (n, m), as `l1_distances` does."""
        _l1_beside(X, self._landmarks, self._usual, self._apart, self._base, out)


class Components(Protocol):
    """Interface of a map for the walk: preparation of rows, and filling of its groups of tiles."""

    @property
    def groups(self) -> tuple[tuple[int, int, int], ...]:
        """(first component, tiles k, width w): the components first ... first + k w - 1 are k tiles side by side."""

    def rows(self, X: NDArray) -> Any:
        """Prepare TILE_ROWS raw rows for `fill`."""

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        """Write the components of one group into out, float32 (k, TILE_ROWS, w)."""


_workspace = threading.local()


def aligned_empty(shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """An empty array that begins with a line of the cache: a vector in two lines is read and written twice."""
    size = math.prod(shape)
    buffer = np.empty(size + LINE, dtype)
    first = -buffer.ctypes.data % (4 * LINE) // buffer.itemsize
    return buffer[first : first + size].reshape(shape)


def scratch(size: int) -> NDArray[np.float32]:
    """Numbers of this thread's own, kept between calls: fresh pages for every piece would cost a tenth of the work."""
    buffer: NDArray[np.float32] | None = getattr(_workspace, "buffer", None)
    if buffer is None or buffer.size < size:
        buffer = _workspace.buffer = aligned_empty((size,))
    return buffer


def _walk(
    components: Components, tile: Any, coef: NDArray[np.float32], S: NDArray[np.float32], buffer: NDArray, keep: bool
) -> None:
    """S += components @ coef over the groups of one tile of rows; with keep, the components stay in the buffer.

    The rows are padded to a whole tile: a row has the same bits alone and among others.
    """
    S[...] = 0.0
    at = 0
    for first, k, width in components.groups:
        size = k * TILE_ROWS * width
        out = buffer[at : at + size].reshape(k, TILE_ROWS, width)
        components.fill(tile, first, out)
        for t in range(k):
            S += out[t] @ coef[first + t * width : first + (t + 1) * width]
        if keep:
            at += size


def scores(components: Components, X: NDArray, coef: NDArray, intercept: NDArray) -> NDArray[np.float32]:
    """S = components(X) @ coef + intercept, without ever holding components(X).

    Parameters
    ----------
    X : (rows, p);  coef : (D, C);  intercept : (C,)

    Returns
    -------
    float32 (rows, C). A row's scores do not depend on the rows beside it; its place among the TILE_ROWS of a tile may
    move their last bits where the processor has no AVX-512, which no place does in `fused.scores`.
    """
    coef = np.ascontiguousarray(coef, dtype=np.float32)
    shift = intercept.astype(np.float32)
    buffer = scratch(max((k * TILE_ROWS * width for _, k, width in components.groups), default=0))
    out = np.empty((len(X), coef.shape[1]), np.float32)
    S = np.empty((TILE_ROWS, coef.shape[1]), np.float32)
    for first in range(0, len(X), TILE_ROWS):
        _walk(components, components.rows(pad(X, first, TILE_ROWS)), coef, S, buffer, keep=False)
        out[first : first + TILE_ROWS] = (S + shift)[: len(X) - first]
    return out


def wide_scores(components: Callable[[NDArray], NDArray], X: NDArray, coef: NDArray) -> NDArray[np.float64]:
    """components(X) @ coef in float64, with TILE_ROWS rows of components in memory.

    Parameters
    ----------
    components : of TILE_ROWS rows, float64 (TILE_ROWS, D)
    X : (rows, p);  coef : (D, C)

    Returns
    -------
    float64 (rows, C)
    """
    out = np.empty((len(X), coef.shape[1]))
    for first in range(0, len(X), TILE_ROWS):
        out[first : first + TILE_ROWS] = (components(pad(X, first, TILE_ROWS)) @ coef)[: len(X) - first]
    return out


ResidualOf = Callable[[NDArray[np.float32], int], NDArray[np.float32]]


def accumulate(
    components: Components, X: NDArray, coef: NDArray, intercept: NDArray, residual: ResidualOf
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """G = components(X).T @ R and g = sum of the rows of R, with R = residual(scores), tile by tile.

    Parameters
    ----------
    X : (rows, p);  coef : (D, C);  intercept : (C,)
    residual : (S, first row) -> R, both float32 (r, C): what each score contributes, the loss's derivative

    Returns
    -------
    G : float64 (D, C);  g : float64 (C,)
    """
    n_components, n_outputs = coef.shape
    coef = np.ascontiguousarray(coef, dtype=np.float32)
    shift = intercept.astype(np.float32)
    buffer = scratch(TILE_ROWS * n_components)
    G, g = np.zeros((n_components, n_outputs)), np.zeros(n_outputs)
    S, R = np.empty((TILE_ROWS, n_outputs), np.float32), np.zeros((TILE_ROWS, n_outputs), np.float32)
    for start in range(0, len(X), TILE_ROWS):
        _walk(components, components.rows(pad(X, start, TILE_ROWS)), coef, S, buffer, keep=True)
        S += shift
        n = min(TILE_ROWS, len(X) - start)
        R[n:] = 0.0
        R[:n] = residual(S[:n], start)
        g += R.sum(axis=0, dtype=np.float64)
        at = 0
        for first, k, width in components.groups:
            for t in range(k):
                tile = buffer[at : at + TILE_ROWS * width].reshape(TILE_ROWS, width)
                G[first + t * width : first + (t + 1) * width] += tile.T @ R
                at += TILE_ROWS * width
    return G, g
