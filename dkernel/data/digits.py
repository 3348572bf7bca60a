"""Choice of the type of the blocks: float32 if its digits are enough for the first rows of the columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = ("auto", "float32", "float64")
HEAD = 256  # rows that are looked at


def dtype_for(head: NDArray[Any] | None) -> str:
    """The dtype "auto" of blocks whose first rows these are, as they came; None where it cannot be known.

    A column that is far from 0 for its spread, 1e9 + N(0, 1) say, would be noise in float32: scaling centres it in the
    dtype of the blocks. Whole numbers up to 2^24 and what came as float32 lose nothing.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(100, 1))
    >>> dtype_for(x), dtype_for(x + 1e9), dtype_for(np.arange(2000, 2100)[:, None])
    ('float32', 'float64', 'float32')
    """
    if head is None or head.dtype.kind not in "fiu" or head.dtype in (np.float32, np.float16) or len(head) < 2:
        return "float32"
    exact = head[:HEAD].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        # A share of a column's deviation: no score shows rounding of that size.
        lost = np.std(exact - exact.astype(np.float32), axis=0) > 1e-3 * np.std(exact, axis=0)
    return "float64" if lost.any() else "float32"
