"""The update of cells: each learns the new rows that fall into it, and is cut if it has too many."""

import hashlib

import numpy as np

from dkernel.leaves.cells.cell_machine import CellMachine
from dkernel.leaves.cells.cells import Cell, divide_cell, update_cell
from dkernel.leaves.cells.partition import CellTree
from dkernel.leaves.cells.settings import cell_sizes
from dkernel.losses.losses import Loss
from dkernel.model.model import Model
from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.rows import array_digest
from dkernel.streaming.execution.base import Call, Executor
from dkernel.training.residual import ResidualRows


def update_task(
    cell: Cell, loss: Loss, rows: tuple[F32, F32, F32, F64], ridge: float, limit: int, overlap: float, seed: int
) -> tuple[CellTree, list[Cell]]:
    """Add new rows to a cell, and cut it if it has more than `limit` with its bands; runs on a worker."""
    return divide_cell(update_cell(cell, loss, *rows, ridge), ridge, limit, overlap, seed)


def update_cell_machine(machine: CellMachine, model: Model, rows: ResidualRows, executor: Executor) -> CellMachine:
    """Let each cell learn the new rows that fall into it."""
    (limit, overlap, _), ridge = cell_sizes(model.recipe), float(model.facts["local"]["ridge"])
    settings = ridge, int((1 + overlap) * limit), overlap
    Z, calls = machine.inputs(rows.X), {}
    key = hashlib.sha256(array_digest(Z).encode() + array_digest(rows.Y).encode()).hexdigest()[:16]
    for number, visit in machine.tree.visits(Z):
        if len(visit.rows):
            some = visit.rows
            part = np.ascontiguousarray(Z[some]), rows.Y[some], rows.scores[some], rows.weight[some]
            cell, n = machine.cells[number], len(machine.Z)
            name = f"dkernel-update-{key}-{n}-{array_digest(cell.coef)}-{number}"
            args = cell, model.loss, part, *settings, model.recipe.seed + number
            calls[number] = Call(name, update_task, args)
    results = dict(zip(calls, executor.compute(list(calls.values()))[0], strict=True))
    p = len(machine.inputs.center)
    none = CellTree(np.zeros((0, p), np.float32), np.zeros((0, 3), np.float32), np.zeros((0, 2), np.int32))
    updated = [results.get(number, (none, [cell])) for number, cell in enumerate(machine.cells)]
    tree = machine.tree.join([tree for tree, _ in updated])
    return CellMachine.of(
        machine.inputs, tree, [cell for _, some in updated for cell in some], machine.nu, machine.unit
    )
