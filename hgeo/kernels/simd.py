"""Explicit vectors for Numba: raw memory access, arithmetic on short vectors, and the edge functions built from them.

Kernels see memory as 64-bit addresses; ``load(address, i, dtype)`` reads element i, ``vload(address, i, dtype, width)``
reads ``width`` of them. A vector is an LLVM value, so it lives in registers, and the compiler never has to prove that a
loop may be vectorised.

Transcendental functions are written once, for both dtypes, as plain Taylor series after a range reduction that makes
them short; nothing is tabulated or fitted:

- exp(x) = 2ⁿ e^g with |g| ≤ ln2/2: terms g^j/j! up to j = 7 (float32, rest 5e-9) or 13 (float64, rest 4e-18).
- log1p: log(1+f) = 2 artanh(f/(2+f)) with 1+f in [√½, √2], so s² ≤ 0.0295: 4 or 11 terms s^2j/(2j+1).
- atan on [0, 1]: the angle is halved twice, x → x/(1+√(1+x²)), then x² ≤ 0.0396: 6 or 12 terms.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, register_model

__all__ = [
    "TAN_SLOPE",
    "call",
    "distance_flat_or_hyperbolic",
    "distance_spherical",
    "fetch_add",
    "load",
    "node_maps_flat_or_hyperbolic",
    "prefetch",
    "slope_flat_or_hyperbolic",
    "slope_spherical",
    "store",
    "vadd",
    "vdots",
    "velu",
    "velu_slope",
    "vexp",
    "vfma",
    "vfold",
    "vinverse",
    "vload",
    "vmul",
    "vrecords",
    "vsplat",
    "vsqrt",
    "vsquares",
    "vstore",
    "vsub",
    "vsum",
    "vsums",
]

# Numba gives an intrinsic the Python signature of its typing function, which is not the one it is called with.
intrinsic: Any = extending.intrinsic

# 'contract' lets a·b + c become one instruction. Nothing here may be reordered: the range reductions rely on rounding.
_FUSE = ("contract",)
_REORDER = ("contract", "reassoc", "nsz")


class Vector(types.Type):
    """``width`` numbers in registers."""

    def __init__(self, dtype: Any, width: int) -> None:
        self.dtype = dtype
        self.width = width
        super().__init__(name=f"vector({dtype}, {width})")


def _float_ir(dtype: types.Float) -> ir.Type:
    return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()


def _scalar_ir(dtype: Any) -> ir.Type:
    return _float_ir(dtype) if isinstance(dtype, types.Float) else ir.IntType(dtype.bitwidth)


def _vector_ir(vector: Vector) -> ir.VectorType:
    return ir.VectorType(_scalar_ir(vector.dtype), vector.width)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, _vector_ir(vector))


# ---------------------------------------------------------------------------------------------------------------------
# memory


def _at(builder: ir.IRBuilder, address: ir.Value, index: ir.Value, dtype: Any, pointee: ir.Type) -> ir.Value:
    shift = ir.Constant(ir.IntType(64), (dtype.bitwidth // 8).bit_length() - 1)
    return builder.inttoptr(builder.add(address, builder.shl(index, shift)), ir.PointerType(pointee))


@intrinsic
def load(typingctx: Any, address: Any, index: Any, dtype: Any) -> Any:
    """Element ``index`` of the array at ``address``."""
    element = dtype.dtype

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalar = _scalar_ir(element)
        pointer = _at(builder, args[0], args[1], element, scalar)
        return builder.load(pointer, align=element.bitwidth // 8, typ=scalar)

    return element(types.int64, types.int64, dtype), codegen


@intrinsic
def store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Write ``value`` to element ``index`` of the array at ``address``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _at(builder, args[0], args[1], value, _scalar_ir(value))
        builder.store(args[2], pointer, align=value.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), codegen


@intrinsic(prefer_literal=True)
def vload(typingctx: Any, address: Any, index: Any, dtype: Any, width: Any) -> Any:
    """Elements index … index + width - 1 of the array at ``address``."""
    vector = Vector(dtype.dtype, width.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = _vector_ir(vector)
        pointer = _at(builder, args[0], args[1], vector.dtype, lanes)
        return builder.load(pointer, align=vector.dtype.bitwidth // 8, typ=lanes)

    return vector(types.int64, types.int64, dtype, width), codegen


@intrinsic
def vstore(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Write a vector to element ``index`` and the following ones of the array at ``address``."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _at(builder, args[0], args[1], value.dtype, _vector_ir(value))
        builder.store(args[2], pointer, align=value.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), codegen


@intrinsic
def prefetch(typingctx: Any, address: Any, index: Any, dtype: Any) -> Any:
    """Ask for the cache line of element ``index``; reading past the end is harmless."""
    element = dtype.dtype

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _at(builder, args[0], args[1], element, ir.IntType(8))
        word = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word]), "llvm.prefetch.p0"
        )
        builder.call(function, [pointer, word(0), word(2), word(1)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, dtype), codegen


# ---------------------------------------------------------------------------------------------------------------------
# threads


@intrinsic
def fetch_add(typingctx: Any, address: Any, amount: Any) -> Any:
    """Add to the 64-bit integer at ``address`` as one step for all threads; return what was there."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.PointerType(ir.IntType(64)))
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def call(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call the function at ``address``, which takes 64-bit integers and returns nothing."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * len(values))
        builder.call(builder.inttoptr(args[0], ir.PointerType(kind)), values)
        return context.get_dummy_value()

    return types.void(types.int64, arguments), codegen


# ---------------------------------------------------------------------------------------------------------------------
# arithmetic


@intrinsic(prefer_literal=True)
def vsplat(typingctx: Any, value: Any, width: Any) -> Any:
    """A vector of ``width`` copies of one number."""
    vector = Vector(value, width.literal_value)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0], _vector_ir(vector))

    return vector(value, width), codegen


