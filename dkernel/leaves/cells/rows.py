"""The shuffle of the rows to their cells: sorted runs on the disks of the processes that read them.

A task that reads a unit writes the rows of all its cells, sorted by cell and row number, to the local disk of its
worker, which no other process has to see. For each cell the workers pick its rows from their runs, and the task of the
cell sorts them by row number. So the rows of a cell, and their order, are the same whichever workers wrote them, and a
task may run twice. If a worker is lost, its units are read again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.leaves.cells.cell_machine import CellInputs
from dkernel.leaves.cells.partition import CellTree, Visit
from dkernel.solvers.objective import Coefficients, Objective
from dkernel.streaming.execution.base import Call, Handle
from dkernel.streaming.schedule import ChunkPieces, RowSlice
from dkernel.streaming.stored_rows import DiskFolder, StoredBlock, StoredRows, load_piece
from dkernel.training.residual import Residual, ResidualRows

PICKS = 8  # most lists of rows that a cell is picked from: with more workers a task fits several cells


Router = tuple[Objective, Coefficients, CellInputs, CellTree]
"""What a task assigns rows to cells by: the objective and the coefficients of the global stage, inputs and tree."""


@dataclass(frozen=True, eq=False)
class CellRun:
    """Rows that are sorted by cell.

    Parameters
    ----------
    cells : numbers of the cells that have some, ascending
    ends : end of the rows of each of these cells
    rows : rows of all of them
    """

    cells: NDArray[np.int64]
    ends: NDArray[np.int64]
    rows: StoredRows | NDArray[Any]

    @classmethod
    def of(cls, cells: Sequence[int], parts: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> "CellRun":
        """Make a run of the rows of these cells."""
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return cls(np.array(cells, np.int64), ends, np.concatenate([np.empty(0, dtype), *parts]))

    def part(self, cell: int) -> NDArray[Any]:
        """Return the rows of a cell."""
        at = int(np.searchsorted(self.cells, cell))
        if at == len(self.cells) or self.cells[at] != cell:
            return self.rows[:0]
        return self.rows[int(self.ends[at - 1]) if at else 0 : int(self.ends[at])]


def run_dtype(p: int, outputs: int) -> np.dtype[Any]:
    """Return the dtype of a row of a run."""
    columns = [("number", "<i8", ()), ("weight", "<f4", ()), ("depth", "<f4", ())]
    return np.dtype([*columns, ("X", "<f4", (p,)), ("Y", "<f4", (outputs,)), ("scores", "<f4", (outputs,))])


class SortedRows:
    """The rows of the source on the disks of the workers, sorted by the cells of a tree.

    Parameters
    ----------
    residual : residual with the source of the rows, and the progress of the reading
    inputs, tree : inputs and tree of the cells
    numbers : numbers of the tree's cells, with which these are cut again
    """

    def __init__(self, residual: Residual, inputs: CellInputs, tree: CellTree, numbers: Sequence[int]) -> None:
        self.executor, self.key, self.numbers = residual.run.executor, f"{residual.key}-cells", numbers
        self.inputs, self.tree, self._residual = inputs, tree, residual
        self._runs: list[Handle] = []
        self._counts: NDArray[np.int64] | None = None

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of rows of each cell; a checkpoint keeps it."""
        sizes: NDArray[np.int64] = self._residual.run.journal.step("cells-rows", self.sort)
        return sizes

    def sort(self) -> NDArray[np.int64]:
        """Read the source and sort its rows, unless that is done; return the number of rows of each cell."""
        if self._counts is None:
            residual, inside = self._residual, self._residual.pieces.by_unit()
            residual.run.progress.phase("sort rows to cells", residual.problem.sizes.n)
            disk = residual.run.disk_folder(self.key)
            router: Router = residual.objective, residual.start, self.inputs, self.tree
            with self.executor.broadcast(router, f"{self.key}-router") as handle:
                self._runs, counts = residual.problem.reader.leave_each(
                    write_run,
                    f"{self.key}-run",
                    residual.run.progress,
                    lambda unit: (handle, disk, inside.get(unit, [])),
                    count_cell_rows,
                )
            self._counts = np.zeros(self.tree.n_cells, np.int64)
            for cells, rows in counts:
                self._counts[cells] += rows
        return self._counts

    def batches(self, cells: Sequence[int]) -> list[list[int]]:
        """The cells of each task: with more workers than PICKS a task fits several cells."""
        together = max(1, len(self.executor.processes()) // PICKS)
        return [list(cells[at : at + together]) for at in range(0, len(cells), together)]

    def collect(self, cells: Sequence[int]) -> list[Handle]:
        """Return handles of lists of runs that together have the rows of these cells."""
        self.sort()
        if not self.executor.processes():
            return self._runs
        workers = self.executor.find_workers(self._runs)
        # A run whose worker is lost is made again by the task that picks from it, which has no other run.
        groups: dict[Any, list[int]] = {}
        for number, at in enumerate(workers):
            groups.setdefault(number if at is None else at, []).append(number)
        calls = []
        for numbers in groups.values():
            name = sha256(repr((list(cells), numbers)).encode()).hexdigest()[:16]
            runs = [self._runs[number] for number in numbers]
            calls.append(Call(f"{self.key}-pick-{name}", pick, (runs, list(cells)), workers[numbers[0]]))
        return self.executor.leave(calls)

    def close(self) -> None:
        """Release the rows."""
        self.executor.release(self._runs)
        self._runs, self._counts = [], None


def write_run(
    blocks: Sequence[Block | StoredBlock], router: Router, disk: DiskFolder, chunks: Sequence[ChunkPieces]
) -> CellRun:
    """Sort the rows of a unit and write them; runs on a worker."""
    objective, _, inputs, tree = router
    parts = [_rows(*load_piece(blocks[piece.range.block], piece), router) for pieces in chunks for piece in pieces]
    dtype = run_dtype(len(inputs.center), objective.targets.outputs)
    rows = np.concatenate([np.empty(0, dtype), *parts])
    rows = rows[np.argsort(rows["number"], kind="stable")]
    visits = dict(tree.visits(np.ascontiguousarray(rows["X"])))
    sorted_rows = []
    for cell in sorted(visits):
        some = rows[visits[cell].rows]
        some["depth"] = visits[cell].depth
        sorted_rows.append(some)
    run = CellRun.of(sorted(visits), sorted_rows, dtype)
    assert isinstance(run.rows, np.ndarray)
    return replace(run, rows=StoredRows(run.rows, disk))


def count_cell_rows(runs: Sequence[CellRun]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the rows of each cell in these runs; runs on a worker."""
    cells = np.concatenate([run.cells for run in runs])
    numbers, which = np.unique(cells, return_inverse=True)
    rows = np.concatenate([np.diff(run.ends, prepend=0) for run in runs])
    return numbers, np.bincount(which, rows, len(numbers)).astype(np.int64)


def pick(lists: Sequence[Sequence[CellRun]], cells: Sequence[int]) -> list[CellRun]:
    """Pick the rows of these cells from some runs; runs on a worker."""
    dtype = lists[0][0].rows.dtype
    parts = [np.concatenate([run.part(cell) for runs in lists for run in runs]) for cell in sorted(cells)]
    return [CellRun.of(sorted(cells), parts, dtype)]


def _rows(block: Block, piece: RowSlice, router: Router) -> NDArray[Any]:
    """Return the rows of a piece that cells learn from, in the dtype of a run."""
    objective, start, inputs, _ = router
    X, Y, weight, keep = objective.all_rows(block, piece)
    scores = objective.components.scores(X, *start)
    out = np.zeros(int(keep.sum()), run_dtype(X.shape[1], Y.shape[1]))
    out["number"] = (piece.first + piece.step * np.arange(piece.n))[keep]
    out["weight"] = 1.0 if weight is None else weight[keep, 0]
    out["X"], out["Y"], out["scores"] = inputs(X)[keep], Y[keep], scores[keep]
    return out


def rows_of_cell(lists: Sequence[Sequence[CellRun]], cell: int) -> tuple[ResidualRows, Visit]:
    """Collect the rows of a cell from all runs in the order of their numbers, with scaled features and their depth in
    the bands; runs on a worker."""
    rows = np.concatenate([run.part(cell) for runs in lists for run in runs])
    rows = rows[np.argsort(rows["number"], kind="stable")]
    X, Y, scores = (np.ascontiguousarray(rows[name]) for name in ("X", "Y", "scores"))
    visit = Visit(np.arange(len(rows)), rows["depth"].copy())
    return ResidualRows(X, Y, rows["weight"].astype(np.float64), scores), visit
