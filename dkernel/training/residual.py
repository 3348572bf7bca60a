"""The residual of the global stage, which the local stages learn."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.rows import array_digest
from dkernel.numerics.threads import for_each, usable_cores
from dkernel.solvers.fit_problem import FitProblem, FitRun
from dkernel.solvers.objective import Coefficients, Objective
from dkernel.solvers.reservoir_split import select_rows
from dkernel.solvers.targets import residual_bound
from dkernel.streaming.schedule import Partition, RowSlice
from dkernel.streaming.survey import RowSample, SurveyResult
from dkernel.training.holdout_losses import HoldoutLosses

GROUP_SAMPLE = 16_384  # sampled rows of a local stage, enough to estimate the outputs of a group of grids
SCORED_ROWS = 16_384  # rows that a thread scores at a time


@dataclass(frozen=True, eq=False)
class ResidualRows:
    """Rows in memory, with their targets and the scores of the global stage.

    Parameters
    ----------
    X : raw features (rows, p)
    Y : targets (rows, outputs)
    weight : weight of each row, float64 (rows,)
    scores : scores of the global stage, float32 (rows, outputs)
    """

    X: NDArray[Any]
    Y: F32
    weight: F64
    scores: F32


@dataclass(frozen=True, eq=False)
class Residual:
    """The residual of a global stage.

    Parameters
    ----------
    problem : the problem that the global stage has solved
    survey : survey of the source
    start : coefficients of the global stage
    pieces : pieces of the source, which together have all of its rows
    weight : sum of the weights of all rows; None if each row has the weight 1
    rival : losses of the best way so far; None for the first one
    """

    problem: FitProblem
    survey: SurveyResult
    start: Coefficients
    pieces: Partition
    weight: float | None
    rival: HoldoutLosses | None = None

    @property
    def objective(self) -> Objective:
        """Loss, map and targets of the global stage."""
        return self.problem.objective

    @property
    def run(self) -> FitRun:
        """The run of the fit."""
        return self.problem.run

    @cached_property
    def key(self) -> str:
        """Key of the fit and its global stage, with its coefficients: a callback may end the passes early."""
        return f"{self.run.key}-{array_digest(self.start[0])}"

    @cached_property
    def bound(self) -> float:
        """Largest absolute value of a residual."""
        return residual_bound(self.objective.targets, self.survey)

    @cached_property
    def sampled(self) -> Block:
        """Raw rows in memory, without the holdout."""
        return select_rows(self.problem.split.fitted, slice(GROUP_SAMPLE))

    @cached_property
    def sample(self) -> ResidualRows:
        """The sampled rows."""
        return self._rows(self.sampled)

    def some(self, most: int) -> ResidualRows:
        """Return a sample of at most `most` rows outside the holdout, by a reading if the reservoir has fewer rows."""
        problem, sizes = self.problem, self.problem.sizes
        if most <= len(problem.split.fitted.X) or sizes.reservoir >= sizes.n:
            return self._rows(select_rows(problem.split.fitted, slice(most)))
        sample = RowSample(self.objective.seed, sizes.n, min(sizes.n, most + sizes.holdout))
        rows = problem.reader.fold(sample, self.pieces, f"{self.key}-some-{most}", self.run.progress)
        first = np.searchsorted(rows.hashes, np.uint64(max(self.objective.threshold + 1, 0)))
        return self._rows(rows.part(slice(int(first), int(first) + most)))

    @cached_property
    def holdout(self) -> ResidualRows:
        """The rows of the holdout."""
        return self._rows(self.problem.split.holdout)

    @property
    def judges(self) -> bool:
        """True if the holdout has enough rows to compare fits."""
        return len(self.problem.split.holdout.X) >= 50  # with fewer rows nothing is compared

    def _rows(self, block: Block) -> ResidualRows:
        objective = self.problem.on_sample
        X, Y, weight, _ = objective.all_rows(block, RowSlice.whole(len(block.X)))
        ones = np.ones(len(Y)) if weight is None else weight[:, 0].astype(np.float64)
        scores = np.empty(Y.shape, np.float32)

        def score(first: int) -> None:
            some = slice(first, first + SCORED_ROWS)
            scores[some] = objective.components.scores(X[some], *self.start)

        for_each(score, range(0, len(X), SCORED_ROWS), usable_cores())
        return ResidualRows(X, Y, ones, scores)

    def losses(self, scores: F32) -> HoldoutLosses:
        """Return the losses of the rows of the holdout for these scores."""
        rows, objective = self.holdout, self.objective
        return HoldoutLosses.of(objective.loss, objective.targets, rows.Y, scores, rows.weight)
