"""The Nystrom approximation of a Gram matrix as an operator: products with it, the matrix itself never made."""

from typing import Any

import numpy as np
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from dkernel.data.collections.arrays import from_arrays
from dkernel.errors import DataError, UnsupportedError
from dkernel.features import NystromMap
from dkernel.numerics.array_types import F64
from dkernel.numerics.threads import one_blas_thread
from dkernel.numerics.tiling import PIECE_ROWS


def nystrom_operator(map: Any, X: Any) -> LinearOperator:
    """Approximate the Gram matrix k(X, X) by landmarks Z, as a linear operator that is never held.

    A product reads X twice and costs two products with C, 4 n c flops a vector beside those of the kernel; neither G
    nor C is held. It serves the iterative solvers and eigensolvers of scipy:
    `scipy.sparse.linalg.eigsh(nystrom_operator(map, X), 10)`.

    Parameters
    ----------
    map : NystromMap or NystromFeatures
        Map with the landmarks; the transformer must be fitted.
    X : array, dataframe or Dask collection of shape (n, p)
        Rows that the map takes; a Dask collection is read block by block where it is.

    Returns
    -------
    scipy.sparse.linalg.LinearOperator of shape (n, n)
        G = C k(Z, Z)^+ C^T with C = k(X, Z).

    Raises
    ------
    UnsupportedError
        If the map has no landmarks.
    DataError
        If the rows do not fit the map.

    See Also
    --------
    gram : The Gram matrix itself.
    NystromFeatures : The transformer.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> G = nystrom_operator(NystromMap(Gaussian(gamma=0.5), X[:20]), X)
    >>> G.shape, bool(np.allclose(G @ np.ones(100), (phi := NystromMap(Gaussian(gamma=0.5), X[:20])(X)) @ phi.sum(0)))
    ((100, 100), True)
    """
    map = getattr(map, "map_", map)
    if not isinstance(map, NystromMap):
        raise UnsupportedError(
            f"nystrom_operator was given a {type(map).__name__}; a NystromMap or a fitted NystromFeatures is needed."
        )
    rows: Any = from_arrays(X, dtype="float64").X
    if rows.shape[1] != map.n_in:
        raise DataError(f"X has {rows.shape[1]} columns; the landmarks have {map.n_in}, and as many are needed.")
    blocks, ends = rows.to_delayed().ravel(), np.cumsum(rows.chunks[0])[:-1]
    shared = delayed(map, pure=True, traverse=False)
    run: Any = compute
    project, expand = delayed(_project, pure=False), delayed(_expand, pure=False)

    def product(V: NDArray[Any]) -> F64:
        V = np.asarray(V, np.float64)
        V = V[:, None] if V.ndim == 1 else V
        with one_blas_thread():
            parts = run(*(project(shared, b, v) for b, v in zip(blocks, np.split(V, ends), strict=True)))
            total = np.sum(parts, axis=0)  # in the order of the blocks, whichever came first
            coefficients = delayed(map.whitening @ (map.whitening.T @ total))
            return np.concatenate(run(*(expand(shared, b, coefficients) for b in blocks)))

    def vector(v: NDArray[Any]) -> F64:
        return product(v)[:, 0]

    n = rows.shape[0]
    return LinearOperator((n, n), matvec=vector, rmatvec=vector, matmat=product, rmatmat=product, dtype=np.float64)


def _project(map: NystromMap, X: NDArray[Any], V: F64) -> F64:
    """C^T V of a block."""
    total = np.zeros((map.n_components, V.shape[1]))
    for i in range(0, len(X), PIECE_ROWS):
        total += map.components(X[i : i + PIECE_ROWS]).T @ V[i : i + PIECE_ROWS]
    return total


def _expand(map: NystromMap, X: NDArray[Any], coefficients: F64) -> F64:
    """C a of a block."""
    return np.concatenate([map.components(X[i : i + PIECE_ROWS]) @ coefficients for i in range(0, len(X), PIECE_ROWS)])
