"""The objective of a fit and its statistics: the gradient of a round, losses, products with covariance."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.features.base import COMPONENT_STRIP
from dkernel.losses.losses import Loss
from dkernel.model.model import ScaledComponents
from dkernel.numerics import tiling
from dkernel.numerics.array_types import F64
from dkernel.numerics.fused.components import PackedComponents
from dkernel.numerics.fused.gradient import DERIVATIVES, fused_gradient
from dkernel.numerics.random_streams import row_hash
from dkernel.solvers.targets import Targets
from dkernel.streaming.execution.in_task import import_ahead
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice

import_ahead(__name__)

Coefficients = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Coefficients (n_components, heads) and intercepts (heads,), which are sent to the workers in each round."""


@dataclass(frozen=True, eq=False)
class Objective:
    """Features, targets, weights and loss of the rows of a fit; it does not change, so it is sent once.

    Parameters
    ----------
    components : of raw rows
    class_weights : one for each class, or None
    seed, threshold : rows with a hash up to `threshold` are the holdout, which no gradient sees
    """

    components: ScaledComponents
    loss: Loss
    targets: Targets
    class_weights: F64 | None = None
    seed: int = 0
    threshold: int = -1

    def rows(
        self, block: Block, piece: RowSlice
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32] | None]:
        """Features, targets and weights of a piece, without the holdout and without rows of weight 0."""
        rows, keep = piece.range.rows, self._keep_mask(block, piece)
        X, y = block.X[rows], block.y[rows]  # type: ignore[index]
        weight = None if block.weight is None else block.weight[rows]
        if not keep.all():
            # The rows are far from each other: to take them by number is twice as fast as a mask.
            some = np.arange(rows.start, rows.stop, rows.step)[: piece.n][keep]
            X = block.X.take(some, axis=0)
            y, weight = y[keep], None if weight is None else weight[keep]
        return X, self.targets.of(y), self._weights(y, weight)

    def all_rows(
        self, block: Block, piece: RowSlice
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32] | None, NDArray[np.bool_]]:
        """Features, targets and weights of a piece, and which rows are learned from; the others have targets of 0."""
        rows, keep = piece.range.rows, self._keep_mask(block, piece)
        y = block.y[rows][keep]  # type: ignore[index]
        Y = np.zeros((piece.n, self.targets.outputs), np.float32)
        Y[keep] = self.targets.of(y)
        some = self._weights(y, None if block.weight is None else block.weight[rows][keep])
        if some is None:
            return block.X[rows], Y, None, keep
        weight = np.zeros((piece.n, 1), np.float32)
        weight[keep] = some
        return block.X[rows], Y, weight, keep

    def folds(self, block: Block, piece: RowSlice, k: int) -> NDArray[np.integer]:
        """Fold of each of `rows`, one of k, by the hash of its number."""
        hashes = row_hash(self.seed, "folds", piece.first, piece.n, piece.step)
        return np.asarray(hashes % np.uint64(k))[self._keep_mask(block, piece)]

    def _keep_mask(self, block: Block, piece: RowSlice) -> NDArray[np.bool_]:
        keep = np.ones(piece.n, dtype=bool)
        if block.weight is not None:
            keep = block.weight[piece.range.rows] > 0
        if self.threshold < 0:
            return keep
        return keep & (row_hash(self.seed, "reservoir", piece.first, piece.n, piece.step) > np.uint64(self.threshold))

    def _weights(self, y: NDArray[Any], weight: NDArray[Any] | None) -> NDArray[np.float32] | None:
        if self.class_weights is not None:
            of_class = self.class_weights[self.targets.codes(y)]
            weight = of_class if weight is None else weight * of_class
        return None if weight is None else weight.astype(np.float32)[:, None]


@dataclass
class GradientSum:
    """Sums over rows: gradient (n_components, heads) and (heads,), weight, each λ's loss and right answers."""

    components: F64
    intercept: F64
    weight: float
    n: int
    loss: F64
    right: F64


