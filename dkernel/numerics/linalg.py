"""Factors of large squares and solutions of many rows, on all processors of the client in fixed blocks: equal
bits on any number of them.

BLAS has one thread here (`dkernel.numerics.threads`), and SciPy's wrappers of it hold Python's lock. So a square is
walked in blocks of STEP_COLUMNS, and the routines are called beside them, without the lock: they run beside each other
in threads, each writes into the square itself, and which thread makes which block moves no bit. Squares are C-ordered,
what BLAS, in the order of Fortran, sees as their transposes; of symmetric ones the lower triangle is read.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Event
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.linalg.cython_blas as blas
import scipy.linalg.cython_lapack as lapack
from numpy.typing import NDArray

from dkernel.numerics.threads import MOST_THREADS, for_each, usable_cores

Matrix = NDArray[np.float64]

STEP_COLUMNS = 256  # columns of a step
THREAD_ROWS = 256  # rows that one thread works on
WHOLE_ROWS = 1024  # rows of a square whose factor is not worth a second thread
SQUARE = 2048  # rows and columns of a product's block


def cholesky(A: Matrix) -> Matrix:
    """L with L L^T = A, lower triangular, in the place of A.

    Parameters
    ----------
    A : symmetric, float64 (n, n), C-ordered; it is overwritten

    Raises
    ------
    scipy.linalg.LinAlgError : where A is not positive definite; what stood above its diagonal still does (`mirror`)

    Examples
    --------
    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    _check(A, A)
    with _threads(len(A)) as each:
        _factor_in_blocks(A, each)

        def clear(rows: slice) -> None:
            A[rows, rows] = np.tril(A[rows, rows])
            A[rows, rows.stop :] = 0.0

        each(clear, _chunks(0, len(A)))
    return A


def _factor_in_blocks(A: NDArray[Any], each: "Each") -> None:
    """The lower triangle of A becomes that of its factor."""
    n = len(A)
    for first in range(0, n, STEP_COLUMNS):
        block, factored = slice(first, min(first + STEP_COLUMNS, n)), Event()

        def column(rows: slice, block: slice = block, factored: Event = factored) -> None:
            """Compute these rows of the block's columns; a thread takes the block's own rows first."""
            try:
                if rows == block:
                    _less_squares(A[block, block], A[block, : block.start])
                    _factor(A[block, block])
                elif block.start:
                    _less(A[rows, block], A[rows, : block.start], A[block, : block.start])
            finally:
                if rows == block:  # also where it failed, of which the caller is told: nobody waits for ever
                    factored.set()
            if rows != block:
                factored.wait()
                _halve(A[block, block], A[rows, block])

        each(column, (block, *_chunks(block.stop, n)))


def mirror(A: Matrix, diagonal: Matrix) -> None:
    """Copy the triangle above the diagonal of A below it, in the place of a factor, and set the diagonal.

    Examples
    --------
    >>> mirror(A := np.array([[2.0, 2.0], [1.0, 5.0]]), np.array([4.0, 6.0]))
    >>> A.tolist()
    [[4.0, 2.0], [2.0, 6.0]]
    """
    for block in _chunks(0, len(A)):
        A[block, : block.start] = A[: block.start, block].T
        above = np.triu(A[block, block], 1)
        A[block, block] = above + above.T
    A[np.diag_indices_from(A)] = diagonal


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
    _check(L, out)

    def one(part: slice) -> None:
        mine = out[part]
        for first in range(0, len(L), STEP_COLUMNS):
            block = slice(first, min(first + STEP_COLUMNS, len(L)))
            if first:
                _less(mine[:, block], mine[:, :first], L[block, :first])
            _halve(L[block, block], mine[:, block])

    with _threads(len(out)) as each:
        each(one, _chunks(0, len(out)))
    return out


