"""The losses of the rows of the holdout, which compare the fits of local stages and of ways."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dkernel.losses.losses import Loss
from dkernel.losses.metrics import clearly_more, is_better
from dkernel.losses.scoring import BY_LOSS
from dkernel.numerics.array_types import F32, F64
from dkernel.solvers.objective import count_correct
from dkernel.solvers.targets import Targets


def judge_rows(loss: Loss, Y: F32, scores: F32) -> F64:
    """Return the loss of each row, of all outputs together, for targets and scores (rows, outputs)."""
    return np.asarray(loss.judging_value(Y, scores).sum(axis=1, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class HoldoutLosses:
    """The losses of the rows of the holdout for the scores of one fit.

    Parameters
    ----------
    loss : name of the loss, or of the scorer of the recipe
    values : values of `Loss.judging_value`, float64 (rows,)
    wrong : 1 where the label is wrong, else 0, float64 (rows,); None for numbers, and if the recipe has a scorer
    weight : weight of each row, float64 (rows,)
    merit : accuracy of all rows, or the rmse
    """

    loss: str
    values: F64
    wrong: F64 | None
    weight: F64
    merit: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, loss: Loss, targets: Targets, Y: F32, scores: F32, weight: F64) -> "HoldoutLosses":
        """Compute the losses of rows with these targets and scores, float32 (rows, outputs)."""
        by_loss = loss.scoring == BY_LOSS
        wrong = targets.wrong(Y, scores).astype(np.float64) if by_loss and targets.classes is not None else None
        merit = targets.merit(count_correct(targets, Y, scores), len(Y))
        return cls(loss.text if by_loss else loss.scoring, judge_rows(loss, Y, scores), wrong, weight, merit)

    @property
    def mean(self) -> float:
        """The mean loss; 0 without rows."""
        return self._average(self.values)

    def _average(self, values: F64) -> float:
        return float(self.weight @ values / self.weight.sum()) if len(self.weight) else 0.0

    @property
    def figures(self) -> dict[str, float]:
        """Loss, number of rows and merit, as a solver has them; empty without rows."""
        n = len(self.weight)
        return {"loss": self.mean, "rows": n, **self.merit} if n else {}

    def is_better(self, other: "HoldoutLosses") -> bool:
        """True if the mean loss is clearly smaller, or the wrong labels are fewer where the kinds of loss differ."""
        if self.loss == other.loss or self.wrong is None or other.wrong is None:
            return is_better(self.values, other.values, self.weight)
        return is_better(self.wrong, other.wrong, self.weight)

    def spoils_labels(self, other: "HoldoutLosses") -> bool:
        """True if clearly more labels are wrong than with the other scores; False for numbers."""
        if self.wrong is None or other.wrong is None:
            return False
        return clearly_more(self.wrong, other.wrong, self.weight)

    @property
    def error(self) -> float:
        """The share of wrong labels; the mean loss where no labels are judged."""
        return self.mean if self.wrong is None else self._average(self.wrong)

    def stays_behind(self, rival: "HoldoutLosses | None", errors: Sequence[float], left: int) -> bool:
        """True if the error is clearly larger than with the scores of a rival, and stays above it.

        A learning curve flattens, so a later step gains no more than the last half of the steps did in the mean.

        Parameters
        ----------
        errors : errors after each step so far, the last one of these scores
        left : number of steps that are left
        """
        half, steps = len(errors) // 2, len(errors) - 1 - len(errors) // 2
        if rival is None or steps < 2 or errors[-1] - left * (errors[half] - errors[-1]) / steps <= rival.error:
            return False
        return rival.is_better(self) if self.wrong is None else self.spoils_labels(rival)


def find_best(fits: Sequence[HoldoutLosses]) -> int:
    """Return the number of the best fit: the first one of which no other is clearly better; the simplest come first.

    A loss may fall while more labels become wrong, so a fit with clearly more wrong labels than another is left out.
    """
    left = [i for i, fit in enumerate(fits) if not any(fit.spoils_labels(other) for other in fits)]
    return next((i for i in left if not any(fits[j].is_better(fits[i]) for j in left)), left[0])
