"""The passes over the data: rounds, progress, and the holdout that chooses. ALGORITHMS 3.2, steps H and I."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.linear.solvers.psgd import PSGD, State
from dkernel.run.executors import Handle
from dkernel.run.feed import Feed
from dkernel.run.gradient import Gradient, GradientSum
from dkernel.run.pieces import Piece, Schedule
from dkernel.run.prepare import Bench, judged, mean_gradient

__all__ = ["Outcome", "Passes"]

Array = NDArray[np.float64]

WORSE = 1.05  # a pass whose best candidate is worse than its start by this much is undone
MOST_RETRIES = 2


@dataclass(frozen=True, eq=False)
class Outcome:
    """The coefficients chosen, (n + 1, outputs), and what is known of them."""

    v: Array
    alpha: float
    share: float
    iterate: str
    history: list[dict[str, Any]]
    holdout: dict[str, float]


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
    """

    bench: Bench
    solver: PSGD
    feed: Feed
    schedules: Sequence[Schedule]
    holdout: tuple[Handle, int] | None
    progress: Any
    inside: Bench
    decayed: int = 0
    window: str = "average"
    history: list[dict[str, Any]] = field(default_factory=list)

    def run(self, start: Array) -> Outcome:
        """All passes, from `start`; the best candidate of them all."""
        best = self._choose({"start": start}, "start")
        state, shrink, epoch, retries = self.solver.start(start), 1.0, 0, 0
        gradient = self.bench.executor.keep(Gradient(self.bench.problem), f"{self.bench.key}-pass-Gradient")
        while epoch < len(self.schedules):
            before, name = state.v, f"pass-{epoch}-{retries}"
            state = self._pass(self.solver.start(before), epoch, shrink, gradient, name)
            rounds = len(self.schedules[epoch].rounds)
            found = self._choose(self.solver.candidates(state, rounds), name)
            failed = self._worse(found, best)
            if failed and retries < MOST_RETRIES:
                retries, shrink = retries + 1, shrink / 2
                state = self.solver.start(before)
                self.progress.message(
                    f"pass {epoch + 1} made the holdout loss worse: undone, and repeated with half the step"
                )
                continue
            # The start was fitted to the sample alone: a pass replaces it unless it failed.
            if failed:
                state = self.solver.start(before)
            else:
                best = found if self.holdout is None or best.iterate == "start" else min(best, found, key=_loss)
            epoch += 1
        self.bench.executor.release([gradient])
        return Outcome(best.v, best.alpha, best.share, best.iterate, self.history, best.holdout)

    def _pass(self, state: State, epoch: int, shrink: float, gradient: Handle, name: str) -> State:
        rounds = self.schedules[epoch].rounds
        following: tuple[Piece, ...] = self.schedules[epoch + 1].rounds[0] if epoch + 1 < len(self.schedules) else ()
        factor = shrink / (1 + 3 * (epoch + self.decayed))
        n = sum(piece.n for turn in rounds for piece in turn)
        self.progress.phase(f"pass {epoch + 1}/{len(self.schedules)}", n)
        executor = self.bench.executor
        for i, pieces in enumerate(rounds):
            key = f"{self.bench.key}-{name}-{i}"
            broadcast = executor.keep(self.bench.coefficients(state.v), key)
            total = self.feed.reduce(
                Gradient(self.bench.problem),
                pieces,
                key,
                following=rounds[i + 1] if i + 1 < len(rounds) else following,
                held=gradient,
                broadcast=broadcast,
            )
            executor.release([broadcast])
            # A round whose rows are all of the holdout moves nothing, and counts: the means are over all rounds.
            mean = mean_gradient(self.bench.coordinates, total)
            state = self.solver.advance(state, mean, total.n, len(rounds), factor)
            self._report(epoch, i, len(rounds), pieces, total)
        return state

    def _report(self, epoch: int, i: int, rounds: int, pieces: Sequence[Piece], total: GradientSum) -> None:
        figures = {"loss": float(total.loss[0] / max(total.weight, 1e-300))}
        figures |= self._figure(total.right, total.n)
        self.history.append({"pass": epoch + 1, "round": i + 1, "rows": total.n, **figures})
        self.progress.advance(sum(piece.n for piece in pieces), round=f"{i + 1}/{rounds}", **figures)

    def _figure(self, right: float, n: int) -> dict[str, float]:
        targets = self.bench.problem.targets
        if targets.classes is None:
            return {"rmse": targets.width * float(np.sqrt(right / max(n, 1)))}
        return {"accuracy": right / max(n, 1)}

    def _choose(self, candidates: dict[str, Array], name: str) -> Outcome:
        """The candidate, and the alpha, with the smallest loss on the holdout."""
        outputs, alphas = self.solver.outputs, self.solver.alphas
        shares = self.solver.shares or [1.0] * len(alphas)
        if self.holdout is None:
            v = candidates.get(self.window, next(iter(candidates.values())))
            iterate = self.window if self.window in candidates else name
            return Outcome(v[:, :outputs], alphas[0], shares[0], iterate, [], {})
        names = list(candidates)
        found = judged(
            self.inside, *self.holdout, np.concatenate([candidates[c] for c in names], axis=1), f"{name}-judge"
        )
        loss = found.loss / found.weight
        i = int(np.argmin(loss))
        iterate, j = names[i // len(alphas)], i % len(alphas)
        figures = {"loss": float(loss[i]), "rows": int(found.n), **self._figure(float(found.right[i]), found.n)}
        self.history.append(
            {"holdout": name, "iterate": iterate, "alpha": alphas[j], "share_of_step": shares[j], **figures}
        )
        v = candidates[iterate][:, j * outputs : (j + 1) * outputs]
        return Outcome(v, alphas[j], shares[j], iterate, [], figures)

    def _worse(self, found: Outcome, before: Outcome) -> bool:
        if self.holdout is None:
            return not np.isfinite(found.v).all()
        loss = found.holdout["loss"]
        return not loss <= WORSE * before.holdout["loss"]


def _loss(outcome: Outcome) -> float:
    return outcome.holdout["loss"]
