"""The fit of cells: after the shuffle each cell is one task, and no task waits for another."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.execution.base import Call, Handle
from dkernel.linear.losses import Loss
from dkernel.local.cell_machine import CellInputs
from dkernel.local.cells import Cell, CellSettings, fit_cell, packed, unpacked
from dkernel.local.partition import CellTree, Visit, grow
from dkernel.solving.cell_runs import CellRows, Run, SortedRows, rows_of_cell
from dkernel.solving.residual import ResidualContext

F32 = NDArray[np.float32]
JUDGED = 8  # every so many-th row of a cell is one to judge its settings by


@dataclass(frozen=True, eq=False)
class CellProblem:
    """Data that the tasks of all cells share; sent once.

    Parameters
    ----------
    loss : whose residuals are learned
    root : of the metric, float32 (p, p)
    limit : rows of a cell
    overlap : rows of its bands, as a share of its own
    seed : of the directions
    mean_weight : of a row
    outputs : of the scores
    start : scores of every row, in place of those of the global stage, float32 (outputs,); None for those
    """

    loss: Loss
    root: F32
    limit: int
    overlap: float
    seed: int
    mean_weight: float
    outputs: int
    start: F32 | None = None

    @property
    def suffix(self) -> str:
        """What the names of its stages end in."""
        return "" if self.start is None else "-label"

    @property
    def words(self) -> str:
        """The cells, as the progress names them."""
        return "cells" if self.start is None else "cells of the label"

    def rows(self, runs: Sequence[Sequence[Run]], part: int) -> CellRows:
        """The rows of a cell of the shuffle."""
        rows = rows_of_cell(runs, part)
        return rows if self.start is None else replace(rows, scores=np.tile(self.start, (len(rows.X), 1)))

    def cells(self, rows: CellRows, number: int) -> tuple[CellTree, list[Visit]]:
        """The cells that these rows are cut into: `limit` is never exceeded, whatever the sample has said."""
        tree, visits, _ = grow(
            rows.X, self.root, self.limit, 1, self.overlap, self.seed, visit=rows.visit, number=number
        )
        return tree, [self._nearest(visit) for visit in visits]

    def _nearest(self, visit: Visit) -> Visit:
        """The rows of the cell, and of its bands those nearest to the cuts, as many as the overlap allows."""
        own = int(visit.own.sum())
        most = own + int(self.overlap * own)
        if len(visit.rows) <= most:
            return visit
        some = np.sort(np.argsort(visit.depth, kind="stable")[:most])
        return Visit(visit.rows[some], visit.depth[some])

    def fit(self, rows: CellRows, some: NDArray[np.int64], settings: CellSettings) -> Cell:
        """The machine of some of these rows."""
        weight = rows.weight[some].astype(np.float64) / self.mean_weight
        return fit_cell(rows.X[some], self.root, self.loss, rows.Y[some], rows.scores[some], weight, settings)


@dataclass(frozen=True, eq=False)
class Shuffled:
    """The rows of all cells, and the tree that they are sorted by.

    Parameters
    ----------
    numbers : of the tree's cells
    sorted : the rows;  counts : of each cell
    key : of this run
    unit : of the scores (outputs,)
    """

    inputs: CellInputs
    tree: CellTree
    numbers: list[int]
    sorted: SortedRows
    counts: NDArray[np.int64]
    key: str
    unit: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CellFit:
    """Fitted cells.

    Parameters
    ----------
    tree : of all cells
    cells : in the order of their numbers
    history : a line for each task
    """

    tree: CellTree
    cells: list[Cell]
    history: list[dict[str, Any]]


def fit_task(
    problem: CellProblem, runs: Sequence[Sequence[Run]], parts: Sequence[tuple[int, int]], settings: CellSettings
) -> dict[int, dict[str, Any]]:
    """The cells of some parts of the shuffle, as arrays; runs on a worker.

    Parameters
    ----------
    parts : with their numbers in the tree
    """
    found = {}
    for part, number in parts:
        rows = problem.rows(runs, part)
        tree, visits = problem.cells(rows, number)
        cells = [problem.fit(rows, visit.rows, settings) for visit in visits]
        found[part] = {**tree.arrays(), **packed(cells)}
    return found


def judge_task(
    problem: CellProblem, runs: Sequence[Sequence[Run]], part: int, number: int, settings: CellSettings
) -> tuple[float, float, float]:
    """Loss of a cell's own held-out rows by a machine of the others, that without it, and their weight; runs on a
    worker."""
    rows = problem.rows(runs, part)
    visit = problem.cells(rows, number)[1][0]
    judged = np.zeros(len(visit.rows), bool)
    judged[np.flatnonzero(visit.own)[JUDGED // 2 :: JUDGED]] = True
    cell, own = problem.fit(rows, visit.rows[~judged], settings), visit.rows[judged]
    scores = (rows.scores[own] + cell.scores(rows.X[own])).astype(np.float32)
    weight, judge = rows.weight[own], problem.loss.judged
    after, before = (judge(rows.Y[own], S).sum(axis=1, dtype=np.float64) for S in (scores, rows.scores[own]))
    return float(weight @ after), float(weight @ before), float(weight.sum(dtype=np.float64))


def judge_settings(
    context: ResidualContext, problem: CellProblem, parts: Mapping[int, Sequence[Handle]], numbers: Sequence[int],
    settings: CellSettings, key: str,
) -> tuple[float, float]:  # fmt: skip
    """Mean loss of the held-out rows of some parts of the shuffle, and that without cells.

    Parameters
    ----------
    parts : with the runs that have their rows
    """
    executor = context.feed.executor
    held = executor.keep(problem, f"{key}-judge-problem")  # not that of the fit: its cells are smaller
    calls = [
        Call(
            f"{key}-judge-{part}-{'-'.join(map(str, astuple(settings)))}", judge_task,
            (held, list(runs), part, numbers[part], settings),
        )
        for part, runs in parts.items()
    ]  # fmt: skip
    found = executor.compute(calls)[0]
    executor.release([held])
    loss, before, weight = np.sum(found, axis=0)
    weight = max(weight, np.finfo(float).tiny)
    return float(loss / weight), float(before / weight)


def fit_cells(
    context: ResidualContext, problem: CellProblem, rows: Shuffled, settings: CellSettings, key: str,
    callback: Callable[[dict[str, Any]], Any] | None = None,
) -> CellFit:  # fmt: skip
    """Fit all cells, the largest parts of the shuffle first.

    Parameters
    ----------
    callback : called with a line for each part, in their order; if it returns True the other cells stay empty
    """
    executor, stage = context.feed.executor, f"cells{problem.suffix}"
    order = np.argsort(-rows.counts, kind="stable").tolist()
    done: list[dict[str, Any]] = context.journal.parts(stage)
    if len(done) < len(order):
        rows.sorted.sort()
    context.progress.phase(problem.words, int(rows.counts.sum()))
    history: list[dict[str, Any]] = []
    held = executor.keep(problem, f"{key}-fit-problem")
    calls = (
        Call(
            f"{key}-fit-{parts[0]}-{len(parts)}", fit_task,
            (held, rows.sorted.picked(parts), [(part, rows.numbers[part]) for part in parts], settings),
        )
        for parts in rows.sorted.batches(order[len(done) :])
    )  # fmt: skip

    def finished(at: int) -> bool:
        """Tell of a part; True where it is to be the last."""
        cells = sum(len(part["ends"]) for part in done[: at + 1])
        line = {"cells": cells, "parts": at + 1, "of": len(order), "rows": int(rows.counts[order[at]])}
        history.append(line)
        return callback is not None and callback(dict(line)) is True

    stopped = any(finished(at) for at in range(len(done)))
    waiting: dict[int, dict[str, Any]] = {}
    with closing(executor.as_they_come(calls)) as results:
        while not stopped and len(done) < len(order):
            waiting |= next(results)
            while not stopped and len(done) < len(order) and order[len(done)] in waiting:
                done.append(waiting.pop(order[len(done)]))
                if context.journal.keeps:
                    context.journal.part(stage, done[-1])
                place = len(done) - 1
                context.progress.advance(int(rows.counts[order[place]]), cell=f"{len(done)}/{len(order)}")
                stopped = finished(place)
    executor.release([held])
    return _assembled(problem, settings, rows.tree, order, done, history)


def _assembled(
    problem: CellProblem, settings: CellSettings, tree: CellTree, order: Sequence[int],
    done: Sequence[dict[str, Any]], history: list[dict[str, Any]],
) -> CellFit:  # fmt: skip
    p = len(problem.root)
    none = CellTree(np.zeros((0, p), np.float32), np.zeros((0, 3), np.float32), np.zeros((0, 2), np.int32))
    empty = Cell(
        problem.root, np.zeros((0, p), np.float32), np.zeros((0, problem.outputs), np.float32), 1.0, settings.nu
    )
    trees, cells = [none] * tree.n_cells, [[empty] for _ in range(tree.n_cells)]
    for number, part in zip(order, done, strict=False):
        trees[number] = CellTree.build(part)
        cells[number] = unpacked(part, settings.nu)
    return CellFit(tree.joined(trees), [cell for some in cells for cell in some], history)
