"""`solver="psgd"`: passes of rounds over the data; the holdout chooses among their iterates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkernel.model.journal import State
from dkernel.model.serialization import stored
from dkernel.numerics.array_types import F64
from dkernel.solvers.covariance import needs_sketch
from dkernel.solvers.driver import Solver, SolverResult
from dkernel.solvers.fit_problem import FitProblem
from dkernel.solvers.objective import GradientSum, LossSums
from dkernel.solvers.sgd_round import SGD, SGDHeads, SGDState
from dkernel.solvers.sizes import Sizes
from dkernel.streaming.schedule import join_rounds

WORSE_PASS = 1.05  # a pass whose best candidate is worse than its start by this much is undone
WINDOW = "average"  # without a holdout this mean of the iterates is returned
FEW_ROUNDS = 8  # if there are fewer rounds, one may have most of the loss by chance


@stored("PassState")
@dataclass(frozen=True, eq=False)
class PassState(State):
    """The position of the passes.

    Parameters
    ----------
    sgd : of the pass that runs, `sgd.done` rounds into it
    before : v at the beginning of that pass
    best : of the passes that are over; None before the start is judged
    epoch, retries : passes that are over; repetitions of passes so far
    shrink : of the step, after passes that made things worse
    watched : line of a round that waits for the holdout's figures
    """

    sgd: SGDState
    before: F64
    best: SolverResult | None = None
    epoch: int = 0
    retries: int = 0
    shrink: float = 1.0
    watched: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the running pass, in its tasks and in the history."""
        return f"pass-{self.epoch}-{self.retries}"

    @property
    def done(self) -> int:
        return self.sgd.done


