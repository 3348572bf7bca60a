"""Products and solutions of large float64 matrices with few columns, at the speed of reading the matrix.

BLAS copies a square in blocks before it multiplies, which for few columns takes three times as long as reading it: at
4,000 coordinates the step of a round was 20 ms of the client, for which all workers wait. Here a square streams past
once for PRODUCT_COLUMNS columns. Each sum is made by one thread in one order, so threads move no bit.
"""

from typing import Any

import numpy as np
import scipy.linalg as sl

from dkernel.numerics.array_types import F64
from dkernel.numerics.loops import FLAGS, compile_loop, inner
from dkernel.numerics.threads import MOST_THREADS, for_each, usable_cores

PRODUCT_COLUMNS = 4  # columns that a square streams past for
FEW_COLUMNS = 2 * PRODUCT_COLUMNS  # columns; with more of them BLAS is quicker
LITTLE = 1024  # rows of a square that are not worth a thread
PRODUCT_ROWS = 512  # rows that one thread works on
LOOSE = FLAGS | {"reassoc"}  # sums in lanes
_LINES = "float64[:, ::1]"


def product(M: F64, v: F64) -> F64:
    """M v of a symmetric M (n, n) and columns v (n, heads), on all processors.

    Examples
    --------
    >>> product(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0], [2.0]])).tolist()
    [[4.0], [7.0]]
    """
    n, heads = v.shape
    few = heads <= FEW_COLUMNS and M.flags.c_contiguous
    rows = _lines(v) if few else np.ascontiguousarray(v.T)
    out = np.empty(rows.shape)

    def some(first: int) -> None:
        part = slice(first, min(first + PRODUCT_ROWS, n))
        if not few:
            out[:, part] = rows @ M[part].T
            return
        for at in range(0, len(rows), PRODUCT_COLUMNS):
            _product(M, rows[at : at + PRODUCT_COLUMNS], out[at : at + PRODUCT_COLUMNS], part.start, part.stop)

    # The same parts for any number of threads: how BLAS adds up depends on the shape of what it is given.
    for_each(some, range(0, n, PRODUCT_ROWS), min(usable_cores(), MOST_THREADS, -(-n // LITTLE)))
    return out[:heads].T


def solve_triangular(L: F64, v: F64, transposed: bool = False) -> F64:
    """L^{-1} v, or L^{-T} v, of a lower triangular L (n, n), C-ordered, and columns v (n, heads).

    Examples
    --------
    >>> L = np.array([[2.0, 0.0], [1.0, 2.0]])
    >>> solve_triangular(L, np.array([[4.0], [6.0]])).tolist()
    [[2.0], [2.0]]
    >>> solve_triangular(L, np.array([[4.0], [4.0]]), transposed=True).tolist()
    [[1.0], [2.0]]
    """
    if v.shape[1] > FEW_COLUMNS or not L.flags.c_contiguous:
        return np.asarray(sl.solve_triangular(L, v, lower=True, trans=int(transposed), check_finite=False))
    rows, loop = _lines(v), _backward if transposed else _forward
    groups = [rows[at : at + PRODUCT_COLUMNS] for at in range(0, len(rows), PRODUCT_COLUMNS)]
    for_each(lambda group: loop(L, group), groups, len(groups) if len(L) >= LITTLE and usable_cores() > 1 else 1)
    return rows[: v.shape[1]].T


def _lines(v: F64) -> F64:
    """The columns as lines of memory, with lines of zeros up to whole groups."""
    n, heads = v.shape
    rows = np.zeros((-(-heads // PRODUCT_COLUMNS) * PRODUCT_COLUMNS, n))
    rows[:heads] = v.T
    return rows


@inner(LOOSE)
def _dots(M: Any, rows: Any, i: Any, stop: Any) -> Any:
    """Products of the first `stop` numbers of each line with those of M[i : i + 4].

    Four rows of the square at a time: a line is then read once for four of them, from the second cache.
    """
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = 0.0
    for j in range(stop):
        a, b, c, d = rows[0, j], rows[1, j], rows[2, j], rows[3, j]
        m0, m1, m2, m3 = M[i, j], M[i + 1, j], M[i + 2, j], M[i + 3, j]
        a0, a1, a2, a3 = a0 + m0 * a, a1 + m1 * a, a2 + m2 * a, a3 + m3 * a
        b0, b1, b2, b3 = b0 + m0 * b, b1 + m1 * b, b2 + m2 * b, b3 + m3 * b
        c0, c1, c2, c3 = c0 + m0 * c, c1 + m1 * c, c2 + m2 * c, c3 + m3 * c
        d0, d1, d2, d3 = d0 + m0 * d, d1 + m1 * d, d2 + m2 * d, d3 + m3 * d
    return (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3)


@compile_loop(f"void({_LINES}, {_LINES}, {_LINES}, int64, int64)", LOOSE)
def _product(M: Any, rows: Any, out: Any, first: Any, last: Any) -> None:
    for i in range(first, last - 3, 4):
        for h, sums in enumerate(_dots(M, rows, i, M.shape[1])):
            for k in range(4):
                out[h, i + k] = sums[k]
    for i in range(last - (last - first) % 4, last):
        for h in range(4):
            total = 0.0
            for j in range(M.shape[1]):
                total += M[i, j] * rows[h, j]
            out[h, i] = total


@compile_loop(f"void({_LINES}, {_LINES})", LOOSE)
def _forward(L: Any, rows: Any) -> None:
    n = L.shape[0]
    for i in range(0, n - 3, 4):
        for h, known in enumerate(_dots(L, rows, i, i)):
            for k in range(4):
                total = rows[h, i + k] - known[k]
                for j in range(i, i + k):
                    total -= L[i + k, j] * rows[h, j]
                rows[h, i + k] = total / L[i + k, i + k]
    for i in range(n - n % 4, n):
        for h in range(4):
            total = rows[h, i]
            for j in range(i):
                total -= L[i, j] * rows[h, j]
            rows[h, i] = total / L[i, i]


@inner(LOOSE)
def _less(L: Any, x: Any, y: Any, i: Any) -> None:
    """Take from both lines the rows L[i : i + 8], each times what was found there: the lines are read once for eight of
    them, from the second cache."""
    a0, a1, a2, a3, a4, a5, a6, a7 = x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5], x[i + 6], x[i + 7]
    b0, b1, b2, b3, b4, b5, b6, b7 = y[i], y[i + 1], y[i + 2], y[i + 3], y[i + 4], y[i + 5], y[i + 6], y[i + 7]
    for j in range(i):
        m0, m1, m2, m3 = L[i, j], L[i + 1, j], L[i + 2, j], L[i + 3, j]
        m4, m5, m6, m7 = L[i + 4, j], L[i + 5, j], L[i + 6, j], L[i + 7, j]
        x[j] -= m0 * a0 + m1 * a1 + m2 * a2 + m3 * a3 + m4 * a4 + m5 * a5 + m6 * a6 + m7 * a7
        y[j] -= m0 * b0 + m1 * b1 + m2 * b2 + m3 * b3 + m4 * b4 + m5 * b5 + m6 * b6 + m7 * b7


@compile_loop(f"void({_LINES}, {_LINES})", LOOSE)
def _backward(L: Any, rows: Any) -> None:
    n = L.shape[0]
    for i in range(n - 1, n - n % 8 - 1, -1):
        for h in range(4):
            x = rows[h, i] / L[i, i]
            rows[h, i] = x
            for j in range(i):
                rows[h, j] -= L[i, j] * x
    for i in range(n - n % 8 - 8, -1, -8):
        for h in range(4):
            for k in range(7, -1, -1):
                total = rows[h, i + k]
                for j in range(i + k + 1, i + 8):
                    total -= L[j, i + k] * rows[h, j]
                rows[h, i + k] = total / L[i + k, i + k]
        for h in range(0, 4, 2):
            _less(L, rows[h], rows[h + 1], i)


LINALG_LOOPS = (_product, _forward, _backward)
