"""The fit of grids to the residual of the global stage: each group of grids takes one reading of all rows.

A round reads the rows once. Each task brings the scores of its rows up to date with the change of the round before,
and adds their residuals, minus the derivative of the loss over the bound of its curvature, to the bins of the next
group of grids. The client joins the changes of the group (`dkernel.model.local.grids`). A step against an upper bound
of the loss cannot raise it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.losses.smoothing import SmoothedLoss, window_widths
from dkernel.model.journal import Journal
from dkernel.model.local.binning import Binning, add_bin_scores, add_sums
from dkernel.model.local.grid_machine import coarse_to_fine, pack_coef, unpack_coef
from dkernel.model.local.grids import COUNT_BITS, GRID_GROUP, FixedPoint, join_steps
from dkernel.model.local.inputs import GridInputs
from dkernel.numerics.array_types import F32, F64, U32
from dkernel.solvers.driver import State, StateMachine, solve
from dkernel.solvers.fit_problem import Callback
from dkernel.solvers.objective import Coefficients, Problem, count_correct
from dkernel.streaming.execution import process_cache
from dkernel.streaming.execution.base import Handle
from dkernel.streaming.repeated_reading import ExactStatistic, RepeatedReading
from dkernel.streaming.schedule import RowSlice
from dkernel.training.residual import Residual

RESIDUAL_WIDTHS = 2.0, 0.05
"""Window that smooths a loss with kinks in the first and the last round, in deviations of the target: large steps come
first. The quantiles 0.9 and 0.5 and the tube of a rough target are nearer to their shares, and have a smaller loss,
than with windows of 1 to 0.1, of 0.5 to 0.05, and of 0.5 and 0.2 alone."""

LOSS_DIGITS = 40  # binary digits after the point of a loss, since losses are added as integers


@dataclass(frozen=True, eq=False)
class GridSettings:
    """Settings of the grids.

    Parameters
    ----------
    inputs : of the grids
    gamma : of each input, float64 (n_inputs,)
    n_grids : a multiple of GRID_GROUP
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
    """The message of a round to its tasks.

    Parameters
    ----------
    number : of the round, from 0
    width : of the window that smooths a loss with kinks, 0 for a smooth loss
    change : of the coefficients of the group before, float32 (GRID_GROUP, n_bins, outputs); None in the first round
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
    table : int64 (GRID_GROUP, n_bins, outputs + 1)
    loss, right, weight : multiples of 2^-LOSS_DIGITS
    partial : packed sums of some rows, int64 (GRID_GROUP, n_bins, 1), see `FixedPoint`; None where it does not pack
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
class _GridRows:
    """A piece in the form that all rounds need: inputs of the grids, targets, weights, and the rows to learn from."""

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
    shared : name there of what several fits to the same rows have in common: inputs of the grids, and first scores
    keep_rows : whether the inputs of the grids and the codes of a group stay in memory too
    """

    problem: Problem
    start: Coefficients
    inputs: GridInputs
    binning: Binning
    fixed: FixedPoint
    run: str
    shared: str
    keep_rows: bool

    def zero(self, broadcast: Turn) -> BinSums:  # noqa: ARG002
        outputs, bins = self.problem.targets.outputs, (GRID_GROUP, self.binning.n_bins)
        partial = np.zeros((*bins, 1), np.int64) if self.fixed.packs(outputs) else None
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
        if total.partial is not None and total.rows + piece.n >= 1 << COUNT_BITS:
            self.fixed.unpack(total.partial, total.table)
            total.rows = 0
        sums = total.table if total.partial is None else total.partial
        add_sums(self._codes(rows, piece, broadcast.number), values, sums)
        total.rows += piece.n
        weight = rows.keep.astype(np.float64) if rows.weight is None else rows.weight[:, 0].astype(np.float64)
        total.loss += _exact(float(weight @ loss.value(rows.Y, S).sum(axis=1, dtype=np.float64)))
        total.right += _exact(count_correct(self.problem.targets, rows.Y[rows.keep], S[rows.keep]))
        total.weight += _exact(float(weight.sum()))
        total.n += int(np.count_nonzero(rows.keep))
        return True

    def finish(self, total: BinSums) -> BinSums:
        if total.partial is not None:
            self.fixed.unpack(total.partial, total.table)
        return replace(total, partial=None, rows=0)

    def merge(self, left: BinSums, right: BinSums) -> BinSums:
        left.table += right.table
        return BinSums(
            left.table, left.loss + right.loss, left.right + right.right, left.weight + right.weight, left.n + right.n
        )

    def _part(self, number: int) -> Binning:
        return self.binning.part(number * GRID_GROUP, (number + 1) * GRID_GROUP)

    def _rows(self, block: Block, piece: RowSlice) -> _GridRows:
        name = "rows", piece.number
        rows: _GridRows | None = process_cache.get(self.shared, name)
        if rows is None:
            X, Y, weight, keep = self.problem.all_rows(block, piece)
            rows = _GridRows(self.inputs(X), Y, weight, keep)
            if self.keep_rows:
                process_cache.put(self.shared, name, rows)
        return rows

    def _codes(self, rows: _GridRows, piece: RowSlice, number: int) -> U32:
        """Codes of the rows of a piece in a group of grids, for the sums of a round and the scores of the next."""
        name = "codes", piece.number
        known: tuple[int, U32] | None = process_cache.get(self.run, name)
        if known is not None and known[0] == number:
            return known[1]
        codes = self._part(number).codes(rows.X.T)
        if self.keep_rows:
            process_cache.put(self.run, name, (number, codes))
        return codes

    def _scores(self, rows: _GridRows, block: Block, piece: RowSlice, turn: Turn) -> F32 | None:
        """Scores of the rows of a piece at the beginning of a round, (n, outputs); None if they are lost."""
        name = "scores", piece.number
        known: tuple[int, F32] | None = process_cache.get(self.run, name)
        if known is not None and known[0] == turn.number:
            return known[1]
        if turn.number == 0 or turn.history is not None:
            scores = self._first_scores(block, piece)
            if turn.history is not None:
                self.binning.part(0, len(turn.history)).add_scores(rows.X.T, turn.history, scores)
        elif known is not None and known[0] == turn.number - 1 and turn.change is not None:
            scores = known[1].copy()
            add_bin_scores(self._codes(rows, piece, known[0]), turn.change, scores)
        else:
            return None
        process_cache.put(self.run, name, (turn.number, scores))
        return scores

    def _first_scores(self, block: Block, piece: RowSlice) -> F32:
        """Scores of the global stage, in an array that the caller may change."""
        name = "first scores", piece.number
        first: F32 | None = process_cache.get(self.shared, name)
        if first is None:
            scores = self.problem.components.scores(block.X[piece.place.rows], *self.start)
            first = np.ascontiguousarray(scores, np.float32)
            if self.shared != self.run:
                process_cache.put(self.shared, name, first)
        return first.copy() if self.shared != self.run else first


