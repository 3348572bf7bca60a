"""Which collections stay sparse."""

from typing import Any

from dkernel.data.collections.dask_arrays import is_dask
from dkernel.numerics.sparse_rows import SparseRows, is_wide


def stays_sparse(X: Any, asked: bool | None = None) -> bool:
    """True if the rows are taken as sparse: as asked, else by width, and in memory by what is stored.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> stays_sparse(sp.csr_array((3, 10_000))), stays_sparse(sp.csr_array((3, 100))), stays_sparse(np.ones((3, 9)))
    (True, False, False)
    """
    if asked is not None:
        return asked
    if isinstance(X, SparseRows):
        return True
    if is_dask(X):
        meta = getattr(X, "_meta", None)
        return hasattr(meta, "tocsr") and X.ndim == 2 and is_wide(int(X.shape[1]))
    if not hasattr(X, "tocsr"):
        return False
    rows, p = X.shape
    return is_wide(p, X.nnz / max(1, rows * p))
