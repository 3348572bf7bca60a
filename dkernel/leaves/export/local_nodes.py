"""Local machines as nodes of an ONNX graph: the bins of grids by their hash, cells by their walls and kernels.

Bins and walls are found in the float32 arithmetic of the fit, so that a row is on the same side of an edge.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.leaves.export.nodes import Nodes, no_counterpart
from dkernel.model.local.base import LocalMachine
from dkernel.model.local.binning import LAST_INTERVAL, Binning
from dkernel.model.local.cell_machine import CellMachine
from dkernel.model.local.cells import SMOOTHNESS
from dkernel.model.local.grid_machine import GridMachine
from dkernel.model.local.inputs import GridInputs
from dkernel.model.local.partition import CellTree

EXPORTED_GRIDS = 128  # grids whose bins are found at one time: (grids, rows, inputs) numbers are in memory
SINGLE, DOUBLE, WHOLE = np.float32, np.float64, np.int64


def local_scores(to: Nodes, machine: LocalMachine, x: str, dtype: str) -> str:
    """Scores (rows, outputs), float64, of inputs x (rows, p).

    Parameters
    ----------
    dtype : of the recipe, in which x is
    """
    if machine.kind not in NODES_OF_MACHINES:
        raise no_counterpart(f"A local stage of {machine.kind}", "Grids and cells can be exported.")
    return NODES_OF_MACHINES[machine.kind](to, machine, x, dtype)


def _of_grids(to: Nodes, machine: GridMachine, x: str, dtype: str) -> str:
    binning, tables = machine.binning, machine.tables
    inputs, total = to("Transpose", _grid_inputs(to, machine.inputs, x, dtype)), ""
    # Grids of as many inputs come together, since all grids of a part have the inputs of its largest one.
    order = np.argsort(np.count_nonzero(binning.inverse, axis=1), kind="stable")
    for first in range(0, len(order), EXPORTED_GRIDS):
        some = order[first : first + EXPORTED_GRIDS]
        part = binning.take(some)
        coef = [tables.coef[binning.starts[g] : binning.starts[g + 1]] * tables.unit[g] for g in some]
        places = to("Add", _codes(to, part, inputs), to.constant(part.starts[:-1].reshape(-1, 1, 1), WHOLE))
        terms = to("Gather", to.constant(np.concatenate(coef), SINGLE), places, axis=0)  # (grids, 1, rows, outputs)
        terms = to.cast(terms, DOUBLE) if dtype == "float64" else terms
        score = to("ReduceSum", terms, to.constant([0, 1], WHOLE), keepdims=0)
        total = to("Add", total, score) if total else score
    return to("Mul", to.cast(total, DOUBLE), to.constant(machine.unit, DOUBLE))


def _grid_inputs(to: Nodes, inputs: GridInputs, x: str, dtype: str) -> str:
    """The inputs of grids, and a last one of zeros, float32 (rows, n_out + 1): as `GridInputs` makes them."""
    numbers = list(inputs.numbers)
    centred = to("Sub", to.columns(x, numbers), to.constant(inputs.center[numbers], dtype))
    parts = [to.cast(centred, SINGLE)] if numbers else []
    for group in inputs.groups:
        flags = to.cast(to("Not", to("Equal", to.columns(x, list(group)), to.constant(0.0, dtype))), SINGLE)
        numbered = to("Mul", flags, to.constant(np.arange(1, len(group) + 1), SINGLE))
        last = to("ReduceMax", numbered, axes=[1], keepdims=1)
        several = to("Greater", to("ReduceSum", flags, to.constant([1], WHOLE), keepdims=1), to.constant(1.0, SINGLE))
        parts.append(to("Where", several, to("Neg", last), last))
    parts.append(to("Mul", to.cast(to.column(x, 0), SINGLE), to.constant(0.0, SINGLE)))
    return to("Concat", *parts, axis=1)


def _codes(to: Nodes, grids: Binning, inputs: str) -> str:
    """Codes of the bins of each row, int64 (grids, 1, rows), from the inputs (n_out + 1, rows) that a grid uses.

    The offset of the hash is the multiplier of the last input, whose interval is always 1. It stands for the inputs
    too that a grid has less than the largest one, with an interval of 0. Products of unsigned integers are modulo 2^32,
    as in the fit; a processor leaves open what sums of others that overflow are.
    """
    uses, n_inputs = grids.inverse != 0, grids.inverse.shape[1]
    columns = np.argsort(~uses, axis=1, kind="stable")[:, : uses.sum(axis=1).max()]
    used = np.take_along_axis(uses, columns, axis=1)

    def of_used(values: NDArray[Any], last: NDArray[Any] | float) -> NDArray[Any]:
        filled = np.where(used, np.take_along_axis(values, columns, axis=1), 0)
        return np.hstack([filled, np.broadcast_to(last, (len(filled), 1))])[:, :, None].astype(values.dtype)

    rows = np.hstack([np.where(used, columns, n_inputs), np.full((len(used), 1), n_inputs)])
    x = to("Gather", inputs, to.constant(rows, WHOLE), axis=0)
    x = to("Mul", x, to.constant(of_used(grids.inverse, 0.0), SINGLE))
    x = to("Sub", x, to.constant(of_used(grids.shift, -1.0), SINGLE))
    x = to("Floor", to("Clip", x, to.constant(-LAST_INTERVAL, SINGLE), to.constant(LAST_INTERVAL, SINGLE)))
    intervals = to.cast(to.cast(x, np.int32), np.uint32)
    multiplier = of_used(grids.multiplier, grids.offset[:, None]).transpose(0, 2, 1)
    hashes = to("MatMul", to.constant(multiplier, np.uint32), intervals)
    dropped = to.constant((32 - grids.bits).reshape(-1, 1, 1), np.uint32)
    return to.cast(to("BitShift", hashes, dropped, direction="RIGHT"), WHOLE)


def _of_cells(to: Nodes, machine: CellMachine, x: str, dtype: str) -> str:
    """Scores by the cells that any of the rows is in, one cell after the other."""
    inputs, outputs = machine.inputs, machine.coef.shape[1]
    centred = to("Sub", x, to.constant(inputs.center, dtype))
    with to.compute_in(dtype):
        scaled = to.clip(to("Mul", centred, to.constant(inputs.factor)))
    weights, rows = _weights(to, machine.tree, to.cast(scaled, SINGLE)), to.cast(scaled, DOUBLE)
    tensors = {
        "Z": to.constant(machine.Z, SINGLE),
        "coef": to.constant(machine.coef, SINGLE),
        "roots": to.constant(machine.roots, SINGLE),
        "ends": to.constant(np.concatenate([[0], machine.ends]), WHOLE),
        "squares": to.constant((SMOOTHNESS[machine.nu][0] / machine.lengths) ** 2, DOUBLE),
    }
    visited = to("NonZero", to("ReduceMax", weights, axes=[0], keepdims=0))
    visited = to("Squeeze", visited, to.constant([0], WHOLE))
    count = to("Squeeze", to("Shape", visited), to.constant([0], WHOLE))
    n = to("Shape", rows, start=0, end=1)
    zeros = to(
        "ConstantOfShape", to("Concat", n, to.constant([outputs], WHOLE), axis=0), value=to.tensor([0.0], DOUBLE)
    )
    body, step, before = to.inner(), to.name("step"), to.name("scores")
    cell = body("Unsqueeze", body("Gather", visited, step, axis=0), to.constant([0], WHOLE))
    weight = body("Gather", weights, cell, axis=1)  # (rows, 1)
    visitors = body("Transpose", body("NonZero", body("Squeeze", weight, to.constant([1], WHOLE))))  # (visitors, 1)
    some = body("Squeeze", visitors, to.constant([1], WHOLE))
    score = _of_cell(body, machine, tensors, cell, body("Gather", rows, some, axis=0))
    score = body("Mul", score, body.cast(body("Gather", weight, some, axis=0), DOUBLE))
    after = body("ScatterND", before, visitors, score, reduction="add")
    score = to.loop(body, count, step, before, after, zeros, ["rows", outputs])
    total = to("ReduceSum", to.cast(weights, DOUBLE), to.constant([1], WHOLE), keepdims=1)
    return to("Mul", to("Div", score, total), to.constant(machine.unit, DOUBLE))


def _of_cell(body: Nodes, machine: CellMachine, tensors: dict[str, str], cell: str, rows: str) -> str:
    """The machine of one cell at some rows, in float64."""
    whose = cell if len(machine.roots) > 1 else body.constant([0], WHOLE)
    root = body("Squeeze", body("Gather", tensors["roots"], whose, axis=0), body.constant([0], WHOLE))
    start = body("Gather", tensors["ends"], cell, axis=0)
    end = body("Gather", tensors["ends"], body("Add", cell, body.constant([1], WHOLE)), axis=0)
    first = body.constant([0], WHOLE)
    Z, coef = (body("Slice", tensors[name], start, end, first) for name in ("Z", "coef"))
    u, z = body("MatMul", rows, body.cast(root, DOUBLE)), body.cast(Z, DOUBLE)
    norms = body("Add", body("ReduceSumSquare", u, axes=[1]), body("ReduceSumSquare", z, axes=[1], keepdims=0))
    squared = body("Add", body("Gemm", u, z, alpha=-2.0, transB=1), norms)
    squared = body("Mul", squared, body("Gather", tensors["squares"], cell, axis=0))
    a = body("Sqrt", body("Max", squared, body.constant(0.0, DOUBLE)))
    decay, (_, b, c) = body("Exp", body("Neg", a)), SMOOTHNESS[machine.nu]
    if b or c:
        polynomial = body("Add", body("Mul", a, body.constant(b, DOUBLE)), body.constant(1.0, DOUBLE))
        if c:
            polynomial = body("Add", polynomial, body("Mul", squared, body.constant(c, DOUBLE)))
        decay = body("Mul", decay, polynomial)
    return body("MatMul", decay, body.cast(coef, DOUBLE))


def _weights(to: Nodes, tree: CellTree, rows: str) -> str:
    """Weight of each cell for each row, float32 (rows, cells), 0 where the cell does not see the row.

    It is 1 less the largest of the depths in the bands on the way to the cell: 0 on the own side of a cut.
    """
    cuts = len(tree.children)
    if not cuts:
        return to("Add", to("Mul", to.column(rows, 0), to.constant(0.0, SINGLE)), to.constant(1.0, SINGLE))
    low, cut, high = (np.ascontiguousarray(position) for position in tree.places.T)
    values = _project(to, tree.directions, rows)
    depths = []
    for end, sign in ((high, 1.0), (low, -1.0)):  # of the cells below a cut, and from it on
        width = np.where(low > high, np.float32(0.0), np.abs(end - cut))
        beyond = to("Sub", values, to.constant(cut, SINGLE))
        beyond = beyond if sign > 0 else to("Neg", beyond)
        depth = to("Div", beyond, to.constant(np.where(width > 0, width, 1.0), SINGLE))
        depth = to("Where", to.constant(width > 0, np.bool_), depth, to.constant(2.0, SINGLE))
        below = to("Less", values, to.constant(cut, SINGLE))
        other = to("Not", below) if sign > 0 else below
        other = to("And", other, to.constant(low <= high, np.bool_))
        depths.append(to("Where", other, depth, to.constant(0.0, SINGLE)))
    nowhere = to("Mul", to.column(rows, 0), to.constant(0.0, SINGLE))
    on_the_way = to("Gather", to("Concat", *depths, nowhere, axis=1), to.constant(_paths(tree), WHOLE), axis=1)
    deepest = to("ReduceMax", on_the_way, axes=[2], keepdims=0)
    return to("Max", to("Sub", to.constant(1.0, SINGLE), deepest), to.constant(0.0, SINGLE))


def _project(to: Nodes, directions: NDArray[np.float32], rows: str) -> str:
    """rows @ directions', float32 (rows, cuts), summed input by input as the fit sums them."""
    total = ""
    for j, direction in enumerate(directions.T):
        product = to("Mul", to.column(rows, j), to.constant(direction, SINGLE))
        total = to("Add", total, product) if total else product
    return total


def _paths(tree: CellTree) -> NDArray[np.int64]:
    """The depths that count for each cell, int64 (cells, cuts on the way).

    Depth k is that below cut k, depth cuts + k that from cut k on, and the last one is always 0.
    """
    cuts = len(tree.children)
    path_of: list[list[int]] = [[] for _ in range(tree.n_cells)]
    todo: list[tuple[int, list[int]]] = [(0, [])]
    while todo:
        node, path = todo.pop()
        if node < 0:
            path_of[-1 - node] = path
        else:
            todo += [(int(tree.children[node, side]), [*path, side * cuts + node]) for side in (0, 1)]
    longest = max(map(len, path_of))
    return np.array([[*path, *[2 * cuts] * (longest - len(path))] for path in path_of], np.int64)


NODES_OF_MACHINES: Mapping[str, Callable[..., str]] = {GridMachine.kind: _of_grids, CellMachine.kind: _of_cells}
"""Kind of a local machine -> what makes its nodes."""
