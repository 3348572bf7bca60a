"""`solver="normal"`: ridge regression in one reading of the data, with the path of alpha and its cross-validation.

    minimize over w, b:  1/(2n) sum of (y_i - w . φ_i - b)^2 + α/2 |w|^2

One pass sums the Gram matrix of the columns, for each fold of the rows apart; from there on nothing depends on n. With
H, m and c the centred covariance of the features, their mean and their covariance with the targets, and M = L L^T the
metric: L^{-1} H L^{-T} = U Λ U^T, and w_α = L^{-T} U (Λ + α)^{-1} U^T L^{-1} c, b_α = mean y - m . w_α. Errors on the
training rows, degrees of freedom and generalized cross-validation need nothing else; leaving a fold out needs that
fold's sums, and leaving a row out its features, which are there for the rows of the sample. Source: Golub, Heath and
Wahba 1979.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from functools import reduce as _accumulate
from operator import add
from typing import Any

import numpy as np
import scipy.linalg as sl

from dkernel.data.block import Block
from dkernel.numerics.array_types import F64
from dkernel.solvers.covariance import in_coordinates
from dkernel.solvers.driver import OneStepState, Solver, SolverResult, best_of_alphas
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.gram import FoldedGram, GramSum
from dkernel.solvers.objective import Objective
from dkernel.solvers.preconditioner import Metric, metric_factor
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import COMPONENT64_FLOPS, EIGEN_FLOPS
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice

NORMAL_ALPHAS = tuple(float(f"{10.0**k:.3g}") for k in np.arange(-10, 1.01, 0.25))
"""alpha="auto" looks at all of these: they cost next to nothing."""

GRAM_FOLDS, MOST_FOLDED = 5, 2048  # columns up to which the Gram matrix of each fold is held


@dataclass(frozen=True, eq=False)
class Ridge:
    """The ridge regressions of all alphas on the same rows.

    Parameters
    ----------
    basis : L^{-T} U, float64 (n, n): its columns are the directions
    values : Λ, (n,)
    along : U^T L^{-1} c, (n, outputs)
    mean, level : of the features, (n,), and of the targets, (outputs,)
    spread : variance of the targets, (outputs,)
    weight : of the rows; copies of a row are as many rows
    silent : L^{-T} U of the directions of which the rows say nothing, (n, rest)
    """

    basis: F64
    values: F64
    along: F64
    mean: F64
    level: F64
    spread: F64
    weight: float
    silent: F64

    def coefficients(self, alpha: float) -> F64:
        """v, (n + 1, outputs), the intercepts last."""
        w = self.basis @ (self.along / (self.values + alpha)[:, None])
        return np.concatenate([w, (self.level - self.mean @ w)[None]])

    def error(self, alpha: float) -> F64:
        """Mean squared error on the training rows, (outputs,)."""
        shrunk = (self.values + 2 * alpha) / (self.values + alpha) ** 2
        return np.asarray(np.maximum(self.spread - shrunk @ self.along**2, 0.0))

    def freedom(self, alpha: float) -> float:
        """Degrees of freedom: the trace of the matrix that makes the fitted values of the targets."""
        return 1.0 + float(np.sum(self.values / (self.values + alpha)))

    def generalized_error(self, alpha: float) -> F64:
        """Generalized cross-validation: error / (1 - freedom / n)^2, (outputs,)."""
        return self.error(alpha) / max(1.0 - self.freedom(alpha) / self.weight, 1e-12) ** 2

    def noise(self, alpha: float) -> F64:
        """Variance of the labels about their function, (outputs,): the squared errors / (n - freedom)."""
        return self.error(alpha) / max(1.0 - self.freedom(alpha) / self.weight, 1e-12)

    def uncertainty(self, alpha: float) -> tuple[F64, F64]:
        """T, (n, rank), with T T^T = (H + α M)^{-1}, and T^T m, m the mean of the features."""
        T = self.basis / np.sqrt(self.values + alpha)
        if alpha > 0:
            T = np.concatenate([T, self.silent / np.sqrt(alpha)], axis=1)
        return T, self.mean @ T

    def leave_one_out(self, features: F64, targets: F64, alphas: Sequence[float], weight: F64 | float) -> F64:
        """Weighted sum over rows of (y - ŷ without that row)^2 for each alpha, (alphas, outputs).

        Exact for each of the rows, which are among those of the training; the strength α n of the regularization is
        that of all of them. ŷ_i without i is y_i - e_i / (1 - h_i), h_i the leverage.

        Parameters
        ----------
        features : of the rows without the 1, (rows, n)
        targets : (rows, outputs)
        weight : of each row, (rows,), or 1
        """
        along = (features - self.mean) @ self.basis
        weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), len(features))
        sums = np.empty((len(alphas), targets.shape[1]))
        for i, alpha in enumerate(alphas):
            shrink = 1.0 / (self.values + alpha)
            off = targets - self.level - along @ (shrink[:, None] * self.along)
            leverage = weights * (1.0 + along**2 @ shrink) / self.weight
            sums[i] = weights @ (off / np.maximum(1.0 - leverage, 1e-12)[:, None]) ** 2
        return sums


def solve_ridge(total: GramSum, metric: Metric) -> Ridge:
    """The ridge regressions of some rows, from their sums and the metric M, a matrix or a number.

    Examples
    --------
    >>> x, y = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])
    >>> F = np.stack([x, np.ones(3)], axis=1)
    >>> ridge = solve_ridge(GramSum(F.T @ F, F.T @ y[:, None], np.array([y @ y]), 3.0), 1.0)
    >>> ridge.coefficients(0.0).round(6)[:, 0].tolist()
    [2.0, 1.0]
    """
    gram, moment = total.gram / total.weight, total.moment / total.weight
    mean, level = gram[:-1, -1] / gram[-1, -1], moment[-1]
    centred, with_targets = gram[:-1, :-1] - np.outer(mean, mean), moment[:-1] - np.outer(mean, level)
    if isinstance(metric, float):
        white, along, root = centred / metric, with_targets / np.sqrt(metric), None
    else:
        root = metric_factor(metric)
        half = sl.solve_triangular(root, centred, lower=True, check_finite=False)
        white = sl.solve_triangular(root, half.T, lower=True, check_finite=False)
        along = sl.solve_triangular(root, with_targets, lower=True, check_finite=False)
    values, U = sl.eigh(0.5 * (white + white.T), check_finite=False)
    if root is None:
        basis = U / np.sqrt(metric)
    else:
        basis = np.asarray(sl.solve_triangular(root, U, lower=True, trans=1, check_finite=False))
    # Below the rounding of the largest, a value is noise, and so is what the targets have along its direction.
    real = values > 1e-15 * len(values) * max(float(values[-1]), 0.0)
    spread = np.maximum(total.energy / total.weight - level**2, 0.0)
    return Ridge(basis[:, real], values[real], U[:, real].T @ along, mean, level, spread, total.weight, basis[:, ~real])


def _folds(columns: int) -> int:
    """Folds of the rows: 1 where a matrix for each would be too many bytes."""
    return GRAM_FOLDS if columns <= MOST_FOLDED else 1


class NormalEquations(Solver[OneStepState]):
    """The ridge regression of the alpha with the smallest error on rows left out: k-fold, or generalized."""

    phase = "normal"

    def __init__(self, problem: FitProblem) -> None:
        super().__init__(problem)
        self.alphas = NORMAL_ALPHAS if isinstance(problem.alpha, str) else [float(problem.alpha)]
        self.statistic = FoldedGram(problem.objective, _folds(problem.objective.components.map.n_components))

    @classmethod
    def readings(cls, sizes: Sizes) -> int:  # noqa: ARG003
        return 1

    @classmethod
    def flops(cls, sizes: Sizes, outputs: int) -> float:  # noqa: ARG003
        n, D = float(sizes.n), sizes.components
        folds = _folds(D)
        solved = 1 + (folds if folds > 1 else 0)
        return n * D * (2 * sizes.p + COMPONENT64_FLOPS["global"]) + n * D**2 + solved * EIGEN_FLOPS * float(D) ** 3

    @classmethod
    def squares(cls, columns: int) -> int:
        return _folds(columns)

    def start(self) -> OneStepState:
        return OneStepState()

    def plan(self, state: OneStepState) -> Callable[[], Any] | None:
        if state.result is None:
            self.show("pass 1/1", lambda: self.problem.reader.source.n_rows, **{"pass": "1/1"})
            return partial(self.reduce_all, self.statistic, None, "gram")
        return partial(self.judge, state.result.v, "normal-judge") if state.steps == 1 else None

    def advance(self, state: OneStepState, sums: Any) -> OneStepState:
        result = state.result
        if result is None:
            self.problem.run.progress.phase("normal equations")
            result = self._solve_path(sums)
            return replace(state, result=result, history=tuple(result.history), steps=1)
        figures, lines = best_of_alphas(self.problem.objective.targets, [result.alpha], sums, self.phase)
        judged = replace(result, holdout=figures, history=[*result.history, *lines])
        return replace(state, result=judged, history=tuple(judged.history), steps=2)

    def finish(self, state: OneStepState) -> SolverResult:
        assert state.result is not None
        return state.result

    def _solve_path(self, sums: Sequence[GramSum]) -> SolverResult:
        """Solve the regressions of all alphas, and choose one; the holdout is judged later."""
        objective, coordinates = self.problem.objective, self.problem.coordinates
        parts = [
            GramSum(
                in_coordinates(coordinates, one.gram),
                np.concatenate([coordinates.reduce(one.moment[:-1]), one.moment[-1:]]),
                one.energy,
                one.weight,
            )
            for one in sums
        ]
        ridge = solve_ridge(_accumulate(add, parts), coordinates.metric)
        # Errors are in the unit of the label, or in standard deviations of several targets; for classes they are of the
        # targets -1 and +1. They are summed over the outputs.
        unit = objective.targets.unit**2
        figures: dict[str, list[float]] = {
            "alpha": list(self.alphas),
            "mse": [unit * float(ridge.error(alpha).sum()) for alpha in self.alphas],
            "gcv": [unit * float(ridge.generalized_error(alpha).sum()) for alpha in self.alphas],
            "freedom": [ridge.freedom(alpha) for alpha in self.alphas],
        }
        if len(parts) > 1 and all(part.weight > 0 for part in parts):
            figures["kfold"] = [
                unit * float(error) for error in _cross_validate(parts, coordinates.metric, self.alphas)
            ]
        figures["loo"] = [unit * float(error) for error in _leave_one_out(self.problem, ridge, self.alphas)]
        errors = figures.get("kfold", figures["gcv"])
        alpha = self.alphas[int(np.argmin(errors))]
        variance = _variance(ridge, alpha) if objective.targets.classes is None else None
        line = {"pass": 1, "round": 1, "rows": 0, "loss": 0.5 * float(ridge.error(alpha).sum())}
        tried = {f"{each:g}": error for each, error in zip(self.alphas, errors, strict=True)}
        facts = {"ridge": figures}
        return SolverResult(ridge.coefficients(alpha), alpha, 1.0, self.phase, [line], {}, facts, variance, tried)


def _variance(ridge: Ridge, alpha: float) -> dict[str, Any]:
    basis, offset = ridge.uncertainty(alpha)
    return {
        "basis": basis,
        "offset": offset,
        "noise": ridge.noise(alpha).tolist(),
        "alpha": alpha,
        "weight": ridge.weight,
    }


def _cross_validate(parts: Sequence[GramSum], metric: Any, alphas: Sequence[float]) -> F64:
    """k-fold mean squared error of each alpha: every fold by the regression on the others."""
    off = np.zeros(len(alphas))
    for i, part in enumerate(parts):
        ridge = solve_ridge(_accumulate(add, [*parts[:i], *parts[i + 1 :]]), metric)
        off += [part.weight * float(part.error(ridge.coefficients(alpha)).sum()) for alpha in alphas]
    return off / sum(part.weight for part in parts)


@dataclass(frozen=True, eq=False)
class LeaveOneOut(Statistic[F64, F64]):
    """Sums of squared errors of each alpha on rows left out one by one, and their weight at the end."""

    objective: Objective
    coordinates: Any
    ridge: Ridge
    alphas: Sequence[float]

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> F64:  # noqa: ARG002
        X, Y, weight = self.objective.rows(block, piece)
        F = self.objective.components.with_intercept(X)[:, :-1]
        weights = np.ones(len(X)) if weight is None else weight[:, 0].astype(np.float64)
        features = self.coordinates.reduce(F.T).T
        sums = self.ridge.leave_one_out(features, Y.astype(np.float64), self.alphas, weights)
        return np.append(sums.sum(axis=1), weights.sum())

    def merge(self, left: F64, right: F64) -> F64:
        return left + right


def _leave_one_out(problem: FitProblem, ridge: Ridge, alphas: Sequence[float]) -> F64:
    # rows of the sample that are left out one by one, at two D x D products each
    some = select_rows(problem.split.sample, slice(4096))
    with problem.keep(some, "left-out") as block:
        total = block.fold(LeaveOneOut(problem.on_sample, problem.coordinates, ridge, alphas), "errors", size=1024)
    return np.asarray(total[:-1] / max(float(total[-1]), 1e-300))


SOLVER = NormalEquations
