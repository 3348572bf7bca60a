"""The fit of cells: after the shuffle each cell is one task, and no task waits for another."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.leaves.cells.cell_machine import CellMachine
from dkernel.leaves.cells.cells import Cell, CellSettings, fit_cell, pack_cells, unpack_cells
from dkernel.leaves.cells.partition import CellTree, Visit, grow
from dkernel.leaves.cells.rows import CellRun, SortedRows, rows_of_cell
from dkernel.losses.losses import Loss
from dkernel.model.journal import Journal, State
from dkernel.numerics.array_types import F32, F64
from dkernel.solvers.driver import StateMachine, solve
from dkernel.streaming.execution.base import Call, Executor, Handle
from dkernel.training.holdout_losses import judge_rows
from dkernel.training.residual import Residual, ResidualRows

JUDGED_EVERY = 8  # every eighth row of a cell is a validation row for its settings


@dataclass(frozen=True, eq=False)
class CellFitter:
    """Data that the tasks of all cells share.

    Parameters
    ----------
    loss : loss whose residuals are learned
    root : root of the metric, float32 (p, p)
    limit : most rows of a cell
    overlap : rows of its bands, as a share of its own
    seed : seed of the directions
    mean_weight : mean weight of a row
    """

    loss: Loss
    root: F32
    limit: int
    overlap: float
    seed: int
    mean_weight: float

    def cells(self, X: F32, visit: Visit, number: int) -> tuple[CellTree, list[Visit]]:
        """Cut the rows of a part into cells of at most `limit` rows."""
        tree, visits, _ = grow(X, self.root, self.limit, 1, self.overlap, self.seed, visit=visit, number=number)
        return tree, [self._nearest(visit) for visit in visits]

    def _nearest(self, visit: Visit) -> Visit:
        """Keep the rows of the cell, and as many rows of its bands, nearest to the cuts, as the overlap allows."""
        n = int(visit.inside.sum())
        most = n + int(self.overlap * n)
        if len(visit.rows) <= most:
            return visit
        some = np.sort(np.argsort(visit.depth, kind="stable")[:most])
        return Visit(visit.rows[some], visit.depth[some])

    def fit(self, rows: ResidualRows, some: NDArray[np.int64], settings: CellSettings) -> Cell:
        """Fit the machine of a cell to some of these rows."""
        weight = rows.weight[some] / self.mean_weight
        return fit_cell(rows.X[some], self.root, self.loss, rows.Y[some], rows.scores[some], weight, settings)


def fit_task(
    fitter: CellFitter, runs: Sequence[Sequence[CellRun]], parts: Sequence[tuple[int, int]], settings: CellSettings
) -> dict[int, dict[str, Any]]:
    """Fit the cells of some parts of the shuffle; return their arrays. Runs on a worker.

    Parameters
    ----------
    parts : parts, each with its number in the tree
    """
    fitted = {}
    for part, number in parts:
        rows, whole = rows_of_cell(runs, part)
        tree, visits = fitter.cells(rows.X, whole, number)
        cells = [fitter.fit(rows, visit.rows, settings) for visit in visits]
        fitted[part] = {**tree.arrays(), **pack_cells(cells)}
    return fitted


def judge_task(
    fitter: CellFitter, runs: Sequence[Sequence[CellRun]], part: int, number: int, settings: CellSettings
) -> F64:
    """Fit a cell without its validation rows, and return their weights and losses, see `judge_settings`."""
    rows, whole = rows_of_cell(runs, part)
    visit = fitter.cells(rows.X, whole, number)[1][0]
    judged = np.zeros(len(visit.rows), bool)
    judged[np.flatnonzero(visit.inside)[JUDGED_EVERY // 2 :: JUDGED_EVERY]] = True
    cell, validation = fitter.fit(rows, visit.rows[~judged], settings), visit.rows[judged]
    scores = rows.scores[validation], (rows.scores[validation] + cell.scores(rows.X[validation])).astype(np.float32)
    losses = [judge_rows(fitter.loss, rows.Y[validation], S) for S in scores]
    return np.array([rows.weight[validation], *losses])


def judge_settings(
    executor: Executor,
    fitter: CellFitter,
    numbers: Sequence[int],
    parts: Mapping[int, Sequence[Handle]],
    settings: CellSettings,
    key: str,
) -> F64:
    """Judge settings by validation rows of some parts of the shuffle.

    Parameters
    ----------
    parts : part -> runs that have its rows

    Returns
    -------
    weight of each validation row, its loss without cells, and its loss with them, float64 (3, rows)
    """
    name = "-".join(map(str, astuple(settings)))
    with executor.broadcast(fitter, f"{key}-judge-problem") as handle:  # its cells are smaller than those of the fit
        calls = [
            Call(f"{key}-judge-{part}-{name}", judge_task, (handle, list(runs), part, numbers[part], settings))
            for part, runs in parts.items()
        ]
        return np.concatenate(executor.compute(calls)[0], axis=1)


FittedCells = tuple[CellMachine, list[dict[str, Any]]]
"""The machine of all cells, and a line for each task."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CellState(State):
    """State of the fit after some parts.

    Parameters
    ----------
    parts : arrays of the cells of each part
    """

    parts: tuple[dict[str, Any], ...] = ()


