"""Instructions of the compiled loops, as numba takes them: vectors of the processor that the compiler would not find.

Imported when a loop is compiled, and by nothing else: `loops.instruction` names what is here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from dkernel.numerics.fused.processor import Registers, registers
from dkernel.numerics.fused.shapes import (
    COSINE,
    COSINE_WIDE,
    EXP2,
    EXP2_WIDE,
    LANES,
    LOG2_E,
    NEAR_SQUARE,
    PANEL,
    PRODUCT_STRIP,
    SINE,
    SINE_WIDE,
)

PANEL_PARTS = PANEL // LANES
HEADS_TOGETHER = 4  # heads whose gradients are summed at a time

cgutils: Any = _cgutils  # without types


@intrinsic
def float_from_bits(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001 - the names and positions that numba gives them
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


def _places(lanes: Iterable[int]) -> ir.Constant:
    """Lanes of a shuffle."""
    order = list(lanes)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)


class VectorBuilder:
    """Instructions on vectors of `lanes` numbers, which a compiler may lay into several registers.

    The numbers are float64 where the first array of the signature is, else float32.
    """

    def __init__(self, builder: Any, lanes: int, signature: Any) -> None:
        self.builder, self.lanes, self.wide = builder, lanes, signature.args[0].dtype == types.float64
        bits = 64 if self.wide else 32
        self.number, self.integer = ir.DoubleType() if self.wide else ir.FloatType(), ir.IntType(bits)
        self.vector, self.whole = ir.VectorType(self.number, lanes), ir.VectorType(self.integer, lanes)
        self._fma, self._rint, self._sqrt = (
            cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(self.vector, [self.vector] * taken), f"llvm.{name}.v{lanes}f{bits}"
            )
            for name, taken in (("fma", 3), ("rint", 1), ("sqrt", 1))
        )

    def constant(self, value: float) -> ir.Constant:
        """A number in all lanes."""
        return ir.Constant(self.vector, [self.number(value)] * self.lanes)

    def whole_constant(self, value: int) -> ir.Constant:
        """An integer in all lanes."""
        return ir.Constant(self.whole, [self.integer(value)] * self.lanes)

    def load(self, array: Any, offset: Any) -> Any:
        """A vector from an array on."""
        return self.builder.load(self._pointer(array, offset), align=self.integer.width // 8)

    def store(self, value: Any, array: Any, offset: Any) -> None:
        self.builder.store(value, self._pointer(array, offset), align=self.integer.width // 8)

    def _pointer(self, array: Any, offset: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(array.data, [offset]), self.vector.as_pointer())

    def spread(self, array: Any, offset: Any) -> Any:
        """One number of an array in all lanes."""
        number, undefined = (
            self.builder.load(self.builder.gep(array.data, [offset])),
            ir.Constant(self.vector, ir.Undefined),
        )
        one = self.builder.insert_element(undefined, number, ir.IntType(32)(0))
        return self.builder.shuffle_vector(one, undefined, _places([0] * self.lanes))

    def variables(self, rows: int, columns: int) -> list[list[Any]]:
        """Vectors of zeros to add to, which end up in registers."""
        vectors = [[cgutils.alloca_once(self.builder, self.vector) for _ in range(columns)] for _ in range(rows)]
        for line in vectors:
            for pointer in line:
                self.builder.store(self.constant(0.0), pointer)
        return vectors

    def index(self, sizes: Any, indices: Any) -> Any:
        """Offset of the element with these indices in an array of these sizes."""
        offset = indices[0]
        for size, i in zip(sizes[1:], indices[1:], strict=True):
            offset = self.builder.add(self.builder.mul(offset, size), i)
        return offset

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

    def greater(self, z: Any, least: float) -> Any:
        """z where it is greater than a number, or NaN, else the number."""
        bound = self.constant(least)
        return self.builder.select(self.builder.fcmp_unordered(">", z, bound), z, bound)

    def exp2(self, z: Any) -> tuple[Any, ...]:
        b, zero = self.builder, self.constant(0.0)
        u = self.greater(b.select(b.fcmp_ordered("<", z, zero), z, zero), -126.0)
        k = self.rounded(u)
        f = b.fsub(u, k)
        bits = b.shl(b.add(b.fptosi(k, self.whole), self.whole_constant(127)), self.whole_constant(23))
        power = b.bitcast(bits, self.vector)
        # 2^k (1 + f r) as 2^k + (f r) 2^k: what the compiler makes of it in `tiles`.
        return (self.fma(b.fmul(f, self.polynomial(f, EXP2[1:])), power, power),)

    def _wide_exp2(self, z: Any) -> Any:
        b, rounder = self.builder, self.constant(1.5 * 2.0**52)  # a sum with it ends in the nearest integer
        u = self.greater(z, -1022.0)
        whole = b.fadd(u, rounder)
        r = self.polynomial(b.fsub(u, b.fsub(whole, rounder)), EXP2_WIDE)
        exponent = b.shl(b.bitcast(whole, self.whole), self.whole_constant(52))
        return b.bitcast(b.add(b.bitcast(r, self.whole), exponent), self.vector)

    def gaussian(self, z: Any) -> tuple[Any, ...]:
        return (self._wide_exp2(self.builder.fneg(z)),)

    def _decay(self, z: Any, *terms: float) -> tuple[Any, ...]:
        """(1 + b t + c t²) 2^-t with t = sqrt(z): `elementwise.decay_inplace`."""
        b = self.builder
        t = b.call(self._sqrt, [self.greater(z, 0.0)])
        return (b.fmul(self._wide_exp2(b.fneg(t)), self.polynomial(t, (1.0, *terms))),)

    def exponential(self, z: Any) -> tuple[Any, ...]:
        return self._decay(z)

    def matern3(self, z: Any) -> tuple[Any, ...]:
        return self._decay(z, 1 / LOG2_E)

    def matern5(self, z: Any) -> tuple[Any, ...]:
        return self._decay(z, 1 / LOG2_E, 1 / (3 * LOG2_E**2))

    def power(self, z: Any, degree: int) -> tuple[Any, ...]:
        out = z
        for _ in range(degree - 1):
            out = self.builder.fmul(out, z)
        return (out,)

    def rational(self, z: Any, degree: int) -> tuple[Any, ...]:
        """(1 + z)^-degree."""
        one = self.constant(1.0)
        return self.power(self.builder.fdiv(one, self.builder.fadd(one, z)), degree)

    def sincos(self, z: Any) -> tuple[Any, ...]:
        b = self.builder
        f = b.fsub(z, self.rounded(z))
        s = b.fmul(f, f)
        cosine, sine = (COSINE_WIDE, SINE_WIDE) if self.wide else (COSINE, SINE)
        return self.polynomial(s, cosine), b.fmul(f, self.polynomial(s, sine))


def _find_registers(signature: Any) -> Registers:
    """The registers of the processor, for the numbers of the first array of a signature."""
    target = registers()
    assert target is not None
    return replace(target, lanes=target.lanes // 2) if signature.args[0].dtype == types.float64 else target


def array_types(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
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
            (A, B, C), (start, i, j) = array_types(context, builder, signature, arguments), arguments[3:]
            maker, whole = VectorBuilder(builder, _find_registers(signature).lanes, signature), i.type
            sizes = cgutils.unpack_tuple(builder, C.shape, 3)
            for columns, products in _products_of_panel(maker, A, B, builder.add(start, i), j):
                for row, line in enumerate(products):
                    for column, pointer in zip(columns, line, strict=True):
                        for layer, value in enumerate(getattr(maker, function)(builder.load(pointer))):
                            at = builder.add(builder.mul(j, whole(PANEL)), column)
                            maker.store(value, C, maker.index(sizes, (whole(layer), builder.add(i, whole(row)), at)))
            return context.get_dummy_value()

        return types.void(rows, panels, out, first, i, j), generate

    return block


def intrinsic_scores(function: str) -> Any:
    """The intrinsic (rows, panels, coef, sums, first, i, j), in float64.

    The function of rows first + i and the next three times panel j, times coef[:, j], is added to sums[i : i + 4] in
    LANES parts: the layers of each head one after the other. The function is one of `VectorBuilder`, with its degree if
    it has one, as in "power 3".
    """
    word, *degree = function.split()
    degrees = [int(number) for number in degree]

    @intrinsic
    def scores(
        typingctx: Any,  # noqa: ARG001
        rows: Any,
        panels: Any,
        coef: Any,
        sums: Any,
        first: Any,
        i: Any,
        j: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (A, B, W, S), (start, i, j) = array_types(context, builder, signature, arguments), arguments[4:]
            maker, whole = VectorBuilder(builder, _find_registers(signature).lanes, signature), i.type
            of_coef, of_sums = (cgutils.unpack_tuple(builder, array.shape, n) for array, n in ((W, 4), (S, 3)))
            for columns, products in _products_of_panel(
                maker, A, B, builder.add(start, i), j, whole(1), near=word == "exponential"
            ):
                values = [[getattr(maker, word)(builder.load(z), *degrees) for z in line] for line in products]
                layers = len(values[0][0])
                with cgutils.for_range(builder, of_coef[0]) as loop:
                    for layer in range(layers):
                        part = builder.add(builder.mul(loop.index, whole(layers)), whole(layer))
                        coefs = [
                            maker.load(W, maker.index(of_coef, (loop.index, j, whole(layer), column)))
                            for column in columns
                        ]
                        for row, line in enumerate(values):
                            for c, column, value in zip(coefs, columns, line, strict=True):
                                lane = whole(column.constant % LANES)
                                pointer = maker.index(of_sums, (builder.add(i, whole(row)), part, lane))
                                maker.store(maker.fma(value[layer], c, maker.load(S, pointer)), S, pointer)
            return context.get_dummy_value()

        return types.void(rows, panels, coef, sums, first, i, j), generate

    return scores


def _products_of_panel(
    maker: VectorBuilder, A: Any, B: Any, row: Any, j: Any, added: Any = None, near: bool = False
) -> Iterator[tuple[list[Any], list[list[Any]]]]:
    """The products of four rows of A and panel j of B: some columns, and where the vectors of each row stand.

    Parameters
    ----------
    added : 1 where the first column of A and that of B are added, and not multiplied; else None
    near : whether they are squared distances that cancel, where those of near rows are taken one by one
    """
    builder, target = maker.builder, registers()
    assert target is not None
    [_, k] = cgutils.unpack_tuple(builder, A.shape, 2)
    whole = k.type
    panel = builder.mul(builder.mul(j, k), whole(PANEL))
    offsets = [builder.mul(builder.add(row, whole(r)), k) for r in range(PRODUCT_STRIP)]

    def vectors(index: Any) -> tuple[list[Any], list[Any]]:
        """Those of the panel, and a number of each row."""
        at = builder.add(panel, builder.mul(index, whole(PANEL)))
        b = [maker.load(B, builder.add(at, column)) for column in columns]
        return b, [maker.spread(A, builder.add(offset, index)) for offset in offsets]

    for group in replace(target, lanes=maker.lanes).groups(PANEL, PRODUCT_STRIP):
        columns = [whole(part * maker.lanes) for part in group]
        sums = maker.variables(PRODUCT_STRIP, len(columns))
        if added is not None:
            b, numbers = vectors(whole(0))
            for a, line in zip(numbers, sums, strict=True):
                for value, pointer in zip(b, line, strict=True):
                    builder.store(builder.fadd(a, value), pointer)
        with cgutils.for_range_slice(builder, added or whole(0), k, whole(1), inc=True) as (index, _):
            b, numbers = vectors(index)
            for a, line in zip(numbers, sums, strict=True):
                for value, pointer in zip(b, line, strict=True):
                    builder.store(maker.fma(a, value, builder.load(pointer)), pointer)
        if near:
            _refine(maker, sums, vectors, k)
        yield columns, sums


def _refine(maker: VectorBuilder, sums: list[list[Any]], vectors: Any, k: Any) -> None:
    """Take the squared distances again that are less than a share of the squares of their rows.

    A panel has its rows times -2.
    """
    builder, whole = maker.builder, k.type
    b, numbers = vectors(whole(0))
    share, half = maker.constant(NEAR_SQUARE), maker.constant(0.5)
    close = [
        [
            builder.fcmp_ordered("<", builder.load(pointer), builder.fmul(share, builder.fadd(a, value)))
            for value, pointer in zip(b, line, strict=True)
        ]
        for a, line in zip(numbers, sums, strict=True)
    ]
    some = reduce(builder.or_, (each for line in close for each in line))
    bits = ir.IntType(maker.lanes)
    with builder.if_then(builder.icmp_unsigned("!=", builder.bitcast(some, bits), bits(0)), likely=False):
        exact = maker.variables(len(sums), len(b))
        with cgutils.for_range_slice(builder, whole(1), k, whole(1), inc=True) as (index, _):
            b, numbers = vectors(index)
            for a, line in zip(numbers, exact, strict=True):
                for value, pointer in zip(b, line, strict=True):
                    apart = maker.fma(half, value, a)
                    builder.store(maker.fma(apart, apart, builder.load(pointer)), pointer)
        for pointers, exact_sums, masks in zip(sums, exact, close, strict=True):
            for pointer, better, mask in zip(pointers, exact_sums, masks, strict=True):
                builder.store(builder.select(mask, builder.load(better), builder.load(pointer)), pointer)


@intrinsic
def score_lanes(
    typingctx: Any,  # noqa: ARG001
    tile: Any,
    coef: Any,
    sums: Any,
    i: Any,
    row: Any,
    j: Any,
    layer: Any,
    h: Any,
) -> Any:
    """sums[row : row + 4, h] += tile[layer, i : i + 4] * coef[h, j, layer], each lane of the four vectors."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        maker, (C, W, S) = VectorBuilder(builder, LANES, signature), array_types(context, builder, signature, arguments)
        of_row, row, panel, part, head = arguments[3:]
        whole = row.type
        of_tile, of_coef, of_sums = (
            cgutils.unpack_tuple(builder, array.shape, n) for array, n in ((C, 3), (W, 4), (S, 3))
        )
        coefs = [maker.load(W, maker.index(of_coef, (head, panel, part, whole(LANES * k)))) for k in range(PANEL_PARTS)]
        for r in range(PRODUCT_STRIP):
            pointer = maker.index(of_sums, (builder.add(row, whole(r)), head, whole(0)))
            total = maker.load(S, pointer)
            for k, c in enumerate(coefs):
                value = maker.load(C, maker.index(of_tile, (part, builder.add(of_row, whole(r)), whole(LANES * k))))
                total = maker.fma(value, c, total)
            maker.store(total, S, pointer)
        return context.get_dummy_value()

    return types.void(tile, coef, sums, i, row, j, layer, h), generate


