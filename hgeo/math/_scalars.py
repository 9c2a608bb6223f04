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

import functools
import math
from collections.abc import Callable
from fractions import Fraction

from hgeo.kernels import (
    Number,
    analytic,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    maximum,
    rounding,
    safe_sqrt,
    sin,
    sinh,
    tan,
    tanh,
    where,
)  # fmt: skip

__all__ = ["arsin_ratio", "artan_ratio", "cos_ratio", "safe_sqrt", "sin_ratio", "tan_ratio"]

# Below this |z| the series is used. At the switch the closed forms have lost a factor 1/z = 50 in their first and 2500
# in their second derivative, which both dtypes can spare; the series needs 6 (float32) or 11 (float64) terms there.
_SERIES_RADIUS = 0.02
_SERIES_TERMS = {2.0**-23: 6, 2.0**-52: 11}  # by the rounding unit
_ENTIRE_RADIUS = 1.0  # sine and cosine have series with factorials: as many terms reach as far, and lose nothing


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


_analytic = functools.partial(analytic, terms=_SERIES_TERMS, radius=_SERIES_RADIUS)
_entire = functools.partial(analytic, terms=_SERIES_TERMS, radius=_ENTIRE_RADIUS)


def tan_ratio(z: Number) -> Number:
    r"""tan_k(r)/r at z = k r²: tan(√z)/√z, tanh(√-z)/√-z, 1 at 0.

    >>> import torch
    >>> tan_ratio(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.7616, 1.0000, 1.5574])
    """
    return _analytic(z, _TAN, circular=lambda s: tan(s) / s, hyperbolic=lambda s: tanh(s) / s)


def artan_ratio(z: Number) -> Number:
    r"""artan_k(r)/r at z = k r²: atan(√z)/√z, atanh(√-z)/√-z, 1 at 0.

    Infinite at z = -1, the boundary of the ball, where rounding also takes points some ulps inside it: from 1 - eps on
    -z counts as 1 - eps.
    """
    z = maximum(z, rounding(z) - 1)
    return _analytic(z, _ARTAN, circular=lambda s: atan(s) / s, hyperbolic=lambda s: atanh(s) / s)


def sin_ratio(z: Number) -> Number:
    r"""sin_k(r)/r at z = k r²: sin(√z)/√z, sinh(√-z)/√-z, 1 at 0."""
    return _entire(z, _SIN, circular=lambda s: sin(s) / s, hyperbolic=lambda s: sinh(s) / s)


def cos_ratio(z: Number) -> Number:
    r"""cos_k(r) at z = k r²: cos(√z), cosh(√-z), 1 at 0."""
    return _entire(z, _COS, circular=cos, hyperbolic=cosh)


def arsin_ratio(z: Number) -> Number:
    r"""arsin_k(r)/r at z = k r²: asin(√z)/√z, asinh(√-z)/√-z, 1 at 0.

    For z > 1, which only rounding can bring about, the value at 1 is returned. There the arcsine has an infinite
    derivative; it counts as 0, so that gradients stay numbers.
    """
    return _analytic(z, _ARSIN, circular=lambda s: _quarter_turn(s) / s, hyperbolic=lambda s: asinh(s) / s)


def _quarter_turn(s: Number) -> Number:
    return where(s < 1, asin(where(s < 1, s, 0.0)), math.pi / 2)
