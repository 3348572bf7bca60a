"""Factors of large float64 squares and solutions of many rows, on all processors of the client in fixed blocks: equal
bits on any number of them.

BLAS has one thread here (`dkernel.blas`), and SciPy's LAPACK holds Python's lock. So a square is walked in blocks of
BLOCK: nearly all of the work is products of numpy, which run beside each other in threads; which thread makes which
block moves no bit, and no second square is made. Squares are C-ordered; of symmetric ones the lower triangle is read.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.linalg.cython_blas as blas
from numpy.typing import NDArray

from dkernel.blas import usable_cores

__all__ = ["add_squares", "cholesky", "forward"]

Matrix = NDArray[np.float64]

BLOCK = 256  # columns of a step: what LAPACK does alone is this share of it all
CHUNK = 512  # rows that one thread works on
MOST_THREADS = 16


def cholesky(A: Matrix) -> Matrix:
    """L with L L^T = A, lower triangular, in the place of A.

    Parameters
    ----------
    A : symmetric, float64 (n, n), C-ordered; it is overwritten

    Raises
    ------
    scipy.linalg.LinAlgError : where A is not positive definite

    Examples
    --------
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    n = len(A)
    with _threads(n) as each:
        for first in range(0, n, BLOCK):
            own = slice(first, min(first + BLOCK, n))
            known = A[own, :first].T.copy()

            def update(rows: slice, own: slice = own, known: Matrix = known) -> None:
                A[rows, own] -= A[rows, : own.start] @ known

            if first:
                each(update, _chunks(first, n))
            A[own, own] = sl.cholesky(A[own, own], lower=True, check_finite=False)
            for rows in _chunks(own.stop, n):
                A[rows, own] = _halved(A[own, own], A[rows, own])
            A[own, own.stop :] = 0.0
    return A


def forward(L: Matrix, rows: Matrix) -> Matrix:
    """rows @ L^{-T}: of every row x the L^{-1} x.

    Parameters
    ----------
    L : lower triangular, float64 (n, n), C-ordered
    rows : float64 (m, n)

    Examples
    --------
    >>> forward(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[4.0, 6.0]])).tolist()
    [[2.0, 2.0]]
    """
    out = np.array(rows, np.float64, order="C")

    def one(part: slice) -> None:
        mine = out[part]
        for first in range(0, len(L), BLOCK):
            own = slice(first, min(first + BLOCK, len(L)))
            if first:
                mine[:, own] -= mine[:, :first] @ L[own, :first].T
            mine[:, own] = _halved(L[own, own], mine[:, own])

    with _threads(len(out)) as each:
        each(one, _chunks(0, len(out)))
    return out


def add_squares(total: NDArray[Any], rows: NDArray[Any]) -> None:
    """The lower triangle of total += rows^T rows, in its place; what stands above the diagonal is left alone.

    One call of BLAS, that other threads run beside: numpy would make the product in a square of its own, both halves.

    Parameters
    ----------
    total : float32 or float64 (n, n), C-ordered
    rows : (m, n) of the same type, C-ordered

    Examples
    --------
    >>> add_squares(total := np.zeros((2, 2)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> total.tolist()
    [[10.0, 0.0], [14.0, 20.0]]
    """
    (m, n), kind = rows.shape, total.dtype
    fit = rows.dtype == kind and total.shape == (n, n) and total.flags.c_contiguous and rows.flags.c_contiguous
    if not fit or kind not in (np.float32, np.float64):
        raise ValueError(f"add_squares of {rows.dtype} {rows.shape} to {kind} {total.shape}: they do not fit together.")
    if m and n:
        number = ctypes.c_float if kind == np.float32 else ctypes.c_double
        size, depth, one = ctypes.c_int(n), ctypes.c_int(m), number(1.0)
        # In the order of Fortran both are transposed, and a lower triangle is an upper one.
        _syrk(kind == np.float32)(
            b"U", b"N", size, depth, one, rows.ctypes.data, size, one, total.ctypes.data, size
        )  # fmt: skip


@cache
def _syrk(single: bool) -> Callable[..., None]:
    """SciPy's BLAS routine, called without Python's lock, which SciPy's own wrapper of it keeps."""
    capsule = blas.__pyx_capi__["ssyrk" if single else "dsyrk"]
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    size, number = ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_float if single else ctypes.c_double)
    arguments = (ctypes.c_char_p, ctypes.c_char_p, size, size, number, ctypes.c_void_p, size)
    made: Callable[..., None] = ctypes.CFUNCTYPE(None, *arguments, number, ctypes.c_void_p, size)(
        pointer(capsule, name(capsule))
    )
    return made


def _halved(L: Matrix, rows: Matrix) -> Any:
    return sl.solve_triangular(L, rows.T, lower=True, check_finite=False).T


def _chunks(first: int, n: int) -> Iterator[slice]:
    return (slice(i, min(i + CHUNK, n)) for i in range(first, n, CHUNK))


@contextmanager
def _threads(n: int) -> Iterator[Callable[[Callable[[slice], None], Iterable[slice]], None]]:
    """A function that calls another for each slice, on as many threads as there are processors and slices for them."""
    count = min(usable_cores(), MOST_THREADS, -(-n // CHUNK))
    with ExitStack() as opened:
        pool = opened.enter_context(ThreadPoolExecutor(count)) if count > 1 else None

        def each(call: Callable[[slice], None], parts: Iterable[slice]) -> None:
            for _ in (map if pool is None else pool.map)(call, parts):
                pass

        yield each
