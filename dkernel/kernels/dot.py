"""Kernels of the inner product of two rows."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError
from dkernel.kernels.base import NOT_PSD, Kernel
from dkernel.kernels.distances import l2
from dkernel.kernels.landmark_columns.base import DotColumns, LandmarkColumns, power_inplace
from dkernel.kernels.landmark_columns.wide import WideColumns, product_columns
from dkernel.kernels.parameters import at_least_one, finite_numbers, nonnegative
from dkernel.numerics.array_types import F64
from dkernel.numerics.rows import divide_rows, squares

__all__ = ["ArcCosine", "Linear", "Polynomial"]


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel k(x, z) = ⟨x, z⟩, or x^T A z.

    Parameters
    ----------
    A : array-like of shape (p, p), default=None
        Symmetric positive semi-definite matrix; None is the identity.

    See Also
    --------
    Polynomial : Powers of the inner product.

    Examples
    --------
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    >>> Linear(A=np.diag([1.0, 0.5]))(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[7.]])
    """

    A: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.A is not None:
            object.__setattr__(self, "A", _psd_matrix(self.A))

    def __repr__(self) -> str:
        return "Linear()" if self.A is None else f"Linear(A={self.A!r})"

    @property
    def takes_sparse(self) -> bool:
        return self.A is None

    @cached_property
    def factor(self) -> F64:
        """L with A = L L^T, so that x^T A z is the inner product of L^T x and L^T z, and symmetric to the bit.

        It has a column for each eigenvalue above 0.
        """
        values, vectors = np.linalg.eigh(np.array(self.A))
        above = values > len(values) * np.finfo(np.float64).eps * np.abs(values).max()
        return vectors[:, above] * np.sqrt(values[above])

    def _image(self, X: F64) -> F64:
        if self.A is None:
            return X
        if X.shape[1] != len(self.A):
            raise DataError(f"Linear has a matrix A of {len(self.A)} columns and was given rows of {X.shape[1]}.")
        return X @ self.factor

    def _values(self, X: F64, Z: F64) -> F64:
        image = self._image(X)
        return image @ (image if X is Z else self._image(Z)).T

    def _diag(self, X: F64) -> F64:
        return squares(self._image(X))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        """One sgemm a tile: A goes into the landmarks."""
        return DotColumns(self._partners(self._landmarks(Z)))

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        return product_columns("power 1", self._partners(Z))

    def _partners(self, Z: F64) -> F64:
        """A Z: rows whose products with others are the values of Z."""
        return Z if self.A is None else self._image(Z) @ self.factor.T


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel k(x, z) = (⟨x, z⟩ + c)^degree.

    Parameters
    ----------
    degree : int, default=3
        Positive degree.
    c : float, default=1.0
        Constant, at least 0.

    See Also
    --------
    PowerSeries : Any power series with coefficients that are not negative.
    KernelFeatures : Random features of this kernel.

    Examples
    --------
    >>> Polynomial(degree=2, c=1)(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[144.]])
    """

    degree: int = 3
    c: float = 1.0
    takes_sparse = True

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
        values: F64 = squares(X) + self.c
        power_inplace(values, self.degree)
        return values

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return DotColumns(self._landmarks(Z), self.degree, self.c)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        return product_columns(f"power {self.degree}", Z, self.c)


@dataclass(frozen=True)
class ArcCosine(Kernel):
    """Arc-cosine kernel: one layer of infinitely many random units, steps or ramps.

    With the angle θ of x and z, k(x, z) = 1 - θ / π (order 0) or ‖x‖ ‖z‖ (sin θ + (π - θ) cos θ) / π (order 1). It is 2
    E f(⟨w, x⟩) f(⟨w, z⟩) with w normal, f a step (1/2 at 0) or max(0, .).

    Parameters
    ----------
    order : {0, 1}, default=1
        0 for steps, 1 for ramps.

    See Also
    --------
    Polynomial : Polynomial of the inner product.

    References
    ----------
    Y. Cho and L. Saul, "Kernel methods for deep learning", NeurIPS 2009.

    Examples
    --------
    >>> ArcCosine(order=0)(np.array([[1.0, 0.0]]), np.array([[0.0, 2.0]]))
    array([[0.5]])
    """

    order: int = 1
    takes_sparse = True

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or self.order not in (0, 1):
            raise RecipeError(f"ArcCosine was given order={self.order!r}; 0 (steps) or 1 (ramps) is needed.")
        object.__setattr__(self, "order", int(self.order))

    def _values(self, X: F64, Z: F64) -> F64:
        same = X is Z
        directions, norms = _directions(X)
        others, lengths = (directions, norms) if same else _directions(Z)
        # For unit vectors, |u - v| = 2 sin(θ / 2), |u + v| = 2 cos(θ / 2). An arc cosine would lose half the digits.
        apart, together = l2(directions, others, 1.0, 1e-14), l2(directions, -others, 1.0, 1e-14)
        if same:
            together = 0.5 * (together + together.T)
        angle = 2 * np.arctan2(apart, together)
        angle[norms == 0] = angle[:, lengths == 0] = math.pi / 2
        if self.order == 0:
            return 1 - angle / math.pi
        cosine, sine = (together - apart) * (together + apart) / 4, apart * together / 2
        return np.multiply.outer(norms, lengths) * ((math.pi - angle) * cosine + sine) / math.pi

    def _diag(self, X: F64) -> F64:
        lengths = squares(X)
        return lengths if self.order else np.where(lengths > 0, 1.0, 0.5)


def _directions(X: F64) -> tuple[F64, F64]:
    """Unit vectors of the rows, and their lengths; a zero row has no direction and stays 0."""
    lengths = np.sqrt(squares(X))
    divisors = np.where(lengths > 0, lengths, 1.0)
    return divide_rows(X, divisors), lengths


def _psd_matrix(values: Any) -> tuple[tuple[float, ...], ...]:
    """A symmetric positive semi-definite matrix as nested tuples, or a RecipeError."""
    if not isinstance(values, list | tuple | np.ndarray) or np.ndim(values[0] if len(values) else 0) != 1:
        raise RecipeError(f"Linear was given A={values!r}; a square matrix, a list of its rows, is needed.")
    rows = tuple(finite_numbers("Linear", f"A[{i}]", row) for i, row in enumerate(values))
    if {len(row) for row in rows} != {len(rows)}:
        raise RecipeError(f"Linear was given an A whose {len(rows)} rows have not {len(rows)} numbers each.")
    matrix = np.array(rows)
    scale = np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > 1e-12 * scale:
        raise RecipeError("Linear was given an A that is not symmetric, and x^T A z would not be either.")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-10 * scale:
        raise RecipeError(f"Linear was given an A with the eigenvalue {smallest:.6g}; with a negative one {NOT_PSD}.")
    return tuple(map(tuple, (0.5 * (matrix + matrix.T)).tolist()))
