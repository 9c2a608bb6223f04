"""The words that a formula is written in: each takes tensors, and the symbols of a formula that is being written down.

A row is a vector along the last dimension; a number has size 1 there. On tensors the words are torch's.

>>> import torch
>>> dot(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 4.0]))
tensor([25.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from hgeo.kernels._symbols import NumberSymbol, RowSymbol, Tape

__all__ = [
    "Ambient", "Number", "Row", "analytic", "asin", "asinh", "atan", "atan2", "atanh", "careful_dot",
    "careful_flatness", "careful_sum", "cos", "cosh", "dot", "exp", "hyperbolic", "log", "maximum", "minimum",
    "rounding", "safe_sqrt", "sealed", "sin", "sinh", "sqrt", "tan", "tanh", "where",
]  # fmt: skip

if TYPE_CHECKING:
    Row: TypeAlias = Any
    Number: TypeAlias = Any
else:

    class Row:
        """A vector: a tensor whose last dimension it is, or the symbol of one."""

    class Number:
        """A number a row: a tensor of size 1 in its last dimension, the symbol of one, or a float."""


class Ambient(NamedTuple):
    """A vector whose first number stands apart, as a point of a hyperboloid or of an embedded sphere has it."""

    first: Any  # a number
    rest: Any  # a row


def _tape(*values: Any) -> Tape | None:
    return next((v.tape for v in values if isinstance(v, NumberSymbol | RowSymbol)), None)


def _word(name: str, function: Callable[..., Any]) -> Callable[..., Number]:
    def word(*numbers: Number) -> Number:
        tape = _tape(*numbers)
        return function(*numbers) if tape is None else tape.apply(name, *numbers)

    word.__name__ = word.__qualname__ = name
    word.__doc__ = f"``torch.{name}``, of numbers of a formula too."
    return word


sqrt = _word("sqrt", torch.sqrt)
exp = _word("exp", torch.exp)
log = _word("log", torch.log)
sin = _word("sin", torch.sin)
cos = _word("cos", torch.cos)
tan = _word("tan", torch.tan)
asin = _word("asin", torch.asin)
atan = _word("atan", torch.atan)
atan2 = _word("atan2", torch.atan2)
sinh = _word("sinh", torch.sinh)
cosh = _word("cosh", torch.cosh)
tanh = _word("tanh", torch.tanh)
asinh = _word("asinh", torch.asinh)
atanh = _word("atanh", torch.atanh)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y: numbers, or rows."""
    if isinstance(x, RowSymbol) and isinstance(y, RowSymbol):
        terms = {a: where(condition, x.terms.get(a, 0.0), y.terms.get(a, 0.0)) for a in {**x.terms, **y.terms}}
        return RowSymbol(x.tape, terms)
    tape = _tape(condition, x, y)
    return torch.where(condition, x, y) if tape is None else tape.apply("where", condition, x, y)


def maximum(x: Number, y: Number) -> Number:
    """The larger of two numbers; of equal ones the first, and with it its derivative, which torch.maximum divides."""
    return where(x < y, y, x)


def minimum(x: Number, y: Number) -> Number:
    """The smaller of two numbers; of equal ones the first."""
    return where(x > y, y, x)


def safe_sqrt(x: Number) -> Number:
    """√x for x ≥ 0 with derivatives 0, not infinite, at exactly 0: the choice of a subgradient of the norm there."""
    zero = x == 0
    return where(zero, 0.0, sqrt(where(zero, 1.0, x)))


def dot(x: Row, y: Row) -> Number:
    """The inner product ⟨x, y⟩."""
    tape = _tape(x, y)
    return (x * y).sum(-1, keepdim=True) if tape is None else tape.dot(x, y)


def sealed(row: Row) -> Row:
    """The row itself; sums and inner products with it take it as it is and do not look into what it is made of."""
    return row.tape.seal(row) if isinstance(row, RowSymbol) else row


def careful_sum(row: Row) -> Row:
    """The row, :func:`sealed` where the arithmetic is no more precise than rows are: there inner products of sums that
    cancel have no digits to spare."""
    return row.tape.seal(row) if isinstance(row, RowSymbol) and row.tape.wide else row


def hyperbolic(k: Number) -> bool:
    """Whether k ≤ 0 is known without looking into a tensor: what only spheres need is then left out."""
    if isinstance(k, NumberSymbol):
        return k.tape.hyperbolic
    return not isinstance(k, Tensor) and k <= 0