class CellSolver(StateMachine[CellState, FittedCells]):
    """Solver of all cells. Each part of the shuffle is a task, and the largest come first."""

    def __init__(self, residual: Residual, fitter: CellFitter, rows: SortedRows, settings: CellSettings) -> None:
        self.residual, self.fitter, self.rows, self.settings = residual, fitter, rows, settings
        self.name = "cells"  # name of its stage in the journal
        self.executor = residual.run.executor
        self.order = np.argsort(-rows.sizes, kind="stable").tolist()
        self._handles: list[Handle] = []
        self._results: Generator[dict[int, dict[str, Any]]] | None = None
        self._early: dict[int, dict[str, Any]] = {}  # parts whose results came before those of earlier parts

    def start(self) -> CellState:
        return CellState()

    def plan(self, state: CellState) -> Callable[[], dict[str, Any]] | None:
        return None if state.ended or state.steps == len(self.order) else partial(self._part, state.steps)

    def advance(self, state: CellState, fitted: dict[str, Any]) -> CellState:
        after = self._after(state, fitted)
        self.residual.run.progress.advance(after.history[-1]["rows"], cell=f"{after.steps}/{len(self.order)}")
        return after

    def finish(self, state: CellState) -> FittedCells:
        root, tree, nu, p = self.fitter.root, self.rows.tree, self.settings.nu, len(self.fitter.root)
        unit = self.residual.objective.targets.widths
        none = CellTree(np.zeros((0, p), np.float32), np.zeros((0, 3), np.float32), np.zeros((0, 2), np.int32))
        empty = Cell(root, np.zeros((0, p), np.float32), np.zeros((0, len(unit)), np.float32), 1.0, nu)
        trees, cells = [none] * tree.n_cells, [[empty] for _ in range(tree.n_cells)]
        for number, part in zip(self.order, state.parts, strict=False):
            trees[number] = CellTree.build(part)
            cells[number] = unpack_cells(part, nu)
        together = [cell for some in cells for cell in some]
        return CellMachine.of(self.rows.inputs, tree.join(trees), together, nu, unit), list(state.history)

    def load(self, journal: Journal) -> CellState:
        state = self.start()
        for part in journal.parts(self.name):
            state = self._after(state, part)
        return state

    def save(self, journal: Journal, state: CellState) -> None:
        if journal.keeps:
            journal.add_part(self.name, state.parts[-1])

    def close(self) -> None:
        """Release the tasks that are not done, and their arguments."""
        if self._results is not None:
            self._results.close()
        self.executor.release(self._handles)

    def _after(self, state: CellState, part: dict[str, Any]) -> CellState:
        at, parts = state.steps, (*state.parts, part)
        cells = sum(len(each["ends"]) for each in parts)
        rows = int(self.rows.sizes[self.order[at]])
        line = {"cells": cells, "parts": at + 1, "of": len(self.order), "rows": rows}
        return CellState(history=(*state.history, line), steps=at + 1, parts=parts)

    def _part(self, at: int) -> dict[str, Any]:
        """Wait for the cells of a part. The first call starts the tasks of this part and of all that follow."""
        if self._results is None:
            self._results = self.executor.as_they_come(self._calls(at))
        while self.order[at] not in self._early:
            self._early |= next(self._results)
        return self._early.pop(self.order[at])

    def _calls(self, first: int) -> Iterator[Call]:
        self.rows.sort()
        self.residual.run.progress.phase("cells", int(self.rows.sizes.sum()))
        key = f"{self.rows.key}-fit"
        handle = self.executor.keep(self.fitter, f"{key}-problem")
        self._handles.append(handle)
        for parts in self.rows.batches(self.order[first:]):
            numbered = [(part, self.rows.numbers[part]) for part in parts]
            args = handle, self.rows.collect(parts), numbered, self.settings
            yield Call(f"{key}-{parts[0]}-{len(parts)}", fit_task, args)


def fit_cells(residual: Residual, fitter: CellFitter, rows: SortedRows, settings: CellSettings) -> FittedCells:
    """Fit all cells; once the callback has said True the other cells stay empty."""
    with closing(CellSolver(residual, fitter, rows, settings)) as solver:
        return solve(solver, residual.run)
