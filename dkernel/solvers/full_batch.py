"""`solver="pcg"` and `"lbfgs"`: one reading of all rows per iteration, until converged. Also the polish."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkernel.model.journal import State
from dkernel.model.serialization import stored
from dkernel.numerics.array_types import F64
from dkernel.solvers.alpha_path import AlphaPath
from dkernel.solvers.batch_methods import LBFGS, PCG, Batch, BatchState, batch_solver
from dkernel.solvers.driver import Solver, SolverResult, best_of_alphas
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.objective import Gradient, GradientSum
from dkernel.solvers.sgd_round import expand_coefficients, mean_gradient
from dkernel.solvers.sizes import Sizes

MOST_PASSES = 100
"""Most readings if the recipe sets no limit: its `passes` is 1."""

# A smaller decrement, in standard deviations of targets or in margins, is below the rounding of the dtype.
DECREMENT_TOLERANCE = {"float32": 1e-5, "float64": 1e-9}


@stored("FullBatchState")
@dataclass(frozen=True, eq=False)
class FullBatchState(State):
    """The position of the readings.

    Parameters
    ----------
    holdout : figures of the best alpha on the holdout; None before they are known
    """

    state: BatchState
    holdout: dict[str, float] | None = None


class FullBatch(Solver[FullBatchState]):
    """The minimizer for each alpha; the one with the smallest loss on the holdout is kept.

    Parameters
    ----------
    settings : preconditioners and alphas, each alpha once
    first : v to begin at, (n + 1, heads)
    limit : readings at most
    """

    phase = "batch"
    kind: type[Batch]

    def __init__(self, problem: FitProblem) -> None:
        super().__init__(problem)
        self.settings, self.first, self.limit = self._begin()
        self.machine = self.kind(self.settings, DECREMENT_TOLERANCE[problem.recipe.dtype])
        self.statistic = Gradient(problem.objective, exact=problem.recipe.dtype == "float64")

    def _begin(self) -> tuple[AlphaPath, F64, int]:
        of_fit, start = self.problem.setup.solver, self.problem.setup.start
        paths = [list(of_fit.alphas).index(alpha) for alpha in dict.fromkeys(of_fit.alphas)]
        heads = np.concatenate([np.arange(j * of_fit.outputs, (j + 1) * of_fit.outputs) for j in paths])
        settings = of_fit.only([(j, 1.0) for j in paths])
        return settings, np.ascontiguousarray(start[:, heads]), self.readings(self.problem.sizes)

    @classmethod
    def readings(cls, sizes: Sizes) -> int:
        return sizes.passes if sizes.passes > 1 else MOST_PASSES

    def start(self) -> FullBatchState:
        return FullBatchState(self.machine.start(self.first))

    def plan(self, state: FullBatchState) -> Callable[[], Any] | None:
        if self._is_over(state):
            done = state.holdout is not None
            return None if done else partial(self.judge, state.state.v, f"{self.phase}-judge")
        self._show(state)
        points = self.machine.candidates(state.state)
        coefficients: Any = expand_coefficients(self.problem.coordinates, points)
        if self.statistic.exact:
            coefficients = self.problem.coordinates.expand(points[:-1]), points[-1]
        return partial(self.reduce_all, self.statistic, coefficients, f"{self.phase}-{state.state.passes}")

    def _is_over(self, state: FullBatchState) -> bool:
        return state.ended or self.machine.is_over(state.state) or state.state.passes >= self.limit

    def _show(self, state: FullBatchState) -> None:
        turn = f"{state.state.passes + 1}/{self.limit}"
        self.show(f"pass {turn}", lambda: self.problem.reader.source.n_rows, **{"pass": turn})

    def advance(self, state: FullBatchState, result: Any) -> FullBatchState:
        if self._is_over(state):
            targets, alphas = self.problem.objective.targets, self.settings.alphas
            figures, lines = best_of_alphas(targets, alphas, result, self.machine.name)
            return replace(state, holdout=figures, history=state.history + lines, steps=state.steps + 1)
        total: GradientSum = result
        loss = total.loss / max(total.weight, 1e-300)
        made = self.machine.advance(state.state, loss, mean_gradient(self.problem.coordinates, total))
        figures = {"rows": total.n, "loss": float(loss[0])}
        figures |= self.problem.objective.targets.merit(float(total.right[0]), total.n)
        line = {"pass": made.passes, "round": 1, **figures, "decrement": float(made.decrement.max())}
        return replace(state, state=made, history=(*state.history, line), steps=state.steps + 1)

    def finish(self, state: FullBatchState) -> SolverResult:
        made, alphas, outputs = state.state, self.settings.alphas, self.settings.outputs
        lines = [line for line in state.history if "holdout" in line]
        alpha, tried = (lines[0]["alpha"], lines[0]["path"]) if lines else (alphas[0], {})
        j = list(alphas).index(alpha)
        converged, decrement = bool(self.machine.ended(made)[j]), float(made.decrement[j])
        v = np.ascontiguousarray(made.v[:, j * outputs : (j + 1) * outputs])
        facts = {"solver": {"passes": made.passes, "decrement": decrement, "converged": converged}}
        history = list(state.history)
        return SolverResult(v, alpha, 1.0, self.machine.name, history, state.holdout or {}, facts, tried=tried)


class PCGSolver(FullBatch):
    """Preconditioned conjugate gradients."""

    kind = PCG


class LBFGSSolver(FullBatch):
    """L-BFGS."""

    kind = LBFGS


class Polish(FullBatch):
    """Full-batch solver that starts at the result of passes, for its alpha and those that only finished fits can judge.

    Parameters
    ----------
    before : result of the passes
    """

    phase = "polish"

    def __init__(self, problem: FitProblem, before: SolverResult) -> None:
        self.before, self.kind = before, batch_solver(problem.objective.loss)
        super().__init__(problem)

    def _begin(self) -> tuple[AlphaPath, F64, int]:
        of_fit, before = self.problem.setup.solver, self.before
        starts, alphas = {**before.unfinished, before.alpha: before.v}, list(of_fit.alphas)
        only = of_fit.only([(alphas.index(alpha), 1.0) for alpha in starts])
        return only, np.concatenate([*starts.values()], axis=1), self.problem.sizes.polish

    def _show(self, state: FullBatchState) -> None:  # noqa: ARG002 - its readings are short: one phase for all
        self.show("polish", lambda: self.limit * self.problem.reader.source.n_rows)

    def finish(self, state: FullBatchState) -> SolverResult:
        result, before = super().finish(state), self.before
        history, facts = [*before.history, *result.history], {**before.facts, **result.facts}
        tried = result.tried if before.unfinished else before.tried
        share = before.share if result.alpha == before.alpha else 1.0
        return replace(result, share=share, history=history, facts=facts, tried=tried)
