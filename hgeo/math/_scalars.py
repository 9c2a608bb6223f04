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
    "cos_ratio",
    "safe_sqrt",
    "sin_ratio",
    "tan_ratio",
]

# Below this |z| the series is used. At the switch the closed forms have lost a factor 1/z = 50 in their first and 2500
# in their second derivative, which both dtypes can spare; the series needs 6 (float32) or 11 (float64) terms there.
_SERIES_RADIUS = 0.02
_SERIES_TERMS = {torch.float32: 6, torch.float64: 11}


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
) -> Tensor:
    """F(z): ``circular(√z)`` for z > 0, ``hyperbolic(√-z)`` for z < 0, the power series near 0."""
    above, below = z > _SERIES_RADIUS, z < -_SERIES_RADIUS
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
    r"""artan_k(r)/r at z = k r²: atan(√z)/√z, atanh(√-z)/√-z, 1 at 0. Infinite at z = -1, the boundary of the ball."""
    return _analytic(z, _ARTAN, lambda s: torch.atan(s) / s, lambda s: torch.atanh(s) / s)


def sin_ratio(z: Tensor) -> Tensor:
    r"""sin_k(r)/r at z = k r²: sin(√z)/√z, sinh(√-z)/√-z, 1 at 0."""
    return _analytic(z, _SIN, lambda s: torch.sin(s) / s, lambda s: torch.sinh(s) / s)


def cos_ratio(z: Tensor) -> Tensor:
    r"""cos_k(r) at z = k r²: cos(√z), cosh(√-z), 1 at 0."""
    return _analytic(z, _COS, torch.cos, torch.cosh)


def arsin_ratio(z: Tensor) -> Tensor:
    r"""arsin_k(r)/r at z = k r²: asin(√z)/√z, asinh(√-z)/√-z, 1 at 0.

    For z > 1, which only rounding can bring about, the value at 1 is returned.
    """
    return _analytic(z, _ARSIN, lambda s: torch.asin(s.clamp(max=1.0)) / s, lambda s: torch.asinh(s) / s)


def safe_sqrt(x: Tensor) -> Tensor:
    """√x for x ≥ 0 with derivatives 0, not infinite, at exactly 0: the choice of a subgradient of the norm there."""
    zero = x == 0
    return torch.where(zero, 0.0, torch.sqrt(torch.where(zero, 1.0, x)))
