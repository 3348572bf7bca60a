"""Coordinates for more landmarks than fit in one square matrix: blocks, each whitened by its own Gram matrix."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg as sl

from dkernel.numerics.array_types import F64

BLOCK_COLUMNS = 2048
"""Landmarks of a block, whole tiles of them."""


class BlockBasis:
    """B with α = B w: of each of k blocks of landmarks α_b = k^{-1/2} L_b^{-T} w_b, L_b L_b^T = k(Z_b, Z_b) + ε.

    The features behind w are those of all blocks side by side, and their inner product is the mean of the Nystrom
    approximations by each block: the ensemble of Kumar, Mohri and Talwalkar (NIPS 2009) with equal weights. The
    functions are the same as those of all landmarks at once; their norm is a little larger.

    Parameters
    ----------
    roots : L_b, lower triangular, float64

    Examples
    --------
    >>> basis = BlockBasis([np.array([[2.0]]), np.array([[1.0]])])
    >>> (basis @ np.array([2.0, 1.0])).round(4).tolist(), (basis.T @ np.array([2.0, 1.0])).round(4).tolist()
    ([0.7071, 0.7071], [0.7071, 0.7071])
    """

    def __init__(self, roots: Sequence[F64], transposed: bool = False) -> None:
        self.roots, self.transposed = roots, transposed
        n = sum(map(len, roots))
        self.shape = n, n

    @property
    def T(self) -> "BlockBasis":  # noqa: N802 - numpy's name
        """B^T."""
        return BlockBasis(self.roots, not self.transposed)

    def __matmul__(self, v: Any) -> F64:
        """B v or B^T v, (n, ...)."""
        return np.concatenate([self.of(b, part) for b, part in enumerate(self._split(v))])

    def undone(self, alpha: Any) -> F64:
        """The w with B w = α."""
        parts = zip(self.roots, self._split(alpha), strict=True)
        return np.concatenate([np.sqrt(len(self.roots)) * (root.T @ part) for root, part in parts])

    def _split(self, v: Any) -> list[Any]:
        return np.split(v, np.cumsum([len(root) for root in self.roots])[:-1])

    def of(self, b: int, v: Any) -> F64:
        """Apply block b to its part of a vector, or of the columns of a matrix."""
        solved = sl.solve_triangular(self.roots[b], v, lower=True, trans=int(not self.transposed), check_finite=False)
        return np.asarray(solved) / np.sqrt(len(self.roots))
