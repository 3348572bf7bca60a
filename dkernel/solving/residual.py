"""The residual of the global stage, which all fits of a local stage to one source share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.persistence.journal import Journal
from dkernel.problem.objective import Coefficients, Problem, count_correct
from dkernel.streaming.block_reader import BlockReader
from dkernel.streaming.schedule import RowRange, RowSlice

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows in memory.

    Parameters
    ----------
    X : raw features (rows, p)
    Y : targets (rows, outputs)
    weight : float64 (rows,)
    scores : of the global stage, float32 (rows, outputs)
    """

    X: NDArray[Any]
    Y: F32
    weight: F64
    scores: F32


@dataclass(frozen=True, eq=False)
class ResidualContext:
    """A source, the global stage that was fitted to it, and the rows to judge by.

    Parameters
    ----------
    start : coefficients of the global stage
    pieces : all of the feed's
    sampled : rows that the fit may hold in memory, raw; none of the holdout
    held_out : rows that no residual is taken of, raw; may be empty
    weight : of all rows, None where each has the weight 1
    bound : of a residual
    key : of the fit and of its global stage
    scratch : folder for rows on disk; None for the local one of each process
    alone : whether the local stage may learn the label, without a global stage, where the holdout prefers it
    """

    problem: Problem
    start: Coefficients
    feed: BlockReader
    pieces: Sequence[RowSlice]
    sampled: Block
    held_out: Block
    weight: float | None
    bound: float
    key: str
    progress: Any
    journal: Journal
    scratch: str | None
    alone: bool = False

    @cached_property
    def sample(self) -> Rows:
        """The sampled rows."""
        return self._rows(self.sampled)

    @cached_property
    def holdout(self) -> Rows:
        """The rows to judge by."""
        return self._rows(self.held_out)

    @property
    def judges(self) -> bool:
        """True where the holdout has enough rows to judge by."""
        return len(self.held_out.X) >= 50  # rows below which nothing is judged

    def _rows(self, block: Block) -> Rows:
        problem = replace(self.problem, threshold=-1)  # no row of these is kept back
        X, Y, weight, _ = problem.all_rows(block, RowSlice(0, RowRange(0, 0, 0, len(block.X)), len(block.X), 0))
        ones = np.ones(len(Y)) if weight is None else weight[:, 0].astype(np.float64)
        return Rows(X, Y, ones, problem.components.scores(X, *self.start).astype(np.float32))

    def figures(self, scores: F32) -> dict[str, float]:
        """Loss and merit of scores of the holdout, as a solver gives them; nothing without a holdout."""
        rows, targets = self.holdout, self.problem.targets
        if not len(rows.Y):
            return {}
        loss = self.problem.loss.judged(rows.Y, scores).sum(axis=1, dtype=np.float64)
        found = {"loss": float(rows.weight @ loss / rows.weight.sum()), "rows": len(rows.Y)}
        return found | targets.merit(count_correct(targets, rows.Y, scores), len(rows.Y))

    def gain(self, scores: F32) -> tuple[float, float, float]:
        """Mean loss of the holdout by the global stage, by other scores, and the standard error of the difference."""
        rows = self.holdout
        judged, share = self.problem.loss.judged, rows.weight / rows.weight.sum()
        before, after = (judged(rows.Y, S).sum(axis=1, dtype=np.float64) for S in (rows.scores, scores))
        difference = after - before
        mean = float(share @ difference)
        error = float(np.sqrt(np.square(share) @ np.square(difference - mean)))
        return float(share @ before), float(share @ after), error
