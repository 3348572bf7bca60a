"""Kernels made of kernels: sums, products and positive multiples.

Long sums stay one tuple, so (a + b) + c equals a + (b + c), and the text of every one reads back as the same value.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkernel.errors import DataError, RecipeError, UnsupportedError
from dkernel.kernels.base import NOT_PSD, GammaRule, Kernel
from dkernel.kernels.landmark_columns.base import FoldedColumns, LandmarkColumns
from dkernel.kernels.landmark_columns.transformed import ChangedColumns
from dkernel.kernels.landmark_columns.wide import WideColumns
from dkernel.kernels.parameters import is_number, positive
from dkernel.kernels.spectra import laws
from dkernel.numerics.array_types import F64


class Composite(Kernel):
    """A kernel made of others, its `members`."""

    @property
    @abstractmethod
    def members(self) -> tuple[Kernel, ...]:
        """The kernels that it is made of."""

    @abstractmethod
    def _rebuild(self, members: tuple[Kernel, ...]) -> Kernel:
        """Make this combination of other members."""

    def bind(self, rule: GammaRule) -> Kernel:
        return self._rebuild(tuple(member.bind(rule) for member in self.members)) if self.placeholders else self

    def bind_columns(self, names: Sequence[str]) -> Kernel:
        """Give the columns of each member their positions."""
        if not self.column_names:
            return self
        return self._rebuild(tuple(member.bind_columns(names) for member in self.members))

    def wants(self, names: Sequence[str]) -> dict[str, str]:
        """Kinds that the members take each column as; two kinds for one column are refused."""
        kinds: dict[str, str] = {}
        for member in self.members:
            for name, domain in member.wants(names).items():
                before = kinds.get(name, "any")
                if "any" not in (before, domain) and before != domain:
                    raise DataError(f"{self!r} takes the column {name!r} as {before} and as {domain}; one is possible.")
                kinds[name] = domain if before == "any" else before
        return kinds

    @property
    def takes_sparse(self) -> bool:
        return all(member.takes_sparse for member in self.members)

    @property
    def nonnegative(self) -> bool:
        return any(member.nonnegative for member in self.members)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for member in self.members for name in member.column_names)

    @property
    def domain(self) -> str:
        """Domain that all members take."""
        domains = {member.domain for member in self.members} - {"any"}
        return domains.pop() if domains else "any"

    @property
    def shift_invariant(self) -> bool:
        return all(member.shift_invariant for member in self.members)

    @property
    def placeholders(self) -> tuple[str, ...]:
        return tuple(word for member in self.members for word in member.placeholders)


def _flat(kernels: tuple[Kernel, ...], kind: type[Composite]) -> tuple[Kernel, ...]:
    """The kernels with those of the same kind opened."""
    flat: list[Kernel] = []
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise RecipeError(f"{kind.__name__} was given {kernel!r} as a member; a kernel is needed.")
        flat.extend(kernel.members if isinstance(kernel, kind) else (kernel,))
    if len(flat) < 2:
        raise RecipeError(f"{kind.__name__} was given {len(flat)} kernel(s); at least two are needed.")
    if len({kernel.domain for kernel in flat} - {"any"}) > 1:
        raise RecipeError(
            f"{kind.__name__} was given {flat[0]!r} and others, some of rows of numbers and some of objects; say which "
            "columns each is of, as in SpectrumKernel(k=3).on(['text'])."
        )
    return tuple(flat)


def _text(kernel: Kernel, *enclosed: type[Composite]) -> str:
    return f"({kernel!r})" if isinstance(kernel, enclosed) else repr(kernel)


@dataclass(frozen=True, repr=False)
class Combination(Composite):
    """Two kernels or more whose values are folded by a ufunc; those of the same class among them are opened."""

    fold: ClassVar[np.ufunc]

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", _flat(tuple(self.kernels), type(self)))

    @property
    def members(self) -> tuple[Kernel, ...]:
        return self.kernels

    def _rebuild(self, members: tuple[Kernel, ...]) -> Kernel:
        return type(self)(members)

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        return FoldedColumns([kernel.columns(Z) for kernel in self.kernels], self.fold)

    def _values(self, X: F64, Z: F64) -> F64:
        values = self.kernels[0]._values(X, Z)
        for kernel in self.kernels[1:]:
            self.fold(values, kernel._values(X, Z), out=values)
        return values

    def _diag(self, X: F64) -> F64:
        return np.asarray(self.fold.reduce([kernel._diag(X) for kernel in self.kernels]))


class Sum(Combination, operator="+"):
    """k(x, z) = Σ k_i(x, z): the features of the members side by side.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian, Linear
    >>> Gaussian(gamma=0.5) + (Linear() + Linear())
    Gaussian(gamma=0.5) + Linear() + Linear()
    """

    fold = np.add

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        terms = [kernel.wide_columns(Z) for kernel in self.kernels]
        return tuple(columns for term in terms for columns in term) if all(terms) else ()

    def _law(self, p: int) -> laws.Law:  # noqa: ARG002
        raise _no_law(self, "a sum")


class Product(Combination, operator="*"):
    """k(x, z) = Π k_i(x, z): every product of features of the members.

    Examples
    --------
    >>> from dkernel.kernels import Gaussian, Linear
    >>> Gaussian(gamma=0.5) * (Linear() + Gaussian(gamma=2.0))
    Gaussian(gamma=0.5) * (Linear() + Gaussian(gamma=2.0))
    """

    fold = np.multiply

    def __repr__(self) -> str:
        # 2 * a * b reads as (2 * a) * b: only the first factor can be a multiple without parentheses.
        first, *others = self.kernels
        return " * ".join([_text(first, Sum), *(_text(other, Sum, Scaled) for other in others)])

    def _law(self, p: int) -> laws.Law:
        return laws.SumLaw([kernel._law(p) for kernel in self.kernels])


class UnaryKernel(Composite):
    """A kernel made of one other, its field `kernel`."""

    kernel: Kernel

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise RecipeError(f"{type(self).__name__} was given {self.kernel!r}; a kernel is needed.")

    @property
    def members(self) -> tuple[Kernel, ...]:
        """The kernel that it is made of."""
        return (self.kernel,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r})"

    def _rebuild(self, members: tuple[Kernel, ...]) -> Kernel:
        return replace(self, kernel=members[0])  # type: ignore[type-var]


@dataclass(frozen=True, repr=False)
class Scaled(UnaryKernel, operator="scale"):
    """k(x, z) = weight · kernel(x, z) with weight > 0: the features times its square root.

    Examples
    --------
    >>> from dkernel.kernels import Linear
    >>> 3 * (2 * Linear())
    6.0 * Linear()
    """

    weight: float
    kernel: Kernel

    def __post_init__(self) -> None:
        kernel = self.kernel
        if not isinstance(kernel, Kernel):
            raise RecipeError(f"Scaled was given {kernel!r} to multiply; a kernel is needed.")
        if is_number(self.weight) and self.weight < 0:
            raise RecipeError(
                f"{kernel!r} was given the weight {self.weight!r}; a number above 0 is needed. With a negative weight "
                f"{NOT_PSD}."
            )
        weight = positive(f"A multiple of {kernel!r}", "weight", self.weight)
        if isinstance(kernel, Scaled):
            weight, kernel = positive(repr(self.kernel), "weight", weight * kernel.weight), kernel.kernel
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "kernel", kernel)

    def __repr__(self) -> str:
        return f"{self.weight!r} * {_text(self.kernel, Sum, Product)}"

    def columns(self, Z: NDArray[Any]) -> LandmarkColumns:
        part, weight = self.kernel.columns(Z), np.float32(self.weight)
        return ChangedColumns(part, lambda values: np.multiply(values, weight, out=values), part.quick)

    def wide_columns(self, Z: F64) -> tuple[WideColumns, ...]:
        parts = self.kernel.wide_columns(Z)
        return tuple(replace(columns, weight=self.weight * columns.weight) for columns in parts)

    def _values(self, X: F64, Z: F64) -> F64:
        values = self.kernel._values(X, Z)
        values *= self.weight
        return values

    def _diag(self, X: F64) -> F64:
        return self.weight * self.kernel._diag(X)

    def _law(self, p: int) -> laws.Law:  # noqa: ARG002
        raise _no_law(self, "a multiple of a kernel")


def _no_law(kernel: Kernel, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{kernel!r} is {what}: its features are not frequencies alone. Use features='nystrom', or a single "
        "shift-invariant kernel, or a product of such."
    )
