"""Grids fitted to what the global stage leaves: a reading of all rows for each group of grids, and a small system.

A round reads the rows once. Each task brings the scores of its rows up to date with the change of the round before,
and adds their residuals, minus the derivative of the loss over the bound of its curvature, to the bins of the next
group of grids. The client joins the changes of the group (`dkernel.local.grids`). A step against an upper bound of the
loss cannot raise it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.execution import process_cache
from dkernel.linear.smoothing import SmoothedLoss
from dkernel.local.binning import Binning
from dkernel.local.grid_machine import coarse_to_fine, packed, unpacked
from dkernel.local.grids import COUNT_BITS, FixedPoint, joined
from dkernel.local.inputs import GridInputs
from dkernel.numerics import tiling
from dkernel.problem.objective import Coefficients, Problem, count_correct
from dkernel.solving.residual import ResidualContext
from dkernel.streaming.exact_sums import ExactStatistic, RepeatedReading
from dkernel.streaming.schedule import RowSlice

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

GROUP = 16
"""Grids of a round: as good as one grid after the other, and groups of 32 and 64 lag."""
WIDTHS = 2.0, 0.05
"""Of the window of a loss with kinks in the first and the last round, in deviations of the target: large steps first.
The quantiles 0.9 and 0.5 and the tube of a rough target are nearer to their shares, and have a smaller loss, than with
windows of 1 to 0.1, of 0.5 to 0.05, and of 0.5 and 0.2 alone."""

LOSS_DIGITS = 40  # of the integers that losses are added as


@dataclass(frozen=True, eq=False)
class GridSettings:
    """Settings of the grids.

    Parameters
    ----------
    inputs : of the grids
    gamma : of each input, float64 (n_inputs,)
    n_grids : a multiple of GROUP
    bits : of a code
    ridge : of a grid
    seed : of the grids
    """

    inputs: GridInputs
    gamma: F64
    n_grids: int
    bits: int
    ridge: float
    seed: int

    @cached_property
    def binning(self) -> Binning:
        """All grids."""
        return coarse_to_fine(self.gamma, self.inputs.categorical, self.n_grids, self.bits, self.seed)


@dataclass(frozen=True, eq=False)
class Turn:
    """Values that a round sends to its tasks.

    Parameters
    ----------
    number : of the round, from 0
    width : of the window that smooths a loss with kinks, 0 for a smooth loss
    change : of the coefficients of the group before, float32 (GROUP, n_bins, outputs); None in the first round
    history : the coefficients of all groups before, where rows have lost their scores
    """

    number: int
    width: float = 0.0
    change: F32 | None = None
    history: F32 | None = None


@dataclass
class BinSums:
    """Sums over rows: the tables of a group's bins, loss and right answers, weight and rows.

    Parameters
    ----------
    table : int64 (GROUP, n_bins, outputs + 1)
    loss, right, weight : multiples of 2^-LOSS_DIGITS
    partial : sums of some rows, int64 (GROUP, n_bins, words), see `FixedPoint`; None when the total is finished
    rows : that `partial` holds
    """

    table: NDArray[np.int64]
    loss: int = 0
    right: int = 0
    weight: int = 0
    n: int = 0
    partial: NDArray[np.int64] | None = None
    rows: int = 0


@dataclass(frozen=True, eq=False)
class _Rows:
    """A piece as all rounds need it: inputs of the grids, targets, weights, and the rows to learn from."""

    X: F32
    Y: F32
    weight: F32 | None
    keep: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GridRound(ExactStatistic[BinSums]):
    """The sums of the residuals in the bins of a group of grids.

    Parameters
    ----------
    start : of the global stage
    binning : of all grids
    run : name of the run in the process cache
    keep_rows : whether the inputs of the grids stay in memory too
    """

    problem: Problem
    start: Coefficients
    inputs: GridInputs
    binning: Binning
    fixed: FixedPoint
    run: str
    keep_rows: bool

    def zero(self, broadcast: Turn) -> BinSums:  # noqa: ARG002
        outputs, bins = self.problem.targets.outputs, (GROUP, self.binning.n_bins)
        partial = np.zeros((*bins, self.fixed.words(outputs)), np.int64)
        return BinSums(np.zeros((*bins, outputs + 1), np.int64), partial=partial)

    def add(self, total: BinSums, block: Block, piece: RowSlice, broadcast: Turn) -> bool:
        rows = self._rows(block, piece)
        S = self._scores(rows, block, piece, broadcast)
        if S is None:
            return False
        loss = self.problem.loss
        smooth = SmoothedLoss(loss, broadcast.width) if broadcast.width else loss
        residual = -smooth.derivative(rows.Y, S) / np.float32(smooth.curvature)
        values = self.fixed.rows(residual, rows.weight)
        values[~rows.keep] = 0
        assert total.partial is not None
        if total.rows + piece.n >= 1 << COUNT_BITS:
            self.fixed.unpack(total.partial, total.table)
            total.rows = 0
        self._part(broadcast.number).add_sums(rows.X, values, total.partial)
        total.rows += piece.n
        weight = rows.keep.astype(np.float64) if rows.weight is None else rows.weight[:, 0].astype(np.float64)
        total.loss += _exact(float(weight @ loss.value(rows.Y, S).sum(axis=1, dtype=np.float64)))
        total.right += _exact(count_correct(self.problem.targets, rows.Y[rows.keep], S[rows.keep]))
        total.weight += _exact(float(weight.sum()))
        total.n += int(np.count_nonzero(rows.keep))
        return True

    def finish(self, total: BinSums) -> BinSums:
        assert total.partial is not None
        self.fixed.unpack(total.partial, total.table)
        return replace(total, partial=None, rows=0)

    def merge(self, left: BinSums, right: BinSums) -> BinSums:
        left.table += right.table
        return BinSums(
            left.table, left.loss + right.loss, left.right + right.right, left.weight + right.weight, left.n + right.n
        )

    def _part(self, number: int) -> Binning:
        return self.binning.part(number * GROUP, (number + 1) * GROUP)

    def _rows(self, block: Block, piece: RowSlice) -> _Rows:
        name = "rows", piece.number
        found: _Rows | None = process_cache.get(self.run, name)
        if found is None:
            X, Y, weight, keep = self.problem.all_rows(block, piece)
            found = _Rows(self.inputs(X), Y, weight, keep)
            if self.keep_rows:
                process_cache.put(self.run, name, found)
        return found

    def _scores(self, rows: _Rows, block: Block, piece: RowSlice, turn: Turn) -> F32 | None:
        """Scores of the rows of a piece at the beginning of a round, (n, outputs); None where they are lost."""
        name = "scores", piece.number
        known: tuple[int, F32] | None = process_cache.get(self.run, name)
        if known is not None and known[0] == turn.number:
            return known[1]
        if turn.number == 0 or turn.history is not None:
            first = tiling.scores(self.problem.columns, block.X[piece.place.rows], *self.start)
            scores = np.ascontiguousarray(first, np.float32)
            if turn.history is not None:
                self.binning.part(0, len(turn.history)).add_scores(rows.X, turn.history, scores)
        elif known is not None and known[0] == turn.number - 1 and turn.change is not None:
            scores = known[1].copy()
            self._part(known[0]).add_scores(rows.X, turn.change, scores)
        else:
            return None
        process_cache.put(self.run, name, (turn.number, scores))
        return scores


def _exact(value: float) -> int:
    return round(value * 2.0**LOSS_DIGITS)


@dataclass(frozen=True, eq=False)
class GridFit:
    """Fitted grids.

    Parameters
    ----------
    coef : float32 (n_grids, n_bins, outputs)
    scores : of the holdout, float32 (rows, outputs)
    history : a line for each round
    """

    settings: GridSettings
    coef: F32
    scores: F32
    history: list[dict[str, Any]]


def fit_grids(
    context: ResidualContext, settings: GridSettings, name: str, tell: Callable[[dict[str, Any]], Any] | None = None
) -> GridFit:
    """Fit all grids, one group after the other.

    Parameters
    ----------
    name : of this fit among those of the context, and of its stage in the journal
    tell : called with the line of each round; where it returns True the other grids stay empty
    """
    executor, binning, inputs = context.feed.executor, settings.binning, settings.inputs
    run, rounds = f"{context.key}-{name}", settings.n_grids // GROUP
    widths = np.zeros(rounds) if context.problem.loss.smooth else np.geomspace(*WIDTHS, rounds)
    fixed = FixedPoint.of(context.bound, context.weight)
    statistic = GridRound(context.problem, context.start, inputs, binning, fixed, run, keep_rows=context.feed.keep)
    held = executor.keep(statistic, f"{run}-statistic")
    sample, holdout = np.ascontiguousarray(inputs(context.sample.X).T), inputs(context.holdout.X)
    scores = context.holdout.scores.copy()
    coef = np.zeros((settings.n_grids, binning.n_bins, context.problem.targets.outputs), np.float32)
    ridge = settings.ridge * settings.n_grids
    history: list[dict[str, Any]] = []
    kept = context.journal.parts(name)
    change: F32 | None = None
    with RepeatedReading(context.feed, context.pieces, run) as reading:
        for number in range(rounds):
            some = slice(number * GROUP, (number + 1) * GROUP)
            part = binning.part(some.start, some.stop)
            if number < len(kept):
                change, line = unpacked(kept[number]["change"], settings.bits), kept[number]["line"]
            else:
                turn = Turn(number, float(widths[number]), change)
                total = _read(context, reading, statistic, held, turn, coef[: some.start], settings)
                change = joined(coef[some], total.table, fixed, ridge, part.codes(sample), context.sample.weight)
                line = _line(context, total, number)
            coef[some] = change
            part.add_scores(holdout, change, scores)
            if number >= len(kept):
                judged = context.figures(scores)
                line |= {f"holdout_{name}": value for name, value in judged.items() if name != "rows"}
                if context.journal.keeps:
                    context.journal.part(name, {"change": packed(change), "line": line})
            history.append(line)
            if tell is not None and tell(dict(line)) is True:
                break
    executor.release([held])
    return GridFit(settings, coef, scores, history)


def _read(
    context: ResidualContext, reading: RepeatedReading, statistic: GridRound, held: Any, turn: Turn, before: F32,
    settings: GridSettings,
) -> BinSums:  # fmt: skip
    executor, key = context.feed.executor, f"{statistic.run}-{turn.number}"
    broadcast = executor.keep(turn, key)
    rounds = settings.n_grids // GROUP
    total = reading.total(
        statistic,
        held,
        broadcast,
        lambda: executor.keep(replace(turn, change=None, history=before), f"{key}-history"),
        key,
        lambda rows: context.progress.advance(rows, round=f"{turn.number + 1}/{rounds}"),
        turn.number + 1 == rounds,
    )
    executor.release([broadcast])
    return total


def _line(context: ResidualContext, total: BinSums, number: int) -> dict[str, Any]:
    unit = 2.0**-LOSS_DIGITS
    line = {"grids": (number + 1) * GROUP, "rows": total.n, "loss": total.loss / max(total.weight, 1)}
    return line | context.problem.targets.merit(total.right * unit, total.n)
