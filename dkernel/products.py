"""Columns of a tile in one walk: products of rows with a block, and the function of each while it is in a register.

A product of few columns is bound by what it writes: a library packs its operands, clears the tile and adds to it, and
the cosine or exponential then reads and writes the tile again. Here 4 rows times 64 columns stay in registers from the
first product to the finished column. The sums run over k in order, each a fused multiply and add, as those of OpenBLAS
do: on the processors where both run the bits are those of `np.matmul` and of the functions of `tiles`, which define
this. It takes AVX-512; elsewhere, and for widths that are no multiple of 64, `packed` says no and those are used.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from dkernel.tiles import COSINE, EXP2, MAGIC, SINE, compiled

__all__ = ["exp2_products", "fits", "packed", "sincos_products"]

PANEL = 64  # columns of a block in registers: four vectors of 16
STRIP = 4  # rows
MOST = 128  # products of more columns of the data are worth a library's blocking

cgutils: Any = _cgutils  # without types
_LANES = 16
_VECTOR = ir.VectorType(ir.FloatType(), _LANES)
_WHOLE = ir.VectorType(ir.IntType(32), _LANES)


@cache
def _wide_registers() -> bool:
    import llvmlite.binding as llvm
    from numba.core import config as settings

    config: Any = settings

    if config.CPU_NAME or config.CPU_FEATURES:  # numba is told to compile for another processor
        return False
    try:
        return bool(llvm.get_host_cpu_features().get("avx512f"))
    except RuntimeError:  # the operating system does not say
        return False


def packed(block: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The block (k, width) as panels (width / 64, k, 64), or None where the fused products do not go.

    Examples
    --------
    >>> packed(np.zeros((3, 100), np.float32)) is None
    True
    """
    k, width = block.shape
    if width == 0 or width % PANEL or k > MOST or not _wide_registers():
        return None
    return np.ascontiguousarray(block.reshape(k, width // PANEL, PANEL).transpose(1, 0, 2))


def fits(panels: NDArray[np.float32], out: NDArray[np.float32]) -> bool:
    """Whether all of the block is wanted, of whole strips of rows."""
    return out.shape[1] == PANEL * len(panels) and len(out) % STRIP == 0


def _constant(value: Any, vector: ir.VectorType = _VECTOR) -> ir.Constant:
    return ir.Constant(vector, [vector.element(value)] * _LANES)


class _Maker:
    """Instructions on vectors."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{_LANES}f32")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.call(self._fma, [a, b, c])

    def polynomial(self, x: Any, coefficients: Any) -> Any:
        """Of Horner, the last coefficient first."""
        value = _constant(float(coefficients[-1]))
        for c in coefficients[-2::-1]:
            value = self.fma(x, value, _constant(float(c)))
        return value

    def rounded(self, x: Any) -> Any:
        magic = _constant(float(MAGIC))
        return self.builder.fsub(self.builder.fadd(x, magic), magic)

    def exp2(self, z: Any) -> tuple[Any, ...]:
        b, zero, least = self.builder, _constant(0.0), _constant(-126.0)
        u = b.select(b.fcmp_ordered("<", z, zero), z, zero)
        u = b.select(b.fcmp_ordered(">", u, least), u, least)
        k = self.rounded(u)
        f = b.fsub(u, k)
        bits = b.shl(b.add(b.fptosi(k, _WHOLE), _constant(127, _WHOLE)), _constant(23, _WHOLE))
        power = b.bitcast(bits, _VECTOR)
        # 2^k (1 + f r) as 2^k + (f r) 2^k: what the compiler makes of it in `tiles`.
        return (self.fma(b.fmul(f, self.polynomial(f, EXP2[1:])), power, power),)

    def sincos(self, z: Any) -> tuple[Any, ...]:
        b = self.builder
        f = b.fsub(z, self.rounded(z))
        s = b.fmul(f, f)
        return self.polynomial(s, COSINE), b.fmul(f, self.polynomial(s, SINE))


def _block(function: str) -> Any:
    """The intrinsic (rows, panels, out, i, j): out[:, i : i + 4, 64 j : 64 j + 64] of the panel j."""

    @intrinsic
    def block(typingctx: Any, rows: Any, panels: Any, out: Any, i: Any, j: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            A, B, C = (
                context.make_array(kind)(context, builder, value)
                for kind, value in zip(signature.args[:3], arguments[:3], strict=True)
            )
            _emit(builder, function, A, B, C, *arguments[3:])
            return context.get_dummy_value()

        return types.void(rows, panels, out, i, j), generate

    return block


def _emit(builder: Any, function: str, A: Any, B: Any, C: Any, i: Any, j: Any) -> None:
    maker = _Maker(builder)
    [_, k] = cgutils.unpack_tuple(builder, A.shape, 2)
    [_, rows, width] = cgutils.unpack_tuple(builder, C.shape, 3)
    whole = k.type
    parts = PANEL // _LANES
    sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(parts)] for _ in range(STRIP)]
    for line in sums:
        for place in line:
            builder.store(_constant(0.0), place)
    first = builder.mul(i, k)
    panel = builder.mul(builder.mul(j, k), whole(PANEL))
    with cgutils.for_range(builder, k) as loop:
        at = builder.add(panel, builder.mul(loop.index, whole(PANEL)))
        b = []
        for part in range(parts):
            pointer = builder.gep(B.data, [builder.add(at, whole(part * _LANES))])
            b.append(builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()), align=4))
        for row, line in enumerate(sums):
            offset = builder.add(builder.add(first, builder.mul(whole(row), k)), loop.index)
            number = builder.load(builder.gep(A.data, [offset]))
            one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.IntType(32)(0))
            a = builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_WHOLE, [0] * _LANES))
            for part, place in enumerate(line):
                builder.store(maker.fma(a, b[part], builder.load(place)), place)
    for row, line in enumerate(sums):
        for part, place in enumerate(line):
            for layer, value in enumerate(getattr(maker, function)(builder.load(place))):
                line_of = builder.add(builder.mul(whole(layer), rows), builder.add(i, whole(row)))
                column = builder.add(builder.mul(j, whole(PANEL)), whole(part * _LANES))
                offset = builder.add(builder.mul(line_of, width), column)
                pointer = builder.bitcast(builder.gep(C.data, [offset]), _VECTOR.as_pointer())
                builder.store(value, pointer, align=4)


_exp2_block, _sincos_block = _block("exp2"), _block("sincos")
_SIGNATURE = "void(float32[:, ::1], float32[:, :, ::1], float32[:, :, ::1])"


def _exp2_walk(rows: Any, panels: Any, out: Any) -> None:
    for j in range(panels.shape[0]):
        for i in range(0, rows.shape[0], 4):
            _exp2_block(rows, panels, out, i, j)


def _sincos_walk(rows: Any, panels: Any, out: Any) -> None:
    for j in range(panels.shape[0]):
        for i in range(0, rows.shape[0], 4):
            _sincos_block(rows, panels, out, i, j)


@cache
def _compiled(walk: Callable[..., None]) -> Callable[..., None]:
    """Made when it is first needed: a job that uses one function does not wait for the other."""
    made: Callable[..., None] = compiled(_SIGNATURE)(walk)
    return made


def exp2_products(rows: NDArray[np.float32], panels: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """out <- 2^min(rows @ block, 0).

    Parameters
    ----------
    rows : float32 (r, k), r a multiple of 4
    panels : `packed` block
    out : float32 (r, width)
    """
    _compiled(_exp2_walk)(rows, panels, out[None])


def sincos_products(rows: NDArray[np.float32], panels: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """out[0], out[1] <- cos(2 pi z), sin(2 pi z) with z = rows @ block.

    Parameters
    ----------
    rows : float32 (r, k), r a multiple of 4
    panels : `packed` block
    out : float32 (2, r, width)
    """
    _compiled(_sincos_walk)(rows, panels, out)
