"""Kernels of structured data: strings by their substrings, sets by their common elements.

Their rows are objects, (n,) or (n, 1). In a table of objects `.on([column])` picks the column, beside kernels of
numbers on others. Trees and graphs are a FunctionKernel: dkernel/kernels/STRUCTURED.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError
from dkernel.kernels.base import Kernel
from dkernel.kernels.landmark_columns.base import COLUMN_BLOCK, LandmarkColumns, PlainColumns
from dkernel.kernels.parameters import at_least_one
from dkernel.numerics.array_types import F64

__all__ = ["SetKernel", "SpectrumKernel"]

MOST_DENSE_PARTS = 4096  # parts of all landmarks together, up to which their counts are held as a full matrix


class CountKernel(Kernel):
    """The inner product of counts: each object is a bag of parts, and has a feature for each part there is."""

    domain = "objects"  # one object a row

    def _parts(self, value: Any) -> Iterable[Any]:
        raise NotImplementedError

    def _counts(self, X: NDArray[Any], places: dict[Any, int]) -> scipy.sparse.csr_array:
        """Counts (n, parts); `places` gets the parts that it does not have."""
        if X.ndim != 1:
            raise DataError(
                f"{self!r} was given {X.shape[1]} columns; one is needed. Choose it by {self!r}.on([column])."
            )
        bags = [Counter(self._parts(value)) for value in X]
        columns = [places.setdefault(part, len(places)) for bag in bags for part in bag]
        return _sparse(bags, columns, len(places))

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        places: dict[Any, int] = {}
        return CountColumns(self._counts(self._landmarks(Z), places), places, self._parts)

    def wants(self, names: Sequence[str]) -> dict[str, str]:
        """The one column of the kernel, as objects."""
        if len(names) != 1:
            listed = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
            raise DataError(
                f"{self!r} takes one column, and there are {len(names)}: {listed}. Choose it by .on([name]), give the "
                f"others kernels of their own, as in {self!r}.on([name]) + Gaussian().on([others]), or exclude them."
            )
        return super().wants(names)

    def _values(self, X: F64, Z: F64) -> F64:
        places: dict[Any, int] = {}
        theirs = self._counts(Z, places)
        known = len(places)
        counts = theirs if X is Z else self._counts(X, places)[:, :known]
        return (counts @ theirs.T).toarray()

    def _diag(self, X: F64) -> F64:
        counts = self._counts(X, {})
        return np.asarray(counts.multiply(counts).sum(axis=1), dtype=np.float64)


def _sparse(bags: Sequence[Mapping[Any, int]], columns: Sequence[int], width: int) -> scipy.sparse.csr_array:
    """The counts of the bags, in the order of their parts, at these columns."""
    counts = np.array([count for bag in bags for count in bag.values()], dtype=np.float64)
    starts = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])])
    return scipy.sparse.csr_array((counts, columns, starts), shape=(len(bags), width))


class CountColumns(LandmarkColumns):
    """Inner products of counts: parts that no landmark has are passed over.

    Where there are few parts, as of a small alphabet, landmarks hold most of them, and a dense product is quicker.
    """

    def __init__(self, counts: scipy.sparse.csr_array, places: dict[Any, int], parts: Callable[[Any], Any]) -> None:
        self.n = counts.shape[0]
        self._places, self._parts = places, parts
        blocks = [counts[i : i + COLUMN_BLOCK].T for i in range(0, self.n, COLUMN_BLOCK)]
        self._landmarks = [b.toarray() if len(places) <= MOST_DENSE_PARTS else b.tocsr() for b in blocks]

    def rows(self, X: Any) -> scipy.sparse.csr_array:
        known = self._places
        seen: dict[int, Counter[Any]] = {}  # the rows that fill a short tile are one row again and again
        for value in X:
            if id(value) not in seen:
                seen[id(value)] = Counter(part for part in self._parts(value) if part in known)
        bags = [seen[id(value)] for value in X]
        return _sparse(bags, [known[part] for bag in bags for part in bag], len(known))

    def fill(self, rows: Any, first: int, out: NDArray[np.float32]) -> None:
        """The products in float64, which are exact, rounded into the tile."""
        products = rows @ self._landmarks[first // COLUMN_BLOCK][:, : out.shape[1]]
        out[...] = products.toarray() if scipy.sparse.issparse(products) else products


@dataclass(frozen=True)
class SpectrumKernel(CountKernel):
    """Spectrum kernel of strings, k(s, t) = Σ_u count of u in s · count of u in t.

    The sum is over all strings u of k letters. Strings shorter than k have none, and the kernel is 0.
    `Normalized(SpectrumKernel(3))` does not depend on the lengths.

    Parameters
    ----------
    k : int, default=3
        Letters of the counted strings.

    See Also
    --------
    SetKernel : Kernel of sets.
    Normalized : Division by the lengths.

    References
    ----------
    C. Leslie, E. Eskin and W. Noble, "The spectrum kernel: a string kernel for SVM protein classification", PSB 2002.

    Examples
    --------
    >>> SpectrumKernel(k=2)(["abab"], ["ab", "bab"])
    array([[2., 3.]])
    """

    k: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", at_least_one("SpectrumKernel", "k", self.k))

    def _parts(self, value: Any) -> Iterable[str]:
        if not isinstance(value, str):
            raise DataError(f"{self!r} was given {value!r}; a string in every row is needed.")
        return (value[i : i + self.k] for i in range(len(value) - self.k + 1))


@dataclass(frozen=True)
class SetKernel(CountKernel):
    """Set kernel k(A, B) = |A ∩ B|, or Σ_{a in A} Σ_{b in B} kernel(a, b) for bags of points.

    A bag is an array (points, p). A text stands for the set of its words, which blanks divide: a column of a CSV file
    can hold sets. `Normalized(SetKernel())` is |A ∩ B| / √(|A| |B|).

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel of two points of bags; None for sets.

    See Also
    --------
    SpectrumKernel : Kernel of strings.
    Normalized : Division by the sizes.

    Examples
    --------
    >>> SetKernel()([{"a", "b"}, {"c"}])
    array([[2., 0.],
           [0., 1.]])
    """

    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise RecipeError(f"SetKernel was given {self.kernel!r}; a kernel of the points, or nothing, is needed.")
        if self.kernel is not None and self.kernel.placeholders:
            raise RecipeError(
                f"SetKernel was given {self.kernel!r}; a kernel with numbers is needed: no rule knows points."
            )

    def __repr__(self) -> str:
        return f"SetKernel({'' if self.kernel is None else repr(self.kernel)})"

    def _parts(self, value: Any) -> Iterable[Any]:
        if not isinstance(value, Iterable):
            raise DataError(f"{self!r} was given {value!r}; a set in every row is needed.")
        return set(value.split() if isinstance(value, str) else value)

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return super().columns(Z) if self.kernel is None else PlainColumns(self._landmarks(Z), self._values)

    def _points(self, X: NDArray[Any]) -> tuple[F64, NDArray[np.intp]]:
        """Join the points of all bags, and say where each bag begins."""
        try:
            bags = [np.asarray(bag, dtype=np.float64) for bag in X]
        except (TypeError, ValueError):
            raise DataError(
                f"{self!r} was given a bag that is no array of numbers; points (points, p) are needed in every row."
            ) from None
        for bag in bags:
            if bag.ndim != 2 or len(bag) == 0 or bag.shape[1] != bags[0].shape[1]:
                raise DataError(
                    f"{self!r} was given a bag of shape {bag.shape}; (points, p) with a point or more is needed, and "
                    "the same p in all bags."
                )
        return np.concatenate(bags), np.cumsum([0, *(len(bag) for bag in bags[:-1])])

    def _values(self, X: F64, Z: F64) -> F64:
        if self.kernel is None:
            return super()._values(X, Z)
        points, starts = self._points(X)
        theirs, ends = (points, starts) if X is Z else self._points(Z)
        values = np.add.reduceat(np.add.reduceat(self.kernel._values(points, theirs), starts, axis=0), ends, axis=1)
        return 0.5 * (values + values.T) if X is Z else values

    def _diag(self, X: F64) -> F64:
        if self.kernel is None:
            return super()._diag(X)
        return np.array(
            [self.kernel._values(bag, bag).sum() for bag in (self._points(X[i : i + 1])[0] for i in range(len(X)))]
        )
