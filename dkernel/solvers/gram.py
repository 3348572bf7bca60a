"""The Gram matrix of components over the sample for a preconditioner, or over all rows for a ridge regression."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features.base import COMPONENT_STRIP
from dkernel.kernels import Kernel
from dkernel.model.model import ScaledComponents
from dkernel.numerics import linalg
from dkernel.numerics.array_types import F64
from dkernel.numerics.threads import for_each, usable_cores
from dkernel.solvers.finite_check import check_finite
from dkernel.solvers.objective import Objective
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice

MIRRORED, MIRRORS = 512, 4  # rows of a square that are mirrored at one time, and threads that do it


@dataclass
class GramSum:
    """Sums over rows: components and their 1 with themselves (D + 1, D + 1), whose lower triangle counts until the sum
    is finished; with the targets (D + 1, outputs); the squares of the targets (outputs,); weight."""

    gram: NDArray[Any]
    moment: F64
    energy: F64
    weight: float

    def __add__(self, other: "GramSum") -> "GramSum":
        return replace(self, gram=self.gram.copy(), moment=self.moment.copy()).merge(other)

    def error(self, v: F64) -> F64:
        """Mean squared error of coefficients v, (D + 1, outputs), on these rows, (outputs,)."""
        fitted = np.einsum("ic,ij,jc->c", v, self.gram, v, optimize=True)
        return np.asarray((self.energy - 2 * np.einsum("ic,ic->c", v, self.moment) + fitted) / self.weight)

    def merge(self, other: "GramSum") -> "GramSum":
        self.gram += other.gram
        self.moment += other.moment
        return GramSum(self.gram, self.moment, self.energy + other.energy, self.weight + other.weight)

    def finish(self, kernel: Kernel) -> "GramSum":
        """Fill the upper triangle, in float64; the diagonal shows a component that overflows, or would."""
        with np.errstate(over="ignore"):  # the factorization needs the sum of its squares
            squares = np.square(len(self.gram) * np.diagonal(self.gram).astype(np.float64))
        check_finite(kernel, "products of columns", squares, self.moment)
        n, sums = len(self.gram), self.gram
        gram = sums if sums.dtype == np.float64 else np.empty((n, n))

        def mirror(first: int) -> None:
            rows = slice(first, min(first + MIRRORED, n))
            if gram is not sums:
                gram[rows, : rows.stop] = sums[rows, : rows.stop]
            gram[: rows.stop, rows] = gram[rows, : rows.stop].T
            below = np.tril(gram[rows, rows].T)
            gram[rows, rows] = below + np.tril(below, -1).T

        for_each(mirror, range(0, n, MIRRORED), min(usable_cores(), MIRRORS))
        return GramSum(gram, self.moment, self.energy, self.weight)


@dataclass(frozen=True, eq=False)
class Gram(Statistic[GramSum, GramSum]):
    """Gram matrix of the components as the passes have them, for a preconditioner.

    The rounding of float32 components is small beside S + ρ M. Products and sums are in float64, since
    normal equations square the condition (Higham 2002, chapter 20); for well conditioned components float32 is enough
    for these too.
    """

    objective: Objective
    threads: int = 1

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> GramSum:  # noqa: ARG002
        components, rows = self.objective.components, self.objective.rows(block, piece)
        return sum_gram(components, *rows, components.pass_dtype, components.map.gram_dtype, self.threads)

    def merge(self, left: GramSum, right: GramSum) -> GramSum:
        return left.merge(right)

    def finish(self, total: GramSum) -> GramSum:
        return total.finish(self.objective.components.map.kernel)


@dataclass(frozen=True, eq=False)
class FoldedGram(Statistic[list[GramSum], list[GramSum]]):
    """The Gram matrices of the rows of each of k folds."""

    objective: Objective
    k: int

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> list[GramSum]:  # noqa: ARG002
        X, Y, weight = self.objective.rows(block, piece)
        fold = self.objective.folds(block, piece, self.k)
        sums = []
        for i in range(self.k):
            mine = fold == i
            sums.append(sum_gram(self.objective.components, X[mine], Y[mine], None if weight is None else weight[mine]))
        return sums

    def merge(self, left: list[GramSum], right: list[GramSum]) -> list[GramSum]:
        return [one.merge(other) for one, other in zip(left, right, strict=True)]

    def finish(self, total: list[GramSum]) -> list[GramSum]:
        return [one.finish(self.objective.components.map.kernel) for one in total]


def sum_gram(
    components: ScaledComponents,
    X: NDArray[Any],
    Y: NDArray[np.float32],
    weight: NDArray[np.floating] | None,
    dtype: str = "float64",
    products: str = "float64",
    threads: int = 1,
) -> GramSum:
    """The sums over some rows.

    Parameters
    ----------
    weight : (n, 1)
    dtype : of the components, see `ScaledComponents.with_intercept`
    products : type of the products
    """
    n = components.map.n_components
    gram, moment = np.zeros((n + 1, n + 1), products), np.zeros((n + 1, Y.shape[1]))
    energy, total = np.zeros(Y.shape[1]), 0.0
    # One array for all strips: fresh pages would take a fifth longer.
    strip = np.empty((min(COMPONENT_STRIP, len(X)), n + 1), products)
    for start in range(0, len(X), COMPONENT_STRIP):
        part = slice(start, start + COMPONENT_STRIP)
        F, T = components.with_intercept(X[part], dtype, into=strip[: len(X) - start]), Y[part]
        if weight is not None:
            F *= np.sqrt(weight[part])
            T = T * np.sqrt(weight[part])
            total += float(weight[part].sum(dtype=np.float64))
        else:
            total += len(F)
        moment += F.T @ T.astype(products, copy=False)
        energy += np.square(T, dtype=np.float64).sum(axis=0)
        linalg.add_squares(gram, F, threads)
    return GramSum(gram, moment, energy, total)