def solve_here(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    """A^{-1} B, in this thread alone: others run beside it.

    Parameters
    ----------
    A : symmetric and positive definite, float32 or float64 (n, n), C-ordered; its lower triangle is read, and
        overwritten
    B : (n, k), of the type of A

    Raises
    ------
    scipy.linalg.LinAlgError : where A is not positive definite

    Examples
    --------
    >>> solve_here(np.array([[4.0, 2.0], [2.0, 5.0]]), np.array([[8.0], [12.0]])).tolist()
    [[1.0], [2.0]]
    """
    return factor_matrix(A)(B)


def factor_matrix(A: NDArray[Any], threads: int | None = None) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The function B -> A^{-1} B of one factorization, see `solve_here`.

    Parameters
    ----------
    threads : that share the blocks of a factor of more than WHOLE_ROWS rows, whose number moves no bit; None for one
        call of LAPACK, a tenth quicker than one thread with blocks
    """
    if threads is None or len(A) <= WHOLE_ROWS:
        _factor(A)
    else:
        with _threads(len(A), threads) as each:
            _factor_in_blocks(A, each)

    def solve(B: NDArray[Any]) -> NDArray[Any]:
        out, info = np.array(B.T, order="C"), _int(0)
        _check(A, out)
        _routine("spotrs" if A.dtype == np.float32 else "dpotrs")(
            b"U", _int(len(A)), _int(len(out)), *_at(A), *_at(out), info
        )
        return out.T

    return solve


def add_squares(total: NDArray[Any], rows: NDArray[Any], threads: int = 1) -> None:
    """The lower triangle of total += rows^T rows, in its place; what stands above the diagonal is left alone.

    By calls of BLAS, that other threads run beside: numpy would make the product in a square of its own, both halves.

    Parameters
    ----------
    total : float32 or float64 (n, n), C-ordered
    rows : (m, n) of the same type, C-ordered
    threads : that share the blocks; their number moves no bit

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
    letter, _, one = _SIGNED_ONES[kind.char]
    square, product = _routine(f"{letter}syrk"), _routine(f"{letter}gemm")

    def add(part: tuple[slice, slice]) -> None:
        # In the order of Fortran all are transposed, and a lower triangle is an upper one.
        mine, columns = part
        there, wide, deep = _at(total[mine, columns]), _int(columns.stop - columns.start), _int(m)
        if mine == columns:
            square(b"U", b"N", wide, deep, one, *_at(rows[:, columns]), one, *there)
        else:
            tall = _int(mine.stop - mine.start)
            product(b"N", b"T", wide, tall, deep, one, *_at(rows[:, columns]), *_at(rows[:, mine]), one, *there)

    lines = [slice(i, min(i + SQUARE, n)) for i in range(0, n, SQUARE)]
    parts = [(mine, columns) for i, mine in enumerate(lines) for columns in lines[: i + 1]] if m else []
    for_each(add, parts, threads)


def _less(out: NDArray[Any], left: NDArray[Any], right: NDArray[Any]) -> None:
    """out -= left right^T, in its place."""
    (m, n), k, (kind, minus, one) = out.shape, left.shape[1], _SIGNED_ONES[out.dtype.char]
    _routine(f"{kind}gemm")(b"T", b"N", _int(n), _int(m), _int(k), minus, *_at(right), *_at(left), one, *_at(out))


def _less_squares(out: NDArray[Any], left: NDArray[Any]) -> None:
    """The lower triangle of out -= left left^T, in its place."""
    (n, k), (kind, minus, one) = left.shape, _SIGNED_ONES[out.dtype.char]
    if k:
        _routine(f"{kind}syrk")(b"U", b"T", _int(n), _int(k), minus, *_at(left), one, *_at(out))


def _halve(L: NDArray[Any], rows: NDArray[Any]) -> None:
    """rows <- rows L^{-T}, in its place."""
    (m, n), (kind, _, one) = rows.shape, _SIGNED_ONES[rows.dtype.char]
    _routine(f"{kind}trsm")(b"L", b"U", b"T", b"N", _int(n), _int(m), one, *_at(L), *_at(rows))


def _factor(A: NDArray[Any]) -> None:
    """The lower triangle of A becomes that of its factor."""
    info = _int(0)
    _routine("spotrf" if A.dtype == np.float32 else "dpotrf")(b"U", _int(len(A)), *_at(A), info)
    if info.value:
        raise sl.LinAlgError(f"The leading minor {info.value} of a block is not positive definite.")


_int = ctypes.c_int
_SIGNED_ONES: dict[str, Any] = {
    "f": ("s", ctypes.byref(ctypes.c_float(-1.0)), ctypes.byref(ctypes.c_float(1.0))),
    "d": ("d", ctypes.byref(ctypes.c_double(-1.0)), ctypes.byref(ctypes.c_double(1.0))),
}
"""Character of a type -> the letter of its routines in BLAS, and -1 and 1."""


def _at(A: NDArray[Any]) -> tuple[int, ctypes.c_int]:
    """Address of an array, and the numbers from one row to the next."""
    return A.ctypes.data, _int(A.strides[0] // A.itemsize)


def _check(L: NDArray[Any], rows: NDArray[Any]) -> None:
    """No library does this: BLAS takes addresses."""
    fit = L.shape == (rows.shape[1],) * 2 and L.dtype == rows.dtype and L.dtype in (np.float32, np.float64)
    if not (fit and L.flags.c_contiguous and rows.flags.c_contiguous):
        raise ValueError(f"A factor of {L.dtype} {L.shape} and rows of {rows.dtype} {rows.shape} do not fit together.")


_TYPES: dict[str, Any] = {"char *": ctypes.c_char_p, "int *": ctypes.POINTER(ctypes.c_int)}


@cache
def _routine(name: str) -> Callable[..., None]:
    """SciPy's routine of this name, called without Python's lock, which SciPy's own wrapper of it keeps."""
    capsule = (lapack if name[1:].startswith("pot") else blas).__pyx_capi__[name]
    signature = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    types = signature[signature.index(b"(") + 1 : -1].decode().split(", ")
    made: Callable[..., None] = ctypes.CFUNCTYPE(None, *(_TYPES.get(kind, ctypes.c_void_p) for kind in types))(
        pointer(capsule, signature)
    )
    return made


def _chunks(first: int, n: int) -> Iterator[slice]:
    return (slice(i, min(i + THREAD_ROWS, n)) for i in range(first, n, THREAD_ROWS))


Each = Callable[[Callable[[slice], None], Iterable[slice]], None]
"""A function that calls another for each slice."""


@contextmanager
def _threads(n: int, most: int = MOST_THREADS) -> Iterator[Each]:
    """What calls a function for each slice, on as many threads as there are processors and slices for them."""
    count = min(usable_cores(), most, -(-n // THREAD_ROWS))
    with ExitStack() as opened:
        pool = opened.enter_context(ThreadPoolExecutor(count)) if count > 1 else None

        def each(call: Callable[[slice], None], parts: Iterable[slice]) -> None:
            for _ in (map if pool is None else pool.map)(call, parts):
                pass

        yield each
