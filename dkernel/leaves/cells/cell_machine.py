"""The local part of a model: an exact machine in each cell of a partition of the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dkernel.kernels.landmark_columns.base import FARTHEST
from dkernel.leaves.cells.cells import SMOOTHNESS, Cell, pack_cells, unpack_cells
from dkernel.leaves.cells.partition import CellTree
from dkernel.model.local.base import LocalMachine
from dkernel.numerics.array_record import ArrayRecord
from dkernel.numerics.array_types import F32, F64


@dataclass(frozen=True, eq=False)
class CellInputs(ArrayRecord):
    """The function from rows of features to the rows of cells.

    Parameters
    ----------
    center, factor : of the features, float64 (p,); centred in the dtype of the rows, before they become float32
    """

    center: F64
    factor: F64

    def __call__(self, X: NDArray[np.floating]) -> F32:
        """Scaled rows, float32 (rows, p), of a block (rows, p)."""
        return np.ascontiguousarray(self.scale(X), np.float32)

    def scale(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Scaled rows (rows, p) in the dtype of a block (rows, p); those as good as infinitely far are nearer."""
        return np.clip((X - self.center.astype(X.dtype)) * self.factor.astype(X.dtype), -FARTHEST, FARTHEST)


@dataclass(frozen=True, eq=False)
class CellMachine(LocalMachine):
    """f(x) = unit f_c(x), c the cell of x; in the band of a cut a mean of the cells on both sides.

    A cell has weight 1 for its own rows. For others the weight falls from 1 at the cut to 0 where the band ends, so the
    function does not jump at a cut.

    Parameters
    ----------
    inputs : of the cells, from rows of the source
    tree : of the cells
    roots : of the metric of each cell, or one of all, float32 (cells or 1, p, p)
    Z : the rows of all cells, one cell after the other, times its root, float32 (rows, p)
    coef : float32 (rows, outputs)
    ends : of each cell's rows, int64 (cells,)
    lengths : of each cell's kernel, float64 (cells,)
    nu : of the kernels
    unit : of the scores, float64 (outputs,)
    """

    kind = "cells"
    by_parts = frozenset({"Z", "coef"})

    inputs: CellInputs
    tree: CellTree
    roots: F32
    Z: F32
    coef: F32
    ends: NDArray[np.int64]
    lengths: F64
    nu: float
    unit: F64

    @classmethod
    def of(cls, inputs: CellInputs, tree: CellTree, cells: Sequence[Cell], nu: float, unit: F64) -> "CellMachine":
        """The machine of these cells, in the order of their numbers."""
        return cls(inputs, tree, nu=nu, unit=unit, **pack_cells(cells))

    @cached_property
    def cells(self) -> list[Cell]:
        """The machines of the cells; their arrays are views."""
        return unpack_cells(self.arrays(), self.nu)

    def scores(self, X: NDArray[np.floating]) -> F64:
        rows = self.inputs.scale(X)
        S, total = np.zeros((len(X), self.coef.shape[1])), np.zeros((len(X), 1))
        for number, visit in self.tree.visits(self.inputs(X)):
            weight = np.where(visit.inside, 1.0, 1.0 - visit.depth)[:, None]
            S[visit.rows] += weight * self.cells[number].scores(rows[visit.rows])
            total[visit.rows] += weight
        return S / total * self.unit

    @property
    def smoothness(self) -> tuple[float, float, float]:
        """The factors of the kernel, as SMOOTHNESS has them."""
        return SMOOTHNESS[self.nu]

    def without(self, outputs: Sequence[int]) -> Self:
        coef = self.coef.copy()
        coef[:, list(outputs)] = 0
        return replace(self, coef=coef)

    def fits(self, n_in: int, outputs: int) -> bool:
        cells, rows, p = len(self.ends), len(self.Z), (n_in,)
        return (
            self.inputs.center.shape == self.inputs.factor.shape == p
            and self.tree.fits(n_in)
            and cells == self.tree.n_cells == len(self.lengths)
            and self.roots.shape in ((1, n_in, n_in), (cells, n_in, n_in))
            and self.Z.shape == (rows, n_in)
            and self.coef.shape == (rows, outputs)
            and bool((np.diff(self.ends, prepend=0) >= 0).all())
            and int(self.ends[-1]) == rows
            and bool((self.lengths > 0).all())
            and self.nu in SMOOTHNESS
            and self.unit.shape == (outputs,)
        )

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "nu": self.nu}

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {name: getattr(self, name) for name in ("roots", "Z", "coef", "ends", "lengths", "unit")}
        return {**self.inputs.arrays(), **self.tree.arrays(), **parts}

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        parts = {name: arrays[name] for name in ("roots", "Z", "coef", "ends", "lengths", "unit")}
        return cls(CellInputs.build(arrays), CellTree.build(arrays), nu=float(spec["nu"]), **parts)
