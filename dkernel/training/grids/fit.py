"""The fit of grids to the residual of the global stage: each group of grids takes one reading of all rows.

A round reads the rows once. Each task adds the group of the round before to the scores of its rows, and adds their
residuals, minus the derivative of the loss over the bound of its curvature, to the bins of the next group. The client
learns the coefficients of the group (`dkernel.model.local.grids`). A step that lowers an upper bound of the loss cannot
raise it. The rounds end when the holdout improves no more or shows that another way stays better. The groups up to the
smallest loss are kept.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.losses.smoothing import SmoothedLoss, window_widths
from dkernel.model.journal import Journal, State
from dkernel.model.local.binning import Binning, add_sums
from dkernel.model.local.grid_machine import GridMachine, GridSettings, pack_tables, unpack_tables
from dkernel.model.local.grids import COUNT_BITS, FixedPoint, Tables, code_bits, group_size, learn_group, unpack_sums
from dkernel.model.local.inputs import GridInputs
from dkernel.numerics.array_types import F32
from dkernel.solvers.driver import StateMachine, solve
from dkernel.solvers.objective import Coefficients, Objective, count_correct
from dkernel.streaming.execution import process_cache
from dkernel.streaming.execution.base import Handle
from dkernel.streaming.repeated_reading import ExactStatistic, RepeatedReading
from dkernel.streaming.schedule import RowSlice
from dkernel.training.residual import Residual

RESIDUAL_WIDTHS = 2.0, 0.05
"""Window that smooths a loss with kinks in the first and the last round, in deviations of the target: large steps come
first. The quantiles 0.9 and 0.5 and the tube of a rough target are nearer to their shares, and have a smaller loss,
than with windows of 1 to 0.1, of 0.5 to 0.05, and of 0.5 and 0.2 alone."""

STAGE = "grids"  # name of the stage in the journal
IDLE_GRIDS = 256  # grids without a gain on the holdout after which the rounds end
LOSS_DIGITS = 40  # binary digits after the point of a loss, since losses are added as integers


@dataclass(frozen=True, eq=False)
class RoundMessage:
    """The message of a round to its tasks.

    Parameters
    ----------
    number : number of the round, from 0
    width : width of the window that smooths a loss with kinks, 0 for a smooth loss
    change : coefficients of the group before; None in the first round
    history : coefficients of all groups before, if the scores of rows are lost
    """

    number: int
    width: float = 0.0
    change: Tables | None = None
    history: Tables | None = None


@dataclass
class BinSums:
    """Sums over rows: the tables of a group's bins, loss and right answers, weight and rows.

    Parameters
    ----------
    table : int64 (n_bins, outputs + 1)
    loss, right, weight : multiples of 2^-LOSS_DIGITS
    partial : packed sums of some rows, int64 (n_bins, 1), see `FixedPoint`; None if it does not pack
    rows : number of rows in `partial`
    """

    table: NDArray[np.int64]
    loss: int = 0
    right: int = 0
    weight: int = 0
    n: int = 0
    partial: NDArray[np.int64] | None = None
    rows: int = 0


@dataclass(frozen=True, eq=False)
class GridRound(ExactStatistic[BinSums]):
    """The sums of the residuals in the bins of a group of grids.

    Parameters
    ----------
    start : coefficients of the global stage
    binning : binning of all grids
    group : number of grids of a group
    run : name of the run in the process cache
    keep_rows : whether the inputs of the grids stay in memory
    """

    objective: Objective
    start: Coefficients
    inputs: GridInputs
    binning: Binning
    group: int
    fixed: FixedPoint
    run: str
    keep_rows: bool

    def zero(self, broadcast: RoundMessage) -> BinSums:
        outputs, bins = self.objective.targets.outputs, self.part(broadcast.number).n_bins
        partial = np.zeros((bins, 1), np.int64) if self.fixed.packs(outputs) else None
        return BinSums(np.zeros((bins, outputs + 1), np.int64), partial=partial)

    def add(self, total: BinSums, block: Block, piece: RowSlice, broadcast: RoundMessage) -> bool:
        X, Y, given, keep = self._rows(block, piece)
        S = self._scores(X, block, piece, broadcast)
        if S is None:
            return False
        loss = self.objective.loss
        smooth = SmoothedLoss(loss, broadcast.width) if broadcast.width else loss
        residual = -smooth.derivative(Y, S) / np.float32(smooth.curvature)
        values = self.fixed.rows(residual, given)
        values[~keep] = 0
        if total.partial is not None and total.rows + piece.n >= 1 << COUNT_BITS:
            unpack_sums(total.partial, total.table)
            total.rows = 0
        sums = total.table if total.partial is None else total.partial
        part = self.part(broadcast.number)
        add_sums(part.codes(X.T), part.starts, values, sums)
        total.rows += piece.n
        weight = keep.astype(np.float64) if given is None else given[:, 0].astype(np.float64)
        total.loss += _exact(float(weight @ loss.value(Y, S).sum(axis=1, dtype=np.float64)))
        total.right += _exact(count_correct(self.objective.targets, Y[keep], S[keep]))
        total.weight += _exact(float(weight.sum()))
        total.n += int(np.count_nonzero(keep))
        return True

    def finish(self, total: BinSums) -> BinSums:
        if total.partial is not None:
            unpack_sums(total.partial, total.table)
        return replace(total, partial=None, rows=0)

    def merge(self, left: BinSums, right: BinSums) -> BinSums:
        left.table += right.table
        return BinSums(
            left.table, left.loss + right.loss, left.right + right.right, left.weight + right.weight, left.n + right.n
        )

    def part(self, number: int) -> Binning:
        """Return the grids of a group."""
        return self.binning.part(number * self.group, (number + 1) * self.group)

    def _rows(self, block: Block, piece: RowSlice) -> tuple[F32, F32, F32 | None, NDArray[np.bool_]]:
        """Return the rows of a piece as `Objective.all_rows` does, with the inputs of the grids instead of features."""
        name = "rows", piece.number
        rows: tuple[F32, F32, F32 | None, NDArray[np.bool_]] | None = process_cache.get(self.run, name)
        if rows is None:
            features, Y, weight, keep = self.objective.all_rows(block, piece)
            rows = self.inputs(features), Y, weight, keep
            if self.keep_rows:
                process_cache.put(self.run, name, rows)
        return rows

    def _scores(self, X: F32, block: Block, piece: RowSlice, turn: RoundMessage) -> F32 | None:
        """Return the scores of the rows of a piece before a round, (n, outputs); None if they are lost."""
        name = "scores", piece.number
        known: tuple[int, F32] | None = process_cache.get(self.run, name)
        if known is not None and known[0] == turn.number:
            return known[1]
        if turn.number == 0 or turn.history is not None:
            first = self.objective.components.scores(block.X[piece.range.rows], *self.start)
            grids = self.binning.part(0, turn.number * self.group)
            scores, changes = np.ascontiguousarray(first, np.float32), turn.history
        elif known is not None and known[0] == turn.number - 1 and turn.change is not None:
            scores, changes, grids = known[1].copy(), turn.change, self.part(turn.number - 1)
        else:
            return None
        if changes is not None:
            grids.add_scores(X.T, changes.coef, changes.unit, scores)
        process_cache.put(self.run, name, (turn.number, scores))
        return scores


def _exact(value: float) -> int:
    return round(value * 2.0**LOSS_DIGITS)


FittedGrids = tuple[GridMachine, F32, list[dict[str, Any]]]
"""The machine of the grids that are kept, scores of the holdout (rows, outputs), and a line for each round."""


@dataclass(frozen=True, eq=False, kw_only=True)
class GridState(State):
    """State of the fit after some rounds.

    Parameters
    ----------
    change : coefficients of the last group; None before the first
    scores : scores of the holdout, float32 (rows, outputs)
    loss, best_steps, best_scores : smallest loss of the holdout, number of groups with it, and its scores
    bytes : bytes of the coefficients in a model file
    errors : errors of the holdout after each group
    beaten : True if the way with these grids stays worse than the best one so far
    """

    change: Tables | None = None
    scores: F32
    loss: float
    best_steps: int = 0
    best_scores: F32
    bytes: int = 0
    errors: tuple[float, ...] = ()
    beaten: bool = False


class GridSolver(StateMachine[GridState, FittedGrids]):
    """Solver of all grids, one group after the other; each group takes a reading.

    Parameters
    ----------
    n_grids : most grids
    room : most bytes of the coefficients in a model file, None for no limit
    reading : reading of the pieces
    """

    def __init__(
        self,
        residual: Residual,
        inputs: GridInputs,
        settings: GridSettings,
        n_grids: int,
        room: int | None,
        reading: RepeatedReading,
    ) -> None:
        self.residual, self.settings, self.room, self.reading = residual, settings, room, reading
        outputs, n = residual.objective.targets.outputs, residual.problem.sizes.n
        self._bin_bytes = 2.125 * outputs
        group = group_size(n_grids, outputs, code_bits(n, outputs))
        self.rounds = -(-n_grids // group)
        self.widths = window_widths(residual.objective.loss, RESIDUAL_WIDTHS, self.rounds)
        self.fixed = FixedPoint.of(residual.bound, residual.weight)
        self.sample, self.holdout = inputs(residual.sample.X), inputs(residual.holdout.X)
        drawn = settings.draw(inputs, n_grids, residual.objective.seed)
        drawn = drawn.for_rows(self.sample.T, n, code_bits(n, outputs))
        self.statistic = GridRound(
            residual.objective,
            residual.start,
            inputs,
            drawn,
            group,
            self.fixed,
            reading.run,
            residual.problem.reader.keep,
        )
        self.handle = residual.run.executor.keep(self.statistic, f"{reading.run}-statistic")
        self.tables: list[Tables] = []  # tables of the groups so far; a group that is fitted again has the same

    def start(self) -> GridState:
        scores = self.residual.holdout.scores
        return GridState(scores=scores, loss=self.residual.losses(scores).figures.get("loss", inf), best_scores=scores)

    def plan(self, state: GridState) -> Callable[[], BinSums] | None:
        idle = (state.steps - state.best_steps) * self.statistic.group
        next_bytes = self.statistic.part(state.steps).n_bins * self._bin_bytes
        full = self.room is not None and state.steps and state.bytes + next_bytes > self.room
        ended = state.ended or state.beaten or full or state.steps == self.rounds or idle >= IDLE_GRIDS
        return None if ended else lambda: self._read(state)

    def advance(self, state: GridState, sums: BinSums) -> GridState:
        residual, part, ridge = self.residual, self.statistic.part(state.steps), self.settings.ridge
        change = learn_group(part, sums.table, self.fixed, ridge, self.sample.T, residual.sample.weight)
        return self._after(state, change, _line(residual, sums, state.steps * self.statistic.group + part.n_grids))

    def finish(self, state: GridState) -> FittedGrids:
        n_groups = max(state.best_steps, 1)  # the first group is judged even if it gains nothing
        grids = self.statistic.binning.part(0, n_groups * self.statistic.group)
        tables, objective = Tables.joined(self.tables[:n_groups]), self.residual.objective
        inputs, unit = self.statistic.inputs, objective.targets.widths
        machine = GridMachine(inputs, self.settings, objective.seed, grids.bits, tables, unit)
        return machine, state.best_scores, list(state.history)

    def close(self) -> None:
        """Let the workers forget the statistic."""
        self.residual.run.executor.release([self.handle])

    def load(self, journal: Journal) -> GridState | None:
        state = self.start()
        for part in journal.parts(STAGE):
            tables = unpack_tables(part["change"], self.statistic.part(state.steps).n_bins)
            state = self._after(state, tables, part["line"])
        return state

    def save(self, journal: Journal, state: GridState) -> None:
        if journal.keeps:
            assert state.change is not None
            journal.add_part(STAGE, {"change": pack_tables(state.change), "line": state.history[-1]})

    def _after(self, state: GridState, change: Tables, line: dict[str, Any]) -> GridState:
        scores, steps, part = state.scores.copy(), state.steps + 1, self.statistic.part(state.steps)
        part.add_scores(self.holdout.T, change.coef, change.unit, scores)
        self.tables = [*self.tables[: state.steps], change]
        losses = self.residual.losses(scores)
        judged, errors = losses.figures, (*state.errors, losses.error)
        line |= {f"holdout_{name}": value for name, value in judged.items() if name != "rows"}
        after = replace(
            state,
            history=(*state.history, line),
            steps=steps,
            change=change,
            scores=scores,
            bytes=state.bytes + sum(each.nbytes for each in pack_tables(change).values()),
            errors=errors,
            beaten=losses.stays_behind(self.residual.rival, errors, self.rounds - steps),
        )
        loss = judged.get("loss", inf)  # infinite without a holdout
        if self.residual.judges and not loss < state.loss:
            return after
        return replace(after, loss=loss, best_steps=steps, best_scores=scores)

    def _read(self, state: GridState) -> BinSums:
        executor, number = self.residual.run.executor, state.steps
        turn = RoundMessage(number, float(self.widths[number]), state.change)
        key = f"{self.reading.run}-{number}"

        def restore() -> AbstractContextManager[Handle]:
            history = Tables.joined(self.tables[:number]) if number else None
            return executor.broadcast(replace(turn, change=None, history=history), f"{key}-history")

        with executor.broadcast(turn, key) as broadcast:
            return self.reading.total(
                self.statistic,
                self.handle,
                broadcast,
                restore,
                key,
                lambda rows: self.residual.run.progress.advance(rows, round=f"{number + 1}/{self.rounds}"),
                number + 1 == self.rounds,
            )


def fit_grids(
    residual: Residual,
    inputs: GridInputs,
    settings: GridSettings,
    n_grids: int,
    room: int | None,
) -> FittedGrids:
    """Fit grids; the parameters are those of `GridSolver`."""
    with (
        RepeatedReading(residual.problem.reader, residual.pieces, f"{residual.key}-{STAGE}") as reading,
        closing(GridSolver(residual, inputs, settings, n_grids, room, reading)) as solver,
    ):
        return solve(solver, residual.run)


def _line(residual: Residual, total: BinSums, grids: int) -> dict[str, Any]:
    unit = 2.0**-LOSS_DIGITS
    line = {"grids": grids, "rows": total.n, "loss": total.loss / max(total.weight, 1)}
    return line | residual.objective.targets.merit(total.right * unit, total.n)
