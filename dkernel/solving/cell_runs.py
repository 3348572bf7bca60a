"""The shuffle of the rows to their cells: sorted runs on scratch, one file for each unit of the source.

A task that reads a unit writes the rows of all its cells into one file, sorted by cell and row number and renamed in
one step; a task of a cell takes its part of every file, and sorts what it has by row number. So its rows, and their
order, know nothing of who wrote what, and a task may run twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.data.block import Block
from dkernel.data.scratch import save_array
from dkernel.errors import DataError
from dkernel.local.cell_machine import CellInputs
from dkernel.local.partition import CellTree, Visit
from dkernel.numerics import tiling
from dkernel.problem.objective import Coefficients, Problem
from dkernel.solving.residual import Residual
from dkernel.streaming.schedule import RowSlice

F32 = NDArray[np.float32]
Run = tuple[str, list[int]]
"""Path of a file, and the first row of each cell in it, with the number of all its rows behind."""


@dataclass(frozen=True, eq=False)
class RowRouter:
    """The meaning of the rows of a unit to the cells; sent once.

    Parameters
    ----------
    start : of the global stage
    tree : of the cells
    """

    problem: Problem
    start: Coefficients
    inputs: CellInputs
    tree: CellTree


@dataclass(frozen=True, eq=False)
class SortedRows:
    """The rows of the source on scratch, sorted to the cells of a tree.

    Parameters
    ----------
    tree : of the cells, which are parts to cut further
    numbers : of its cells, by which the parts are cut again
    runs : the files
    key : of these rows and files
    """

    inputs: CellInputs
    tree: CellTree
    numbers: Sequence[int]
    runs: Sequence[Run]
    key: str

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Rows of each part."""
        return np.asarray(np.sum([np.diff(ends) for _, ends in self.runs], axis=0))

    def places(self, part: int) -> list[tuple[str, int, int]]:
        """The rows of a part, in every file that has some."""
        return [(path, ends[part], ends[part + 1]) for path, ends in self.runs if ends[part] < ends[part + 1]]


@dataclass(frozen=True, eq=False)
class CellRows:
    """The rows that a cell learns from, in the order of their numbers.

    Parameters
    ----------
    X : scaled (n, p)
    Y : targets (n, outputs);  scores : of the global stage (n, outputs)
    weight : (n,)
    visit : all of them, and their depth in the bands
    """

    X: F32
    Y: F32
    scores: F32
    weight: F32
    visit: Visit


def run_dtype(p: int, outputs: int) -> np.dtype[Any]:
    """A row of a run."""
    columns = [("number", "<i8", ()), ("weight", "<f4", ()), ("depth", "<f4", ())]
    return np.dtype([*columns, ("X", "<f4", (p,)), ("Y", "<f4", (outputs,)), ("scores", "<f4", (outputs,))])


def write_runs(residual: Residual, router: RowRouter, folder: Path, key: str) -> list[Run]:
    """The rows of the source, sorted to cells; a file for each unit in the folder.

    Parameters
    ----------
    folder : seen by every worker and by this process
    key : of the run and this folder
    """
    inside: dict[int, list[RowSlice]] = {}
    for piece in residual.pieces:
        inside.setdefault(piece.place.unit, []).append(piece)
    held = residual.run.executor.keep(router, f"{key}-router")

    def args(unit: int) -> tuple[Any, ...]:
        return held, str(folder / f"cells-{unit:06d}.npy"), inside.get(unit, [])

    runs: list[Run] = residual.fit.reader.each(write_run, f"{key}-run", residual.run.progress, args)
    residual.run.executor.release([held])
    if runs and not Path(runs[0][0]).exists():
        raise DataError(
            f"The workers wrote the rows of the cells to {folder}, which this process cannot see. Give --scratch a "
            "folder that all machines share."
        )
    return runs


def write_run(blocks: Sequence[Block], router: RowRouter, path: str, pieces: Sequence[RowSlice]) -> Run:
    """Write the rows of a unit; runs on a worker."""
    parts = [_rows(blocks[piece.place.block], piece, router) for piece in pieces]
    dtype = run_dtype(len(router.inputs.center), router.problem.targets.outputs)
    rows = np.concatenate([np.empty(0, dtype), *parts])
    rows = rows[np.argsort(rows["number"], kind="stable")]
    visits = dict(router.tree.visits(np.ascontiguousarray(rows["X"])))
    found, ends = [rows[:0]], [0]
    for cell in range(router.tree.n_cells):
        if cell in visits:
            some = rows[visits[cell].rows]
            some["depth"] = visits[cell].depth
            found.append(some)
        ends.append(ends[-1] + len(found[-1]) * (cell in visits))
    save_array(path, np.concatenate(found))
    return path, ends


def _rows(block: Block, piece: RowSlice, router: RowRouter) -> NDArray[Any]:
    """The rows of a piece that are learned from, as a run has them."""
    X, Y, weight, keep = router.problem.all_rows(block, piece)
    scores = tiling.scores(router.problem.components, X, *router.start)
    out = np.zeros(int(keep.sum()), run_dtype(X.shape[1], Y.shape[1]))
    out["number"] = (piece.first + piece.step * np.arange(piece.n))[keep]
    out["weight"] = 1.0 if weight is None else weight[keep, 0]
    out["X"], out["Y"], out["scores"] = router.inputs(X)[keep], Y[keep], scores[keep]
    return out


def read_runs(places: Sequence[tuple[str, int, int]], dtype: np.dtype[Any]) -> CellRows:
    """The rows of one cell of these parts of files; runs on a worker."""
    parts = [np.load(path, mmap_mode="r")[first:last] for path, first, last in places]
    rows = np.concatenate([np.empty(0, dtype), *parts])
    rows = rows[np.argsort(rows["number"], kind="stable")]
    X, Y, scores = (np.ascontiguousarray(rows[name]) for name in ("X", "Y", "scores"))
    return CellRows(X, Y, scores, rows["weight"].copy(), Visit(np.arange(len(rows)), rows["depth"].copy()))
