"""The passes over the data: rounds, progress, and the holdout that chooses."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.execution.base import Handle
from dkernel.linear.solvers.psgd import PSGD, State
from dkernel.persistence.journal import Journal
from dkernel.persistence.serialization import stored
from dkernel.problem.objective import Gradient
from dkernel.problem.targets import Targets
from dkernel.solving.sgd_setup import SampleEvaluator, evaluate_candidates, is_wide, mean_gradient
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import RowSlice, Schedule

__all__ = ["PassState", "Passes", "SolverResult", "Told", "merit"]

Array = NDArray[np.float64]

WORSE = 1.05  # a pass whose best candidate is worse than its start by this much is undone
MOST_RETRIES = 2  # of a pass, each with a smaller step
WATCHED = 8  # rounds from one look at the holdout to the next, where somebody wants them

Told = Callable[[dict[str, Any]], Any]


@stored("Outcome")
@dataclass(frozen=True, eq=False)
class SolverResult:
    """The coefficients chosen, (n + 1, outputs), and what is known of them; `facts` go to the model.

    `variance` is what a ridge regression says of its own error, in the solver's coordinates and the targets' unit.
    """

    v: Array
    alpha: float
    share: float
    iterate: str
    history: list[dict[str, Any]]
    holdout: dict[str, float]
    facts: dict[str, Any] = field(default_factory=dict)
    variance: dict[str, Any] | None = None


@stored("Spot")
@dataclass(frozen=True, eq=False)
class PassState:
    """Where the passes are: all that the next step needs, so that a run that is stopped goes on from it.

    Parameters
    ----------
    state : of the pass that runs, `state.done` rounds into it
    before : v at the beginning of that pass
    best : of the passes that are over
    history : of the rounds and judgements so far
    epoch, retries : passes that are over; repetitions of passes so far
    shrink : of the step, after passes that made things worse
    steps : rounds and judgements so far
    """

    state: State
    before: Array
    best: SolverResult
    history: tuple[dict[str, Any], ...]
    epoch: int = 0
    retries: int = 0
    shrink: float = 1.0
    steps: int = 0

    @property
    def name(self) -> str:
        """Of the pass that runs, in the names of its tasks and in the history."""
        return f"pass-{self.epoch}-{self.retries}"


@dataclass(eq=False)
class Passes:
    """Runs the passes of one fit.

    Parameters
    ----------
    schedules : pieces of the rounds, one schedule a pass
    inside : the bench that knows no holdout: what judges its rows
    holdout : handle of the holdout's block and its rows, None for none
    decayed : passes' worth of decay that the step has behind it
    window : which mean to return where there is no holdout to choose
    journal : keeps the spots, and knows where a run before this one was
    patience : passes in a row without a smaller loss on the holdout, after which there are no more; 0 for all passes
    told : called with each line of the history as it is made; where it returns True the passes end, None for nobody
    watched : whether every eighth round is judged on the holdout too
    """

    bench: SampleEvaluator
    solver: PSGD
    feed: BlockReader
    schedules: Sequence[Schedule]
    holdout: tuple[Handle, int] | None
    progress: Any
    inside: SampleEvaluator
    decayed: int = 0
    window: str = "average"
    journal: Any = field(default_factory=Journal)
    patience: int = 0
    told: Told | None = None
    watched: bool = False

    def run(self, start: Array) -> SolverResult:
        """All passes, from `start` or from the journal's spot; the best candidate of them all."""
        spot: PassState = self.journal.spot(len(self._rounds(0))) or self._begun(start)
        gradient = self.bench.executor.keep(Gradient(self.bench.problem), f"{self.bench.key}-pass-Gradient")
        shown = ""
        with self.journal.kept():
            while spot.epoch < len(self.schedules) and not self._is_enough(spot):
                if shown != spot.name:
                    shown = self._show(spot)
                over = spot.state.done == len(self._rounds(spot.epoch))
                before, spot = spot, self._judged(spot) if over else self._after_round(spot, gradient)
                self.journal.reached(spot)
                if self._ends(spot.history[len(before.history) :]):
                    spot = self._judged(spot) if spot.state.done else spot
                    break
        self.bench.executor.release([gradient])
        return replace(spot.best, history=list(spot.history))

    def _is_enough(self, spot: PassState) -> bool:
        """Whether the passes since the best have been as many as patience goes."""
        losses = [line["loss"] for line in spot.history if "holdout" in line]
        since = len(losses) - 1 - int(np.argmin(losses)) if losses and not spot.state.done else 0
        if self.patience and since >= self.patience:
            self.progress.message(f"the loss on the holdout did not fall in {since} pass(es): stopped early")
            return True
        return False

    def _ends(self, lines: Sequence[dict[str, Any]]) -> bool:
        """Tell what is new; whether somebody wants no more of it."""
        wanted = [self.told(dict(line)) for line in lines] if self.told is not None else []
        return True in wanted

    def _rounds(self, epoch: int) -> Sequence[tuple[RowSlice, ...]]:
        return self.schedules[epoch].rounds

    def _show(self, spot: PassState) -> str:
        rounds = self._rounds(spot.epoch)
        rows = sum(piece.n for i in range(spot.state.done, len(rounds)) for piece in rounds[i])
        turn = f"{spot.epoch + 1}/{len(self.schedules)}"
        self.progress.phase(f"pass {turn}", rows, **{"pass": turn})
        return spot.name

    def _begun(self, start: Array) -> PassState:
        best, figures = self._choose({"start": start}, "start")
        return PassState(self.solver.start(start), start, best, figures)

    def _judged(self, spot: PassState) -> PassState:
        """After the last round of a pass: its best candidate, or the pass undone."""
        candidates = self.solver.candidates(spot.state, spot.state.done)
        if spot.state.done < len(self._rounds(spot.epoch)):  # ended by somebody: the means are not complete
            candidates = {"last": candidates["last"]}
        found, figures = self._choose(candidates, spot.name)
        spot = replace(spot, history=spot.history + figures, steps=spot.steps + 1)
        failed = self._worse(found, spot.best)
        v = spot.before if failed else spot.state.v
        if failed and spot.retries < MOST_RETRIES:
            self.progress.message(
                f"pass {spot.epoch + 1} made the holdout loss worse: undone, and repeated with half the step"
            )
            return replace(spot, state=self.solver.start(v), before=v, retries=spot.retries + 1, shrink=spot.shrink / 2)
        best = spot.best
        # The start was fitted to the sample alone: a pass replaces it unless it failed.
        if not failed:
            best = found if self.holdout is None or best.iterate == "start" else min(best, found, key=_loss)
        return replace(spot, state=self.solver.start(v), before=v, best=best, epoch=spot.epoch + 1)

    def _after_round(self, spot: PassState, gradient: Handle) -> PassState:
        rounds, i = self._rounds(spot.epoch), spot.state.done
        last = i + 1 == len(rounds)
        following: Sequence[RowSlice] = () if last else self.feed.following(rounds, i)
        if last and spot.epoch + 1 < len(self.schedules):
            following = self._rounds(spot.epoch + 1)[0]
        executor, key = self.bench.executor, f"{self.bench.key}-{spot.name}-{i}"
        broadcast = executor.keep(self.bench.coefficients(spot.state.v), key)
        with ThreadPoolExecutor(1) as meanwhile:
            pull = meanwhile.submit(self.solver.regularizer, spot.state.v)
            total = self.feed.reduce(
                Gradient(self.bench.problem), rounds[i], key, following=following, held=gradient, broadcast=broadcast
            )
        executor.release([broadcast])
        # A round whose rows are all of the holdout moves nothing, and counts: the means are over all rounds.
        mean = mean_gradient(self.bench.coordinates, total)
        # Directions that a sketch does not know are learned by many steps, not by smaller ones: means take the noise.
        decay = 0 if is_wide(self.bench.coordinates) else spot.epoch + self.decayed
        factor = spot.shrink / (1 + 3 * decay)
        state = self.solver.advance(spot.state, mean, total.n, len(rounds), factor, pull.result())
        figures = {"loss": float(total.loss[0] / max(total.weight, 1e-300))}
        figures |= merit(self.bench.problem.targets, float(total.right[0]), total.n)
        self.progress.advance(sum(piece.n for piece in rounds[i]), round=f"{i + 1}/{len(rounds)}", **figures)
        told = {"pass": spot.epoch + 1, "round": i + 1, "rows": total.n, **figures}
        if self.watched and self.holdout is not None and (i + 1) % WATCHED == 0:
            v = state.v[:, : self.solver.outputs]
            found = evaluate_candidates(self.inside, *self.holdout, v, f"{spot.name}-{i}-watch")
            told["holdout_loss"] = float(found.loss[0] / found.weight)
            right = merit(self.bench.problem.targets, float(found.right[0]), found.n)
            told |= {f"holdout_{name}": value for name, value in right.items()}
        return replace(spot, state=state, history=(*spot.history, told), steps=spot.steps + 1)

    def _choose(self, candidates: dict[str, Array], name: str) -> tuple[SolverResult, tuple[dict[str, Any], ...]]:
        """The candidate, and the alpha, with the smallest loss on the holdout; and what the history says of it."""
        outputs, alphas = self.solver.outputs, self.solver.alphas
        shares = self.solver.shares or [1.0] * len(alphas)
        if self.holdout is None:
            v = candidates.get(self.window, next(iter(candidates.values())))
            iterate = self.window if self.window in candidates else name
            return SolverResult(np.ascontiguousarray(v[:, :outputs]), alphas[0], shares[0], iterate, [], {}), ()
        names = list(candidates)
        found = evaluate_candidates(
            self.inside, *self.holdout, np.concatenate([candidates[c] for c in names], axis=1), f"{name}-judge"
        )
        loss = found.loss / found.weight
        i = int(np.argmin(loss))
        iterate, j = names[i // len(alphas)], i % len(alphas)
        figures = {"loss": float(loss[i]), "rows": int(found.n)}
        figures |= merit(self.bench.problem.targets, float(found.right[i]), found.n)
        told = {"holdout": name, "iterate": iterate, "alpha": alphas[j], "share_of_step": shares[j], **figures}
        told["path"] = _best_of(alphas, loss.reshape(len(names), -1).min(axis=0))
        v = np.ascontiguousarray(candidates[iterate][:, j * outputs : (j + 1) * outputs])
        return SolverResult(v, alphas[j], shares[j], iterate, [], figures), (told,)

    def _worse(self, found: SolverResult, before: SolverResult) -> bool:
        if self.holdout is None:
            return not np.isfinite(found.v).all()
        loss = found.holdout["loss"]
        return not loss <= WORSE * before.holdout["loss"]


def merit(targets: Targets, right: float, n: int) -> dict[str, float]:
    """What `right` answers on n rows say: the accuracy, or of a regression the rmse in the units of the label.

    Of several targets the rmse is that of all of them, each in its own standard deviation.
    """
    if targets.classes is None:
        return {"rmse": targets.rmse(right, n)}
    return {"accuracy": right / max(n, 1)}


def _best_of(alphas: Sequence[float], losses: Array) -> dict[str, float]:
    """Alpha -> its smallest loss, of all steps and means."""
    best: dict[str, float] = {}
    for alpha, loss in zip(alphas, losses.tolist(), strict=True):
        best[f"{alpha:g}"] = min(loss, best.get(f"{alpha:g}", loss))
    return best


def _loss(outcome: SolverResult) -> float:
    return outcome.holdout["loss"]
