"""Checks of the sums of a fit: products of finite rows may overflow, or hold only rounding errors."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, DKernelWarning
from dkernel.kernels import Kernel

CHECKED_ROWS = 256  # rows of which products are looked at, in place of all rows
SUMMED = 8 * np.finfo(np.float64).eps  # relative error of a float64 value that sums products


def check_finite(kernel: Kernel, what: str, *numbers: Any) -> None:
    """Refuse a fit whose numbers are not all finite.

    Parameters
    ----------
    what : name of the numbers for the message, in the plural

    Raises
    ------
    DataError
        which names the kernel and what to do

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> check_finite(Gaussian(), "coefficients", np.ones(3), 2.0)
    """
    if all(np.isfinite(each).all() for each in numbers):
        return
    raise DataError(
        f"The fit overflows: its {what} are not finite, because the values of {kernel!r} on these rows are too large. "
        "Scale the features by scale='standard', leave out rows whose numbers are far larger than the others', or take "
        "a kernel that grows less: a lower degree, or a bounded one such as Gaussian()."
    )


def check_products(kernel: Kernel, X: NDArray[Any], columns: Sequence[str], in_memory: bool = False) -> None:
    """Refuse a kernel of products of columns far from 0, if its values differ by no more than their rounding.

    A kernel that sees no shift is never refused: its columns are centred.

    Parameters
    ----------
    X : rows of a sample as the kernel gets them, in the dtype of the fit
    columns : their names
    in_memory : whether the rows are few, and the solver holds all; it sums in float64, and has the mean where products
        hold nothing, so this is a warning

    Raises
    ------
    DataError
        which names a column and what to do

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> check_products(Linear(), np.random.default_rng(0).normal(size=(50, 2)) + 1e3, ["a", "b"])
    """
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f" or kernel.shift_invariant:
        return
    rows = X[:CHECKED_ROWS].astype(np.float64)
    center, deviation = rows.mean(axis=0), rows.std(axis=0)
    # A column nearer to 0 than 100 deviations keeps three digits of its variation when float32 squares it.
    far = (deviation > 0) & (np.abs(center) > 100 * deviation)
    if not far.any():
        return
    K = kernel(rows, rows)
    about = K - K.mean(axis=0)
    about -= about.mean(axis=1, keepdims=True)
    rounding = max(0.5 * np.finfo(X.dtype).eps, SUMMED)
    if not np.isfinite(K).all() or np.linalg.norm(about / np.abs(K).max()) > rounding * len(K):
        return
    j = int(np.argmax(np.where(far, np.abs(center), 0.0)))
    text = (
        f"Column {columns[j]!r} is near {center[j]:.6g} and varies by {deviation[j]:.2g}: the values of {kernel!r}, "
        "which is made of products of columns, differ by no more than their rounding. Centre the columns "
        "by scale='standard', take the offset from this one, or use a kernel of differences, such as Gaussian()."
    )
    if not in_memory:
        raise DataError(text)
    warnings.warn(text, DKernelWarning, stacklevel=2)
