"""The judge of a choice: it fits candidates to rows of the reservoir, on the executor, and remembers their losses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkernel.features import Drawing, Scaling
from dkernel.kernels import Kernel
from dkernel.losses.losses import Loss
from dkernel.losses.metrics import is_better
from dkernel.streaming.execution.base import Call, Executor
from dkernel.training.selection.candidates import Candidate
from dkernel.training.selection.evaluation import (
    MOMENT_PARTS,
    CandidateLoss,
    Fidelity,
    FitValidationSplit,
    evaluate_candidate,
    measure_gradient_moment,
)
from dkernel.training.selection.joint_loss import fit_linear, linear_flops


class Trial(NamedTuple):
    """A candidate and its result at one fidelity."""

    candidate: Candidate
    result: CandidateLoss

    @property
    def loss(self) -> float:
        return self.result.loss


@dataclass(eq=False)
class Judge:
    """Fits and judges candidates, within a budget of predicted flops.

    Parameters
    ----------
    split : rows to fit on and to judge on, with loss and targets
    p : columns of the rows; for sparse rows the numbers in a row
    components : components of the whole fit; no fidelity has more
    drawing : drawing of the fit's components, None for landmarks
    budget : flops that the whole choice may take
    tell : is told how many candidates were fitted, and of the ways of a race
    spent : flops that it has taken
    levels : trials that were judged together, the best first
    """

    split: FitValidationSplit
    p: int
    components: int
    drawing: Drawing | None
    budget: float
    executor: Executor
    key: str
    tell: Callable[..., None] = lambda **_: None
    spent: float = 0.0
    calls: int = 0
    levels: list[list[Trial]] = field(default_factory=list)
    known: dict[tuple[Candidate, Fidelity, bool], Trial] = field(default_factory=dict)

    def __enter__(self) -> "Judge":
        self.handle = self.executor.keep(self.split, f"{self.key}-reservoir")
        return self

    def __exit__(self, *error: object) -> None:
        self.executor.release([self.handle])

    @property
    def judged(self) -> list[Candidate]:
        """All candidates that were judged."""
        return [candidate for candidate, _, _ in self.known]

    def within(self, fidelity: Fidelity) -> Fidelity:
        """Limit the fidelity to the components of the fit and to the rows of the split."""
        return fidelity.within(self.components, self.split)

    def affordable_fidelity(self, fidelity: Fidelity, families: Sequence[Kernel], least: int) -> Fidelity:
        """Halve a fidelity, down to `least` components, until fits of these kernels are within the budget."""
        drawn, remaining = self.drawing is not None, self.budget - self.spent
        while fidelity.components > least and sum(fidelity.flops(f, self.p, drawn) for f in families) > remaining:
            fidelity = replace(fidelity, components=fidelity.components // 2, rows=max(fidelity.rows // 2, 2048))
        return fidelity

    def trials(self, candidates: Sequence[Candidate], fidelity: Fidelity, drawn: bool = True) -> list[Trial]:
        """Fit and judge candidates, the best first; unless `drawn`, all have landmarks."""
        fidelity = self.within(fidelity)
        self.calls += 1
        drawing = self.drawing if drawn else None
        new = [c for c in candidates if (c, fidelity, drawn) not in self.known]
        self.spent += sum(fidelity.flops(c.family, self.p, drawing is not None) for c in new)
        threads = self.executor.threads_each(max(1, len(new)))
        rest = self.handle, fidelity, threads, drawing
        calls = [
            Call(
                f"{self.key}-{self.calls}-{i}",
                evaluate_candidate,
                (c.kernel, c.scaling, *rest, c.plain, self._near_alpha(c)),
            )
            for i, c in enumerate(new)
        ]
        for candidate, result in zip(new, self.executor.compute(calls)[0], strict=True):
            self.known[candidate, fidelity, drawn] = Trial(candidate, result)
        self.tell(candidates=len(self.known))
        level = sorted((self.known[c, fidelity, drawn] for c in candidates), key=lambda trial: trial.loss)
        self.levels.append(level)
        return level

    def is_better(self, one: Trial, other: Trial) -> bool:
        """True if a trial has a clearly smaller loss than another one, on the rows of both."""
        ours, others, weight = one.result.losses, other.result.losses, self.split.weight_judged
        if ours is None or others is None:  # one of them could not be fitted
            return one.loss < other.loss
        rows = min(len(ours), len(others))  # a fidelity judges the first rows
        return is_better(ours[:rows], others[:rows], None if weight is None else weight[:rows])

    def _near_alpha(self, candidate: Candidate) -> float | None:
        """Return the best alpha of its family so far."""
        results = [trial.result for trial in self.known.values() if trial.candidate.family is candidate.family]
        return min(results, key=lambda result: result.loss).alpha if results else None

    def gradient_moment(self, trial: Trial, fidelity: Fidelity, seed: int) -> NDArray[np.float64]:
        """Return the gradient moment of the function that a trial fitted, float64 (p, p)."""
        if self.drawing is not None:  # the moment is that of an expansion in landmarks
            trial = self.trials([trial.candidate], fidelity, drawn=False)[0]
        candidate, result = trial
        calls = [
            Call(
                f"{self.key}-moment-{self.calls}-{part}",
                measure_gradient_moment,
                (candidate.kernel, candidate.scaling, self.handle, result.coef, self.within(fidelity), seed, part),
            )
            for part in range(MOMENT_PARTS)
        ]
        first, *others = self.executor.compute(calls)[0]
        total: NDArray[np.float64] = sum(others, first)
        return total

    def joint_linear(
        self, scaling: Scaling, loss: Loss, fidelity: Fidelity, alpha: str | float
    ) -> CandidateLoss | None:
        """Fit and judge the linear kernel with a loss of all classes at once; None if the budget is spent."""
        self.spent += linear_flops(self.p, self.split.targets.outputs, fidelity)
        if self.spent > self.budget:
            return None
        work = scaling, self.handle, loss, fidelity, alpha
        call = Call(f"{self.key}-joint-{fidelity.rows}", fit_linear, work)
        result: CandidateLoss = self.executor.compute([call])[0][0]
        return result
