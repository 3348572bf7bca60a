"""The local part of a model: grids with a table of coefficients each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dkernel.model.local.base import LocalMachine
from dkernel.model.local.binning import MOST_BITS, Binning
from dkernel.model.local.grids import TABLE_BITS, Tables
from dkernel.model.local.inputs import GridInputs
from dkernel.numerics.array_types import U32

TABLE_ROWS = 32_768  # rows of a block at a time: the table of a grid stays in the cache for all of them


@dataclass(frozen=True, eq=False)
class GridSettings:
    """Settings that grids are drawn with.

    Parameters
    ----------
    gamma : of each input, float64 (n_inputs,)
    used : share of the grids that use each input, float64 (n_inputs,)
    ridge : of a bin, in rows of weight 1
    """

    gamma: NDArray[np.float64]
    used: NDArray[np.float64]
    ridge: float

    def draw(self, inputs: GridInputs, n_grids: int, seed: int, first: int = 0) -> Binning:
        """Draw grids, the first of which has this number."""
        drawn = self.used, inputs.categorical, first
        return Binning.draw(self.gamma, inputs.n_out, n_grids, TABLE_BITS, seed, *drawn)


def pack_tables(tables: Tables) -> dict[str, NDArray[Any]]:
    """The coefficients of the bins that have any, which bins these are, and the units."""
    occupied = tables.coef.any(axis=1)
    return {"occupied": np.packbits(occupied), "coef": tables.coef[occupied], "scale": tables.unit}


def unpack_tables(arrays: Mapping[str, NDArray[Any]], n_bins: int) -> Tables:
    """The coefficients of `n_bins` bins that `pack_tables` stored."""
    if len(arrays["occupied"]) != -(-n_bins // 8):
        raise ValueError(f"No coefficients of {n_bins} bins.")
    coef = np.zeros((n_bins, arrays["coef"].shape[1]), np.int16)
    coef[np.unpackbits(arrays["occupied"], count=n_bins).view(bool)] = arrays["coef"]
    return Tables(coef, np.require(arrays["scale"], requirements=["C", "W"]))


@dataclass(frozen=True, eq=False)
class GridMachine(LocalMachine):
    """f(x) = unit Σ_g table_g[bin_g(x)], of grids that the seed draws.

    Parameters
    ----------
    inputs : of the grids, from rows of the source
    settings, seed : that the grids are drawn with
    bits : of the codes of each grid, uint32 (n_grids,)
    tables : their coefficients
    unit : of the scores, float64 (outputs,)
    """

    kind = "grids"

    inputs: GridInputs
    settings: GridSettings
    seed: int
    bits: U32
    tables: Tables
    unit: NDArray[np.float64]

    @cached_property
    def binning(self) -> Binning:
        """The grids."""
        return replace(self.settings.draw(self.inputs, len(self.bits), self.seed), bits=self.bits)

    def scores(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        S = np.zeros((len(X), len(self.unit)), X.dtype)
        for first in range(0, len(X), TABLE_ROWS):
            part = slice(first, first + TABLE_ROWS)
            self.binning.add_scores(self.inputs(X[part]).T, self.tables.coef, self.tables.unit, S[part])
        return S * self.unit

    def without(self, outputs: Sequence[int]) -> Self:
        unit = self.tables.unit.copy()
        unit[:, list(outputs)] = 0
        return replace(self, tables=replace(self.tables, unit=unit))

    def fits(self, n_in: int, outputs: int) -> bool:
        return (
            self.inputs.center.shape == (n_in,)
            and all(0 <= j < n_in for group in self.inputs.groups for j in group)
            and self.settings.gamma.shape == self.settings.used.shape == (self.inputs.n_out,)
            and self.unit.shape == (outputs,)
            and self.tables.unit.shape == (len(self.bits), outputs)
            and self.tables.coef.shape[1] == outputs
        )

    def spec(self) -> dict[str, Any]:
        return {"kind": self.kind, "seed": self.seed, "ridge": self.settings.ridge, **self.inputs.spec()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        parts = {"center": self.inputs.center, "gamma": self.settings.gamma, "used": self.settings.used}
        return parts | {"unit": self.unit, "bits": self.bits.astype(np.uint8), **pack_tables(self.tables)}

    def array_names(self) -> set[str]:
        return {"center", "gamma", "used", "unit", "bits", "occupied", "coef", "scale"}

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        inputs, bits = GridInputs.build(spec, arrays["center"]), arrays["bits"].astype(np.uint32)
        if not len(bits) or bits.min() < 1 or bits.max() > MOST_BITS:
            raise ValueError("No grids of these bits.")
        settings = GridSettings(arrays["gamma"], arrays["used"], float(spec["ridge"]))
        tables = unpack_tables(arrays, int((1 << bits.astype(np.int64)).sum()))
        return cls(inputs, settings, int(spec["seed"]), bits, tables, arrays["unit"])