@intrinsic
def sum_lanes(typingctx: Any, sums: Any, i: Any, h: Any) -> Any:  # noqa: ARG001
    """The sum of the lanes of sums[i, h], halves onto halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        maker, (S,) = VectorBuilder(builder, LANES, signature), array_types(context, builder, signature, arguments)
        sizes = cgutils.unpack_tuple(builder, S.shape, 3)
        row, head = arguments[1:]
        value, width = maker.load(S, maker.index(sizes, (row, head, row.type(0)))), LANES
        while width > 1:
            width //= 2
            halves = [builder.shuffle_vector(value, value, _places(range(at, at + width))) for at in (0, width)]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.IntType(32)(0))

    return sums.dtype(sums, i, h), generate


def _gradient(heads: int) -> Any:
    """The intrinsic part[h : h + heads, j, layer] += sum over i < rows of tile[j, layer, i] * R[i, h : h + heads]."""

    @intrinsic
    def gradient(
        typingctx: Any,  # noqa: ARG001
        tile: Any,
        R: Any,
        part: Any,
        rows: Any,
        j: Any,
        layer: Any,
        h: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            target, arrays = _find_registers(signature), array_types(context, builder, signature, arguments)
            maker, (C, D, G) = VectorBuilder(builder, target.lanes, signature), arrays
            count, panel, layer, head = arguments[3:]
            whole = count.type
            of_tile, of_rest, of_sum = (
                cgutils.unpack_tuple(builder, array.shape, n) for array, n in ((C, 4), (D, 2), (G, 4))
            )
            for group in target.groups(PANEL, heads):
                columns = [whole(part * target.lanes) for part in group]
                sums = maker.variables(heads, len(columns))
                with cgutils.for_range(builder, count) as loop:
                    at = [maker.index(of_tile, (panel, layer, loop.index, column)) for column in columns]
                    values = [maker.load(C, each) for each in at]
                    for e, line in enumerate(sums):
                        r = maker.spread(D, maker.index(of_rest, (loop.index, builder.add(head, whole(e)))))
                        for value, pointer in zip(values, line, strict=True):
                            builder.store(maker.fma(value, r, builder.load(pointer)), pointer)
                for e, line in enumerate(sums):
                    for column, pointer in zip(columns, line, strict=True):
                        to = maker.index(of_sum, (builder.add(head, whole(e)), panel, layer, column))
                        maker.store(builder.fadd(maker.load(G, to), builder.load(pointer)), G, to)
            return context.get_dummy_value()

        return types.void(tile, R, part, rows, j, layer, h), generate

    return gradient


several_gradients, single_gradient = _gradient(HEADS_TOGETHER), _gradient(1)
