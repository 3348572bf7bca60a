"""A user's own kernels: a function of two blocks, or the kernel of any feature map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dkernel.errors import DataError
from dkernel.kernels.base import Kernel
from dkernel.kernels.registry import fill_name, know_function
from dkernel.numerics.array_types import F64

__all__ = ["FeatureMapKernel", "FunctionKernel"]

DIAGONAL_STRIP = 32  # rows whose diagonal is taken out of a full block at a time


@dataclass(frozen=True, repr=False)
class OfFunction(Kernel):
    """A kernel that is a function of the user, held by reference and, in text, by its registered name."""

    function: Callable[..., Any] | str = field(hash=False)
    name: str | None = None
    domain = "any"  # float64 blocks (n, p), or objects (n,)

    def __post_init__(self) -> None:
        fill_name(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        know_function(state["name"], state["function"])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _check(self, values: Any, shape: tuple[int, int | None]) -> F64:
        values = np.array(values, dtype=np.float64)
        rows, columns = shape
        if values.ndim != 2 or values.shape != (rows, values.shape[1] if columns is None else columns):
            needed = f"({rows}, {'D' if columns is None else columns})"
            raise DataError(f"{self!r}: its function made an array of shape {values.shape}; {needed} is needed.")
        if not np.isfinite(values).all():
            raise DataError(f"{self!r}: its function made a value that is not finite.")
        return values


class FunctionKernel(OfFunction):
    """Kernel of any symmetric positive semi-definite function, k(X, Z) = function(X, Z).

    The blocks are float64 (n, p) and (m, p), or arrays of objects (n,) and (m,). With `dkernel.register("name",
    function)` its text reads back, and a model file holds the name.

    Parameters
    ----------
    function : callable or str
        Function of two blocks -> (n, m), or the name that `dkernel.register` gave it.
    name : str, default=None
        Name of the function; by default that of its registration.

    See Also
    --------
    is_psd : Look for rows that prove a function to be no kernel.
    register : Name a function for texts and model files.

    Examples
    --------
    >>> def least(X, Z):
    ...     return np.minimum(X, Z.T)
    >>> FunctionKernel(least)(np.array([[1.0], [2.0]]))
    array([[1., 1.],
           [1., 2.]])
    """

    def _values(self, X: F64, Z: F64) -> F64:
        values = self._check(self.function(X, Z), (len(X), len(Z)))  # type: ignore[operator]
        if X is not Z:
            return values
        if np.abs(values - values.T).max() > 1e-9 * np.abs(values).max():  # far above rounding
            i, j = np.unravel_index(np.abs(values - values.T).argmax(), values.shape)
            raise DataError(
                f"{self!r} is not symmetric: k(x, z) = {values[i, j]:.6g} and k(z, x) = {values[j, i]:.6g} for rows "
                f"{i} and {j}. A kernel is an inner product, which is."
            )
        return 0.5 * (values + values.T)

    def _diag(self, X: F64) -> F64:
        values = np.empty(len(X))
        for i in range(0, len(X), DIAGONAL_STRIP):
            rows = X[i : i + DIAGONAL_STRIP]
            values[i : i + DIAGONAL_STRIP] = self._check(self.function(rows, rows), (len(rows), len(rows))).diagonal()  # type: ignore[operator]
        return values


class FeatureMapKernel(OfFunction):
    """Kernel k(x, z) = ⟨φ(x), φ(z)⟩ of any function φ of a block.

    Parameters
    ----------
    function : callable or str
        Function φ, (n, p) -> (n, D), or the name that `dkernel.register` gave it.
    name : str, default=None
        Name of the function; by default that of its registration.

    See Also
    --------
    FunctionKernel : A kernel given as a function of two blocks.
    register : Name a function for texts and model files.

    Examples
    --------
    >>> def squares(X):
    ...     return X**2
    >>> FeatureMapKernel(squares)(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
    array([[13.]])
    """

    def _features(self, X: F64) -> F64:
        return self._check(self.function(X), (len(X), None))  # type: ignore[operator]

    def _values(self, X: F64, Z: F64) -> F64:
        features = self._features(X)
        return features @ (features if X is Z else self._features(Z)).T

    def _diag(self, X: F64) -> F64:
        features = self._features(X)
        return np.einsum("ij,ij->i", features, features)
