"""Curved trigonometry that is analytic in the curvature.

Every operation of constant-curvature geometry needs a handful of scalar functions f(r, k) such as
tan_k(r) = tan(√k r)/√k (tanh for k < 0, r itself at k = 0). Written that way they have removable singularities at k = 0
and at r = 0. Written as

    f(r, k) = r · F(z),   z = k r²,

each F is an ordinary analytic function with F(0) = 1: one power series near 0, a circular closed form for z > 0 and a
hyperbolic one for z < 0. The switch goes by the size of z, never by k alone, and every branch sees a safe argument, so
values *and* derivatives (in r and in k, of any order) are right on both sides of 0 and at 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import torch
from torch import Tensor

__all__ = [
    "arsin_ratio",
    "artan_ratio",
    "careful_dot",
    "careful_flatness",
    "cos_ratio",
    "safe_sqrt",
    "sin_ratio",
    "tan_ratio",
]

# Below this |z| the series is used. At the switch the closed forms have lost a factor 1/z = 50 in their first and 2500
# in their second derivative, which both dtypes can spare; the series needs 6 (float32) or 11 (float64) terms there.
_SERIES_RADIUS = 0.02
_SERIES_TERMS = {torch.float32: 6, torch.float64: 11}
_ENTIRE_RADIUS = (
    1.0  # sine and cosine have series with factorials: as many terms reach as far as this, and lose nothing
)


def _tangent_coefficients(count: int) -> list[float]:
    """tan(s)/s = Σ t_n z^n, from tan' = 1 + tan²: (2n+1) t_n = Σ_{i+j=n-1} t_i t_j."""
    t = [Fraction(1)]
    for n in range(1, count):
        t.append(sum((t[i] * t[n - 1 - i] for i in range(n)), Fraction(0)) / (2 * n + 1))
    return [float(value) for value in t]


def _running_product(count: int, factor: Callable[[int], Fraction]) -> list[float]:
    """Coefficients f_n = f_{n-1} · factor(n), f_0 = 1."""
    values = [Fraction(1)]
    for n in range(1, count):
        values.append(values[-1] * factor(n))
    return [float(value) for value in values]


_COUNT = max(_SERIES_TERMS.values())
_TAN = _tangent_coefficients(_COUNT)
_ARTAN = [(-1.0) ** n / (2 * n + 1) for n in range(_COUNT)]
_SIN = _running_product(_COUNT, lambda n: Fraction(-1, (2 * n) * (2 * n + 1)))
_COS = _running_product(_COUNT, lambda n: Fraction(-1, (2 * n - 1) * (2 * n)))
_ARSIN = _running_product(_COUNT, lambda n: Fraction((2 * n - 1) ** 2, (2 * n) * (2 * n + 1)))


def _analytic(
    z: Tensor,
    coefficients: Sequence[float],
    circular: Callable[[Tensor], Tensor],
    hyperbolic: Callable[[Tensor], Tensor],
    radius: float = _SERIES_RADIUS,
) -> Tensor:
    """F(z): ``circular(√z)`` for z > 0, ``hyperbolic(√-z)`` for z < 0, the power series near 0."""
    above, below = z > radius, z < -radius
    # A NaN is neither above nor below: it goes through the series and stays a NaN.
    near = torch.where(above | below, 0.0, z)
    terms = _SERIES_TERMS.get(z.dtype, _COUNT)
    series = torch.full_like(near, coefficients[terms - 1])
    for coefficient in reversed(coefficients[: terms - 1]):
        series = series * near + coefficient
    positive = circular(torch.sqrt(torch.where(above, z, 0.25)))
    negative = hyperbolic(torch.sqrt(torch.where(below, -z, 0.25)))
    return torch.where(above, positive, torch.where(below, negative, series))


def tan_ratio(z: Tensor) -> Tensor:
    r"""tan_k(r)/r at z = k r²: tan(√z)/√z, tanh(√-z)/√-z, 1 at 0.

    >>> tan_ratio(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.7616, 1.0000, 1.5574])
    """
    return _analytic(z, _TAN, lambda s: torch.tan(s) / s, lambda s: torch.tanh(s) / s)


def artan_ratio(z: Tensor) -> Tensor:
    r"""artan_k(r)/r at z = k r²: atan(√z)/√z, atanh(√-z)/√-z, 1 at 0.

    Infinite at z = -1, the boundary of the ball, where rounding also takes points some ulps inside it: from 1 - eps on
    -z counts as 1 - eps.
    """
    z = z.clamp(min=torch.finfo(z.dtype).eps - 1)
    return _analytic(z, _ARTAN, lambda s: torch.atan(s) / s, lambda s: torch.atanh(s) / s)


def sin_ratio(z: Tensor) -> Tensor:
    r"""sin_k(r)/r at z = k r²: sin(√z)/√z, sinh(√-z)/√-z, 1 at 0."""
    return _analytic(z, _SIN, lambda s: torch.sin(s) / s, lambda s: torch.sinh(s) / s, _ENTIRE_RADIUS)


def cos_ratio(z: Tensor) -> Tensor:
    r"""cos_k(r) at z = k r²: cos(√z), cosh(√-z), 1 at 0."""
    return _analytic(z, _COS, torch.cos, torch.cosh, _ENTIRE_RADIUS)


def arsin_ratio(z: Tensor) -> Tensor:
    r"""arsin_k(r)/r at z = k r²: asin(√z)/√z, asinh(√-z)/√-z, 1 at 0.

    For z > 1, which only rounding can bring about, the value at 1 is returned.
    """
    return _analytic(z, _ARSIN, lambda s: torch.asin(s.clamp(max=1.0)) / s, lambda s: torch.asinh(s) / s)


def safe_sqrt(x: Tensor) -> Tensor:
    """√x for x ≥ 0 with derivatives 0, not infinite, at exactly 0: the choice of a subgradient of the norm there."""
    zero = x == 0
    return torch.where(zero, 0.0, torch.sqrt(torch.where(zero, 1.0, x)))


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


def _dot_in_two(x: Tensor, y: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """⟨x, y⟩ as a sum of two numbers, the second in the last digits of the first."""
    product, lost = _product(x, y)
    # High parts that are multiples of one unit add up exactly; what they leave behind is small.
    unit = (4.0 * product.shape[dim]) * product.abs().amax(dim=dim, keepdim=True)
    high = (unit + product) - unit
    return high.sum(dim=dim, keepdim=True), (product - high + lost).sum(dim=dim, keepdim=True)


def careful_dot(x: Tensor, y: Tensor, dim: int) -> Tensor:
    """⟨x, y⟩ as if computed with twice the digits and rounded once; its derivatives are those of a dot product.

    >>> x, y = torch.tensor([1e8, 1.0, -1e8]), torch.ones(3)
    >>> (x * y).sum(), careful_dot(x, y, dim=-1)
    (tensor(0.), tensor([1.]))
    """
    plain = (x * y).sum(dim=dim, keepdim=True)
    high, low = _dot_in_two(x.detach(), y.detach(), dim)
    return plain + (high + low - plain.detach())


def careful_flatness(x: Tensor, k: float | Tensor, dim: int) -> Tensor:
    """1 + k|x|² with all of its digits, however near to the boundary of a ball; its derivatives are the plain ones.

    >>> x = torch.tensor([0.6, 0.8]) * (1 - 1e-6)
    >>> 1 - (x * x).sum(), careful_flatness(x, -1.0, dim=-1)
    (tensor(2.0266e-06), tensor([2.0027e-06]))
    """
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
