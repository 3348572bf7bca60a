"""Kernels of the inner product of two rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels.base import Kernel
from dkernel.kernels.columns import Columns, DotColumns, power_inplace
from dkernel.kernels.parameters import at_least_one, nonnegative

__all__ = ["Linear", "Polynomial"]

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Linear(Kernel):
    """k(x, z) = ⟨x, z⟩.

    Examples
    --------
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    def _values(self, X: F64, Z: F64) -> F64:
        return X @ Z.T

    def _diag(self, X: F64) -> F64:
        return np.einsum("ij,ij->i", X, X)

    def columns(self, Z: NDArray[Any]) -> Columns:
        """One sgemm a tile."""
        return DotColumns(self._landmarks(Z))


@dataclass(frozen=True)
class Polynomial(Kernel):
    """k(x, z) = (⟨x, z⟩ + c)^degree, with degree a positive integer and c at least 0.

    Examples
    --------
    >>> Polynomial(degree=2, c=1)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[144.]])
    """

    degree: int = 3
    c: float = 1.0

    def __post_init__(self) -> None:
        why = "with a negative constant the kernel is not positive semi-definite"
        object.__setattr__(self, "degree", at_least_one("Polynomial", "degree", self.degree))
        object.__setattr__(self, "c", nonnegative("Polynomial", "c", self.c, why))

    def _values(self, X: F64, Z: F64) -> F64:
        values: F64 = X @ Z.T
        values += self.c
        power_inplace(values, self.degree)
        return values

    def _diag(self, X: F64) -> F64:
        values = np.einsum("ij,ij->i", X, X) + self.c
        power_inplace(values, self.degree)
        return values

    def columns(self, Z: NDArray[Any]) -> Columns:
        """One sgemm and a power a tile."""
        return DotColumns(self._landmarks(Z), self.degree, self.c)
