"""Rows whose class is the sign of a quadratic form: no linear rule finds it, and no label is wrong.

    x ~ N(0, I),  y = [x^T A x > m],  A = (B + B^T) / 2 with B standard normal, m the median

Written chunk by chunk as NPY files of (rows, columns + 1) float32 or float64, the label last.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 131_072
FILE = 8  # steps of a file


def form(columns: int) -> NDArray[np.float32]:
    """A, of the number of columns alone."""
    B = np.random.default_rng(columns).standard_normal((columns, columns))
    return (0.5 * (B + B.T)).astype(np.float32)


def rows(first: int, n: int, columns: int, seed: int) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """X and y of a step that begins with row `first`."""
    A = form(columns)
    X = np.random.default_rng([seed, first]).standard_normal((n, columns), np.float32)
    # x^T A x has mean tr A, and its median is near it: the classes are about as frequent.
    return X, (np.einsum("ij,ij->i", X @ A, X) > np.trace(A)).astype(np.int64)


Draw = Callable[[int, int, int, int], tuple[NDArray[np.float32], NDArray[Any]]]


def write_rows(
    place: Path, n: int, columns: int = 28, seed: int = 0, dtype: str = "float32", draw: Draw = rows,
    name: str = "quadratic",
) -> Path:  # fmt: skip
    """A folder of n rows; what is there is not made again. Of another law `draw` makes the steps, as `rows` does."""
    kind = "" if dtype == "float32" else f"-{dtype}"
    out = place / f"{name}-{n}-{columns}-{seed}{kind}"
    out.mkdir(parents=True, exist_ok=True)
    for low in range(0, n, FILE * STEP):
        path, size = out / f"part-{low // (FILE * STEP):05d}.npy", min(FILE * STEP, n - low)
        if path.exists():
            continue
        staged = path.with_suffix(f".{os.getpid()}")  # two processes may make the same rows
        held = np.lib.format.open_memmap(staged, mode="w+", dtype=dtype, shape=(size, columns + 1))
        for first in range(0, size, STEP):
            m = min(STEP, size - first)
            held[first : first + m, :columns], held[first : first + m, columns] = draw(low + first, m, columns, seed)
        held.flush()
        staged.rename(path)
    return out
