"""Moments, ranges and sums of the bits of all columns of a block, in two readings of it from the cache.

numpy reads a block six times for them and writes it three times, with Python's lock in between: of a survey of half a
million rows that is half of the time.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.loops import FLAGS, compile_loop

Tally = tuple[NDArray[np.float64], NDArray[np.uint64]]
"""Mean, sum of squared deviations, least and largest, float64 (4, p); sums of the bits, uint64 (p,)."""


def tally(X: NDArray[Any], odd: NDArray[np.uint64]) -> Tally:
    """Tally the columns of finite float32 or float64 rows X (n, p), C-contiguous; odd[i] multiplies the bits of row i.

    Examples
    --------
    >>> figures, sums = tally(np.array([[1.0], [3.0]]), np.array([1, 3], np.uint64))
    >>> figures[:, 0].tolist()
    [2.0, 2.0, 1.0, 3.0]
    """
    figures, sums = np.empty((4, X.shape[1])), np.empty(X.shape[1], np.uint64)
    _compile(X.itemsize)(X, X.view(f"u{X.itemsize}"), odd, figures, sums)
    return figures, sums


def _tally(X: Any, bits: Any, odd: Any, figures: Any, sums: Any) -> None:
    n, p = X.shape
    mean, squares, low, high = figures[0], figures[1], figures[2], figures[3]
    mean[:], squares[:], low[:], high[:] = 0.0, 0.0, np.inf, -np.inf
    sums[:] = np.uint64(0)
    for i in range(n):
        number = odd[i]
        for j in range(p):
            x = np.float64(X[i, j])
            mean[j] += x
            low[j] = min(low[j], x)
            high[j] = max(high[j], x)
        for j in range(p):
            # Zero has two signs, and the formats disagree about the second.
            sums[j] += (np.uint64(bits[i, j]) if X[i, j] != 0 else np.uint64(0)) * number
    for j in range(p):
        mean[j] /= n
    for i in range(n):
        for j in range(p):
            deviation = np.float64(X[i, j]) - mean[j]
            squares[j] += deviation * deviation


@cache
def _compile(itemsize: int) -> Any:
    kind = f"{8 * itemsize}"
    arrays = f"float{kind}[:, ::1], uint{kind}[:, ::1], uint64[::1], float64[:, ::1], uint64[::1]"
    return compile_loop(f"void({arrays})", FLAGS - {"ninf", "arcp"})(_tally)
