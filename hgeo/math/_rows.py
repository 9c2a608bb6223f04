r"""What layers do with tangent rows at the origin, where a point in between would only be written and read again.

A row u of the stereographic model stands for the point exp0(u). Its conformal numbers are hyperbolic or circular
functions of its length, so that nothing here comes near the boundary, where the coordinates of points lose digits:

    1 + k|exp0(u)|² = 1/cosh²(√-k |u|),     λ exp0(u) = sinh(2√-k |u|)/√-k · u/|u|,     λ - 1 = cosh(2√-k |u|).

Rows beyond the radius that a dtype can tell apart count as rows at that radius, as points do (:func:`project`).
"""

from __future__ import annotations

import math

from hgeo.kernels import (
    Ambient,
    Number,
    Row,
    atan2,
    dot,
    hyperbolic,
    maximum,
    minimum,
    rounding,
    sealed,
    sqrt,
    where,
)  # fmt: skip
from hgeo.math._contract import operation
from hgeo.math._hyperboloid import root_of
from hgeo.math._scalars import arsin_ratio, cos_ratio, sin_ratio, tan_ratio
from hgeo.math._stereographic import half_distance_ratio, sum_parts

__all__ = ["kept_lorentz_expmap0", "lifted_row", "lowered_row", "translated_row"]


def _within(squared: Number, eps: float) -> Number:
    """What a row is multiplied by to lie within the radius limit, from -k times its squared length."""
    outside = squared > math.atanh(1 - 4 * eps) ** 2
    return where(outside, math.atanh(1 - 6 * eps) / sqrt(where(outside, squared, 1.0)), 1.0)


def _point(u: Row, k: Number) -> tuple[Row, Number]:
    """exp0(u), and 1 + k times its square."""
    squared = dot(u, u)
    factor = _within(-k * squared, rounding(u))
    z = k * squared * factor * factor
    tangent = tan_ratio(z)
    cosine = cos_ratio(minimum(z, 0.0))
    flat = 1 / (cosine * cosine)
    if not hyperbolic(k):
        flat = where(z > 0, 1 + z * tangent * tangent, flat)
    return sealed(factor * tangent * u), flat


@operation
def kept_lorentz_expmap0(v: Row, c: Number) -> Ambient:
    """:func:`lorentz_expmap0` of v, or of as much of it as its dtype can tell apart; for float32 and float64."""
    limit = 2 * math.atanh(1 - 4 * rounding(v))
    squared = c * dot(v, v)
    outside = squared > limit * limit
    factor = where(outside, limit / sqrt(where(outside, squared, 1.0)), 1.0)
    z = -squared * factor * factor
    return Ambient(cos_ratio(z) / root_of(c), factor * sin_ratio(z) * v)


@operation
def translated_row(u: Row, w: Row, k: Number) -> Row:
    """log0(exp0(u) ⊕ exp0(w)).

    >>> import torch
    >>> translated_row(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([1.5000, 0.0000])
    """
    (x, a), (y, b) = _point(u, k), _point(w, k)
    numerator, denominator, ss = sum_parts(x, y, a, b, k)
    ab = a * b
    q = ss / ab
    ratio = half_distance_ratio(q, denominator / ab, k)
    return ratio * _within(-k * q * ratio * ratio, rounding(u)) / sqrt(ab * denominator) * numerator


@operation
def lifted_row(u: Row, w: Number, k: Number) -> Ambient:
    """w (λ - 1) and w λ x of x = exp0(u): what :func:`lowered_row` wants sums of."""
    squared = dot(u, u)
    factor = _within(-k * squared, rounding(u))
    z = 4 * k * squared * factor * factor
    return Ambient(w * cos_ratio(z), 2 * w * factor * sin_ratio(z) * u)


@operation
def lowered_row(sums: Ambient, weight: Number, k: Number) -> Row:
    """log0 of the gyromidpoint, from the sums T = Σ w (λ - 1), V = Σ w λ x and W = Σ w, w ≥ 0; sums of 0 give 0.

    Near the boundary of a ball T² - c|V|² cancels; W² is a lower bound of it, as is T² eps.
    """
    height, spatial = sums
    squared = dot(spatial, spatial)
    floor = where(height > 0, minimum(weight, height), 0.0) ** 2
    length2 = maximum(height * height + k * squared, floor)
    length2 = where(length2 > 0, length2, 1.0)
    z = k * squared / length2
    factor = arsin_ratio(z) / sqrt(length2)
    if not hyperbolic(k):
        # from an eighth of a turn on, and below the equator of a sphere; where points cancel any row will do: 0 it is
        beside = (z > 0.25) | (height < 0)
        beside = beside & (k * squared > 0)
        sine = sqrt(where(beside, k * squared, 1.0))
        factor = where(beside, atan2(sine, where(beside, height, 1.0)) / sine, factor)
    half = factor / 2
    return half * _within(-k * squared * half * half, rounding(spatial)) * spatial
