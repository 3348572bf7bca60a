"""The Gram matrix of a kernel: at once in numpy, or block by block in Dask."""

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import is_dask_collection
from numpy.typing import NDArray

from dkernel.errors import DataError
from dkernel.kernels import FunctionKernel, Kernel, parse


def gram(k: Any, X: Any, Z: Any = None) -> Any:
    """Compute k(x, z) of every row of X with every row of Z.

    Parameters
    ----------
    k : Kernel, str or callable
        Kernel, its text, or a function of two blocks, without placeholders.
    X : array, dataframe or Dask collection of shape (n, p)
        Rows, or objects where the kernel takes them.
    Z : array, dataframe or Dask collection of shape (m, p), default=None
        Other rows; X itself if None.

    Returns
    -------
    ndarray or dask.array.Array of shape (n, m)
        Gram matrix; a lazy Dask array, with the row chunks of X and Z, where one of them is Dask.

    Raises
    ------
    RecipeError
        If the text is no kernel, or the kernel has placeholders.
    DataError
        If the rows are not of the domain of the kernel.

    See Also
    --------
    is_psd : Test a Gram matrix for negative eigenvalues.
    nystrom_operator : Low-rank approximation that is never held.

    Examples
    --------
    >>> gram("Gaussian(gamma=0.5)", np.array([[0.0], [1.0]])).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    """
    kernel = k if isinstance(k, Kernel) else parse(k) if isinstance(k, str) else FunctionKernel(k)
    if hasattr(X, "columns"):
        kernel = kernel.bind_columns([str(name) for name in X.columns])
    if not is_dask_collection(X) and not is_dask_collection(Z):
        return kernel(_rows(X), None if Z is None or Z is X else _rows(Z))
    left = _blocks(X)
    right = left if Z is None or Z is X else _blocks(Z)
    meta = kernel(_empty(left), _empty(right))  # sides that do not fit together are refused now, not in a task
    indices = left, _index("i", left), right, _index("j", right)
    made: Any = da.blockwise  # untyped
    return made(kernel, "ij", *indices, token="dkernel-gram", concatenate=True, dtype=meta.dtype, meta=meta)


def _rows(X: Any) -> Any:
    return X.to_numpy() if hasattr(X, "to_numpy") else X


def _blocks(X: Any) -> Any:
    """A Dask array with one block of columns."""
    if not is_dask_collection(X):
        X = np.asarray(_rows(X))
        X = da.from_array(X, chunks=X.shape)
    elif hasattr(X, "to_dask_array"):
        X = X.to_dask_array(lengths=True)
    if X.ndim not in (1, 2):
        raise DataError(f"gram was given an array of {X.ndim} dimensions; rows x columns, 2, are needed.")
    return X.rechunk({1: -1}) if X.ndim == 2 else X


def _empty(blocks: Any) -> NDArray[Any]:
    return np.empty((0, *blocks.shape[1:]), dtype=blocks.dtype)


def _index(rows: str, blocks: Any) -> Sequence[str]:
    return rows + "p" if blocks.ndim == 2 else rows
