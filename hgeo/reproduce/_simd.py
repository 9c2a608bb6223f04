"""Eight float32 numbers as one value inside Numba functions.

Numba leaves the inner ``for lane in range(8)`` of a kernel scalar more often than not; these values are LLVM vectors
by construction. ``load(array, i)`` and ``store(array, i, v)`` address a C-contiguous float32 array as if it were an
array of vectors; ``+ - * /`` work lane by lane.
"""

from __future__ import annotations

import operator
from typing import Any

import numba.extending
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import models, overload, register_model

__all__ = ["LANES", "hashed_mask", "larger", "load", "root", "splat", "store"]

LANES = 8

# An intrinsic is called without its first argument, which a type checker cannot know.
intrinsic: Any = numba.extending.intrinsic

_F32, _I32 = ir.FloatType(), ir.IntType(32)
_VECTOR, _WORDS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_FAST = ("fast",)


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name="float32x8")


_vector = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any, vector: Any = _VECTOR) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [builder.mul(index, index.type(LANES))]), vector.as_pointer())


@intrinsic
def load(typing_context: Any, array: Any, index: Any) -> Any:
    """The ``index``-th vector of a contiguous float32 array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], args[0], args[1]), align=4)

    return _vector(array, types.int64), code


@intrinsic
def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write the ``index``-th vector of a contiguous float32 array."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1]), align=4)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), code


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    blank = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(blank, scalar, _I32(0))
    return builder.shuffle_vector(first, blank, ir.Constant(_WORDS, [0] * LANES))


@intrinsic
def splat(typing_context: Any, number: Any) -> Any:
    """A vector of eight times the same number."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _splat(builder, args[0], _VECTOR)

    return _vector(types.float32), code


def _binary(instruction: str) -> Any:
    @intrinsic
    def operation(typing_context: Any, a: Any, b: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return getattr(builder, instruction)(args[0], args[1], flags=_FAST)

        return _vector(a, b), code

    return operation


_add, _sub, _mul, _div = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))


def _are_vectors(a: Any, b: Any) -> bool:
    return isinstance(a, _Vector) and isinstance(b, _Vector)


@overload(operator.add, strict=False)  # the annotations below are for the reader
def _overload_add(a: Any, b: Any) -> Any:
    return (lambda a, b: _add(a, b)) if _are_vectors(a, b) else None


@overload(operator.sub, strict=False)  # the annotations below are for the reader
def _overload_sub(a: Any, b: Any) -> Any:
    return (lambda a, b: _sub(a, b)) if _are_vectors(a, b) else None


@overload(operator.mul, strict=False)  # the annotations below are for the reader
def _overload_mul(a: Any, b: Any) -> Any:
    return (lambda a, b: _mul(a, b)) if _are_vectors(a, b) else None


@overload(operator.truediv, strict=False)  # the annotations below are for the reader
def _overload_div(a: Any, b: Any) -> Any:
    return (lambda a, b: _div(a, b)) if _are_vectors(a, b) else None


@intrinsic
def larger(typing_context: Any, a: Any, b: Any) -> Any:
    """max(a, b), lane by lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return _vector(a, b), code


@intrinsic
def root(typing_context: Any, a: Any) -> Any:
    """√a, lane by lane."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        sqrt = cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{LANES}f32")
        return builder.call(sqrt, [args[0]])

    return _vector(a), code


@intrinsic
def hashed_mask(typing_context: Any, index: Any, keys: Any, thresholds: Any, scales: Any, group: Any) -> Any:
    """``scales`` where hash(index + key) ≥ threshold, else 0; a key, threshold and scale a lane, (groups, 8) arrays.

    The hash is the 32-bit "lowbias32" mixer found by Chris Wellons' hash prospector (public domain), which
    :func:`hgeo.reproduce._lanes.keys_for` also uses.
    """

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def words(position: int) -> Any:
            where = _address(context, builder, signature.args[position], args[position], args[4], _WORDS)
            return builder.load(where, align=4)

        def shifted(x: Any, bits: int) -> Any:
            return builder.xor(x, builder.lshr(x, ir.Constant(_WORDS, [bits] * LANES)))

        def times(x: Any, factor: int) -> Any:
            return builder.mul(x, ir.Constant(_WORDS, [factor] * LANES))

        x = builder.add(_splat(builder, builder.trunc(args[0], _I32), _WORDS), words(1))
        x = shifted(times(shifted(times(shifted(x, 16), 0x7FEB352D), 15), 0x846CA68B), 16)
        scale = builder.load(_address(context, builder, signature.args[3], args[3], args[4]), align=4)
        return builder.select(builder.icmp_unsigned(">=", x, words(2)), scale, ir.Constant(_VECTOR, [0.0] * LANES))

    return _vector(types.int64, keys, thresholds, scales, types.int64), code