def _splat(builder: ir.IRBuilder, scalar: ir.Value, lanes: ir.VectorType) -> ir.Value:
    undefined = ir.Constant(lanes, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), [0] * lanes.count)
    return builder.shuffle_vector(first, undefined, zeros)


@intrinsic
def vadd(typingctx: Any, a: Any, b: Any) -> Any:
    """a + b."""
    return a(a, a), lambda context, builder, signature, args: builder.fadd(*args, flags=_FUSE)


@intrinsic
def vsub(typingctx: Any, a: Any, b: Any) -> Any:
    """a - b."""
    return a(a, a), lambda context, builder, signature, args: builder.fsub(*args, flags=_FUSE)


@intrinsic
def vmul(typingctx: Any, a: Any, b: Any) -> Any:
    """a · b."""
    return a(a, a), lambda context, builder, signature, args: builder.fmul(*args, flags=_FUSE)


@intrinsic
def vfma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """a · b + c."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=_FUSE), args[2], flags=_FUSE)

    return a(a, a, a), codegen


@intrinsic
def vsum(typingctx: Any, a: Any) -> Any:
    """The sum of a vector's elements, in the order that is fastest."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        scalar, lanes = _float_ir(a.dtype), _vector_ir(a)
        name = f"llvm.vector.reduce.fadd.v{a.width}f{a.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(scalar, [scalar, lanes]), name)
        return builder.call(function, [ir.Constant(scalar, -0.0), args[0]], fastmath=_REORDER)

    return a.dtype(a), codegen


