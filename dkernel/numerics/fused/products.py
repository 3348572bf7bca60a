"""Columns of a tile in one walk: products of rows with a block, and the function of each while it is in a register.

A product of few columns is bound by what it writes: a library packs its operands, clears the tile and adds to it, and
the cosine or exponential then reads and writes the tile again. Here 4 rows times 64 columns stay in registers from the
first product to the finished column. The sums run over k in order, each a fused multiply and add, on every processor:
results have the same bits with AVX-512, AVX2 and NEON, whose vectors `processor` names. OpenBLAS keeps that order with
AVX-512 alone, where the bits are those of `np.matmul`. The functions are those of `tiling`. Where a processor has no
such vectors, and for widths that are no multiple of 64, `packed` says no and those are used.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from dkernel.numerics.fused.processor import registers
from dkernel.numerics.tiling import COSINE, EXP2, SINE, aligned, compiled

PANEL = 64  # columns of a block that are made together
PRODUCT_STRIP = 4  # rows
MOST_DATA_COLUMNS = 128  # products of more columns of the data are worth a library's blocking

cgutils: Any = _cgutils  # without types


def supports_products(k: int) -> bool:
    """True if products over k columns of the data go this way on this processor."""
    return k <= MOST_DATA_COLUMNS and registers() is not None


def packed(block: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The block (k, width) as panels (width / 64, k, 64), or None where the fused products do not go.

    Examples
    --------
    >>> packed(np.zeros((3, 100), np.float32)) is None
    True
    """
    k, width = block.shape
    if width == 0 or width % PANEL or not supports_products(k):
        return None
    panels = aligned((width // PANEL, k, PANEL))
    panels[...] = block.reshape(k, width // PANEL, PANEL).transpose(1, 0, 2)
    return panels


def fits(panels: NDArray[np.float32], out: NDArray[np.float32]) -> bool:
    """True if all of the block is wanted, of whole strips of rows."""
    return out.shape[1] == PANEL * len(panels) and len(out) % PRODUCT_STRIP == 0


class VectorBuilder:
    """Instructions on vectors of so many float32 numbers, which a compiler may lay into several registers."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder, self.lanes = builder, lanes
        self.vector, self.whole = ir.VectorType(ir.FloatType(), lanes), ir.VectorType(ir.IntType(32), lanes)
        self._fma, self._rint = (
            cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(self.vector, [self.vector] * taken), f"llvm.{name}.v{lanes}f32"
            )
            for name, taken in (("fma", 3), ("rint", 1))
        )

    def constant(self, value: float) -> ir.Constant:
        """A number in all lanes."""
        return ir.Constant(self.vector, [ir.FloatType()(value)] * self.lanes)

    def whole_constant(self, value: int) -> ir.Constant:
        """An integer in all lanes."""
        return ir.Constant(self.whole, [ir.IntType(32)(value)] * self.lanes)

    def load(self, array: Any, offset: Any) -> Any:
        """A vector from an array on."""
        return self.builder.load(self._pointer(array, offset), align=4)

    def store(self, value: Any, array: Any, offset: Any) -> None:
        self.builder.store(value, self._pointer(array, offset), align=4)

    def _pointer(self, array: Any, offset: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(array.data, [offset]), self.vector.as_pointer())

    def spread(self, array: Any, offset: Any) -> Any:
        """One number of an array in all lanes."""
        number, undefined = (
            self.builder.load(self.builder.gep(array.data, [offset])),
            ir.Constant(self.vector, ir.Undefined),
        )
        one = self.builder.insert_element(undefined, number, ir.IntType(32)(0))
        return self.builder.shuffle_vector(one, undefined, ir.Constant(self.whole, [0] * self.lanes))

    def variables(self, rows: int, columns: int) -> list[list[Any]]:
        """Vectors of zeros to add to, which end up in registers."""
        found = [[cgutils.alloca_once(self.builder, self.vector) for _ in range(columns)] for _ in range(rows)]
        for line in found:
            for place in line:
                self.builder.store(self.constant(0.0), place)
        return found

    def index(self, sizes: Any, places: Any) -> Any:
        """Offset of the element at these places in an array of these sizes."""
        at = places[0]
        for size, place in zip(sizes[1:], places[1:], strict=True):
            at = self.builder.add(self.builder.mul(at, size), place)
        return at

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self._fma, [a, b, c])

    def polynomial(self, x: Any, coefficients: Any) -> Any:
        """Evaluate a polynomial by Horner's rule, the last coefficient first."""
        value = self.constant(float(coefficients[-1]))
        for c in coefficients[-2::-1]:
            value = self.fma(x, value, self.constant(float(c)))
        return value

    def rounded(self, x: Any) -> Any:
        return self.builder.call(self._rint, [x])

    def identity(self, z: Any) -> tuple[Any, ...]:
        return (z,)

    def exp2(self, z: Any) -> tuple[Any, ...]:
        b, zero, least = self.builder, self.constant(0.0), self.constant(-126.0)
        u = b.select(b.fcmp_ordered("<", z, zero), z, zero)
        u = b.select(b.fcmp_ordered(">", u, least), u, least)
        k = self.rounded(u)
        f = b.fsub(u, k)
        bits = b.shl(b.add(b.fptosi(k, self.whole), self.whole_constant(127)), self.whole_constant(23))
        power = b.bitcast(bits, self.vector)
        # 2^k (1 + f r) as 2^k + (f r) 2^k: what the compiler makes of it in `tiles`.
        return (self.fma(b.fmul(f, self.polynomial(f, EXP2[1:])), power, power),)

    def sincos(self, z: Any) -> tuple[Any, ...]:
        b = self.builder
        f = b.fsub(z, self.rounded(z))
        s = b.fmul(f, f)
        return self.polynomial(s, COSINE), b.fmul(f, self.polynomial(s, SINE))


def arrays_of(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The arrays among the arguments of an intrinsic, as numba knows them."""
    return [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args, arguments, strict=True)
        if isinstance(kind, types.Array)
    ]


def intrinsic_block(function: str) -> Any:
    """The intrinsic (rows, panels, out, first, i, j): the function of rows first + i and the next three times panel j.

    It goes to out[:, i : i + 4, 64 j : 64 j + 64].
    """

    @intrinsic
    def block(typingctx: Any, rows: Any, panels: Any, out: Any, first: Any, i: Any, j: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _emit(builder, function, arrays_of(context, builder, signature, arguments), arguments[3:])
            return context.get_dummy_value()

        return types.void(rows, panels, out, first, i, j), generate

    return block


def _emit(builder: Any, function: str, arrays: Any, places: Any) -> None:
    target = registers()
    assert target is not None
    maker, (A, B, C), (start, i, j) = VectorBuilder(builder, target.lanes), arrays, places
    [_, k] = cgutils.unpack_tuple(builder, A.shape, 2)
    sizes = cgutils.unpack_tuple(builder, C.shape, 3)
    whole = k.type
    first = builder.mul(builder.add(start, i), k)
    panel = builder.mul(builder.mul(j, k), whole(PANEL))
    for group in target.groups(PANEL, PRODUCT_STRIP):
        columns = [whole(part * target.lanes) for part in group]
        sums = maker.variables(PRODUCT_STRIP, len(columns))
        with cgutils.for_range(builder, k) as loop:
            at = builder.add(panel, builder.mul(loop.index, whole(PANEL)))
            b = [maker.load(B, builder.add(at, column)) for column in columns]
            for row, line in enumerate(sums):
                offset = builder.add(builder.add(first, builder.mul(whole(row), k)), loop.index)
                a = maker.spread(A, offset)
                for value, place in zip(b, line, strict=True):
                    builder.store(maker.fma(a, value, builder.load(place)), place)
        for row, line in enumerate(sums):
            for column, place in zip(columns, line, strict=True):
                for layer, value in enumerate(getattr(maker, function)(builder.load(place))):
                    at = builder.add(builder.mul(j, whole(PANEL)), column)
                    maker.store(value, C, maker.index(sizes, (whole(layer), builder.add(i, whole(row)), at)))


exp2_block, sincos_block = intrinsic_block("exp2"), intrinsic_block("sincos")
_identity_block = intrinsic_block("identity")
_PRODUCT_SIGNATURE = "void(float32[:, ::1], float32[:, :, ::1], float32[:, :, ::1])"


@compiled(_PRODUCT_SIGNATURE)
def _exp2_walk(rows: Any, panels: Any, out: Any) -> None:
    for j in range(panels.shape[0]):
        for i in range(0, rows.shape[0], 4):
            exp2_block(rows, panels, out, 0, i, j)


@compiled(_PRODUCT_SIGNATURE)
def _sincos_walk(rows: Any, panels: Any, out: Any) -> None:
    for j in range(panels.shape[0]):
        for i in range(0, rows.shape[0], 4):
            sincos_block(rows, panels, out, 0, i, j)


@compiled(_PRODUCT_SIGNATURE)
def _identity_walk(rows: Any, panels: Any, out: Any) -> None:
    for j in range(panels.shape[0]):
        for i in range(0, rows.shape[0], 4):
            _identity_block(rows, panels, out, 0, i, j)


PRODUCT_WALKS = {"exp2": _exp2_walk, "sincos": _sincos_walk}
"""Function of the products -> its walk."""


def products(rows: NDArray[np.float32], block: NDArray[np.float32]) -> NDArray[np.float32]:
    """rows @ block: of few columns a row has the same bits wherever it stands, which not every library gives.

    Parameters
    ----------
    rows : float32 (r, k)
    block : float32 (k, width)
    """
    (n, k), width = rows.shape, block.shape[1]
    wide = np.zeros((k, -(-width // PANEL) * PANEL), np.float32)
    wide[:, :width] = block
    panels = packed(wide)
    if panels is None:
        return np.asarray(rows @ block)
    strips = in_strips(rows)
    out = np.empty((1, len(strips), wide.shape[1]), np.float32)
    _identity_walk(strips, panels, out)
    return np.ascontiguousarray(out[0, :n, :width])


def in_strips(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The rows as a walk takes them, contiguous: rows of zeros up to a whole strip behind them."""
    missing = -len(rows) % PRODUCT_STRIP
    if missing:
        rows = np.concatenate([rows, np.zeros((missing, rows.shape[1]), np.float32)])
    return np.ascontiguousarray(rows)


def exp2_products(rows: NDArray[np.float32], panels: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """out <- 2^min(rows @ block, 0).

    Parameters
    ----------
    rows : float32 (r, k), r a multiple of 4
    panels : `packed` block
    out : float32 (r, width)
    """
    _exp2_walk(rows, panels, out[None])


def sincos_products(rows: NDArray[np.float32], panels: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """out[0], out[1] <- cos(2 pi z), sin(2 pi z) with z = rows @ block.

    Parameters
    ----------
    rows : float32 (r, k), r a multiple of 4
    panels : `packed` block
    out : float32 (2, r, width)
    """
    _sincos_walk(rows, panels, out)
