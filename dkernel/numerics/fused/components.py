"""Components of a map as the compiled walks make them: products with a block in panels, and a function of each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.array_types import F32, F64
from dkernel.numerics.fused.products import pack_panels
from dkernel.numerics.fused.shapes import PANEL
from dkernel.numerics.tiling import aligned_empty

# Heads of a walk. With AVX-512 and with AVX2 a walk of 26 is a fifth quicker than the products of a library in training
# and as quick in scoring; one of 32 is as quick in training and a fifth slower in scoring.
MOST_FUSED_HEADS = 28


@dataclass(frozen=True, eq=False)
class PackedComponents:
    """A map as the products of prepared rows with one block, and a function of each.

    Parameters
    ----------
    function : "exp2", "sincos", which makes two layers of columns, the cosines and the sines, or another one of
        `products.compile_walks`
    packed : `products.pack_panels` block, with zeros up to a whole panel; its type is that of the columns
    width : columns of the block without them
    order : where each of the map's columns stands in the layers end to end; None for the order that they have
    """

    function: str
    packed: NDArray[Any]
    width: int
    order: NDArray[np.intp] | None = None

    @classmethod
    def of(cls, function: str, block: NDArray[Any], order: NDArray[np.intp] | None = None) -> "PackedComponents | None":
        """Columns of a block (k, width), or None where the fused products do not go."""
        k, width = block.shape
        padded = np.zeros((k, -(-width // PANEL) * PANEL), block.dtype)
        padded[:, :width] = block
        panels = pack_panels(padded)
        return None if panels is None else cls(function, panels, width, order)

    def some(self, first: int, width: int) -> F32 | None:
        """The panels of some columns of the block, if they are whole ones."""
        if first % PANEL or width % PANEL:
            return None
        return self.packed[first // PANEL : (first + width) // PANEL]

    @property
    def layers(self) -> int:
        return 2 if self.function == "sincos" else 1

    def pack(self, coef: NDArray[np.floating]) -> NDArray[Any]:
        """Coefficients of the columns (D, heads) as the walk reads them, (heads, panels, layers, 64)."""
        heads, whole = coef.shape[1], len(self.packed)
        wide = np.zeros((heads, self.layers, whole * PANEL), self.packed.dtype)
        layered = coef.T
        if self.order is not None:
            layered = np.empty_like(layered)
            layered[:, self.order] = coef.T
        wide[:, :, : self.width] = layered.reshape(heads, self.layers, self.width)
        out = aligned_empty((heads, whole, self.layers, PANEL), self.packed.dtype)
        out[...] = wide.reshape(heads, self.layers, whole, PANEL).transpose(0, 2, 1, 3)
        return out

    def unpack(self, G: F64) -> F64:
        """A gradient of that shape as one of the columns, (D, heads)."""
        heads, whole = G.shape[:2]
        layered = G.transpose(0, 2, 1, 3).reshape(heads, self.layers, whole * PANEL)[:, :, : self.width]
        flat = layered.reshape(heads, -1)
        return np.ascontiguousarray((flat if self.order is None else flat[:, self.order]).T)