def _blend(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, places: Sequence[int]) -> ir.Value:
    """The elements of a, b side by side that stand at these places."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places)))


def _halves(builder: ir.IRBuilder, a: ir.Value, width: int) -> ir.Value:
    """Halves of a vector added up until ``width`` elements are left."""
    while a.type.count > width:
        half = a.type.count // 2
        low, high = _blend(builder, a, a, range(half)), _blend(builder, a, a, range(half, 2 * half))
        a = builder.fadd(low, high, flags=_FUSE)
    return a


def _added_neighbours(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, group: int) -> ir.Value:
    """Sums of neighbouring runs of a vector's elements: those of a, then those of b.

    With ``group`` 1 neighbours are elements, and a and b take turns every 128 bits, else they are runs of ``group``.
    Either way that is one instruction a shuffle where vectors have 512 bits.
    """
    width = a.type.count
    if group == 1:
        block = 4 if isinstance(a.type.element, ir.FloatType) else 2
        first = [
            base + x for start in range(0, width, block) for base in (start, width + start) for x in range(0, block, 2)
        ]
        second = [place + 1 for place in first]
    else:
        first = [start + x for start in range(0, 2 * width, 2 * group) for x in range(group)]
        second = [place + group for place in first]
    return builder.fadd(_blend(builder, a, b, first), _blend(builder, a, b, second), flags=_FUSE)


def _sums(builder: ir.IRBuilder, vectors: list[ir.Value]) -> ir.Value:
    """The sums of vectors, side by side in one vector: as many vectors as elements, or a multiple of these."""
    width = vectors[0].type.count
    block = 4 if isinstance(vectors[0].type.element, ir.FloatType) else 2  # elements in 128 bits
    groups = [1] * (block.bit_length() - 1) + [block] * ((width // block).bit_length() - 1)
    for group in groups:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_added_neighbours(builder, a, b, group) for a, b in pairs]
    while len(vectors) > 1:
        count = vectors[0].type.count
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_blend(builder, a, b, range(2 * count)) for a, b in pairs]
    return vectors[0]


@intrinsic(prefer_literal=True)
def vfold(typingctx: Any, a: Any, width: Any) -> Any:
    """A vector of ``width`` elements with the same sum."""
    folded = Vector(a.dtype, min(a.width, width.literal_value))
    return folded(a, width), lambda context, builder, signature, args: _halves(builder, args[0], folded.width)


@intrinsic(prefer_literal=True)
def vsums(typingctx: Any, address: Any, dtype: Any, width: Any, count: Any) -> Any:
    """The sums of ``count`` vectors of ``width`` elements that follow each other in memory, as one vector."""
    element, size, many = dtype.dtype, width.literal_value, count.literal_value
    vector = Vector(element, many)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(_float_ir(element), size)
        vectors = []
        for n in range(many):
            pointer = _at(builder, args[0], ir.Constant(ir.IntType(64), n * size), element, lanes)
            vectors.append(builder.load(pointer, align=element.bitwidth // 8, typ=lanes))
        return _sums(builder, vectors)

    return vector(types.int64, dtype, width, count), codegen


def _node(builder: ir.IRBuilder, ids: ir.Value, index: ir.Value, n: int) -> ir.Value:
    """The 32-bit id at index + n, as an index."""
    word, long = ir.IntType(32), ir.IntType(64)
    place = _at(builder, ids, builder.add(index, ir.Constant(long, n)), types.int32, word)
    return builder.sext(builder.load(place, align=4, typ=word), long)


def _pair_sums(squares: bool) -> Any:
    @intrinsic(prefer_literal=True)
    def function(
        typingctx: Any, a: Any, ids_a: Any, index_a: Any, stride_a: Any, b: Any, ids_b: Any, index_b: Any,
        stride_b: Any, dtype: Any, width: Any, count: Any,
    ) -> Any:  # fmt: skip
        element, size, many = dtype.dtype, width.literal_value, count.literal_value
        vector = Vector(element, many)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lanes = ir.VectorType(_float_ir(element), size)
            vectors = []
            for n in range(many):
                pair = []
                for table, ids, index, stride in (args[:4], args[4:8]):
                    start = builder.mul(_node(builder, ids, index, n), stride)
                    pointer = _at(builder, table, start, element, lanes)
                    pair.append(builder.load(pointer, align=element.bitwidth // 8, typ=lanes))
                if squares:
                    pair = [builder.fsub(*pair, flags=_FUSE)] * 2
                vectors.append(_halves(builder, builder.fmul(*pair, flags=_FUSE), many))
            return _sums(builder, vectors)

        long = types.int64
        return vector(*[long] * 8, dtype, width, count), codegen

    return function


# Of pairs of vectors of ``width`` elements, one from each of two tables at the 32-bit ids index … index + count - 1,
# a vector of ``count`` numbers: the squares of their distances, and their dot products. An id counts strides.
vsquares = _pair_sums(squares=True)
vdots = _pair_sums(squares=False)


@intrinsic(prefer_literal=True)
def vrecords(typingctx: Any, address: Any, ids: Any, index: Any, dtype: Any, count: Any) -> Any:
    """The records of four numbers with the 32-bit ids index … index + count - 1, as four vectors of ``count``."""
    element, many = dtype.dtype, count.literal_value
    vector = Vector(element, many)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        long = ir.IntType(64)
        four = ir.VectorType(_float_ir(element), 4)
        records = []
        for n in range(many):
            start = builder.shl(_node(builder, args[1], args[2], n), ir.Constant(long, 2))
            pointer = _at(builder, args[0], start, element, four)
            records.append(builder.load(pointer, align=element.bitwidth // 8, typ=four))
        # records n, n + 4, n + 8, … side by side; then every 4 × 4 square of them is transposed
        rows = []
        for n in range(4):
            row = records[n::4]
            while len(row) > 1:
                size = row[0].type.count
                row = [_blend(builder, a, b, range(2 * size)) for a, b in zip(row[::2], row[1::2], strict=True)]
            rows.append(row[0])

        def squares(a: ir.Value, b: ir.Value, places: Sequence[int]) -> ir.Value:
            shifted = [
                start + (place if place < 4 else many + place - 4) for start in range(0, many, 4) for place in places
            ]
            return _blend(builder, a, b, shifted)

        low = [squares(rows[n], rows[n + 1], (0, 4, 1, 5)) for n in (0, 2)]
        high = [squares(rows[n], rows[n + 1], (2, 6, 3, 7)) for n in (0, 2)]
        columns = [squares(a, b, places) for a, b in (low, high) for places in ((0, 1, 4, 5), (2, 3, 6, 7))]
        return context.make_tuple(builder, signature.return_type, columns)

    return types.UniTuple(vector, 4)(types.int64, types.int64, types.int64, dtype, count), codegen


# ---------------------------------------------------------------------------------------------------------------------
# functions of edges, written with operators on the LLVM values


class _Lanes:
    """A vector value with operators, to write formulas that emit instructions."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> ir.VectorType:
        return self.value.type

    @property
    def bits(self) -> int:
        return 32 if isinstance(self.type.element, ir.FloatType) else 64

    def constant(self, number: float) -> _Lanes:
        if self.bits == 32:
            number = struct.unpack("f", struct.pack("f", number))[0]
        return _Lanes(self.builder, ir.Constant(self.type, [number] * self.type.count))

    def _of(self, other: _Lanes | float) -> ir.Value:
        return other.value if isinstance(other, _Lanes) else self.constant(other).value

    def __add__(self, other: _Lanes | float) -> _Lanes:
        return _Lanes(self.builder, self.builder.fadd(self.value, self._of(other), flags=_FUSE))

    __radd__ = __add__

    def __sub__(self, other: _Lanes | float) -> _Lanes:
        return _Lanes(self.builder, self.builder.fsub(self.value, self._of(other), flags=_FUSE))

    def __rsub__(self, other: float) -> _Lanes:
        return self.constant(other) - self

    def __mul__(self, other: _Lanes | float) -> _Lanes:
        return _Lanes(self.builder, self.builder.fmul(self.value, self._of(other), flags=_FUSE))

    __rmul__ = __mul__

    def __truediv__(self, other: _Lanes) -> _Lanes:
        return _Lanes(self.builder, self.builder.fdiv(self.value, other.value, flags=_FUSE))

    def __rtruediv__(self, other: float) -> _Lanes:
        return self.constant(other) / self

    def sqrt(self) -> _Lanes:
        name = f"llvm.sqrt.v{self.type.count}f{self.bits}"
        function = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(self.type, [self.type]), name)
        return _Lanes(self.builder, self.builder.call(function, [self.value]))

    def where(
        self, comparison: str, bound: _Lanes | float, if_true: _Lanes | float, if_false: _Lanes | float
    ) -> _Lanes:
        """``if_true`` where this compares so with ``bound``, else, and where this is NaN, ``if_false``."""
        mask = self.builder.fcmp_ordered(comparison, self.value, self._of(bound))
        return _Lanes(self.builder, self.builder.select(mask, self._of(if_true), self._of(if_false)))

    def horner(self, coefficients: Sequence[float]) -> _Lanes:
        """Σ coefficients[n] · selfⁿ."""
        total = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = total * self + coefficient
        return total


