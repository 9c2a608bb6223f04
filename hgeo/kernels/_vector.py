"""Eight numbers at a time, in LLVM's language: arithmetic, choices, and the elementary functions to the last digits."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

__all__ = ["LANES", "LIBM", "VECTOR", "Lines", "constant"]

LANES = 8
"""Rows that a kernel handles at once, and coordinates that it reads at once."""

VECTOR = f"<{LANES} x double>"
_INTEGERS = f"<{LANES} x i64>"
_TRUTHS = f"<{LANES} x i1>"

LIBM = {"sin": 1, "cos": 1, "tan": 1, "asin": 1, "atan": 1, "atan2": 2}
"""Functions of the C library that are called number by number, and how many arguments they take."""

_COMPARISONS = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq"}
_LOG2E, _LN2_HIGH, _LN2_LOW = 1 / math.log(2), 0.6931471805599453, 2.3190468138462996e-17
_ROUNDER = 1.5 * 2.0**52  # added, it leaves the nearest integer in the last bits
_EXPM1 = [1 / math.factorial(n) for n in range(2, 14)]
# log((1+s)/(1-s)) = 2s + s·R(s²), the polynomial of fdlibm's log, and its two parts of log 2
_LOG = [
    0.6666666666666735130, 0.3999999999940941908, 0.2857142874366239149, 0.2222219843214978396, 0.1818357216161805012,
    0.1531383769920937332, 0.1479819860511658591,
]  # fmt: skip
_LOG_LN2_HIGH, _LOG_LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10


def _hexadecimal(value: float) -> str:
    return "0x" + struct.pack(">d", value).hex().upper()


def constant(value: float) -> str:
    """A vector of one number."""
    return "<" + ", ".join([f"double {_hexadecimal(value)}"] * LANES) + ">"


class Lines:
    """Lines of a function, and fresh names for what they compute. Names and constants are strings."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.declared: set[str] = set()
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%t{self._count}"

    def add(self, line: str) -> str:
        """A line that computes something; the name of what it computes."""
        name = self.name()
        self.text.append(f"  {name} = {line}")
        return name

    def line(self, line: str) -> None:
        self.text.append(f"  {line}")

    def label(self, label: str) -> None:
        self.text.append(f"{label}:")

    def loop(self, label: str, start: str, stop: str, body: Callable[[str], str | None]) -> None:
        """Carries out ``body(index)`` from start to stop, at least once, in steps of 1 or of what the body gives."""
        index = self.name()
        before = f"{label}.before"
        self.line(f"br label %{before}")
        self.label(before)
        self.line(f"br label %{label}")
        self.label(label)
        self.line(f"{index} = phi i64 [ {start}, %{before} ], [ {index}.next, %{label}.end ]")
        step = body(index) or "1"
        self.line(f"br label %{label}.end")
        self.label(f"{label}.end")
        self.line(f"{index}.next = add i64 {index}, {step}")
        more = self.add(f"icmp slt i64 {index}.next, {stop}")
        self.line(f"br i1 {more}, label %{label}, label %{label}.done")
        self.label(f"{label}.done")

    def splat(self, number: str) -> str:
        """Eight times one number."""
        first = self.add(f"insertelement {VECTOR} undef, double {number}, i64 0")
        return self.add(f"shufflevector {VECTOR} {first}, {VECTOR} undef, <{LANES} x i32> zeroinitializer")

    # --- arithmetic ---

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        types = ", ".join(kind for kind, _ in arguments)
        self.declared.add(f"declare {result} @{function}({types})")
        return self.add(f"call {result} @{function}({', '.join(f'{kind} {value}' for kind, value in arguments)})")

    def plus(self, x: str, y: str) -> str:
        return self.add(f"fadd {VECTOR} {x}, {y}")

    def minus(self, x: str, y: str) -> str:
        return self.add(f"fsub {VECTOR} {x}, {y}")

    def times(self, x: str, y: str) -> str:
        return self.add(f"fmul {VECTOR} {x}, {y}")

    def over(self, x: str, y: str) -> str:
        return self.add(f"fdiv {VECTOR} {x}, {y}")

    def negative(self, x: str) -> str:
        return self.add(f"fneg {VECTOR} {x}")

    def fused(self, x: str, y: str, z: str) -> str:
        """x·y + z, rounded once."""
        return self.call(VECTOR, f"llvm.fma.v{LANES}f64", (VECTOR, x), (VECTOR, y), (VECTOR, z))

    def multiplied_on(self, x: str, y: str, z: str) -> str:
        """x·y + z, in whichever way is quicker."""
        return self.call(VECTOR, f"llvm.fmuladd.v{LANES}f64", (VECTOR, x), (VECTOR, y), (VECTOR, z))

    def two_sum(self, x: str, y: str, kind: str = VECTOR) -> tuple[str, str]:
        """x + y rounded, and what the rounding lost (Knuth)."""
        total = self.add(f"fadd {kind} {x}, {y}")
        part = self.add(f"fsub {kind} {total}, {x}")
        rest = self.add(f"fsub {kind} {total}, {part}")
        left, right = self.add(f"fsub {kind} {x}, {rest}"), self.add(f"fsub {kind} {y}, {part}")
        return total, self.add(f"fadd {kind} {left}, {right}")

    def compare(self, sign: str, x: str, y: str) -> str:
        return self.add(f"fcmp {_COMPARISONS[sign]} {VECTOR} {x}, {y}")

    def logical(self, operation: str, x: str, y: str) -> str:
        return self.add(f"{operation} {_TRUTHS} {x}, {y}")

    def opposite(self, x: str) -> str:
        return self.add(f"xor {_TRUTHS} {x}, <{', '.join(['i1 true'] * LANES)}>")

    def choose(self, condition: str, x: str, y: str) -> str:
        return self.add(f"select {_TRUTHS} {condition}, {VECTOR} {x}, {VECTOR} {y}")

    def sqrt(self, x: str) -> str:
        return self.call(VECTOR, f"llvm.sqrt.v{LANES}f64", (VECTOR, x))

    def abs(self, x: str) -> str:
        return self.call(VECTOR, f"llvm.fabs.v{LANES}f64", (VECTOR, x))

    def signed_as(self, x: str, sign: str) -> str:
        return self.call(VECTOR, f"llvm.copysign.v{LANES}f64", (VECTOR, x), (VECTOR, sign))

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        total = constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = self.multiplied_on(total, x, constant(coefficient))
        return total

    # --- elementary functions ---

    def _exponential(self, x: str, less: float) -> str:
        """e^x - less = 2^n (e^r - 1) + (2^n - less) with x = n log 2 + r."""
        beyond = self.compare(">", x, constant(709.4))
        x = self.choose(self.compare("<", x, constant(-700.0)), constant(-700.0), x)
        x = self.choose(beyond, constant(709.4), x)
        shifted = self.plus(self.times(x, constant(_LOG2E)), constant(_ROUNDER))
        n = self.minus(shifted, constant(_ROUNDER))
        r = self.fused(n, constant(-_LN2_HIGH), x)
        r = self.fused(n, constant(-_LN2_LOW), r)
        small = self.multiplied_on(self.times(r, r), self.polynomial(r, _EXPM1), r)
        bits = self.add(f"bitcast {VECTOR} {shifted} to {_INTEGERS}")
        bits = self.add(f"shl {_INTEGERS} {bits}, <{', '.join(['i64 52'] * LANES)}>")
        one = struct.unpack(">q", struct.pack(">d", 1.0))[0]
        bits = self.add(f"add {_INTEGERS} {bits}, <{', '.join([f'i64 {one}'] * LANES)}>")
        power = self.add(f"bitcast {_INTEGERS} {bits} to {VECTOR}")
        value = self.fused(power, small, self.minus(power, constant(less)) if less else power)
        return self.choose(beyond, constant(math.inf), value)

    def exp(self, x: str) -> str:
        return self._exponential(x, 0.0)

    def expm1(self, x: str) -> str:
        return self._exponential(x, 1.0)

    def log(self, x: str) -> str:
        """log x = k log 2 + log m with m from √½ to √2."""
        least = struct.unpack(">q", struct.pack(">d", math.sqrt(0.5)))[0]
        bits = self.add(f"bitcast {VECTOR} {x} to {_INTEGERS}")
        above = self.add(f"sub {_INTEGERS} {bits}, <{', '.join([f'i64 {least}'] * LANES)}>")
        power = self.add(f"ashr {_INTEGERS} {above}, <{', '.join(['i64 52'] * LANES)}>")
        taken = self.add(f"shl {_INTEGERS} {power}, <{', '.join(['i64 52'] * LANES)}>")
        taken = self.add(f"sub {_INTEGERS} {bits}, {taken}")
        m, k = self.add(f"bitcast {_INTEGERS} {taken} to {VECTOR}"), self.add(f"sitofp {_INTEGERS} {power} to {VECTOR}")
        f = self.minus(m, constant(1.0))
        s = self.over(f, self.plus(f, constant(2.0)))
        z = self.times(s, s)
        series = self.times(z, self.polynomial(z, _LOG))
        half = self.times(constant(0.5), self.times(f, f))
        low = self.multiplied_on(k, constant(_LOG_LN2_LOW), self.times(s, self.plus(half, series)))
        value = self.minus(self.times(k, constant(_LOG_LN2_HIGH)), self.minus(self.minus(half, low), f))
        value = self.choose(self.compare(">", x, constant(0.0)), value, constant(math.nan))
        value = self.choose(self.compare("==", x, constant(0.0)), constant(-math.inf), value)
        return self.choose(self.compare("==", x, constant(math.inf)), constant(math.inf), value)

    def log1p(self, x: str) -> str:
        """log(1 + x), with what rounding takes from 1 + x put back (Kahan)."""
        whole = self.plus(x, constant(1.0))
        lost = self.over(self.minus(x, self.minus(whole, constant(1.0))), whole)
        value = self.plus(self.log(whole), lost)
        return self.choose(self.compare("==", x, constant(math.inf)), constant(math.inf), value)

    def tanh(self, x: str) -> str:
        twice = self.times(constant(2.0), self.abs(x))
        e = self.expm1(self.choose(self.compare(">", twice, constant(60.0)), constant(60.0), twice))
        return self.signed_as(self.over(e, self.plus(e, constant(2.0))), x)

    def sinh(self, x: str) -> str:
        e = self.expm1(self.abs(x))
        inverse = self.over(constant(1.0), self.plus(e, constant(1.0)))
        large = self.minus(constant(1.0), inverse)
        rest = self.choose(self.compare(">", e, constant(1.0)), large, self.times(e, inverse))
        return self.signed_as(self.times(constant(0.5), self.plus(e, rest)), x)

    def cosh(self, x: str) -> str:
        e = self.exp(self.abs(x))
        return self.times(constant(0.5), self.plus(e, self.over(constant(1.0), e)))

    def asinh(self, x: str) -> str:
        """log(a + √(1 + a²)) of a = |x|, whose argument is 1 + a + a²/(1 + √(1 + a²))."""
        a = self.abs(x)
        root = self.sqrt(self.multiplied_on(a, a, constant(1.0)))
        rest = self.times(a, self.over(a, self.plus(root, constant(1.0))))
        far = self.compare(">", a, constant(1e150))
        return self.signed_as(self.log1p(self.plus(a, self.choose(far, a, rest))), x)

    def atanh(self, x: str) -> str:
        a = self.abs(x)
        quotient = self.over(self.times(constant(2.0), a), self.minus(constant(1.0), a))
        return self.signed_as(self.times(constant(0.5), self.log1p(quotient)), x)

    def each(self, function: str, *numbers: str) -> str:
        """A function of the C library, number by number."""
        result = "undef"
        for lane in range(LANES):
            parts = [self.add(f"extractelement {VECTOR} {number}, i64 {lane}") for number in numbers]
            value = self.call("double", f"hgeo_{function}", *[("double", part) for part in parts])
            result = self.add(f"insertelement {VECTOR} {result}, double {value}, i64 {lane}")
        return result
