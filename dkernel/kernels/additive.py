"""Kernels of histograms: sums over the features of a kernel of two numbers that are not negative."""

from dataclasses import dataclass

import numpy as np

from dkernel.errors import DataError
from dkernel.kernels.base import Kernel
from dkernel.numerics.array_types import F64

__all__ = ["AdditiveChi2"]


@dataclass(frozen=True)
class AdditiveChi2(Kernel):
    """Additive χ² kernel of histograms, k(x, z) = Σ_j 2 x_j z_j / (x_j + z_j).

    A summand is 0 where both numbers are 0; features must not be negative. It is the inner product of the χ² distance:
    k(x, x) + k(z, z) - 2 k(x, z) = Σ_j (x_j - z_j)² / (x_j + z_j).

    See Also
    --------
    Gaussian : Radial kernel of real features.
    SetKernel : Kernel of sets.

    References
    ----------
    A. Vedaldi and A. Zisserman, "Efficient additive kernels via explicit feature maps", TPAMI 2012.

    Examples
    --------
    >>> AdditiveChi2()(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0]]))
    array([[1.5]])
    """

    nonnegative = True

    def _check(self, X: F64) -> F64:
        if (X < 0).any():
            row, column = (int(i) for i in np.argwhere(X < 0)[0])
            raise DataError(
                f"AdditiveChi2 was given {X[row, column]:.6g} in row {row}, column {column} of a block; at least 0 is "
                "needed everywhere. Use scale='none' or scale='minmax' for counts and histograms."
            )
        return X

    def _values(self, X: F64, Z: F64) -> F64:
        self._check(X)
        self._check(Z)
        values = np.zeros((len(X), len(Z)))
        for x, z in zip(X.T, Z.T, strict=True):
            # The form 2 / (1 / x + 1 / z) would divide by 0 for the many zeros of a histogram.
            total = np.add.outer(x, z)
            product = np.multiply.outer(x, z)
            values += np.divide(2 * product, total, out=product, where=total > 0)
        return values

    def _diag(self, X: F64) -> F64:
        return self._check(X).sum(axis=1)
