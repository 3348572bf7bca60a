"""Kernels made of one kernel: power series of it, two with a closed form, weights, normalization, some columns of it.

Each is closed by a theorem (Schur's for the powers), so each is a kernel whatever kernel it is made of.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError
from dkernel.kernels.algebra import Product, Scaled, Sum, UnaryKernel
from dkernel.kernels.base import NOT_PSD, GammaRule, Kernel
from dkernel.kernels.landmark_columns.base import LandmarkColumns
from dkernel.kernels.landmark_columns.transformed import ChangedColumns, SelectedColumns, WeightedColumns
from dkernel.kernels.landmark_columns.wide import WideColumns
from dkernel.kernels.parameters import finite_numbers
from dkernel.kernels.registry import fill_name
from dkernel.kernels.spectra import laws, mixtures
from dkernel.numerics.array_types import F64
from dkernel.numerics.validation import nearest_name

__all__ = ["Exp", "Geometric", "Normalized", "PowerSeries", "Selection", "Weighted"]


class WeightedKernel(UnaryKernel):
    """A kernel times a weight of each row."""

    @abstractmethod
    def _weights(self, X: F64) -> F64:
        """Weight of each row of a block, (n,)."""

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return WeightedColumns(self.kernel.columns(Z), self._weights, self._landmarks(Z))

    def _values(self, X: F64, Z: F64) -> F64:
        weights = self._weights(X)
        values = self.kernel._values(X, Z)
        values *= np.multiply.outer(weights, weights if X is Z else self._weights(Z))
        return values


@dataclass(frozen=True, repr=False)
class PowerSeries(UnaryKernel):
    """Power series Σ_i a_i k(x, z)^i of a kernel, with a_i >= 0.

    Parameters
    ----------
    kernel : Kernel
        Kernel k.
    coefficients : sequence of float
        Coefficients a_0, a_1, ..., none negative.

    See Also
    --------
    Exp : The exponential series.
    Geometric : The geometric series.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> PowerSeries(Linear(), [1, 0, 0.5])(np.array([[2.0]]), np.array([[3.0]]))
    array([[19.]])
    """

    kernel: Kernel
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        row = finite_numbers("PowerSeries", "coefficients", self.coefficients)
        if min(row) < 0:
            raise RecipeError(
                f"PowerSeries was given the coefficient {min(row)!r}; at least 0 is needed. With one below 0 {NOT_PSD}."
            )
        if not any(row):
            raise RecipeError("PowerSeries was given no coefficient above 0; the kernel would be 0.")
        last = max(i for i, a in enumerate(row) if a)
        object.__setattr__(self, "coefficients", row[: last + 1])

    def __repr__(self) -> str:
        return f"PowerSeries({self.kernel!r}, {list(self.coefficients)!r})"

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return ChangedColumns(self.kernel.columns(Z), self._sum_in_place)

    def _sum_in_place(self, values: NDArray[np.floating]) -> None:
        base = values.copy()
        values[...] = self.coefficients[-1]
        for a in self.coefficients[-2::-1]:
            values *= base
            values += a

    def _values(self, X: F64, Z: F64) -> F64:
        values = self.kernel._values(X, Z)
        self._sum_in_place(values)
        return values

    def _diag(self, X: F64) -> F64:
        values = self.kernel._diag(X)
        self._sum_in_place(values)
        return values


@dataclass(frozen=True, repr=False)
class Exp(UnaryKernel):
    """Exponential exp(k(x, z)) of a kernel, the power series with a_i = 1 / i!.

    Parameters
    ----------
    kernel : Kernel
        Kernel k.

    See Also
    --------
    PowerSeries : Any other power series.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> Exp(0.5 * Linear())(np.array([[2.0]]), np.array([[1.0]])).round(6)
    array([[2.718282]])
    """

    kernel: Kernel

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return ChangedColumns(self.kernel.columns(Z), lambda values: np.exp(values, out=values))

    def _values(self, X: F64, Z: F64) -> F64:
        return self._exponential(self.kernel._values(X, Z))

    def _diag(self, X: F64) -> F64:
        return self._exponential(self.kernel._diag(X))

    def _exponential(self, values: F64) -> F64:
        if values.size and values.max() > 700:
            raise DataError(
                f"{self!r} is the exponential of {values.max():.4g}, too large for a float. Multiply the kernel in it "
                "by a small number, or normalize it."
            )
        return np.exp(values, out=values)


@dataclass(frozen=True, repr=False)
class Geometric(UnaryKernel):
    """Geometric series 1 / (1 - k(x, z)) of a kernel, the power series with a_i = 1, for rows with k(x, x) < 1.

    Its features are (1, φ, φ ⊗ φ, ...), of one number (1, x, x², ...). Rows with k(x, x) >= 1 have none, since the
    series does not converge, and are refused.

    Parameters
    ----------
    kernel : Kernel
        Kernel k.

    See Also
    --------
    PowerSeries : Any other power series.
    Normalized : `Geometric(0.9 * Normalized(k))` takes all rows.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> Geometric(Linear())(np.array([[0.5]]), np.array([[0.5], [-0.5]])).round(4)
    array([[1.3333, 0.8   ]])
    """

    kernel: Kernel

    def _values(self, X: F64, Z: F64) -> F64:
        self._diag(X)
        if X is not Z:
            self._diag(Z)
        return 1.0 / (1.0 - self.kernel._values(X, Z))

    def _diag(self, X: F64) -> F64:
        squares = self.kernel._diag(X)
        if not squares.max(initial=0.0) < 1:
            raise DataError(
                f"{self!r} is the sum of all powers of {self.kernel!r}, which is finite for rows with k(x, x) < 1. "
                f"Row {int(squares.argmax())} of this block has {squares.max():.4g}. Multiply the kernel in it by a "
                "small number, or normalize it: Geometric(0.9 * Normalized(k))."
            )
        return 1.0 / (1.0 - squares)


@dataclass(frozen=True, repr=False)
class Weighted(WeightedKernel):
    """Weighted kernel f(x) f(z) k(x, z), f a real function of a block.

    Parameters
    ----------
    kernel : Kernel
        Kernel k.
    function : callable or str
        Function (n, p) -> (n,), or the name that `dkernel.register` gave it.
    name : str
        Name of the function; by default that of its registration.

    See Also
    --------
    Normalized : Division by the lengths of the features.
    register : Name a function for texts and model files.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> def first(X):
    ...     return X[:, 0]
    >>> Weighted(Linear(), first)(np.array([[2.0]]), np.array([[3.0]]))
    array([[36.]])
    """

    kernel: Kernel
    function: Callable[..., Any] | str = field(hash=False)
    name: str | None = field(default=None, repr=False)
    shift_invariant = False  # the weight is a function of x itself
    takes_sparse = False  # the function takes a table

    def __post_init__(self) -> None:
        super().__post_init__()
        fill_name(self)

    def __repr__(self) -> str:
        return f"Weighted({self.kernel!r}, {self.name!r})"

    def _weights(self, X: F64) -> F64:
        weights = np.asarray(self.function(X), dtype=np.float64)  # type: ignore[operator]
        if weights.shape != (len(X),):
            raise DataError(
                f"The function of {self!r} made an array of shape {weights.shape} of {len(X)} rows; one number per row "
                "is needed."
            )
        return weights

    def _diag(self, X: F64) -> F64:
        return self.kernel._diag(X) * self._weights(X) ** 2


@dataclass(frozen=True, repr=False)
class Normalized(WeightedKernel):
    """Normalized kernel k(x, z) / √(k(x, x) k(z, z)), the cosine of the angle of the features.

    It is 0 where k(x, x) is 0.

    Parameters
    ----------
    kernel : Kernel
        Kernel k.

    See Also
    --------
    Weighted : Multiplication by a function of each row.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> Normalized(Linear())(np.array([[3.0, 4.0]]), np.array([[1.0, 0.0]]))
    array([[0.6]])
    """

    kernel: Kernel

    def _weights(self, X: F64) -> F64:
        """1 / √k(x, x) of each row, 0 where k(x, x) is 0."""
        squares = self.kernel._diag(X)
        return np.divide(1.0, np.sqrt(squares), out=np.zeros(len(X)), where=squares > 0)

    def _diag(self, X: F64) -> F64:
        return (self.kernel._diag(X) > 0).astype(np.float64)


@dataclass(frozen=True, repr=False)
class Selection(UnaryKernel, operator="on"):
    """k of some columns alone, made by `k.on(columns)`.

    Columns are positions, or names; a name gets its position, kept beside it, when the names of the data are known.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> k = Linear().on(["b"])
    >>> k.bind_columns(["a", "b"])
    Linear().on(['b'], at=[1])
    >>> k.bind_columns(["a", "b"])(np.array([[2.0, 3.0]]))
    array([[9.]])
    """

    kernel: Kernel
    names: tuple[str, ...] | tuple[int, ...]
    at: tuple[int, ...] | None = None
    domain = "any"  # a table of numbers, or one of objects of which these columns are what the kernel wants
    takes_sparse = False  # the selected columns are few enough to be dense

    def __post_init__(self) -> None:
        super().__post_init__()
        names = tuple(_column(name) for name in _as_tuple(self.names))
        if not names or len(set(names)) < len(names) or len({type(name) for name in names}) > 1:
            raise RecipeError(
                f"{self.kernel!r} was given the columns {list(names)!r}; names, or positions from 0, each once, are "
                "needed."
            )
        at = tuple(_column(column) for column in _as_tuple(self.at)) if self.at is not None else None
        if isinstance(names[0], int):
            at = names
        elif at is not None and (len(at) != len(names) or not all(isinstance(column, int) for column in at)):
            raise RecipeError(
                f"{self.kernel!r} was given at={list(at)!r} for {list(names)!r}; a position each is needed."
            )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "at", at)

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Sum | Product | Scaled) else repr(self.kernel)
        bound = "" if self.at is None or self.at == self.names else f", at={list(self.at)!r}"
        return f"{inner}.on({list(self.names)!r}{bound})"

    @property
    def column_names(self) -> tuple[str, ...]:
        return (*(self.names if self.at is None else ()), *self.kernel.column_names)

    def bind_columns(self, names: Sequence[str]) -> Kernel:
        """The kernel with the positions of its names among `names`."""
        if not self.column_names:
            return self
        names = list(names)
        for name in self.names if self.at is None else ():
            if name not in names:
                raise DataError(
                    f"{self!r} is of a column {name!r}, which the data lack.{nearest_name(str(name), names)}"
                )
        at = self.at if self.at is not None else tuple(names.index(str(name)) for name in self.names)
        return replace(self, kernel=self.kernel.bind_columns([names[i] for i in at]), at=at)

    def bind(self, rule: GammaRule) -> Kernel:
        """The kernel with numbers that the rule finds in its own columns alone."""
        columns = self.at or self.names

        def of_columns(metric: str, word: str, inner: Sequence[Any] | None = None) -> float:
            # Positions in a selection inside count from its own columns.
            return rule(metric, word, columns if inner is None else tuple(columns[i] for i in inner))

        return replace(self, kernel=self.kernel.bind(of_columns)) if self.placeholders else self

    def wants(self, names: Sequence[str]) -> dict[str, str]:
        """Kinds that the kernel takes its columns as; nothing where some of them are missing."""
        columns = list(self.names) if self.at is None else [names[i] for i in self.at if i < len(names)]
        there = len(columns) == len(self.names) and set(columns) <= set(names)
        return self.kernel.wants([str(name) for name in columns]) if there else {}

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return SelectedColumns(self.kernel.columns(self._part(self._landmarks(Z))), self._part)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        return tuple(columns.behind(self._part) for columns in self.kernel.wide_columns(self._part(Z)))

    @property
    def _places(self) -> list[int]:
        self._require_ready()
        return list(self.at or ())

    def _part(self, X: NDArray[Any]) -> NDArray[Any]:
        places = self._places
        X = X[:, None] if X.ndim == 1 else X
        if max(places) >= X.shape[1]:
            raise DataError(f"{self!r} is of column {max(places)}, and the data have {X.shape[1]}, counted from 0.")
        part = np.ascontiguousarray(X[:, places])
        if part.dtype != object:
            return part
        if self.kernel.domain != "numbers":
            return self.kernel._block(part)
        try:
            return part.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"{self!r} needs numbers in its columns: {error}.") from None

    def _values(self, X: F64, Z: F64) -> F64:
        part = self._part(X)
        return self.kernel._values(part, part if X is Z else self._part(Z))

    def _diag(self, X: F64) -> F64:
        return self.kernel._diag(self._part(X))

    def _law(self, p: int) -> laws.Law:
        return mixtures.PartLaw(p, self._places, self.kernel._law(len(self._places)))


def _as_tuple(names: Any) -> tuple[Any, ...]:
    return (names,) if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray) else tuple(names)


def _column(name: Any) -> str | int:
    if isinstance(name, str):
        return name
    if isinstance(name, int | np.integer) and not isinstance(name, bool) and name >= 0:
        return int(name)
    raise RecipeError(f"{name!r} is not a column; a name, or a position from 0, is needed.")
