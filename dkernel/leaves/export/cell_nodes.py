"""The machine of cells as nodes of an ONNX graph: cells by their walls and kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.leaves.export.nodes import DOUBLE, SINGLE, WHOLE, Nodes


def cell_scores(to: Nodes, machine: Any, x: str, dtype: str) -> str:
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
        "squares": to.constant((machine.smoothness[0] / machine.lengths) ** 2, DOUBLE),
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


def _of_cell(body: Nodes, machine: Any, tensors: dict[str, str], cell: str, rows: str) -> str:
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
    decay, (_, b, c) = body("Exp", body("Neg", a)), machine.smoothness
    if b or c:
        polynomial = body("Add", body("Mul", a, body.constant(b, DOUBLE)), body.constant(1.0, DOUBLE))
        if c:
            polynomial = body("Add", polynomial, body("Mul", squared, body.constant(c, DOUBLE)))
        decay = body("Mul", decay, polynomial)
    return body("MatMul", decay, body.cast(coef, DOUBLE))


def _weights(to: Nodes, tree: Any, rows: str) -> str:
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


def _paths(tree: Any) -> NDArray[np.int64]:
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