@dataclass(frozen=True, eq=False)
class Gradient(Statistic[GradientSum, GradientSum]):
    """Gradient of the loss at the coefficients that are broadcast, and how good they are on these rows.

    The scores of a row are computed before its gradient is used, so on a first pass the loss is of unseen rows.

    Parameters
    ----------
    exact : whether components, coefficients and scores are in float64: slower, for optima to the last digits
    """

    objective: Objective
    exact: bool = False

    def step(self, block: Block, piece: RowSlice, broadcast: Coefficients) -> GradientSum:
        X, Y, weight = self.objective.rows(block, piece)
        coef, intercept = broadcast
        outputs = Y.shape[1]
        paths = len(intercept) // outputs
        loss, right = np.zeros(paths * outputs), np.zeros(paths)
        # All heads are in one call of each function: a tile is small, and the calls take most of the time.
        targets = np.tile(Y, (1, paths))

        def tell(S: NDArray[np.float32], start: int) -> None:
            y = targets[start : start + len(S)]
            # A loss may see the outputs of a row, its last axis, together; the paths are apart.
            grouped = len(S), paths, outputs
            value = self.objective.loss.value(y.reshape(grouped), S.reshape(grouped)).reshape(S.shape)
            if weight is not None:
                value = value * weight[start : start + len(S)]
            np.add(loss, value.sum(axis=0, dtype=np.float64), out=loss)
            for path in range(paths):
                right[path] += count_correct(
                    self.objective.targets, y[:, :outputs], S[:, path * outputs : (path + 1) * outputs]
                )

        def residual(S: NDArray[np.float32], start: int) -> NDArray[np.float32]:
            tell(S, start)
            y, grouped = targets[start : start + len(S)], (len(S), paths, outputs)
            R = self.objective.loss.derivative(y.reshape(grouped), S.reshape(grouped)).reshape(S.shape)
            return R if weight is None else R * weight[start : start + len(S)]

        panels = self._panels(len(intercept))
        if panels is None:
            G, g = self._accumulate(X, coef, intercept, residual)
        else:
            rows, how = self.objective.components.rows(X), (self.objective.loss.name, self.objective.loss.number)
            G, g, S = fused_gradient(panels, rows, coef, intercept, Y, weight, how)
            tell(S, 0)
        total = float(len(X)) if weight is None else float(weight.sum(dtype=np.float64))
        return GradientSum(G, g, total, len(X), loss.reshape(paths, outputs).sum(axis=1), right)

    def _panels(self, heads: int) -> PackedComponents | None:
        """The panels of the compiled walk; None where the map or the loss has none, or the walk is not exact enough."""
        walks = not self.exact and self.objective.loss.name in DERIVATIVES
        return self.objective.components.panels(heads) if walks else None

    def _accumulate(self, X: NDArray[Any], coef: Any, intercept: Any, residual: Any) -> tuple[F64, F64]:
        if not self.exact:
            return tiling.accumulate(self.objective.components, X, coef, intercept, residual)
        G, g = np.zeros(coef.shape), np.zeros(len(intercept))
        for start in range(0, len(X), COMPONENT_STRIP):
            F = self.objective.components.with_intercept(X[start : start + COMPONENT_STRIP], "float64")
            R = residual(F[:, :-1] @ coef + intercept, start)
            G += F[:, :-1].T @ R
            g += R.sum(axis=0)
        return G, g

    def merge(self, left: GradientSum, right: GradientSum) -> GradientSum:
        left.components += right.components
        left.intercept += right.intercept
        return GradientSum(
            left.components,
            left.intercept,
            left.weight + right.weight,
            left.n + right.n,
            left.loss + right.loss,
            left.right + right.right,
        )


def count_correct(targets: Targets, Y: NDArray[np.floating], S: NDArray[np.floating]) -> float:
    """Rows decided rightly; of a regression, the sum of squared errors."""
    if targets.classes is None:
        return float(np.sum((S - Y).astype(np.float64) ** 2))
    return float(len(S) - np.count_nonzero(targets.wrong(Y, S)))


@dataclass
class LossSums:
    """Sums over rows, for each head group or of one: loss and right answers; and the weight."""

    loss: Any = 0.0
    right: Any = 0.0
    weight: float = 0.0
    n: int = 0

    def __add__(self, other: "LossSums") -> "LossSums":
        weight, n = self.weight + other.weight, self.n + other.n
        return LossSums(self.loss + other.loss, self.right + other.right, weight, n)


@dataclass(frozen=True, eq=False)
class LossStatistic(Statistic[LossSums, LossSums]):
    """Losses and right answers of coefficients on rows; a loss may judge by another value than itself."""

    objective: Objective

    def step(self, block: Block, piece: RowSlice, broadcast: Coefficients) -> LossSums:
        X, Y, weight = self.objective.rows(block, piece)
        S = self.objective.components.scores(X, *broadcast)
        outputs = Y.shape[1]
        groups = [S[:, j : j + outputs] for j in range(0, S.shape[1], outputs)]
        w = np.float32(1) if weight is None else weight
        total = float(len(X)) if weight is None else float(weight.sum(dtype=np.float64))
        return LossSums(
            np.array([np.sum(w * self.objective.loss.judging_value(Y, s), dtype=np.float64) for s in groups]),
            np.array([count_correct(self.objective.targets, Y, s) for s in groups]),
            total,
            len(X),
        )

    def merge(self, left: LossSums, right: LossSums) -> LossSums:
        return left + right


@dataclass(frozen=True, eq=False)
class CovarianceProduct(Statistic[F64, F64]):
    """S v of vectors that are broadcast: the sum of φ (φ . v), for the largest curvature on these rows."""

    objective: Objective

    def step(self, block: Block, piece: RowSlice, broadcast: Coefficients) -> F64:
        X, Y, weight = self.objective.rows(block, piece)

        def residual(S: NDArray[np.float32], start: int) -> NDArray[np.float32]:
            return S if weight is None else S * weight[start : start + len(S)]

        panels = self.objective.components.panels(len(broadcast[1]))
        if panels is None:
            G, g = tiling.accumulate(self.objective.components, X, *broadcast, residual)
        else:
            G, g, _ = fused_gradient(panels, self.objective.components.rows(X), *broadcast, Y, weight, ("", 0.0))
        total = float(len(X)) if weight is None else float(weight.sum(dtype=np.float64))
        return np.concatenate([G, g[None], np.full((1, len(g)), total)])

    def merge(self, left: F64, right: F64) -> F64:
        left += right
        return left