class PSGDSolver(Solver[PassState]):
    """The passes of one fit."""

    phase = "rounds"

    def __init__(self, problem: FitProblem) -> None:
        super().__init__(problem)
        self.objective, self.solver, self.progress = problem.objective, problem.setup.solver, problem.run.progress
        self.sgd = SGD(problem.reader, [SGDHeads(problem.objective, problem.coordinates, [self.solver])], self.key)
        # The epochs on the sample of small data were passes over most of it: the step has decayed once by then.
        self.decayed = 0 if problem.sizes.large else 1

    def close(self) -> None:
        self.sgd.close()
        super().close()

    @classmethod
    def readings(cls, sizes: Sizes) -> int:
        return sizes.passes + sizes.polish

    def start(self) -> PassState:
        start = self.problem.setup.start
        return PassState(self.solver.start(start), start)

    def where(self, state: PassState) -> str:
        return f"pass {state.epoch + 1} round {state.done}/{len(self.problem.schedules[0])}"

    def finish(self, state: PassState) -> SolverResult:
        assert state.best is not None
        first = np.eye(1, self.solver.outputs)
        nothing = float(self.objective.loss.value(2 * first - 1, 0 * first).sum())
        facts = _rounds_not_learned(state.history, nothing)
        if state.epoch < len(self.problem.schedules):
            facts["passes"] = state.epoch
        # The holdout judges them after a polish, which begins at their last iterates.
        alphas, k = list(self.solver.alphas), self.solver.outputs
        below = [alpha for alpha in self.problem.setup.unfinished if alpha < state.best.alpha]
        starts = {alpha: state.before[:, alphas.index(alpha) * k :][:, :k] for alpha in below}
        return replace(state.best, history=list(state.history), facts=facts, unfinished=starts)

    def plan(self, state: PassState) -> Callable[[], Any] | None:
        judge = self.judge
        if state.watched is not None:
            return partial(judge, state.sgd.v[:, : self.solver.outputs], f"{state.name}-{state.done - 1}-watch")
        if self._is_over(state):
            name = "start" if state.best is None else state.name
            return partial(judge, np.concatenate([*self._candidates(state).values()], axis=1), f"{name}-judge")
        over = state.ended or state.epoch == len(self.problem.schedules)
        return None if over else self._round(state)

    def advance(self, state: PassState, result: Any) -> PassState:
        if state.watched is not None:
            line = {**state.watched, "holdout_loss": float(result.loss[0] / result.weight)}
            right = self.objective.targets.merit(float(result.right[0]), result.n)
            return self._report(state, line | {f"holdout_{name}": value for name, value in right.items()})
        return self._judge_pass(state, result) if self._is_over(state) else self._after_round(state, *result)

    def _is_over(self, state: PassState) -> bool:
        """True if the start, or a pass that has ended, is to be judged."""
        if state.best is None:
            return True
        return state.done > 0 and (state.ended or state.done == len(self.problem.schedules[state.epoch]))

    def _report(self, state: PassState, line: dict[str, Any]) -> PassState:
        return replace(state, history=(*state.history, line), steps=state.steps + 1, watched=None)

    def _candidates(self, state: PassState) -> dict[str, F64]:
        """Name -> coefficients to score on the holdout."""
        if state.best is None:
            return {"start": state.before}
        candidates = self.solver.candidates(state.sgd, state.done)
        if state.done < len(self.problem.schedules[state.epoch]):  # stopped by a callback: the means are not complete
            return {"last": candidates["last"]}
        return candidates

    def _judge_pass(self, state: PassState, figures: LossSums | None) -> PassState:
        """Take the best candidate after the last round of a pass, or undo the pass."""
        candidate, lines = self._choose(self._candidates(state), "start" if state.best is None else state.name, figures)
        if state.best is None:
            return replace(state, best=candidate, history=lines)
        state = replace(state, history=state.history + lines, steps=state.steps + 1)
        best = state.best
        assert best is not None
        failed = self._worse(candidate, best)
        v = state.before if failed else state.sgd.v
        # A pass is tried again twice, each time with a smaller step.
        if failed and state.retries < 2 and not state.ended:
            return replace(
                state, sgd=self.solver.start(v), before=v, retries=state.retries + 1, shrink=state.shrink / 2
            )
        # The start was fitted to the sample alone: a pass replaces it unless it failed.
        if not failed:
            best = candidate if figures is None or best.iterate == "start" else min(best, candidate, key=_loss)
        return replace(state, sgd=self.solver.start(v), before=v, best=best, epoch=state.epoch + 1)

    def _round(self, state: PassState) -> Callable[[], Any]:
        rounds, i = self.problem.schedules[state.epoch], state.done
        last = i + 1 == len(rounds)
        following = None if last else self.problem.reader.pieces_ahead(rounds, i)
        if last and state.epoch + 1 < len(self.problem.schedules):
            following = self.problem.schedules[state.epoch + 1][0]
        turn = f"{state.epoch + 1}/{len(self.problem.schedules)}"
        self.show(
            f"pass {turn}",
            lambda: int(join_rounds(rounds[i:]).rows().sum()),
            state.name,
            **{"pass": turn},
        )
        # Directions that a sketch does not know are learned by many steps, not by smaller ones: means take the noise.
        decay = 0 if needs_sketch(self.problem.coordinates) else state.epoch + self.decayed
        factor = state.shrink / (1 + 3 * decay)
        # A round whose rows are all of the holdout moves nothing, and counts: the means are over all rounds.
        return partial(self.sgd.round, [state.sgd], rounds[i], f"{state.name}-{i}", len(rounds), factor, following)

    def _after_round(self, state: PassState, after: Sequence[SGDState], totals: Sequence[GradientSum]) -> PassState:
        rounds, i, (sgd,), (total,) = self.problem.schedules[state.epoch], state.done, after, totals
        figures = {"loss": float(total.loss[0] / max(total.weight, 1e-300))}
        figures |= self.objective.targets.merit(float(total.right[0]), total.n)
        self.progress.advance(int(rounds[i].rows().sum()), round=f"{i + 1}/{len(rounds)}", **figures)
        line = {"pass": state.epoch + 1, "round": i + 1, "rows": total.n, **figures}
        state = replace(state, sgd=sgd)
        # Callbacks see the holdout's loss after a few rounds.
        if self.problem.watched and len(self.problem.split.holdout.X) and (i + 1) % 8 == 0:
            return replace(state, watched=line)
        return self._report(state, line)

    def _choose(
        self, candidates: dict[str, F64], name: str, sums: LossSums | None
    ) -> tuple[SolverResult, tuple[dict[str, Any], ...]]:
        """The candidate and the alpha with the smallest loss on the holdout, and their line of the history."""
        outputs, alphas = self.solver.outputs, self.solver.alphas
        shares = self.solver.shares or [1.0] * len(alphas)
        if sums is None:
            v = candidates.get(WINDOW, next(iter(candidates.values())))
            iterate = WINDOW if WINDOW in candidates else name
            return SolverResult(np.ascontiguousarray(v[:, :outputs]), alphas[0], shares[0], iterate, [], {}), ()
        names = list(candidates)
        loss = sums.loss / sums.weight
        i = int(np.argmin(loss))
        iterate, j = names[i // len(alphas)], i % len(alphas)
        figures = {"loss": float(loss[i]), "rows": int(sums.n)} | self.objective.targets.merit(
            float(sums.right[i]), sums.n
        )
        line = {"holdout": name, "iterate": iterate, "alpha": alphas[j], "share_of_step": shares[j], **figures}
        path = line["path"] = _least_losses(alphas, loss.reshape(len(names), -1).min(axis=0))
        v = np.ascontiguousarray(candidates[iterate][:, j * outputs : (j + 1) * outputs])
        return SolverResult(v, alphas[j], shares[j], iterate, [], figures, tried=path), (line,)

    def _worse(self, candidate: SolverResult, before: SolverResult) -> bool:
        if not candidate.holdout:
            return not np.isfinite(candidate.v).all()
        loss = candidate.holdout["loss"]
        return not loss <= WORSE_PASS * before.holdout["loss"]


def _least_losses(alphas: Sequence[float], losses: F64) -> dict[str, float]:
    """Alpha -> its smallest loss, of all steps and means."""
    best: dict[str, float] = {}
    for alpha, loss in zip(alphas, losses.tolist(), strict=True):
        best[f"{alpha:g}"] = min(loss, best.get(f"{alpha:g}", loss))
    return best


def _loss(outcome: SolverResult) -> float:
    return outcome.holdout["loss"]


def _rounds_not_learned(history: Sequence[dict[str, Any]], nothing: float) -> dict[str, Any]:
    """Losses of the last pass, if one round has more than all others together, and more than scores of 0 have.

    Steps are cut where few far rows make the gradient long, so rounds may not learn them.

    Parameters
    ----------
    nothing : loss of scores of 0

    Examples
    --------
    >>> lines = [{"pass": 1, "round": i, "loss": 0.25} for i in range(8)]
    >>> _rounds_not_learned(lines, 0.5)
    {}
    >>> lines[5]["loss"] = 30.0
    >>> _rounds_not_learned(lines, 0.5)
    {'solver': {'converged': False, 'worst_round': 30.0, 'usual_round': 0.25}}

    A pass that is undone and done again counts once:

    >>> _rounds_not_learned(lines + lines, 0.5)
    {'solver': {'converged': False, 'worst_round': 30.0, 'usual_round': 0.25}}
    """
    lines = [line for line in history if "round" in line]
    losses = list({line["round"]: line["loss"] for line in lines if line["pass"] == lines[-1]["pass"]}.values())
    if len(losses) < FEW_ROUNDS or not max(losses) > max(nothing, sum(losses) / 2):
        return {}
    return {"solver": {"converged": False, "worst_round": max(losses), "usual_round": float(np.median(losses))}}
