"""What the fits of local stages to rows of the reservoir have in common, in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.features import Scaling
from dkernel.losses.losses import Loss
from dkernel.model.local.inputs import GridInputs
from dkernel.numerics.array_types import F64
from dkernel.solvers.targets import Targets
from dkernel.training.selection.descent import Place
from dkernel.training.selection.evaluation import FitValidationSplit, StageScores
from dkernel.training.selection.stage_settings import NOTHING, RaceFindings


@dataclass(frozen=True, eq=False)
class SampleProblem:
    """What all local stages on the sample share.

    Parameters
    ----------
    bound : of a residual
    scaling : to standard scores
    inputs : of the grids
    seed : of the grids
    """

    loss: Loss
    targets: Targets
    scaling: Scaling
    inputs: GridInputs
    bound: float
    seed: int

    def losses(self, split: FitValidationSplit, scores: NDArray[np.floating]) -> F64:
        """Loss of each row that judges."""
        values = self.loss.judging_value(self.targets.of(split.y_judged), scores)
        return np.asarray(values.reshape(len(values), -1).sum(axis=1, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class StageTrial:
    """The best fit of a way to some rows.

    Parameters
    ----------
    losses : of the rows that judge, float64 (judged,)
    findings : for its local stage
    """

    losses: F64
    findings: RaceFindings = NOTHING


def constant_scores(split: FitValidationSplit, targets: Targets, rows: int) -> StageScores:
    """Scores of the global stage of features="none", the mean of the targets."""
    weight = None if split.weight is None else split.weight[:rows]
    mean = np.average(targets.of(split.y[:rows]), axis=0, weights=weight).astype(np.float32)
    return StageScores(np.tile(mean, (rows, 1)), np.tile(mean, (len(split.y_judged), 1)))


def mean_loss(losses: Callable[[Place], F64], split: FitValidationSplit) -> Callable[[Place], float]:
    """Place -> the mean of the losses of the rows that judge."""
    return lambda place: float(np.average(losses(place), weights=split.weight_judged))


@dataclass(frozen=True)
class SampledStage:
    """A local stage in a race.

    Parameters
    ----------
    learn : (problem, rows, threads) -> what all of its fits share
    fit : (problem, rows, number of rows to fit, scores of the global stage, what they share, place or None) -> trial
    most_rows : largest sample that it is fitted to
    """

    learn: Callable[[SampleProblem, FitValidationSplit, int], Any]
    fit: Callable[..., StageTrial]
    most_rows: float = inf
