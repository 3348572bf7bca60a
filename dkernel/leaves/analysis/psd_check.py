"""Test whether a function is a kernel on some rows: the smallest eigenvalue and its vector."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from dkernel.errors import DataError
from dkernel.kernels.base import Kernel
from dkernel.kernels.functions import FunctionKernel
from dkernel.kernels.parse import parse
from dkernel.numerics.array_types import F64


@dataclass(frozen=True, eq=False)
class Definiteness:
    """Result of `is_psd`; true when no rows speak against the kernel.

    Attributes
    ----------
    smallest, largest : the extreme eigenvalues of the Gram matrix K of the rows
    witness : float64 (n,), the unit eigenvector v of the smallest: v^T K v = smallest
    tolerance : what rounding may make of a 0
    """

    smallest: float
    largest: float
    witness: F64
    tolerance: float

    def __bool__(self) -> bool:
        return self.smallest >= -self.tolerance

    def __str__(self) -> str:
        if self:
            return f"positive semi-definite on these {len(self.witness)} rows: eigenvalues from {self.smallest:.6g}"
        heaviest = np.argsort(-np.abs(self.witness), kind="stable")[:5]
        parts = ", ".join(f"{self.witness[i]:.4g} on row {i}" for i in sorted(heaviest))
        more = ", ..." if len(self.witness) > 5 else ""
        return (
            f"not positive semi-definite: v^T K v = {self.smallest:.6g} for the unit vector v with {parts}{more}. "
            "It is no inner product of features."
        )


def is_psd(k: Any, X: Any) -> Definiteness:
    """Look for a witness against a kernel among some rows.

    The eigenvalues of the Gram matrix of the rows are computed. Finding no witness proves nothing; a witness v with v^T
    K v < 0 proves that the function is no kernel.

    Parameters
    ----------
    k : Kernel, str or callable
        Kernel, its text, or any function of two blocks, (n, p) and (m, p) -> (n, m).
    X : array-like of shape (n, p)
        Rows, a list of numbers, or objects; n³ operations and n² numbers.

    Returns
    -------
    Definiteness
        True where no witness was found; holds the smallest eigenvalue and the witness.

    Raises
    ------
    DataError
        If the function does not give a finite symmetric matrix.

    See Also
    --------
    gram : Gram matrix of a kernel.

    Examples
    --------
    >>> found = is_psd(lambda X, Z: np.maximum(X, Z.T), [0.0, 2.0])
    >>> bool(found), round(found.smallest, 6)
    (False, -1.236068)
    """
    kernel = k if isinstance(k, Kernel) else parse(k) if isinstance(k, str) else FunctionKernel(k)
    if kernel.domain != "objects":
        rows = np.asarray(X) if isinstance(X, list | tuple) else X
        if isinstance(rows, np.ndarray) and rows.dtype.kind in "fiub":
            X = (rows[:, None] if rows.ndim == 1 else rows).astype(np.float64)
    K = kernel(X)
    if len(K) == 0:
        raise DataError("is_psd was given no rows; at least one is needed.")
    values, vectors = scipy.linalg.eigh(K)
    largest = float(np.abs(values).max())
    tolerance = 100 * len(K) * float(np.finfo(np.float64).eps) * largest
    return Definiteness(float(values[0]), float(values[-1]), vectors[:, 0], tolerance)
