"""The local part of a model: grids with a table of coefficients each."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.local.binning import Binning
from dkernel.local.inputs import GridInputs

__all__ = ["GridMachine", "coarse_to_fine"]

F32 = NDArray[np.float32]

ROWS = 32_768  # of a block at a time: the table of a grid stays in the cache for all of them


def coarse_to_fine(
    gamma: NDArray[np.float64], categorical: NDArray[np.bool_], n_grids: int, bits: int, seed: int
) -> Binning:
    """Grids whose gamma grows from half of `gamma` to twice that; the categories keep theirs.

    Coarse grids leave what is rough to the fine ones, which come last: with 1,024 grids covtype's error is 2.3 in place
    of 2.5 % with grids of one width, and the width counts for less.
    """
    growth = np.exp2(np.linspace(-1.0, 1.0, n_grids) if n_grids > 1 else np.zeros(1))
    each = np.where(categorical, gamma, gamma * growth[:, None])
    return Binning.draw(each, len(gamma), n_grids, bits, seed, categorical)


@dataclass(frozen=True, eq=False)
class GridMachine:
    """f(x) = unit Σ_g coef[g, bin_g(x)], of grids that the seed draws.

    Parameters
    ----------
    inputs : of the grids, from rows of the source
    gamma : of each of the inputs, float64 (n_inputs,)
    seed, bits : of the binning
    coef : float32 (n_grids, 2^bits, outputs)
    unit : of the scores, float64 (outputs,)
    """

    inputs: GridInputs
    gamma: NDArray[np.float64]
    seed: int
    bits: int
    coef: F32
    unit: NDArray[np.float64]

    @cached_property
    def binning(self) -> Binning:
        """The grids."""
        return coarse_to_fine(self.gamma, self.inputs.categorical, len(self.coef), self.bits, self.seed)

    @property
    def n_occupied(self) -> int:
        """Bins with a coefficient."""
        return int(self._occupied.sum())

    @property
    def _occupied(self) -> NDArray[np.bool_]:
        return np.asarray((self.coef != 0).any(axis=2))

    def scores(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores (rows, outputs) of a block (rows, p); a row has the same alone and in any block."""
        S = np.zeros((len(X), self.coef.shape[2]), np.float32)
        for first in range(0, len(X), ROWS):
            part = slice(first, first + ROWS)
            self.binning.add_scores(self.inputs(X[part]), self.coef, S[part])
        return S * self.unit

    def spec(self) -> dict[str, Any]:
        """What is not an array, as JSON."""
        return {"kind": "grids", "seed": self.seed, "bits": self.bits, **self.inputs.spec()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is an array; of the coefficients those of the bins that rows fell into, and which these are."""
        occupied = self._occupied
        return {
            "center": self.inputs.center,
            "gamma": self.gamma,
            "unit": self.unit,
            "occupied": np.packbits(occupied, axis=1),
            "coef": self.coef[occupied],
        }

    @classmethod
    def build(cls, spec: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> "GridMachine":
        """The machine again, from `spec` and `arrays`."""
        bits, kept = int(spec["bits"]), arrays["occupied"]
        occupied = np.unpackbits(kept, axis=1, count=1 << bits).astype(bool)
        coef = np.zeros((*occupied.shape, arrays["coef"].shape[1]), np.float32)
        coef[occupied] = arrays["coef"]
        inputs = GridInputs.build(spec, arrays["center"])
        return cls(inputs, arrays["gamma"], int(spec["seed"]), bits, coef, arrays["unit"])