class _Format:
    """What the range reductions must know about an IEEE format."""

    def __init__(self, bits: int) -> None:
        self.integer = ir.IntType(bits)
        self.mantissa, self.bias = (23, 127) if bits == 32 else (52, 1023)
        # Adding it to a small number leaves that number, rounded, in the low bits.
        self.round_magic = 1.5 * 2.0**self.mantissa
        self.round_bits = self._bits_of(self.round_magic, bits)
        self.sqrt_half_bits = self._bits_of(math.sqrt(0.5), bits)
        # ln 2 in two parts; the first has so few bits that n · ln2_high is exact for every exponent n.
        grain = 2.0**9 if bits == 32 else 2.0**32
        self.ln2_high = round(math.log(2.0) * grain) / grain
        self.ln2_low = float(_LN2 - Fraction(self.ln2_high))
        # Below it e^x is returned as exactly 0, a little above the smallest normal number.
        self.exp_floor = -86.0 if bits == 32 else -707.0
        self.exp_terms = 8 if bits == 32 else 14
        self.artanh_terms = 5 if bits == 32 else 12
        self.atan_terms = 6 if bits == 32 else 12
        self.arsin_terms = 7 if bits == 32 else 14

    @staticmethod
    def _bits_of(number: float, bits: int) -> int:
        if bits == 32:
            return int(struct.unpack("<i", struct.pack("<f", number))[0])
        return int(struct.unpack("<q", struct.pack("<d", number))[0])


