"""Local machines as nodes of an ONNX graph: the bins of grids by their hash.

Bins, and walls of cells, are found in the float32 arithmetic of the fit, so that a row is on the same side of an edge.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.leaves.export.cell_nodes import cell_scores
from dkernel.leaves.export.nodes import DOUBLE, SINGLE, WHOLE, Nodes, no_counterpart
from dkernel.model.local.base import LocalMachine
from dkernel.model.local.binning import LAST_INTERVAL, Binning
from dkernel.model.local.grid_machine import GridMachine
from dkernel.model.local.inputs import GridInputs

EXPORTED_GRIDS = 128  # grids whose bins are found at one time: (grids, rows, inputs) numbers are in memory


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


NODES_OF_MACHINES: Mapping[str, Callable[..., str]] = {GridMachine.kind: _of_grids, "cells": cell_scores}
"""Kind of a local machine -> what makes its nodes."""
