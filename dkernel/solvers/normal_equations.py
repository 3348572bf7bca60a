"""`solver="normal"`: ridge regression in one reading of the data, with the path of alpha and its cross-validation.

One pass sums the Gram matrix of the columns, for each fold of the rows apart; from there on nothing depends on n.
Leaving one row out needs its features, which are there for the rows of the sample. See
`solvers.ridge_sums`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from functools import reduce as _accumulate
from operator import add
from typing import Any

import numpy as np

from dkernel.data.block import Block
from dkernel.numerics.array_types import F64
from dkernel.solvers.driver import OneStepState, Solver, SolverResult, best_of_alphas
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.gram import FoldedGram, GramSum
from dkernel.solvers.objective import Problem
from dkernel.solvers.reservoir_split import part_of
from dkernel.solvers.ridge_sums import Moments, Ridge, solve_ridge
from dkernel.solvers.sgd_setup import in_coordinates
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.cost import COMPONENT64_FLOPS, EIGEN_FLOPS
from dkernel.streaming.reduction import Statistic
from dkernel.streaming.schedule import RowSlice

NORMAL_ALPHAS = tuple(float(f"{10.0**k:.3g}") for k in np.arange(-10, 1.01, 0.25))
"""alpha="auto" looks at all of these: they cost next to nothing."""

GRAM_FOLDS, MOST_FOLDED = 5, 2048  # columns up to which the Gram matrix of each fold is held


def _folds(columns: int) -> int:
    """Folds of the rows: 1 where a matrix for each would be too many bytes."""
    return GRAM_FOLDS if columns <= MOST_FOLDED else 1


class NormalEquations(Solver[OneStepState]):
    """The ridge regression of the alpha with the smallest error on rows left out: k-fold, or generalized."""

    stage = "normal"

    def __init__(self, fit: FitProblem) -> None:
        super().__init__(fit)
        self.alphas = NORMAL_ALPHAS if isinstance(fit.alpha, str) else [float(fit.alpha)]
        self.statistic = FoldedGram(fit.problem, _folds(fit.problem.components.map.n_components))

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
        if state.value is None:
            self.show("pass 1/1", lambda: self.fit.reader.source.n_rows, **{"pass": "1/1"})
            return partial(self.over_all, self.statistic, None, "gram")
        return partial(self.judge, state.value["v"], "normal-judge") if state.holdout is None else None

    def advance(self, state: OneStepState, result: Any) -> OneStepState:
        if state.value is None:
            self.fit.run.progress.phase("normal equations")
            value = self._solve_path(result)
            line = {"pass": 1, "round": 1, "rows": 0, "loss": 0.5 * value["mse"]}
            return replace(state, value=value, history=(line,), steps=1)
        figures, lines = best_of_alphas(
            self.fit.problem.targets, [self.alphas[state.value["best"]]], result, self.stage
        )
        return replace(state, holdout=figures, history=state.history + lines, steps=2)

    def finish(self, state: OneStepState) -> SolverResult:
        value = state.value
        assert value is not None
        path = value["path"]
        errors = path.get("kfold", path["gcv"])
        return SolverResult(
            value["v"],
            self.alphas[value["best"]],
            1.0,
            self.stage,
            list(state.history),
            state.holdout or {},
            {"ridge": path},
            value["variance"],
            {f"{alpha:g}": error for alpha, error in zip(self.alphas, errors, strict=True)},
        )

    def _solve_path(self, sums: Sequence[GramSum]) -> dict[str, Any]:
        """Solve the regressions of all alphas, and choose one."""
        problem, coordinates = self.fit.problem, self.fit.coordinates
        parts = [
            Moments(
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
        unit = problem.targets.unit**2
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
        figures["loo"] = [unit * float(error) for error in _leave_one_out(self.fit, ridge, self.alphas)]
        best = int(np.argmin(figures.get("kfold", figures["gcv"])))
        alpha = self.alphas[best]
        variance = _variance(ridge, alpha) if problem.targets.classes is None else None
        mse = float(ridge.error(alpha).sum())
        return {"v": ridge.coefficients(alpha), "best": best, "mse": mse, "path": figures, "variance": variance}


def _variance(ridge: Ridge, alpha: float) -> dict[str, Any]:
    basis, offset = ridge.uncertainty(alpha)
    return {
        "basis": basis,
        "offset": offset,
        "noise": ridge.noise(alpha).tolist(),
        "alpha": alpha,
        "weight": ridge.weight,
    }


def _cross_validate(parts: Sequence[Moments], metric: Any, alphas: Sequence[float]) -> F64:
    """k-fold mean squared error of each alpha: every fold by the regression on the others."""
    off = np.zeros(len(alphas))
    for i, part in enumerate(parts):
        ridge = solve_ridge(_accumulate(add, [*parts[:i], *parts[i + 1 :]]), metric)
        off += [part.weight * float(part.error(ridge.coefficients(alpha)).sum()) for alpha in alphas]
    return off / sum(part.weight for part in parts)


@dataclass(frozen=True, eq=False)
class LeaveOneOut(Statistic[F64, F64]):
    """Sums of squared errors of each alpha on rows left out one by one, and their weight at the end."""

    problem: Problem
    coordinates: Any
    ridge: Ridge
    alphas: Sequence[float]

    def step(self, block: Block, piece: RowSlice, broadcast: Any) -> F64:  # noqa: ARG002
        X, Y, weight = self.problem.rows(block, piece)
        F = self.problem.components.with_intercept(X)[:, :-1]
        weights = np.ones(len(X)) if weight is None else weight[:, 0].astype(np.float64)
        features = self.coordinates.reduce(F.T).T
        sums = self.ridge.leave_one_out(features, Y.astype(np.float64), self.alphas, weights)
        return np.append(sums.sum(axis=1), weights.sum())

    def merge(self, left: F64, right: F64) -> F64:
        return left + right


def _leave_one_out(fit: FitProblem, ridge: Ridge, alphas: Sequence[float]) -> F64:
    # rows of the sample that are left out one by one, at two D x D products each
    some = part_of(fit.split.sample, slice(4096))
    with fit.keep(some, "left-out") as block:
        total = block.fold(LeaveOneOut(fit.of_sample, fit.coordinates, ridge, alphas), "errors", size=1024)
    return np.asarray(total[:-1] / max(float(total[-1]), 1e-300))
