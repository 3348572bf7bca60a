"""Instructions of the compiled loops, as numba takes them: vectors of the processor that the compiler would not find.

Imported when a loop is compiled, and by nothing else: `loops.instruction` names what is here.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic

from dkernel.numerics.fused.processor import registers
from dkernel.numerics.fused.shapes import COSINE, EXP2, LANES, PANEL, PRODUCT_STRIP, SINE

PANEL_PARTS = PANEL // LANES
HEADS_TOGETHER = 4  # heads whose gradients are summed at a time

cgutils: Any = _cgutils  # without types


@intrinsic
def float_from_bits(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001 - the names and places that numba gives them
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


class VectorBuilder:
    """Instructions on vectors of `lanes` float32 numbers, which a compiler may lay into several registers."""

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
        vectors = [[cgutils.alloca_once(self.builder, self.vector) for _ in range(columns)] for _ in range(rows)]
        for line in vectors:
            for place in line:
                self.builder.store(self.constant(0.0), place)
        return vectors

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
            _emit(builder, function, array_types(context, builder, signature, arguments), arguments[3:])
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
        maker, (C, W, S) = VectorBuilder(builder, LANES), array_types(context, builder, signature, arguments)
        of_row, row, panel, part, head = arguments[3:]
        whole = row.type
        of_tile, of_coef, of_sums = (
            cgutils.unpack_tuple(builder, array.shape, n) for array, n in ((C, 3), (W, 4), (S, 3))
        )
        coefs = [maker.load(W, maker.index(of_coef, (head, panel, part, whole(LANES * k)))) for k in range(PANEL_PARTS)]
        for r in range(PRODUCT_STRIP):
            place = maker.index(of_sums, (builder.add(row, whole(r)), head, whole(0)))
            total = maker.load(S, place)
            for k, c in enumerate(coefs):
                value = maker.load(C, maker.index(of_tile, (part, builder.add(of_row, whole(r)), whole(LANES * k))))
                total = maker.fma(value, c, total)
            maker.store(total, S, place)
        return context.get_dummy_value()

    return types.void(tile, coef, sums, i, row, j, layer, h), generate


@intrinsic
def sum_lanes(typingctx: Any, sums: Any, i: Any, h: Any) -> Any:  # noqa: ARG001
    """The sum of the lanes of sums[i, h], halves onto halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        maker, (S,) = VectorBuilder(builder, LANES), array_types(context, builder, signature, arguments)
        sizes = cgutils.unpack_tuple(builder, S.shape, 3)
        row, head = arguments[1:]
        value, width = maker.load(S, maker.index(sizes, (row, head, row.type(0)))), LANES
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(ir.IntType(32), width), list(range(at, at + width)))
                )
                for at in (0, width)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.IntType(32)(0))

    return types.float32(sums, i, h), generate


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
            target = registers()
            assert target is not None
            maker, (C, D, G) = VectorBuilder(builder, target.lanes), array_types(context, builder, signature, arguments)
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
                        for value, place in zip(values, line, strict=True):
                            builder.store(maker.fma(value, r, builder.load(place)), place)
                for e, line in enumerate(sums):
                    for column, place in zip(columns, line, strict=True):
                        to = maker.index(of_sum, (builder.add(head, whole(e)), panel, layer, column))
                        maker.store(builder.fadd(maker.load(G, to), builder.load(place)), G, to)
            return context.get_dummy_value()

        return types.void(tile, R, part, rows, j, layer, h), generate

    return gradient


exp2_block, sincos_block, identity_block = map(intrinsic_block, ("exp2", "sincos", "identity"))
several_gradients, single_gradient = _gradient(HEADS_TOGETHER), _gradient(1)