# ln 2 = Σ 2/(2n+1) 3^-(2n+1), far beyond double precision
_LN2 = sum((Fraction(2, (2 * n + 1) * 3 ** (2 * n + 1)) for n in range(40)), Fraction(0))
_FORMATS = {bits: _Format(bits) for bits in (32, 64)}

# Below this |k q| the derivative of arsin_ratio comes from its series; at the switch the closed form has lost 1/0.05.
_SERIES_RADIUS = 0.05


def _arsin_slope_coefficients(count: int) -> list[float]:
    """d/dz of asin(√z)/√z = Σ a_n zⁿ, a_n = a_{n-1} (2n-1)²/(2n(2n+1)): the numbers n·a_n."""
    a, slopes = Fraction(1), []
    for n in range(1, count + 1):
        a *= Fraction((2 * n - 1) ** 2, 2 * n * (2 * n + 1))
        slopes.append(float(n * a))
    return slopes


def _bitcast_integers(x: _Lanes) -> tuple[ir.Value, ir.VectorType]:
    integers = ir.VectorType(_FORMATS[x.bits].integer, x.type.count)
    return x.builder.bitcast(x.value, integers), integers


def _exp_parts(x: _Lanes) -> tuple[_Lanes, _Lanes]:
    """(g, 2ⁿ) with e^x = 2ⁿ e^g and |g| ≤ ln2/2, for x ≤ 0; x is cut off where e^x nearly underflows."""
    form, builder = _FORMATS[x.bits], x.builder
    safe = x.where("<", form.exp_floor, form.exp_floor, x)
    shifted = safe * (1.0 / math.log(2.0)) + form.round_magic
    n = shifted - form.round_magic
    g = (safe - n * form.ln2_high) - n * form.ln2_low
    bits, integers = _bitcast_integers(shifted)
    count = x.type.count
    biased = builder.add(bits, ir.Constant(integers, [form.bias] * count))
    power = builder.bitcast(builder.shl(biased, ir.Constant(integers, [form.mantissa] * count)), x.type)
    return g, _Lanes(builder, power)


def _exp(x: _Lanes) -> _Lanes:
    """e^x for x ≤ 0; exactly 0 far out, NaN for NaN."""
    form = _FORMATS[x.bits]
    g, power = _exp_parts(x)
    value = g.horner([1.0 / math.factorial(j) for j in range(form.exp_terms)]) * power
    return x.where("<", form.exp_floor, 0.0, value)


def _expm1(x: _Lanes) -> _Lanes:
    """e^x - 1 for x ≤ 0, without cancellation: (e^g - 1) 2ⁿ + (2ⁿ - 1)."""
    g, power = _exp_parts(x)
    terms = _FORMATS[x.bits].exp_terms
    return g * g.horner([1.0 / math.factorial(j + 1) for j in range(terms)]) * power + (power - 1.0)


def _elu(x: _Lanes) -> _Lanes:
    """x for x > 0, else e^x - 1."""
    return x.where(">", 0.0, x, _expm1(x.where(">", 0.0, 0.0, x)))


def _log1p(g: _Lanes) -> _Lanes:
    """log(1 + g) for g ≥ 0, exact in relative terms also for tiny g."""
    form, builder, count = _FORMATS[g.bits], g.builder, g.type.count
    bits, integers = _bitcast_integers(g + 1.0)
    mantissa = ir.Constant(integers, [form.mantissa] * count)
    exponent = builder.lshr(builder.sub(bits, ir.Constant(integers, [form.sqrt_half_bits] * count)), mantissa)
    reduced = _Lanes(builder, builder.bitcast(builder.sub(bits, builder.shl(exponent, mantissa)), g.type)) - 1.0
    magic = builder.add(exponent, ir.Constant(integers, [form.round_bits] * count))
    n = _Lanes(builder, builder.bitcast(magic, g.type)) - form.round_magic
    f = g.where(">=", 0.41, reduced, g)
    n = g.where(">=", 0.41, n, 0.0)
    s = f / (f + 2.0)
    log = s * 2.0 * (s * s).horner([1.0 / (2 * j + 1) for j in range(form.artanh_terms)])
    return n * form.ln2_high + (n * form.ln2_low + log)


