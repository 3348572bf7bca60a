"""`solver="normal"`: ridge regression by one exact reading of the data. The whole path of alpha, and what judges it.

One pass sums the Gram matrix of the columns, for each fold of the rows apart; from there on nothing depends on n.
Leaving one row out needs its features, which are there for the rows of the sample. See
`linear.solvers.normal_equations`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce as _accumulated
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.linear.solvers.normal_equations import Moments, Ridge, solve
from dkernel.problem.objective import FoldedGram, GramSum, Problem, with_intercept
from dkernel.solving.full_batch_context import FullBatchContext
from dkernel.solving.sgd import SolverResult
from dkernel.solving.sgd_setup import in_coordinates
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice, bundle_size

__all__ = ["ALPHAS", "FOLDS", "folds_for", "solve_normal_equations"]

Array = NDArray[np.float64]

ALPHAS = tuple(float(f"{10.0**k:.3g}") for k in np.arange(-10, 1.01, 0.25))
"""alpha="auto" looks at all of these: they cost next to nothing."""

FOLDS, MOST_FOLDED = 5, 2048  # columns up to which the Gram matrix of each fold is held
LEFT_OUT = 4096  # rows of the sample that are left out one by one, at two D x D products each


def folds_for(columns: int) -> int:
    """Into how many folds the rows are cut: 1 where so many matrices would be too many bytes."""
    return FOLDS if columns <= MOST_FOLDED else 1


def solve_normal_equations(whole: FullBatchContext, alphas: Sequence[float], sample: Block) -> SolverResult:
    """The ridge regression of the alpha with the smallest error on rows left out: k-fold, or generalized.

    Parameters
    ----------
    sample : rows of the training, to be left out one by one
    """
    found = whole.journal.stage("normal", lambda: _path(whole, alphas, sample))
    v, best, path = found["v"], found["best"], found["path"]
    outcome, lines = whole.judged({alphas[best]: v}, "normal")
    history = [*found["history"], *lines]
    return SolverResult(v, alphas[best], 1.0, "normal", history, outcome, {"ridge": path}, found["variance"])


def _path(whole: FullBatchContext, alphas: Sequence[float], sample: Block) -> dict[str, Any]:
    problem, coordinates = whole.bench.problem, whole.bench.coordinates
    folds = folds_for(problem.columns.map.n_columns)
    whole.progress.phase("pass 1/1", sum(piece.n for piece in whole.pieces), **{"pass": "1/1"})
    sums = _read(whole, FoldedGram(problem, folds))
    parts = [
        Moments(
            in_coordinates(coordinates, one.gram),
            np.concatenate([coordinates.reduce(one.moment[:-1]), one.moment[-1:]]),
            one.energy,
            one.weight,
        )
        for one in sums
    ]
    whole.progress.phase("normal equations")
    total = _accumulated(add, parts)
    ridge = solve(total, coordinates.metric)
    # Errors of a regression in the label's units; of classes, of the targets -1 and +1. Sums over several outputs, of
    # several targets in standard deviations.
    unit = problem.targets.unit**2
    figures: dict[str, list[float]] = {
        "alpha": list(alphas),
        "mse": [unit * float(ridge.error(alpha).sum()) for alpha in alphas],
        "gcv": [unit * float(ridge.generalized(alpha).sum()) for alpha in alphas],
        "freedom": [ridge.freedom(alpha) for alpha in alphas],
    }
    if folds > 1 and all(part.weight > 0 for part in parts):
        figures["kfold"] = [unit * float(error) for error in _crossed(parts, coordinates.metric, alphas)]
    figures["loo"] = [unit * float(error) for error in _left_out(whole, ridge, sample, alphas)]
    best = int(np.argmin(figures.get("kfold", figures["gcv"])))
    v = ridge.coefficients(alphas[best])
    mse = float(ridge.error(alphas[best]).sum())
    line: dict[str, Any] = {"pass": 1, "round": 1, "rows": 0, "loss": 0.5 * mse}
    variance = _variance(ridge, alphas[best]) if problem.targets.classes is None else None
    return {"v": v, "best": best, "path": figures, "history": [line], "variance": variance}


def _variance(ridge: Ridge, alpha: float) -> dict[str, Any]:
    basis, offset = ridge.uncertainty(alpha)
    return {
        "basis": basis, "offset": offset, "noise": ridge.noise(alpha).tolist(), "alpha": alpha, "weight": ridge.weight,
    }  # fmt: skip


def _read(whole: FullBatchContext, statistic: FoldedGram) -> list[GramSum]:
    """The sums of all pieces, some units at a time: their number follows the layout, and the sum its fixed tree."""
    feed, key = whole.feed, f"{whole.bench.key}-gram"
    inside: dict[int, list[RowSlice]] = {}
    for piece in whole.pieces:
        inside.setdefault(piece.place.unit, []).append(piece)
    size = bundle_size([unit.rows for unit in feed.source.units], feed.source.nbytes // max(feed.source.n_rows, 1))
    units = list(inside)
    windows = [[p for unit in units[i : i + size] for p in inside[unit]] for i in range(0, len(units), size)]
    held = whole.bench.executor.keep(statistic, f"{key}-{type(statistic).__name__}")
    stack: list[tuple[int, list[GramSum]]] = []
    for window, following in zip(windows, [*windows[1:], []], strict=True):
        level, total = 0, feed.reduce(statistic, window, f"{key}-{window[0].number}", following=following, held=held)
        while stack and stack[-1][0] == level:
            level, total = level + 1, statistic.merge(stack.pop()[1], total)
        stack.append((level, total))
        whole.progress.advance(sum(piece.n for piece in window))
    whole.bench.executor.release([held])
    total = stack.pop()[1]
    while stack:
        total = statistic.merge(stack.pop()[1], total)
    return total


def _crossed(parts: Sequence[Moments], metric: Any, alphas: Sequence[float]) -> Array:
    """k-fold mean squared error of each alpha: every fold by the regression on the others."""
    off = np.zeros(len(alphas))
    for i, part in enumerate(parts):
        ridge = solve(_accumulated(add, [*parts[:i], *parts[i + 1 :]]), metric)
        off += [part.weight * float(part.error(ridge.coefficients(alpha)).sum()) for alpha in alphas]
    return off / sum(part.weight for part in parts)


@dataclass(frozen=True, eq=False)
class LeaveOneOut(Statistic[Array, Array]):
    """Sums of squared errors of each alpha on rows left out one by one, and their weight at the end."""

    problem: Problem
    coordinates: Any
    ridge: Ridge
    alphas: Sequence[float]

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> Array:  # noqa: ARG002
        X, Y, weight = self.problem.rows(block, piece)
        F = with_intercept(self.problem.columns, X)[:, :-1]
        weights = np.ones(len(X)) if weight is None else weight[:, 0].astype(np.float64)
        features = self.coordinates.reduce(F.T).T
        sums = self.ridge.leave_one_out(features, Y.astype(np.float64), self.alphas, weights)
        return np.append(sums.sum(axis=1), weights.sum())

    def merge(self, left: Array, right: Array) -> Array:
        return left + right


def _left_out(whole: FullBatchContext, ridge: Ridge, sample: Block, alphas: Sequence[float]) -> Array:
    n = min(len(sample.X), LEFT_OUT)
    statistic = LeaveOneOut(whole.inside.problem, whole.bench.coordinates, ridge, alphas)
    block = whole.bench.executor.keep(sample, f"{whole.bench.key}-left-out")
    total = whole.inside.over(statistic, block, n, 1024, "left-out")
    whole.bench.executor.release([block])
    return np.asarray(total[:-1] / max(float(total[-1]), 1e-300))
