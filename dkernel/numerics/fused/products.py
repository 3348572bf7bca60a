"""Columns of a tile in one walk: products of rows with a block, and the function of each while it is in a register.

A product of few columns is bound by what it writes: a library packs its operands, clears the tile and adds to it, and
the cosine or exponential then reads and writes the tile again. Here 4 rows times 64 columns stay in registers from the
first product to the finished column. The sums run over k in order, each a fused multiply and add, on every processor:
results have the same bits with AVX-512, AVX2 and NEON, whose vectors `processor` names. OpenBLAS keeps that order with
AVX-512 alone, where the bits are those of `np.matmul`. The functions are those of `tiling`. Where a processor has no
such vectors, and for widths that are no multiple of 64, `pack_panels` says no and those are used.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkernel.numerics.fused.processor import registers
from dkernel.numerics.fused.shapes import PANEL, PRODUCT_STRIP
from dkernel.numerics.loops import CompiledLoop, instruction
from dkernel.numerics.tiling import aligned_empty

MOST_DATA_COLUMNS = 128  # products of more columns of the data are worth a library's blocking


def supports_products(k: int, dtype: Any = np.float32) -> bool:
    """True if products over k columns of the data go this way on this processor: in float64 those of any number."""
    return (k <= MOST_DATA_COLUMNS or dtype == np.float64) and registers() is not None


def pack_panels(block: NDArray[Any]) -> NDArray[Any] | None:
    """The block (k, width) as panels (width / 64, k, 64), or None where the fused products do not go.

    Float32 or float64.

    Examples
    --------
    >>> pack_panels(np.zeros((3, 100), np.float32)) is None
    True
    """
    k, width = block.shape
    return None if width == 0 or width % PANEL or not supports_products(k, block.dtype) else _lay_panels(block)


def _lay_panels(block: NDArray[Any]) -> NDArray[Any]:
    panels = aligned_empty((block.shape[1] // PANEL, len(block), PANEL), block.dtype)
    panels[...] = block.reshape(len(block), -1, PANEL).transpose(1, 0, 2)
    return panels


def is_whole(panels: NDArray[np.float32], out: NDArray[np.float32]) -> bool:
    """True if all of the block is wanted, of whole strips of rows."""
    return out.shape[1] == PANEL * len(panels) and len(out) % PRODUCT_STRIP == 0


_BLOCKS = {name: instruction("intrinsic_block", name) for name in ("exp2", "sincos", "identity")}
component_block = _BLOCKS["exp2"]
"""What a walk calls by this name, in which each has the block of its own function."""


def compile_walks(signature: str) -> Callable[[Callable[..., None]], Mapping[str, CompiledLoop]]:
    """Function of the products -> the loop that is decorated, with the block of this function as `component_block`."""
    return lambda walk: {
        name: CompiledLoop(walk, signature, parts={"component_block": block}, name=name)
        for name, block in _BLOCKS.items()
    }


_PRODUCT_SIGNATURE = "void(float32[:, ::1], float32[:, :, ::1], float32[:, :, ::1])"


def _product_walk(rows: Any, panels: Any, out: Any) -> None:
    for j in range(panels.shape[0]):
        for i in range(0, rows.shape[0], 4):
            component_block(rows, panels, out, 0, i, j)


product_walks = compile_walks(_PRODUCT_SIGNATURE)(_product_walk)
"""Function f of the products -> loop of (rows (r, k), r a multiple of 4; `pack_panels` block; out (layers, r, width)).

It writes f(rows @ block): 2^min(z, 0) of "exp2", cos(2 pi z) and sin(2 pi z) of "sincos".
"""
_wide_product_walks = compile_walks(_PRODUCT_SIGNATURE.replace("float32", "float64"))(_product_walk)


def products(rows: NDArray[Any], block: NDArray[Any]) -> NDArray[Any]:
    """rows @ block: with vectors a row has the same bits wherever it stands, which not every library gives.

    Parameters
    ----------
    rows : float32 or float64 (r, k)
    block : (k, width), of the type of the rows
    """
    (n, k), width = rows.shape, block.shape[1]
    if not width or registers() is None:
        return np.asarray(rows @ block)
    wide = np.zeros((k, -(-width // PANEL) * PANEL), rows.dtype)
    wide[:, :width] = block
    strips = in_strips(rows)
    out = np.empty((1, len(strips), wide.shape[1]), rows.dtype)
    (product_walks if rows.dtype == np.float32 else _wide_product_walks)["identity"](strips, _lay_panels(wide), out)
    return np.ascontiguousarray(out[0, :n, :width])


def in_strips(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows as a walk takes them, contiguous: rows of zeros up to a whole strip behind them."""
    missing = -len(rows) % PRODUCT_STRIP
    if missing:
        rows = np.concatenate([rows, np.zeros((missing, rows.shape[1]), rows.dtype)])
    return np.ascontiguousarray(rows)
