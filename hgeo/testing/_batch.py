"""Thousands of numbers at once, in extended precision and with a derivative, for the oracle's own formulas.

Sixty digits of one example take milliseconds. The formulas of :mod:`hgeo.testing.oracle` also take a :class:`Batch` for
a number: then they are evaluated for a whole batch in the 80-bit floats of x86, 11 bits beyond float64. What agrees
with that, by far, is right; whatever does not is put before the sixty digits. Nothing is ever failed on account of a
batch, and where a machine has no such floats (:data:`AVAILABLE`) every example goes the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from hgeo.testing import oracle

__all__ = ["AVAILABLE", "Batch", "Column", "columns", "evaluate"]

Column = npt.NDArray[Any]

AVAILABLE = bool(np.finfo(np.longdouble).eps < 1e-18)
"""Whether this machine's long double is longer than a double."""

_NEAR, _TERMS = 1e-2, 14  # below |z| = 0.01 the slope of a ratio is taken from the series: the closed form cancels


def _coefficients(function: Callable[[Any], Any], first: int) -> list[np.longdouble]:
    """Every second Taylor coefficient at 0."""
    series = oracle.mp.taylor(function, 0, 2 * _TERMS + 1)[first::2][:_TERMS]
    return [np.longdouble(oracle.mp.nstr(value, 25)) for value in series]


class Batch:
    """A column of numbers, and of their derivatives along one direction."""

    __slots__ = ("slope", "value")
    own_arithmetic = True  # the oracle's word for numbers that are not mpmath's

    def __init__(self, value: Column, slope: Column | float = 0.0) -> None:
        self.value = np.asarray(value, dtype=np.longdouble)
        self.slope = np.asarray(slope, dtype=np.longdouble)

    @staticmethod
    def _of(other: Any) -> Batch:
        return other if isinstance(other, Batch) else Batch(np.longdouble(float(other)))

    def fixed(self) -> Batch:
        """The same numbers, as constants."""
        return Batch(self.value)

    def __add__(self, other: Any) -> Batch:
        other = self._of(other)
        return Batch(self.value + other.value, self.slope + other.slope)

    def __neg__(self) -> Batch:
        return Batch(-self.value, -self.slope)

    def __sub__(self, other: Any) -> Batch:
        return self + -self._of(other)

    def __rsub__(self, other: Any) -> Batch:
        return self._of(other) - self

    def __mul__(self, other: Any) -> Batch:
        other = self._of(other)
        return Batch(self.value * other.value, self.slope * other.value + self.value * other.slope)

    def __truediv__(self, other: Any) -> Batch:
        other = self._of(other)
        quotient = self.value / other.value
        return Batch(quotient, (self.slope - quotient * other.slope) / other.value)

    def __rtruediv__(self, other: Any) -> Batch:
        return self._of(other) / self

    def __pow__(self, exponent: int) -> Batch:
        return Batch(self.value**exponent, exponent * self.value ** (exponent - 1) * self.slope)

    __radd__, __rmul__ = __add__, __mul__

    def __abs__(self) -> Batch:
        return Batch(np.abs(self.value), np.sign(self.value) * self.slope)

    # The oracle branches on its curvature only, which is one number for all rows; elsewhere "all" is what is asked.
    def __eq__(self, other: object) -> bool:
        return bool(np.all(self.value == self._of(other).value))

    def __le__(self, other: Any) -> bool:
        return bool(np.all(self.value <= self._of(other).value))

    __hash__ = None  # type: ignore[assignment]

    def sqrt(self) -> Batch:
        root = np.sqrt(self.value)
        return Batch(root, self.slope / (2 * root))

    def ratio(self, name: str) -> Batch:
        """One of the analytic functions F(z) of the oracle, with the derivative that its differential equation says."""
        z = self.value
        value = _value(name, z)
        if name == "cos":
            return Batch(value, -_value("sin", z) / 2 * self.slope)
        along = {
            "tan": lambda: 1 + z * value**2,
            "artan": lambda: 1 / (1 + z),
            "sin": lambda: _value("cos", z),
            "arsin": lambda: 1 / np.sqrt(1 - z),
        }[name]()
        near = np.abs(z) < _NEAR
        slope = np.where(near, _series(name, z, derivative=True), (along - value) / np.where(near, 1.0, 2 * z))
        return Batch(value, slope * self.slope)


_SERIES = {
    "tan": _coefficients(oracle.mp.tan, 1),
    "artan": _coefficients(oracle.mp.atan, 1),
    "sin": _coefficients(oracle.mp.sin, 1),
    "arsin": _coefficients(oracle.mp.asin, 1),
}
_CLOSED: dict[str, tuple[Callable[[Column], Column], Callable[[Column], Column]]] = {
    "tan": (np.tan, np.tanh),
    "artan": (np.arctan, np.arctanh),
    "sin": (np.sin, np.sinh),
    "arsin": (np.arcsin, np.arcsinh),
    "cos": (np.cos, np.cosh),
}


def _series(name: str, z: Column, *, derivative: bool = False) -> Column:
    terms = list(enumerate(_SERIES[name]))
    total = np.zeros_like(z)
    for n, coefficient in reversed(terms[1:] if derivative else terms):
        total = total * z + (n * coefficient if derivative else coefficient)
    return total


def _value(name: str, z: Column) -> Column:
    spherical, hyperbolic = _CLOSED[name]
    root = np.sqrt(np.abs(z))
    value = np.where(z > 0, spherical(np.where(z > 0, root, 0.5)), hyperbolic(np.where(z > 0, 0.5, root)))
    if name == "cos":
        return value
    return np.where(z == 0, 1.0, value / np.where(z == 0, 1.0, root))


def columns(values: Tensor, direction: Tensor | None = None) -> Any:
    """A tensor (rows, ...) as nested lists of columns, as the oracle reads vectors and matrices."""
    if values.dim() == 1:
        slope = 0.0 if direction is None else direction.detach().double().numpy()
        return Batch(values.detach().double().numpy(), slope)
    parts = range(values.shape[1])
    return [columns(values[:, j], None if direction is None else direction[:, j]) for j in parts]


def evaluate(function: Callable[..., Any], arguments: Sequence[Any], **curvature: Batch) -> tuple[Column, Column]:
    """Values and slopes of an oracle function, (rows, entries). Rows at a singular place are not numbers."""
    with np.errstate(all="ignore"):
        result = function(*arguments, **curvature)
    entries = result if isinstance(result, list) else [result]
    rows = max(np.size(argument.value) for argument in _flat([*arguments, *curvature.values()]))
    spread = [(np.broadcast_to(entry.value, rows), np.broadcast_to(entry.slope, rows)) for entry in entries]
    return np.stack([value for value, _ in spread], axis=-1), np.stack([slope for _, slope in spread], axis=-1)


def _flat(values: Any) -> list[Batch]:
    return [values] if isinstance(values, Batch) else [entry for value in values for entry in _flat(value)]
