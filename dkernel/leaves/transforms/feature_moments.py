"""Statistics of φ of the rows, computed a strip at a time: moments, clusters and one class."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.leaves.transforms.one_class_loss import OneClassSum, sum_losses
from dkernel.numerics.array_types import F64
from dkernel.numerics.rows import wide
from dkernel.numerics.tiling import PIECE_ROWS
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice


@dataclass(frozen=True, eq=False)
class Phi:
    """φ of a block of raw rows, as function(carried, X), in the form that a worker is sent."""

    function: Callable[[Any, NDArray[Any]], NDArray[np.floating]]
    carried: Any

    def strips(self, X: NDArray[Any]) -> Iterator[F64]:
        """φ in float64, (PIECE_ROWS, m) at a time."""
        for first in range(0, len(X), PIECE_ROWS):
            yield np.asarray(self.function(self.carried, wide(X[first : first + PIECE_ROWS])), np.float64)


@dataclass
class MomentSum:
    """Sums over rows: φ (m,), φ φ^T (m, m), and how many they are."""

    total: F64
    gram: F64
    n: int


@dataclass(frozen=True, eq=False)
class FeatureMoments(Statistic[MomentSum, MomentSum]):
    """The moments of φ, in float64."""

    phi: Phi

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> MomentSum:  # noqa: ARG002
        X, sums = block.X[piece.range.rows], None
        for F in self.phi.strips(X):
            part = MomentSum(F.sum(axis=0), F.T @ F, len(F))
            sums = part if sums is None else self.merge(sums, part)
        assert sums is not None
        return sums

    def merge(self, left: MomentSum, right: MomentSum) -> MomentSum:
        left.total += right.total
        left.gram += right.gram
        return MomentSum(left.total, left.gram, left.n + right.n)


@dataclass
class ClusterSum:
    """The sum of φ (k, m) and the number of rows (k,) of each cluster, and the sum of squared distances."""

    total: F64
    count: F64
    inertia: float


@dataclass(frozen=True, eq=False)
class Clusters(Statistic[ClusterSum, ClusterSum]):
    """One step of Lloyd's: the rows of each centre that is broadcast, (k, m)."""

    phi: Phi

    def step(self, block: Block, piece: RowSlice, broadcast: F64) -> ClusterSum:
        k = len(broadcast)
        sums = ClusterSum(np.zeros_like(broadcast), np.zeros(k), 0.0)
        for F in self.phi.strips(block.X[piece.range.rows]):
            labels, squares = nearest(F, broadcast)
            member = (labels[:, None] == np.arange(k)).astype(np.float64)
            sums.total += member.T @ F
            sums.count += member.sum(axis=0)
            sums.inertia += float(squares.sum())
        return sums

    def merge(self, left: ClusterSum, right: ClusterSum) -> ClusterSum:
        left.total += right.total
        left.count += right.count
        return ClusterSum(left.total, left.count, left.inertia + right.inertia)


@dataclass(frozen=True, eq=False)
class OneClass(Statistic[OneClassSum, OneClassSum]):
    """The smoothed one-class objective at the points and the width that are broadcast."""

    phi: Phi

    def step(self, block: Block, piece: RowSlice, broadcast: tuple[F64, float]) -> OneClassSum:
        sums = [sum_losses(F, *broadcast) for F in self.phi.strips(block.X[piece.range.rows])]
        return reduce(self.merge, sums)

    def merge(self, left: OneClassSum, right: OneClassSum) -> OneClassSum:
        return left + right


def nearest(F: F64, centers: F64) -> tuple[NDArray[np.intp], F64]:
    """The nearest centre of every row, and the squared distance."""
    squared = np.einsum("ij,ij->i", centers, centers) - 2.0 * (F @ centers.T)
    labels = squared.argmin(axis=1)
    return labels, np.maximum(squared[np.arange(len(F)), labels] + np.einsum("ij,ij->i", F, F), 0.0)