@dataclass(frozen=True, eq=False)
class OccupiedBins(ExactStatistic[NDArray[np.bool_]]):
    """The bins that have rows to learn from, (n_grids, n_bins)."""

    problem: Problem
    inputs: GridInputs
    binning: Binning

    def zero(self, broadcast: Any) -> NDArray[np.bool_]:  # noqa: ARG002
        return np.zeros((len(self.binning.offset), self.binning.n_bins), bool)

    def add(self, total: NDArray[np.bool_], block: Block, piece: RowSlice, broadcast: Any) -> bool:  # noqa: ARG002
        X, _, _, keep = self.problem.all_rows(block, piece)
        for occupied, codes in zip(total, self.binning.codes(self.inputs(X).T), strict=True):
            occupied[codes[keep]] = True
        return True

    def finish(self, total: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return total

    def merge(self, left: NDArray[np.bool_], right: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return left | right


def occupied_bins(residual: Residual, settings: GridSettings) -> float:
    """Mean number of bins of a grid that have rows, over a group of grids; takes one reading."""
    few = replace(settings, n_grids=GRID_GROUP)
    statistic, executor = OccupiedBins(residual.problem, settings.inputs, few.binning), residual.run.executor
    with RepeatedReading(residual.fit.reader, residual.pieces, f"{residual.key}-occupied") as reading:
        held, nothing = executor.keep(statistic, f"{reading.run}-statistic"), executor.keep(None, f"{reading.run}-none")
        advance = residual.run.progress.advance
        total = reading.total(statistic, held, nothing, lambda: nothing, reading.run, advance, last=True)
        executor.release([held, nothing])
    return float(total.sum(axis=1).mean())


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

    coef: F32
    scores: F32
    history: list[dict[str, Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class GridState(State):
    """State of the fit after some rounds.

    Parameters
    ----------
    change : coefficients of the last group, float32 (GRID_GROUP, n_bins, outputs); None before the first
    scores : of the holdout, float32 (rows, outputs)
    ended : whether a callback has ended the fit
    """

    change: F32 | None = None
    scores: F32
    ended: bool = False


class GridSolver(StateMachine[GridState, GridFit]):
    """Solver of all grids, one group after the other; each group takes a reading and a small system.

    Parameters
    ----------
    reading : of the pieces
    name : of this fit among those of the residual, and of its stage in the journal
    shared : name in the process cache of what this fit has in common with others; None for its own
    """

    def __init__(
        self, residual: Residual, settings: GridSettings, reading: RepeatedReading, name: str, shared: str | None
    ) -> None:
        self.residual, self.settings, self.reading, self.name = residual, settings, reading, name
        self.rounds = settings.n_grids // GRID_GROUP
        self.widths = window_widths(residual.problem.loss, RESIDUAL_WIDTHS, self.rounds)
        self.fixed = FixedPoint.of(residual.bound, residual.weight)
        inputs = settings.inputs
        self.statistic = GridRound(
            residual.problem,
            residual.start,
            inputs,
            settings.binning,
            self.fixed,
            reading.run,
            shared or reading.run,
            residual.fit.reader.keep,
        )
        self.held = residual.run.executor.keep(self.statistic, f"{reading.run}-statistic")
        self.sample, self.holdout = inputs(residual.sample.X), inputs(residual.holdout.X)
        # Coefficients of the groups so far; a group that is fitted again has the same. They take memory when written.
        self.coef = np.zeros((settings.n_grids, settings.binning.n_bins, residual.problem.targets.outputs), np.float32)

    def start(self) -> GridState:
        return GridState(scores=self.residual.holdout.scores)

    def plan(self, state: GridState) -> Callable[[], BinSums] | None:
        return None if state.ended or state.steps == self.rounds else lambda: self._read(state)

    def advance(self, state: GridState, sums: BinSums) -> GridState:
        residual, settings, part = self.residual, self.settings, self._part(state.steps)
        coef = np.zeros((GRID_GROUP, part.n_bins, residual.problem.targets.outputs), np.float32)
        ridge = settings.ridge * settings.n_grids
        change = join_steps(coef, sums.table, self.fixed, ridge, part.codes(self.sample.T), residual.sample.weight)
        after = self._after(state, change, _line(residual, sums, state.steps))
        judged = residual.figures(after.scores)
        after.history[-1].update((f"holdout_{name}", value) for name, value in judged.items() if name != "rows")
        return after

    def stop(self, state: GridState) -> GridState:
        return replace(state, ended=True)

    def finish(self, state: GridState) -> GridFit:
        self.residual.run.executor.release([self.held])
        return GridFit(self.coef, state.scores, list(state.history))

    def load(self, journal: Journal) -> GridState | None:
        state = self.start()
        for part in journal.parts(self.name):
            state = self._after(state, unpack_coef(part["change"], self.settings.bits), part["line"])
        return state

    def save(self, journal: Journal, state: GridState) -> None:
        if journal.keeps:
            assert state.change is not None
            journal.add_part(self.name, {"change": pack_coef(state.change), "line": state.history[-1]})

    def _part(self, number: int) -> Binning:
        return self.settings.binning.part(number * GRID_GROUP, (number + 1) * GRID_GROUP)

    def _after(self, state: GridState, change: F32, line: dict[str, Any]) -> GridState:
        scores = state.scores.copy()
        self._part(state.steps).add_scores(self.holdout.T, change, scores)
        self.coef[state.steps * GRID_GROUP : (state.steps + 1) * GRID_GROUP] = change
        return GridState(history=(*state.history, line), steps=state.steps + 1, change=change, scores=scores)

    def _read(self, state: GridState) -> BinSums:
        executor, number = self.residual.run.executor, state.steps
        turn = Turn(number, float(self.widths[number]), state.change)
        key = f"{self.reading.run}-{number}"

        def keep_history() -> Handle:
            return executor.keep(replace(turn, change=None, history=self.coef[: number * GRID_GROUP]), f"{key}-history")

        broadcast = executor.keep(turn, key)
        total = self.reading.total(
            self.statistic,
            self.held,
            broadcast,
            keep_history,
            key,
            lambda rows: self.residual.run.progress.advance(rows, round=f"{number + 1}/{self.rounds}"),
            number + 1 == self.rounds,
        )
        executor.release([broadcast])
        return total


def fit_grids(
    residual: Residual,
    settings: GridSettings,
    name: str,
    callback: Callback | None = None,
    beside: RepeatedReading | None = None,
) -> GridFit:
    """Fit all grids.

    Parameters
    ----------
    name : of this fit among those of the residual, and of its stage in the journal
    callback : called with the line of each round; where it returns True the other grids stay empty
    beside : reading of the same pieces around several fits, as long as which rows keep what these have in common
    """
    shared = None if beside is None else beside.run
    with RepeatedReading(residual.fit.reader, residual.pieces, f"{residual.key}-{name}") as reading:
        return solve(GridSolver(residual, settings, reading, name, shared), residual.run.journal, callback)


def _line(residual: Residual, total: BinSums, number: int) -> dict[str, Any]:
    unit = 2.0**-LOSS_DIGITS
    line = {"grids": (number + 1) * GRID_GROUP, "rows": total.n, "loss": total.loss / max(total.weight, 1)}
    return line | residual.problem.targets.merit(total.right * unit, total.n)