def _atan_unit(x: _Lanes) -> _Lanes:
    """atan(x) for 0 ≤ x ≤ 1."""
    for _ in range(2):
        x = x / (1.0 + (1.0 + x * x).sqrt())
    terms = _FORMATS[x.bits].atan_terms
    return x * 4.0 * (x * x).horner([(-1.0) ** j / (2 * j + 1) for j in range(terms)])


def _arsin_slope(z: _Lanes) -> _Lanes:
    """d arsin_ratio/dz near 0."""
    return z.horner(_arsin_slope_coefficients(_FORMATS[z.bits].arsin_terms))


def _lanes_function(emit: Any, results: int) -> Any:
    """An intrinsic from ``emit(vector, *scalars as vectors) -> vector(s)``."""

    @intrinsic
    def function(typingctx: Any, vector: Any, parameters: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lanes = _vector_ir(vector)
            scalars = cgutils.unpack_tuple(builder, args[1])
            outputs = emit(_Lanes(builder, args[0]), *(_Lanes(builder, _splat(builder, s, lanes)) for s in scalars))
            if results == 1:
                return outputs.value
            return context.make_tuple(builder, signature.return_type, [output.value for output in outputs])

        result = vector if results == 1 else types.UniTuple(vector, results)
        return result(vector, parameters), codegen

    return function


def _emit_distance_flat_or_hyperbolic(q: _Lanes, root: _Lanes, twice_inverse_root: _Lanes) -> _Lanes:
    """d = (2/√c) asinh(√(c q)), root = √c.

    At c = 0 the caller passes root = 2⁻⁵⁰: asinh(x) is x to the last bit there and powers of two cancel exactly, so
    the value is exactly 2√q.
    """
    x = root * q.sqrt()
    t = x * x
    return twice_inverse_root * _log1p(x + t / (1.0 + (1.0 + t).sqrt()))


def _emit_slope_flat_or_hyperbolic(
    q: _Lanes, distance: _Lanes, c: _Lanes, inverse_c: _Lanes
) -> tuple[_Lanes, _Lanes, _Lanes]:
    """(q, ∂d/∂q, ∂d/∂k at fixed q); ∂d/∂q is taken as 0 at q = 0."""
    t = c * q
    rest = (1.0 + t).sqrt()
    root = q.sqrt()
    by_q = q.where(">", 0.0, 1.0 / (root * rest), q)
    # k = -c; d = 2√q A(kq), ∂d/∂k = 2 q^{3/2} A'(kq) = (√q/√(1-kq) - d/2)/k
    closed = (distance * 0.5 - root / rest) * inverse_c
    series = root * q * 2.0 * _arsin_slope(0.0 - t)
    return q, by_q, t.where(">", _SERIES_RADIUS, closed, series)


def _decode_spherical(stored: _Lanes, k: _Lanes) -> tuple[_Lanes, _Lanes]:
    """(q, m = 1 - k q) from the stored number: q itself, or -m in the far hemisphere, where q alone would forget m."""
    q = stored.where("<", 0.0, (1.0 + stored) / k, stored)
    m = stored.where("<", 0.0, 0.0 - stored, 1.0 - k * stored)
    return q, m


def _emit_distance_spherical(stored: _Lanes, k: _Lanes, root: _Lanes, twice_inverse_root: _Lanes) -> _Lanes:
    """d = (2/√k) atan2(√(k q), √(1 - k q)), root = √k."""
    q, m = _decode_spherical(stored, k)
    sine, cosine = root * q.sqrt(), m.sqrt()
    near = _atan_unit(sine / cosine.where(">", 0.7, cosine, 1.0))
    far = math.pi / 2 - _atan_unit(cosine / sine.where(">", 0.7, sine, 1.0))
    angle = (sine - cosine).where(">", 0.0, far, near)
    return twice_inverse_root * angle


def _emit_slope_spherical(
    stored: _Lanes, distance: _Lanes, k: _Lanes, inverse_k: _Lanes
) -> tuple[_Lanes, _Lanes, _Lanes]:
    """(q, ∂d/∂q, ∂d/∂k at fixed q) on the sphere."""
    q, m = _decode_spherical(stored, k)
    root, cosine = q.sqrt(), m.sqrt()
    by_q = q.where(">", 0.0, 1.0 / (root * cosine), q)
    z = k * q
    closed = (root / cosine - distance * 0.5) * inverse_k
    series = root * q * 2.0 * _arsin_slope(z)
    return q, by_q, z.where(">", _SERIES_RADIUS, closed, series)


# tan(x)/x = Σ t_n z^n (z = x²), from tan' = 1 + tan²; here n·t_n, the series of its derivative
TAN_SLOPE = (
    1 / 3,
    4 / 15,
    51 / 315,
    248 / 2835,
    6910 / 155925,
    131064 / 6081075,
    6506983 / 638512875,
    51153264 / 10854718875,
)


def _emit_node_maps(
    square: _Lanes, k: _Lanes, scale: _Lanes, limit_angle: _Lanes, rim: _Lanes, rim_inverse_a: _Lanes
) -> tuple[_Lanes, _Lanes, _Lanes]:
    """(τ, 1/a, T') of nodes with |u|² = square, for k ≤ 0; see node_maps in _kernels."""
    z = k * scale * scale * square
    x = (0.0 - z).sqrt()
    y = _expm1(x * -2.0)
    e = 1.0 + y
    t = x.where(">", 0.0, (0.0 - y) / ((2.0 + y) * x), 1.0)
    inverse_a = x.where(">", 0.0, (1.0 + e) * (1.0 + e) / (4.0 * e), 1.0)
    slope = z.where("<", -0.05, (1.0 / inverse_a - t) / (2.0 * z), z.horner(TAN_SLOPE))
    tau = x.where(">", limit_angle, scale * rim / x, scale * t)
    return tau, x.where(">", limit_angle, rim_inverse_a, inverse_a), x.where(">", limit_angle, 0.0, slope)


node_maps_flat_or_hyperbolic = _lanes_function(_emit_node_maps, 3)
distance_flat_or_hyperbolic = _lanes_function(_emit_distance_flat_or_hyperbolic, 1)
distance_spherical = _lanes_function(_emit_distance_spherical, 1)


def _slope_function(emit: Any) -> Any:
    @intrinsic
    def function(typingctx: Any, q: Any, distance: Any, parameters: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            lanes = _vector_ir(q)
            scalars = [_Lanes(builder, _splat(builder, s, lanes)) for s in cgutils.unpack_tuple(builder, args[2])]
            outputs = emit(_Lanes(builder, args[0]), _Lanes(builder, args[1]), *scalars)
            return context.make_tuple(builder, signature.return_type, [output.value for output in outputs])

        return types.UniTuple(q, 3)(q, distance, parameters), codegen

    return function


slope_flat_or_hyperbolic = _slope_function(_emit_slope_flat_or_hyperbolic)
slope_spherical = _slope_function(_emit_slope_spherical)


@intrinsic
def vsqrt(typingctx: Any, x: Any) -> Any:
    """√x, element by element."""
    return x(x), lambda context, builder, signature, args: _Lanes(builder, args[0]).sqrt().value


@intrinsic
def vinverse(typingctx: Any, x: Any) -> Any:
    """1/x, and 0 where x = 0, element by element, for x ≥ 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = _Lanes(builder, args[0])
        return lanes.where(">", 0.0, 1.0 / lanes, lanes).value

    return x(x), codegen


@intrinsic
def vexp(typingctx: Any, x: Any) -> Any:
    """e^x for x ≤ 0, element by element."""
    return x(x), lambda context, builder, signature, args: _exp(_Lanes(builder, args[0])).value


@intrinsic
def velu(typingctx: Any, x: Any) -> Any:
    """ELU, element by element."""
    return x(x), lambda context, builder, signature, args: _elu(_Lanes(builder, args[0])).value


@intrinsic
def velu_slope(typingctx: Any, y: Any) -> Any:
    """The derivative of ELU where its value is y: 1 for y > 0, else y + 1."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = _Lanes(builder, args[0])
        return lanes.where(">", 0.0, 1.0, lanes + 1.0).value

    return y(y), codegen