def rounding(x: Any) -> float:
    """The rounding unit eps of a tensor's dtype, or of the rows that a formula is written down for."""
    return x.tape.eps if isinstance(x, NumberSymbol | RowSymbol) else torch.finfo(x.dtype).eps


def analytic(
    z: Number,
    coefficients: Sequence[float],
    terms: dict[float, int],
    circular: Callable[[Number], Number],
    hyperbolic: Callable[[Number], Number],
    radius: float,
) -> Number:
    """F(z): ``circular(√z)`` for z > 0, ``hyperbolic(√-z)`` for z < 0, within ``radius`` of 0 a power series, of which
    the rounding unit says how many ``terms`` it needs.
    """
    above, below = z > radius, z < -radius
    # A NaN is neither above nor below: it goes through the series and stays a NaN.
    near = where(above | below, 0.0, z)
    count = terms.get(rounding(z), len(coefficients))
    series = coefficients[count - 1]
    for coefficient in reversed(coefficients[: count - 1]):
        series = series * near + coefficient
    value = where(below, hyperbolic(sqrt(where(below, -z, 0.25))), series)
    if isinstance(z, NumberSymbol) and z.tape.hyperbolic:
        return value
    return where(above, circular(sqrt(where(above, z, 0.25))), value)


# --- where the last bits decide: twice the digits ---------------------------------------------------------------------


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """x as a sum of two numbers of half its digits, whose products are exact (Veltkamp)."""
    large = x * (4097.0 if x.dtype == torch.float32 else 134217729.0)
    high = large - (large - x)
    return high, x - high


def _product(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """x·y rounded, and what the rounding lost (Dekker)."""
    product = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _dot_in_two(x: Tensor, y: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
    """⟨x, y⟩ as a sum of two numbers, the second in the last digits of the first."""
    product, lost = _product(x, y)
    # High parts that are multiples of one unit add up exactly; what they leave behind is small.
    unit = (4.0 * product.shape[dim]) * product.abs().amax(dim=dim, keepdim=True)
    high = (unit + product) - unit
    return high.sum(dim=dim, keepdim=True), (product - high + lost).sum(dim=dim, keepdim=True)


def careful_dot(x: Row, y: Row) -> Number:
    """⟨x, y⟩ as if computed with twice the digits and rounded once; its derivatives are those of a dot product.

    >>> x, y = torch.tensor([1e8, 1.0, -1e8]), torch.ones(3)
    >>> (x * y).sum(), careful_dot(x, y)
    (tensor(0.), tensor([1.]))
    """
    tape = _tape(x, y)
    if tape is not None:
        return tape.dot(x, y, "careful_dot" if tape.wide else "dot")
    plain = (x * y).sum(dim=-1, keepdim=True)
    high, low = _dot_in_two(x.detach(), y.detach())
    return plain + (high + low - plain.detach())


def careful_flatness(x: Row, k: Number, dim: int = -1) -> Number:
    """1 + k|x|² with all of its digits, however near to the boundary of a ball; its derivatives are the plain ones.

    >>> x = torch.tensor([0.6, 0.8]) * (1 - 1e-6)
    >>> 1 - (x * x).sum(), careful_flatness(x, -1.0)
    (tensor(2.0266e-06), tensor([2.0027e-06]))
    """
    if isinstance(x, RowSymbol):
        if not x.tape.wide:
            return 1 + k * dot(x, x)
        ((atom, _),) = x.terms.items()
        parts = [x.tape.step(kind, atom, atom) for kind in ("careful_dot", "low_dot")]
        return x.tape.apply("careful_flatness", k, *parts)
    plain = 1 + k * (x * x).sum(dim=dim, keepdim=True)
    k = k.detach() if isinstance(k, Tensor) else torch.full((), k, dtype=x.dtype, device=x.device)
    if x.dtype == torch.float32 and x.device.type != "mps":  # where there is a wider type it is quicker
        wide = x.detach().double()
        exact = 1 + k.double() * (wide * wide).sum(dim=dim, keepdim=True)
        return plain + (exact - plain.detach()).to(x.dtype)
    squared, rest = _dot_in_two(x.detach(), x.detach(), dim)
    bent, lost = _product(k, squared)
    total = 1 + bent
    part = total - 1  # 1 + bent = total + what this rounding lost (Knuth)
    lost = lost + ((1 - (total - part)) + (bent - part)) + k * rest
    return plain + (total + lost - plain.detach())
