"""The fit of cells: after the shuffle each cell is one task, and no task waits for another."""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.execution.base import Call
from dkernel.linear.losses import Loss
from dkernel.local.cells import Cell, CellSettings, fit_cell, packed, unpacked
from dkernel.local.partition import CellTree, Visit, grow
from dkernel.solving.cell_runs import CellRows, Run, read_runs, run_dtype
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
    """

    loss: Loss
    root: F32
    limit: int
    overlap: float
    seed: int
    mean_weight: float
    outputs: int

    def rows(self, places: Sequence[tuple[str, int, int]]) -> CellRows:
        """The rows of a cell of the shuffle."""
        return read_runs(places, run_dtype(len(self.root), self.outputs))

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
    problem: CellProblem, places: Sequence[tuple[str, int, int]], number: int, settings: CellSettings, at: int
) -> tuple[int, dict[str, Any]]:
    """The cells of one part of the shuffle, as arrays; runs on a worker."""
    rows = problem.rows(places)
    tree, visits = problem.cells(rows, number)
    cells = [problem.fit(rows, visit.rows, settings) for visit in visits]
    return at, {**tree.arrays(), **packed(cells)}


def judge_task(
    problem: CellProblem, places: Sequence[tuple[str, int, int]], number: int, settings: CellSettings
) -> tuple[float, float, float]:
    """Loss of a cell's own held-out rows by a machine of the others, that without it, and their weight; runs on a
    worker."""
    rows = problem.rows(places)
    visit = problem.cells(rows, number)[1][0]
    judged = np.zeros(len(visit.rows), bool)
    judged[np.flatnonzero(visit.own)[JUDGED // 2 :: JUDGED]] = True
    cell, own = problem.fit(rows, visit.rows[~judged], settings), visit.rows[judged]
    scores = (rows.scores[own] + cell.scores(rows.X[own])).astype(np.float32)
    weight, judge = rows.weight[own], problem.loss.judged
    after, before = (judge(rows.Y[own], S).sum(axis=1, dtype=np.float64) for S in (scores, rows.scores[own]))
    return float(weight @ after), float(weight @ before), float(weight.sum(dtype=np.float64))


def judge_settings(
    context: ResidualContext, problem: CellProblem, runs: Sequence[Run], parts: Sequence[int], numbers: Sequence[int],
    settings: CellSettings, key: str,
) -> tuple[float, float]:  # fmt: skip
    """Mean loss of the held-out rows of some parts of the shuffle, and that without cells."""
    executor = context.feed.executor
    held = executor.keep(problem, f"{key}-judge-problem")  # not that of the fit: its cells are smaller
    calls = [
        Call(
            f"{key}-judge-{part}-{'-'.join(map(str, astuple(settings)))}", judge_task,
            (held, _places(runs, part), numbers[part], settings),
        )
        for part in parts
    ]  # fmt: skip
    found = executor.compute(calls)[0]
    executor.release([held])
    loss, before, weight = np.sum(found, axis=0)
    weight = max(weight, np.finfo(float).tiny)
    return float(loss / weight), float(before / weight)


def fit_cells(
    context: ResidualContext, problem: CellProblem, runs: Sequence[Run], tree: CellTree, numbers: Sequence[int],
    settings: CellSettings, key: str, callback: Callable[[dict[str, Any]], Any] | None = None,
) -> CellFit:  # fmt: skip
    """Fit all cells, the largest parts of the shuffle first.

    Parameters
    ----------
    tree : of the shuffle;  numbers : of its cells, by which theirs are cut again
    callback : called with a line for each part, in their order; if it returns True the other cells stay empty
    """
    executor = context.feed.executor
    rows = np.sum([np.diff(ends) for _, ends in runs], axis=0)
    order = np.argsort(-rows, kind="stable").tolist()
    done: list[dict[str, Any]] = context.journal.parts("cells")
    history: list[dict[str, Any]] = []
    held = executor.keep(problem, f"{key}-fit-problem")
    calls = (
        Call(f"{key}-fit-{at}", fit_task, (held, _places(runs, order[at]), numbers[order[at]], settings, at))
        for at in range(len(done), len(order))
    )

    def finished(at: int) -> bool:
        """Tell of a part; True where it is to be the last."""
        cells = sum(len(part["ends"]) for part in done[: at + 1])
        line = {"cells": cells, "parts": at + 1, "of": len(order), "rows": int(rows[order[at]])}
        history.append(line)
        return callback is not None and callback(dict(line)) is True

    stopped = any(finished(at) for at in range(len(done)))
    waiting: dict[int, dict[str, Any]] = {}
    with closing(executor.as_they_come(calls)) as results:
        while not stopped and len(done) < len(order):
            at, part = next(results)
            waiting[at] = part
            while not stopped and len(done) in waiting:
                done.append(waiting.pop(len(done)))
                if context.journal.keeps:
                    context.journal.part("cells", done[-1])
                place = len(done) - 1
                context.progress.advance(int(rows[order[place]]), cell=f"{len(done)}/{len(order)}")
                stopped = finished(place)
    executor.release([held])
    return _assembled(problem, settings, tree, order, done, history)


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


def _places(runs: Sequence[Run], part: int) -> list[tuple[str, int, int]]:
    """The rows of a part of the shuffle, in every file that has some."""
    return [(path, ends[part], ends[part + 1]) for path, ends in runs if ends[part] < ends[part + 1]]
