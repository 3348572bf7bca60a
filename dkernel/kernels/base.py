"""Base class of kernels: a frozen value k with k(X, Z), its diagonal, its columns, its spectral law, and an algebra.

The base class checks and delegates; a kernel writes the mathematics of one float64 block:

    _values(X, Z) -> (n, m)     every pair
    _diag(X) -> (n,)            k(x, x) of every row
    columns(Z), _law(p)         optional: a quicker float32 way, and the law of its frequencies

The classes that `k + k`, `k * k` and `c * k` make stand in algebra.py, which needs this file: they report themselves
here when they are defined, so that the two files do not need each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.kernels.inputs import as_any, as_numbers, as_objects, one_of_each
from dkernel.kernels.landmark_columns.base import LandmarkColumns, PlainColumns
from dkernel.kernels.landmark_columns.wide import WideColumns
from dkernel.kernels.parameters import check_arguments, is_number
from dkernel.kernels.spectra import laws
from dkernel.numerics.array_types import F64
from dkernel.numerics.rows import result_dtype, wide
from dkernel.numerics.sparse_rows import WIDE_COLUMNS, SparseRows

GammaRule = Callable[..., float]
"""rule(metric, word), the number that a word stands for; rule(metric, word, columns) of some columns alone."""
# Values held in float64 at once while a float32 block is evaluated: 32 MiB.
FLOAT64_VALUES = 1 << 22

NOT_PSD = (
    "the result need not be positive semi-definite: its Gram matrix can have negative eigenvalues, "
    "and then there is no feature space and no convex problem"
)


class Kernel(ABC):
    """Positive semi-definite function of two vectors, k(x, z) = ⟨φ(x), φ(z)⟩ for some φ.

    `k(X, Z)` has shape (n, m) for X (n, p) and Z (m, p), in the float type of X. It is evaluated in float64 whatever
    the input, and rounded; the quick float32 way is `k.columns(Z)`. Kernels are frozen dataclasses: equal when their
    parameters are, hashable, picklable, and `repr(k)` is the expression that makes k again. `k1 + k2`, `k1 * k2`,
    `c * k` and `k.on(columns)` are kernels. `k(x, z)` of two single rows is a number.

    Parameters
    ----------
    *args, **named
        Those of the kernel: the base class refuses others.

    See Also
    --------
    FunctionKernel : A kernel of a plain function, without a class.
    register : Make a class known to the texts of kernels.
    """

    # numpy scalars must leave `c * k` to the kernel instead of making an object array of it.
    __array_ufunc__ = None
    _algebra: ClassVar[dict[str, Callable[..., Kernel]]] = {}

    def __new__(cls, *args: Any, **named: Any) -> Self:
        if args or named:  # a copy is made of nothing, and gets its state later
            check_arguments(cls, args, named)
        return super().__new__(cls)

    def __init_subclass__(cls, operator: str | None = None, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if operator is not None:
            Kernel._algebra[operator] = cls

    @abstractmethod
    def _values(self, X: F64, Z: F64) -> F64:
        """A new array (n, m) of k of every pair; exactly symmetric when Z is the very array X."""

    @abstractmethod
    def _diag(self, X: F64) -> F64:
        """k(x, x) of every row, (n,)."""

    def _law(self, p: int) -> laws.Law:  # noqa: ARG002
        raise UnsupportedError(
            f"{self!r} has no random Fourier features: it is not a function of x - z. Use features='nystrom'."
        )

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        """Prepare the kernel columns of landmarks, once per process, for `rows` and `fill`.

        Parameters
        ----------
        Z : ndarray of shape (m, p)
            Landmarks.

        Returns
        -------
        LandmarkColumns
            Columns k(., z) of the landmarks, one cache tile at a time.

        Raises
        ------
        DataError
            If there are no landmarks.
        """
        return PlainColumns(self._landmarks(Z), self._values)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:  # noqa: ARG002
        """Prepare the columns of landmarks in float64, where a compiled walk makes them.

        Parameters
        ----------
        Z : ndarray of shape (m, p)
            Landmarks, float64.

        Returns
        -------
        tuple of WideColumns
            Columns whose sum is k(., z); none where no walk makes them.
        """
        return ()

    def on(self, columns: str | int | Sequence[str] | Sequence[int]) -> Kernel:
        """Restrict the kernel to some features, by name or by position.

        Parameters
        ----------
        columns : str, int, or sequence of str or int
            Features, as in `k.on(["a", "b"])` or `k.on([0, 2])`. Names wait for the names of the data, which a fit
            gives by `bind_columns`.

        Returns
        -------
        Kernel
            Kernel of these features alone.
        """
        return self._algebra["on"](self, columns)

    @property
    def domain(self) -> str:
        """Kind of rows that the kernel takes: "numbers", "objects", or "any"."""
        return "numbers"

    @property
    def takes_sparse(self) -> bool:
        """True for a function of products of rows: sparse rows need not become dense for it."""
        return False

    @property
    def is_product(self) -> bool:
        """True if k(x, z) is the product of the same kernel of any groups of columns, as exp(-‖x - z‖²) is."""
        return False

    @property
    def nonnegative(self) -> bool:
        """True for a kernel of features that are nowhere negative."""
        return False

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of features that are not positions yet; () when the kernel can be evaluated."""
        return ()

    def bind_columns(self, names: Sequence[str]) -> Kernel:  # noqa: ARG002
        """Replace the names of features by their positions in the data.

        Parameters
        ----------
        names : sequence of str
            Names of the features of the data, in their order.

        Returns
        -------
        Kernel
            Kernel with positions.

        Raises
        ------
        DataError
            If a name is not among them.
        """
        return self

    @property
    def shift_invariant(self) -> bool:
        """True for a function of x - z alone."""
        return False

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Words that stand for a gamma to be chosen from the data; () when the kernel can be evaluated."""
        return ()

    def bind(self, rule: GammaRule) -> Kernel:  # noqa: ARG002
        """Replace every placeholder by a number.

        Parameters
        ----------
        rule : callable
            Gives rule(metric, word), metric "l2" or "l1"; inside a selection of features rule(metric, word, columns),
            with their positions where they are known.

        Returns
        -------
        Kernel
            Kernel with numbers.
        """
        return self

    def wants(self, names: Sequence[str]) -> dict[str, str]:
        """Give the kind of each feature that the kernel reads.

        Parameters
        ----------
        names : sequence of str
            Names of the features of the data.

        Returns
        -------
        dict
            Name -> "numbers", "objects" or "any".
        """
        return dict.fromkeys(names, self.domain)

    def __call__(self, X: Any, Z: Any = None) -> Any:
        """k of every row of X (n, p) with every row of Z (m, p), X itself if there is none: (n, m).

        Of two single rows, (p,) each, the number k(x, z).
        """
        self._require_ready()
        if (pair := one_of_each(X, Z, self.domain)) is not None:
            return float(self(*pair)[0, 0])
        same = Z is None or Z is X
        X = self._block(X)
        Z = X if same else self._block(Z)
        if X.shape[1:] != Z.shape[1:]:
            raise DataError(
                f"{self!r} was given rows of {_width(X)} and of {_width(Z)} columns; as many of each are needed."
            )
        n, m = len(X), len(Z)
        dtype, landmarks = result_dtype(X), wide(Z)
        if n == 0 or m == 0:
            return np.empty((n, m), dtype)
        step = n if dtype == np.float64 else max(1, FLOAT64_VALUES // m)
        if step >= n:
            return self._values(landmarks if Z is X else wide(X), landmarks).astype(dtype, copy=False)
        out = np.empty((n, m), dtype)
        for i in range(0, n, step):
            out[i : i + step] = self._values(wide(X[i : i + step]), landmarks)
        return out

    def diag(self, X: NDArray[Any]) -> NDArray[np.floating]:
        """Compute k(x, x) of every row, without the n² other values.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Rows, numbers or objects as the kernel takes them.

        Returns
        -------
        ndarray of shape (n,)
            Values, in the float type of X.

        Raises
        ------
        DataError
            If the rows are not of the domain of the kernel.
        RecipeError
            If the kernel has placeholders.
        """
        self._require_ready()
        X = self._block(X)
        return self._diag(wide(X)).astype(result_dtype(X), copy=False)

    def frequencies(self, p: int, m: int, rng: np.random.Generator, sampling: str = "iid") -> F64:
        """Draw frequencies ω of the spectral law, k(x, z) = E cos⟨ω, x - z⟩.

        Parameters
        ----------
        p : int
            Features.
        m : int
            Number of draws.
        rng : numpy.random.Generator
            Source of the draws.
        sampling : {"iid", "orthogonal", "sobol"}, default="iid"
            Way to draw.

        Returns
        -------
        ndarray of shape (m, p)
            Frequencies, float64.

        Raises
        ------
        UnsupportedError
            If the kernel has no spectral law.
        """
        self._require_ready()
        return laws.draw(self._law(p), m, rng, sampling)

    def law(self, p: int) -> laws.Law:
        """Give the spectral law of p features.

        Parameters
        ----------
        p : int
            Features.

        Returns
        -------
        Law
            Law of the frequencies.

        Raises
        ------
        UnsupportedError
            If the kernel has no spectral law.
        """
        self._require_ready()
        return self._law(p)

    def _landmarks(self, Z: NDArray[Any]) -> F64:
        self._require_ready()
        Z = self._block(Z)
        if len(Z) == 0:
            raise DataError(f"{self!r} was given no landmarks; at least one row is needed.")
        return wide(Z)

    def _block(self, X: Any) -> NDArray[Any]:
        """Check the given rows, and make them a block of this kernel's domain."""
        if isinstance(X, SparseRows):
            self.require_sparse()
            return X  # type: ignore[return-value]
        return {"numbers": as_numbers, "objects": as_objects, "any": as_any}[self.domain](X)

    def require_sparse(self) -> None:
        """Refuse sparse rows where the kernel would make them dense.

        Raises
        ------
        UnsupportedError
            If sparse rows would become dense.
        """
        if not self.takes_sparse:
            raise UnsupportedError(
                f"{self!r} cannot be taken of sparse rows: it is not a function of their products, and all columns "
                "would become dense. Use a kernel of the Euclidean distance or of the inner product, such as Gaussian "
                f"or Polynomial, or at most {WIDE_COLUMNS:,} columns, as by "
                f"HashingVectorizer(n_features={WIDE_COLUMNS})."
            )

    def _require_ready(self) -> None:
        if self.column_names:
            raise RecipeError(
                f"{self!r} cannot be evaluated yet: where its columns {', '.join(map(repr, self.column_names))} stand "
                "is known when the data have named columns. A fit finds them; bind_columns(names) does it by hand."
            )
        if self.placeholders:
            words = ", ".join(map(repr, dict.fromkeys(self.placeholders)))
            raise RecipeError(
                f"{self!r} cannot be evaluated yet: {words} is a number that is chosen from the data during a fit. "
                "Give a number, as in Gaussian(gamma=0.1), or fill it in with bind(rule)."
            )

    def __add__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return self._algebra["+"]((self, other))
        return _no_number(self, other) if is_number(other) else NotImplemented

    def __radd__(self, other: Any) -> Kernel:
        if is_number(other) and other == 0:  # sum([k1, k2]) begins with 0
            return self
        return self.__add__(other)

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return self._algebra["*"]((self, other))
        return self._algebra["scale"](other, self) if is_number(other) else NotImplemented

    def __rmul__(self, other: Any) -> Kernel:
        return self.__mul__(other)

    def __neg__(self) -> NoReturn:
        raise RecipeError(f"-({self!r}) is not a kernel: {NOT_PSD}. Kernels are added and multiplied by c > 0.")

    def __sub__(self, other: Any) -> NoReturn:
        raise RecipeError(f"{self!r} - {other!r} is not a kernel: {NOT_PSD}. Kernels are added, multiplied or scaled.")


def _width(X: NDArray[Any]) -> int:
    return int(X.shape[1]) if X.ndim == 2 else 1


def _no_number(kernel: Kernel, number: Any) -> NoReturn:
    raise RecipeError(
        f"{kernel!r} + {number!r} adds a number to a kernel; add a kernel, or multiply by the number. "
        "Polynomial(degree=1, c=...) has a constant in it."
    )
