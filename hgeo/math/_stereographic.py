r"""Gyrovector operations on the stereographic model of curvature k, in forms that do not cancel.

The model is {x : 1 + k|x|² > 0} with metric λ² |dx|², λ = 2/(1 + k|x|²): the Poincaré ball for k < 0, Euclidean space
with the metric 4|dx|² for k = 0, the projected sphere for k > 0. Points are last-dimension vectors (``dim`` moves
that), ``k`` a number or a tensor that broadcasts against them.

Two identities carry the accuracy. With s = x + y, a = 1 + k|x|², b = 1 + k|y|²

    x ⊕ y = (a s - k|s|² x) / (a b - k|s|²),      |x ⊕ y|² = |s|² / (a b - k|s|²),

nothing cancels when y ≈ -x near the boundary, where the printed formula loses half of its digits. And with
q = |x-y|²/(ab) the half distance is arsin_k(√q) = √q · arsin_ratio(k q), which needs neither tanh⁻¹ nor 1 - |x ⊕ y|.

Every operation is a formula of rows (vectors), their inner products and k: what is written here is carried out on
tensors as it stands, or written down once as a compiled loop (:class:`hgeo.kernels.Operation`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hgeo.kernels import (
    Number,
    Row,
    atan2,
    careful_dot,
    careful_flatness,
    dot,
    hyperbolic,
    maximum,
    rounding,
    safe_sqrt,
    sealed,
    sqrt,
    where,
)  # fmt: skip
from hgeo.math._contract import Curvature, PublicOperation, boundary_margin, floating, geometry, operation
from hgeo.math._scalars import arsin_ratio, artan_ratio, cos_ratio, sin_ratio, tan_ratio

__all__ = [
    "antipode",
    "arsin_k",
    "artan_k",
    "cos_k",
    "dist",
    "dist0",
    "dist2plane",
    "egrad2rgrad",
    "expmap",
    "expmap0",
    "geodesic",
    "geodesic_unit",
    "gyration",
    "inner",
    "kept_expmap0",
    "lambda_x",
    "logmap",
    "logmap0",
    "mobius_add",
    "mobius_coadd",
    "mobius_cosub",
    "mobius_fn_apply",
    "mobius_matvec",
    "mobius_pointwise_mul",
    "mobius_scalar_mul",
    "mobius_sub",
    "norm",
    "parallel_transport",
    "parallel_transport0",
    "parallel_transport0back",
    "project",
    "sin_k",
    "sqdist",
    "tan_k",
]


# --- curved trigonometry of a radius ----------------------------------------------------------------------------------


@geometry
def tan_k(x: Tensor, *, k: Curvature) -> Tensor:
    """tan(√k x)/√k, tanh(√-k x)/√-k, or x at k = 0.

    >>> tan_k(torch.tensor(1.0), k=-1.0)
    tensor(0.7616)
    """
    return x * tan_ratio(k * x * x)


@geometry
def artan_k(x: Tensor, *, k: Curvature) -> Tensor:
    """Inverse of :func:`tan_k`: atan(√k x)/√k, atanh(√-k x)/√-k, or x at k = 0.

    >>> artan_k(torch.tensor(0.5), k=-1.0)
    tensor(0.5493)
    """
    return x * artan_ratio(k * x * x)


@geometry
def sin_k(x: Tensor, *, k: Curvature) -> Tensor:
    """sin(√k x)/√k, sinh(√-k x)/√-k, or x at k = 0."""
    return x * sin_ratio(k * x * x)


@geometry
def arsin_k(x: Tensor, *, k: Curvature) -> Tensor:
    """Inverse of :func:`sin_k`: asin(√k x)/√k, asinh(√-k x)/√-k, or x at k = 0."""
    return x * arsin_ratio(k * x * x)


@geometry
def cos_k(x: Tensor, *, k: Curvature) -> Tensor:
    """cos(√k x), cosh(√-k x), or 1 at k = 0."""
    return cos_ratio(k * x * x)


# --- the metric -------------------------------------------------------------------------------------------------------


def _flatness(x: Row, k: Number) -> Number:
    """1 + k|x|², that is 2/λ."""
    return _at_least(1 + k * dot(x, x), k)


def _at_least(flatness: Number, k: Number) -> Number:
    """1 + k|x|² with a floor of eps/2: rounding makes 0 or less of that of a point some ulps inside the boundary."""
    if isinstance(k, float | int) and k >= 0:
        return flatness
    return maximum(flatness, rounding(flatness) / 2)


@operation
def lambda_x(x: Row, k: Number) -> Number:
    """Conformal factor λ_x = 2/(1 + k|x|²).

    >>> lambda_x(torch.tensor([0.0, 0.5]), k=-1.0)
    tensor(2.6667)
    """
    return 2 / _flatness(x, k)


@operation
def _inner(x: Row, u: Row, v: Row, k: Number) -> Number:
    return (2 / _flatness(x, k)) ** 2 * dot(u, v)


def inner(
    x: Tensor, u: Tensor, v: Tensor | None = None, *, k: Curvature, dim: int = -1, keepdim: bool = False
) -> Tensor:
    """Riemannian inner product λ_x² ⟨u, v⟩ of tangent vectors at x (v = u if it is not given).

    >>> inner(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0]), k=-1.0)
    tensor(14.2222)
    """
    return _inner(x, u, u if v is None else v, k=k, dim=dim, keepdim=keepdim)


@operation
def norm(x: Row, u: Row, k: Number) -> Number:
    """Riemannian length λ_x |u| of a tangent vector at x.

    >>> norm(torch.tensor([0.5, 0.0]), torch.tensor([3.0, 0.0]), k=-1.0)
    tensor(8.)
    """
    return 2 / _flatness(x, k) * safe_sqrt(dot(u, u))


@operation
def egrad2rgrad(x: Row, grad: Row, k: Number) -> Row:
    """Riemannian gradient λ_x⁻² ∇f from the Euclidean one.

    >>> egrad2rgrad(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0]), k=-1.0)
    tensor([0.1406, 0.0000])
    """
    return grad * (_flatness(x, k) / 2) ** 2


@operation
def _project(x: Row, margin: Number, k: Number) -> Row:
    squared = -k * dot(x, x)
    outside = squared > (1 - margin) ** 2
    factor = (1 - 1.5 * margin) / sqrt(where(outside, squared, 1.0))
    return where(outside, x * factor, x)


def project(x: Tensor, *, k: Curvature, dim: int = -1, margin: float | None = None) -> Tensor:
    """Bring points that left the ball, or came nearer to its boundary than the margin, back inside. Identity for k ≥ 0.

    Points beyond √c|x| = 1 - 4·eps are put at 1 - 6·eps, so that projecting twice changes nothing. ``margin`` is 4·eps
    of the points' dtype unless it is given.

    >>> project(torch.tensor([2.0, 0.0]), k=-1.0)
    tensor([1.0000, 0.0000])
    """
    if margin is None and isinstance(x, Tensor) and x.dtype.is_floating_point:
        margin = boundary_margin(x.dtype)
    return _project(x, margin, k=k, dim=dim)


# --- gyrovector operations --------------------------------------------------------------------------------------------


def _far_apart(xx: Number, yy: Number, ss: Number) -> Number:
    """Whether y is well away from -x: there, sums written with x and y lose nothing and x + y brings no gain."""
    return 4 * ss > maximum(xx, yy)


def _add_parts(x: Row, y: Row, k: Number, linked: bool = False) -> tuple[Row, Number, Number, Number, Number]:
    """Numerator and denominator of x ⊕ y, |x + y|², 1 + k|x|² and 1 + k|y|².

    Near the boundary the last two are rounded in their last bits, each in its own way. Where their quotient is wanted,
    and its derivative by k, ``linked`` takes the second from the first when y ≈ -x: 1 + k|x|² + k⟨y - x, y + x⟩.
    """
    s = x + y
    xx, yy, ss = dot(x, x), dot(y, y), dot(s, s)
    a, b = _at_least(1 + k * xx, k), _at_least(1 + k * yy, k)
    if linked:
        b = where(_far_apart(xx, yy, ss), b, _at_least(a + k * dot(s, y - x), k))
    return *sum_parts(x, y, a, b, k), a, b


def sum_parts(x: Row, y: Row, a: Number, b: Number, k: Number) -> tuple[Row, Number, Number]:
    """Numerator and denominator of x ⊕ y and |x + y|², from a = 1 + k|x|² and b = 1 + k|y|²."""
    s = x + y
    xx, yy, ss = dot(x, x), dot(y, y), dot(s, s)
    numerator = a * s - k * ss * x
    if not hyperbolic(k):
        # Far out on a sphere it is a s that cancels, and the printed form that does not.
        printed = (1 - 2 * k * dot(x, y) - k * yy) * x + a * y
        numerator = where((a > 1) & _far_apart(xx, yy, ss), printed, numerator)
    return numerator, _denominator(x, y, xx, yy, ss, a, b, k), ss


def _denominator(x: Row, y: Row, xx: Number, yy: Number, ss: Number, a: Number, b: Number, k: Number) -> Number:
    """1 - 2k⟨x,y⟩ + k²|x|²|y|² without cancellation.

    For k ≤ 0 it is ab + |k||x+y|², a sum of positive terms. For k > 0 it can vanish (the sum is then the point at
    infinity), and is | x/|x| - k|x| y |², taken from the larger of the two points so that x/|x| is safe.
    """
    flat = a * b - k * ss
    if hyperbolic(k):
        return flat
    swap = yy > xx
    far, near, far2 = where(swap, y, x), where(swap, x, y), where(swap, yy, xx)
    use = k * far2 > 0.25
    length = sqrt(where(use, far2, 1.0))
    gap = sealed(far / length - k * length * near)
    return where(use, dot(gap, gap), flat)


@operation
def mobius_add(x: Row, y: Row, k: Number) -> Row:
    r"""Möbius addition.

    .. math:: x \oplus y = \frac{(1 - 2k\langle x,y\rangle - k|y|^2)\,x + (1 + k|x|^2)\,y}
                               {1 - 2k\langle x,y\rangle + k^2|x|^2|y|^2}

    >>> mobius_add(torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.8000, 0.0000])
    """
    numerator, denominator, *_ = _add_parts(x, y, k)
    return numerator / denominator


@operation
def mobius_sub(x: Row, y: Row, k: Number) -> Row:
    """Möbius subtraction x ⊕ (-y)."""
    return mobius_add.formula(x, -y, k)


@operation
def mobius_coadd(x: Row, y: Row, k: Number) -> Row:
    r"""Möbius coaddition, the commutative one: x ⊞ y = x ⊕ gyr[x, -y] y.

    .. math:: x \boxplus y = \frac{(1 + k|y|^2)\,x + (1 + k|x|^2)\,y}{1 - k^2|x|^2|y|^2}

    >>> mobius_coadd(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), k=-1.0)
    tensor([0.4000, 0.4000])
    """
    s = x + y
    a, b = _flatness(x, k), _flatness(y, k)
    # b x + a y = a s + (b - a) x, and b - a = k⟨s, y - x⟩ loses nothing when y ≈ -x. There y - x = s - 2x, and where s
    # lies across x its products with x cancel: what rounding leaves of them is multiplied by x.
    xx, yy, ss = dot(x, x), dot(y, y), dot(s, s)
    apart = _far_apart(xx, yy, ss)
    excess = k * where(apart, dot(s, y - x), ss - 2 * careful_dot(s, x))
    numerator = a * s + excess * x
    # Near the boundary a and b are rounded each in its own way; only their quotient has a small derivative by k.
    b = where((b < 2 * a) & (a < 2 * b), a + excess, b)
    if hyperbolic(k):
        return numerator / (a + b - a * b)
    spherical = a + b > 2
    numerator = where(spherical & apart, b * x + a * y, numerator)
    return numerator / where(spherical, 1 - (k * xx) * (k * yy), a + b - a * b)


@operation
def mobius_cosub(x: Row, y: Row, k: Number) -> Row:
    """Möbius cosubtraction x ⊞ (-y)."""
    return mobius_coadd.formula(x, -y, k)


@operation
def gyration(a: Row, b: Row, u: Row, k: Number) -> Row:
    r"""Gyration gyr[a, b] u = ⊖(a ⊕ b) ⊕ (a ⊕ (b ⊕ u)), a rotation of u in the plane of a and b.

    With the wedge (a∧b)u = ⟨b,u⟩ a - ⟨a,u⟩ b and p = 1 - k⟨a,b⟩:

    .. math:: \mathrm{gyr}[a,b]\,u = u + 2k\,\frac{k\,(a\wedge b)^2 u - p\,(a\wedge b)\,u}
                                               {1 - 2k\langle a,b\rangle + k^2|a|^2|b|^2}

    >>> gyration(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), torch.tensor([1.0, 0.0]), k=-1.0)
    tensor([ 0.8824, -0.4706])
    """
    s = a + b
    aa, bb, ss = dot(a, a), dot(b, b), dot(s, s)
    flat_a, flat_b = _at_least(1 + k * aa, k), _at_least(1 + k * bb, k)
    # p of a ball is a sum of positive terms in this form; a∧b = a∧(a+b), and the shorter partner cancels less.
    p = (flat_a + flat_b - k * ss) / 2
    if not hyperbolic(k):
        p = where(flat_a + flat_b > 2, 1 - k * dot(a, b), p)
    partner = where(ss < bb, s, b)
    bent = k * a  # k goes in here: on a nearly flat sphere the wedge of far points alone leaves the range of float32

    def wedge(v: Row) -> Row:
        return dot(partner, v) * bent - dot(bent, v) * partner

    turned = wedge(u)
    denominator = _denominator(a, b, aa, bb, ss, flat_a, flat_b, k)
    return u + 2 * (wedge(turned) - p * turned) / denominator


@operation
def mobius_scalar_mul(r: Number, x: Row, k: Number) -> Row:
    """Möbius scalar multiplication r ⊗ x = tan_k(r · artan_k(|x|)) x/|x|, that is exp0(r · log0(x)).

    >>> mobius_scalar_mul(torch.tensor(2.0), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.8000, 0.0000])
    """
    xx = dot(x, x)
    stretch = r * artan_ratio(k * xx)
    return stretch * tan_ratio(k * xx * (stretch * stretch)) * x


@geometry
def mobius_matvec(m: Tensor, x: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Möbius matrix–vector multiplication M ⊗ x = exp0(M log0(x)).

    ``m`` is (out, in), or (..., out, in) with batch dimensions that broadcast against those of x. The Jacobian at
    x = 0 is M.

    >>> mobius_matvec(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.0000, 0.5000])
    """
    if m.dim() < 2 or m.shape[-1] != x.shape[dim]:
        raise ValueError(
            f"mobius_matvec: a matrix of shape {tuple(m.shape)} does not act on points of shape {tuple(x.shape)} along "
            f"dim={dim}; expected (..., out, {x.shape[dim]})"
        )
    tangent = logmap0(x, k=k, dim=dim).movedim(dim, -1)
    image = torch.nn.functional.linear(tangent, m) if m.dim() == 2 else (m @ tangent.unsqueeze(-1)).squeeze(-1)
    # Autocast may have multiplied in a lower precision; the geometry goes on in that of the points.
    return expmap0(image.to(tangent.dtype).movedim(-1, dim), k=k, dim=dim)


@geometry
def mobius_pointwise_mul(w: Tensor, x: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Möbius multiplication by a diagonal matrix: diag(w) ⊗ x = exp0(w · log0(x)).

    >>> mobius_pointwise_mul(torch.tensor([2.0, 1.0]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.8000, 0.0000])
    """
    return expmap0(w * logmap0(x, k=k, dim=dim), k=k, dim=dim)


def mobius_fn_apply(
    fn: Callable[..., Tensor], x: Tensor, *args: Any, k: Curvature, dim: int = -1, **kwargs: Any
) -> Tensor:
    """The Möbius version of a function of vectors: exp0(fn(log0(x))).

    >>> mobius_fn_apply(torch.relu, torch.tensor([0.5, -0.5]), k=-1.0)
    tensor([0.5534, 0.0000])
    """
    return expmap0(fn(logmap0(x, k=k, dim=dim), *args, **kwargs), k=k, dim=dim)


# --- exponential, logarithm, geodesics --------------------------------------------------------------------------------


@operation
def expmap0(u: Row, k: Number) -> Row:
    """Exponential map at the origin, tan_k(|u|) u/|u|. Not projected: see :func:`project`.

    >>> expmap0(torch.tensor([0.0, 1.0]), k=-1.0)
    tensor([0.0000, 0.7616])
    """
    return u * tan_ratio(k * dot(u, u))


@operation
def _kept_expmap0(u: Row, limit: Number, rim: Number, k: Number) -> Row:
    squared = -k * dot(u, u)
    outside = squared > limit * limit
    factor = where(outside, rim / sqrt(where(outside, squared, 1.0)), 1.0)
    return factor * tan_ratio(-squared * factor * factor) * u


def kept_expmap0(u: Tensor, *, k: Curvature) -> Tensor:
    """:func:`project` of :func:`expmap0`, in one pass: exp0(u) within the radius that its dtype can tell apart.

    >>> kept_expmap0(torch.tensor([20.0, 0.0]), k=-1.0) < 1
    tensor([True, True])
    """
    floating("kept_expmap0", "u", u)
    margin = boundary_margin(u.dtype)
    point = _kept_expmap0(u, math.atanh(1 - margin), math.atanh(1 - 1.5 * margin), k=k)
    # Rounding to half precision may carry a coordinate across the margin again.
    return point if u.dtype in (torch.float32, torch.float64) else project(point, k=k)


@operation
def logmap0(x: Row, k: Number) -> Row:
    """Logarithm at the origin, artan_k(|x|) x/|x|: the inverse of :func:`expmap0`. Its Jacobian at 0 is I.

    >>> logmap0(torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.5493, 0.0000])
    """
    return x * artan_ratio(k * dot(x, x))


@operation
def expmap(x: Row, u: Row, k: Number) -> Row:
    """Exponential map at x: x ⊕ exp0(λ_x u / 2).

    >>> expmap(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), k=-1.0)
    tensor([0.6174, 0.4029])
    """
    step = sealed(expmap0.formula(sealed(u / _flatness(x, k)), k))
    return mobius_add.formula(x, step, k)


def half_distance_ratio(q: Number, complement: Number, k: Number) -> Number:
    """(d/2)/√q for q = |x-y|²/(ab), with ``complement`` = 1 - kq computed without cancellation.

    On a sphere, sin² and cos² of half the angle are kq and 1 - kq; from an eighth of a turn on the arcsine gives way to
    atan2, which keeps its digits up to the antipode.
    """
    z = k * q
    if hyperbolic(k):
        return arsin_ratio(z)
    wide = z > 0.25
    sine = sqrt(where(wide, z, 0.25))
    cosine = safe_sqrt(where(wide, complement, 1.0))
    return where(wide, atan2(sine, cosine) / sine, arsin_ratio(where(wide, 0.0, z)))


@operation
def logmap(x: Row, y: Row, k: Number) -> Row:
    """Logarithm at x: (2/λ_x) artan_k(|w|) w/|w| with w = -x ⊕ y. At the antipode of x it is not defined.

    >>> logmap(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), k=-1.0)
    tensor([-0.5404,  0.3243])
    """
    numerator, denominator, ss, a, b = _add_parts(-x, y, k, linked=True)
    ab = a * b
    ratio = half_distance_ratio(ss / ab, denominator / ab, k)
    # artan_k(|w|)/|w| = ratio · √q/|w| and |w|² = |x-y|²/denominator.
    return a * ratio / sqrt(ab * denominator) * numerator


def lowered(spatial: Row, height: Number, length2: Number, k: Number, *, pole: float = 0.0) -> Row:
    """V/(T + N): the sum (T, V) of Minkowski or Euclidean length N, scaled to the hyperboloid or sphere, seen
    stereographically. No weight at all is the origin; ``pole`` stands for the opposite pole of a sphere, where the
    means of points that cancel end: there is no such mean, and any point will do."""
    length = safe_sqrt(length2)
    # Below the equator of a sphere T + N cancels; it equals k|V|²/(N - T).
    below = height < 0
    other = k * dot(spatial, spatial) / where(below, length - height, 1.0)
    denominator = where(below, other, height + length)
    nothing = denominator == 0
    return where(nothing & below, pole, 1.0 / where(nothing, 1.0, denominator)) * spatial


@operation
def geodesic(t: Number, x: Row, y: Row, k: Number) -> Row:
    r"""The point at time t on the geodesic from x (t = 0) to y (t = 1): x ⊕ (t ⊗ (-x ⊕ y)).

    Between the ends it is a sum on the hyperboloid or sphere that nothing cancels in, with d the distance:

    .. math:: \gamma(t) = \frac{\alpha\lambda_x x + \beta\lambda_y y}{\alpha(\lambda_x-1) + \beta(\lambda_y-1) + 1},
              \quad \alpha = \frac{\sin_k((1-t)d)}{\sin_k d},\ \beta = \frac{\sin_k(t d)}{\sin_k d}

    Before and beyond them it is the exponential map from the nearer end.

    >>> geodesic(torch.tensor([0.5]), torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), k=-1.0)
    tensor([0.2192, 0.2192])
    """
    between = (t >= 0) & (t <= 1)
    after = t > 1
    near, far = sealed(where(after, y, x)), sealed(where(after, x, y))
    time = where(between, 0.0, where(after, 1 - t, t))
    beyond = expmap.formula(near, time * logmap.formula(near, far, k), k)
    t = where(between, t, 0.5)
    squared, ab, ratio = _separation(x, y, k)
    z = k * (4 * squared / ab * ratio * ratio)
    whole = sin_ratio(z)
    alpha = (1 - t) * sin_ratio((1 - t) * (1 - t) * z) / whole
    beta = t * sin_ratio(t * t * z) / whole
    a, b = _flatness(x, k), _flatness(y, k)
    spatial = 2 * (alpha / a * x + beta / b * y)
    height = alpha * (2 / a - 1) + beta * (2 / b - 1)
    # Points that are near each other, seen from afar, leave the velocity as the small difference of those two terms.
    # There it is half of the sum times α + β and half of the difference times β - α, each without cancellation.
    close = (abs(z) < 1) & (4 * squared <= maximum(dot(x, x), dot(y, y)))
    quarter, s = where(close, z, 0.0) / 4, 2 * t - 1
    even = cos_ratio(s * s * quarter) / cos_ratio(quarter)
    odd = s * sin_ratio(s * s * quarter) / sin_ratio(quarter)
    step = y - x
    excess = k * dot(step, x + y)  # b - a
    spatial = sealed(where(close, even * (x / a + y / b) + odd / ab * (a * step - excess * x), spatial))
    height = where(close, even * (1 / a + 1 / b - 1) - odd * (excess / ab), height)
    length2 = 1.0 + 0 * height
    if not hyperbolic(k):  # near antipodes of a sphere the sum is short, and its length brings it back
        length2 = where(a + b > 2, height * height + k * dot(spatial, spatial), length2)
    # the opposite pole of a sphere is at infinity, and no number stands for it
    return where(between, lowered(spatial, height, length2, k, pole=torch.nan), beyond)


@operation
def geodesic_unit(t: Number, x: Row, u: Row, k: Number) -> Row:
    """The point at distance t from x along the direction of u: x ⊕ tan_k(t/2) u/|u|.

    >>> geodesic_unit(torch.tensor([1.0]), torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0]), k=-1.0)
    tensor([0.7815, 0.0000])
    """
    squared = dot(u, u)
    direction = u / sqrt(where(squared == 0, 1.0, squared))
    half = t / 2
    return mobius_add.formula(x, sealed(half * tan_ratio(k * half * half) * direction), k)


# --- transport --------------------------------------------------------------------------------------------------------


@operation
def parallel_transport(x: Row, y: Row, v: Row, k: Number) -> Row:
    """Parallel transport of v from x to y along their geodesic: (λ_x/λ_y) gyr[y, -x] v.

    >>> parallel_transport(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), torch.tensor([1.0, 0.0]), k=-1.0)
    tensor([ 0.8824, -0.4706])
    """
    # With all of their digits: the derivative of the quotient by k, (|y|² - |x|²)/(1 + k|x|²)², would else be that of
    # two numbers that near the boundary are rounded each in its own way.
    quotient = careful_flatness(y, k) / careful_flatness(x, k)
    return quotient * gyration.formula(y, -x, v, k)


@operation
def parallel_transport0(y: Row, v: Row, k: Number) -> Row:
    """Parallel transport of v from the origin to y: (λ_0/λ_y) v.

    >>> parallel_transport0(torch.tensor([0.5, 0.0]), torch.tensor([1.0, 0.0]), k=-1.0)
    tensor([0.7500, 0.0000])
    """
    return v * _flatness(y, k)


@operation
def parallel_transport0back(x: Row, v: Row, k: Number) -> Row:
    """Parallel transport of v from x to the origin: (λ_x/λ_0) v."""
    return v / _flatness(x, k)


# --- distances --------------------------------------------------------------------------------------------------------


def _separation(x: Row, y: Row, k: Number) -> tuple[Number, Number, Number]:
    """|x-y|², (1+k|x|²)(1+k|y|²) and the ratio of half the distance to √(their quotient)."""
    xx, yy = dot(x, x), dot(y, y)
    squared = dot(x - y, x - y)
    a, b = _at_least(1 + k * xx, k), _at_least(1 + k * yy, k)
    ab = a * b
    complement = _denominator(x, -y, xx, yy, squared, a, b, k) / ab
    return squared, ab, half_distance_ratio(squared / ab, complement, k)


@operation
def dist(x: Row, y: Row, k: Number) -> Number:
    r"""Geodesic distance.

    .. math:: d(x,y) = 2\,\mathrm{arsin}_k\sqrt{\frac{|x-y|^2}{(1+k|x|^2)(1+k|y|^2)}}

    equal to 2 artan_k(|-x ⊕ y|); 2|x-y| at k = 0. At x = y the gradient is 0 and second derivatives are finite.

    >>> dist(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor(1.0986)
    """
    squared, ab, ratio = _separation(x, y, k)
    return 2 * safe_sqrt(squared) / sqrt(ab) * ratio


@operation
def sqdist(x: Row, y: Row, k: Number) -> Number:
    """Squared geodesic distance, smooth at x = y: its Hessian there is 2λ² I.

    >>> sqdist(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), k=-1.0)
    tensor(2.8248)
    """
    squared, ab, ratio = _separation(x, y, k)
    return 4 * squared / ab * ratio * ratio


@operation
def dist0(x: Row, k: Number) -> Number:
    """Distance to the origin, 2 artan_k(|x|).

    >>> dist0(torch.tensor([0.5, 0.0]), k=-1.0)
    tensor(1.0986)
    """
    squared = dot(x, x)
    return 2 * safe_sqrt(squared) * artan_ratio(k * squared)


def _signed_distance(x: Row, p: Row, a: Row, k: Number) -> Number:
    """The distance of :func:`dist2plane`, positive on the side that a points to."""
    numerator, denominator, ss, flat_p, flat_x = _add_parts(-p, x, k)
    # 1 + k|w|² = (1+k|p|²)(1+k|x|²)/denominator for w = -p ⊕ x = numerator/denominator: the denominators cancel.
    squared = dot(a, a)
    length = sqrt(where(squared == 0, 1.0, squared))
    flat = flat_p * flat_x
    # Near the boundary ⟨-p ⊕ x, a⟩ is a small part of ⟨-p, a⟩, on whose last bits the derivative by k rests.
    along = flat_p * dot(x - p, a) + k * ss * careful_dot(p, a)
    if hyperbolic(k):
        sine = 2 * (along / length) / flat
        return sine * arsin_ratio(k * (sine * sine))
    along = where(flat_p > 1, dot(numerator, a), along) / length
    sine = 2 * along / flat
    # A quarter of a sphere away from the plane the sine stands still; the cosine, from what lies across, does not.
    across = sealed(numerator - along / length * a)
    cosine2 = ((denominator - k * ss) / flat) ** 2 + 4 * k * (dot(across, across) / flat / flat)
    return sine * half_distance_ratio(sine * sine, maximum(cosine2, 0.0), k)


def _plane_distance(signed: bool, scaled: bool) -> PublicOperation:
    @operation
    def dist2plane(x: Row, p: Row, a: Row, k: Number) -> Number:
        distance = _signed_distance(x, p, a, k)
        if not signed:
            distance = abs(distance)
        return distance * safe_sqrt(dot(a, a)) if scaled else distance

    return dist2plane


_PLANE_DISTANCES = {choice: _plane_distance(*choice) for choice in itertools.product((False, True), repeat=2)}


def dist2plane(
    x: Tensor,
    p: Tensor,
    a: Tensor,
    *,
    k: Curvature,
    dim: int = -1,
    keepdim: bool = False,
    signed: bool = False,
    scaled: bool = False,
) -> Tensor:
    r"""Distance from x to the hyperplane through p orthogonal to a.

    .. math:: d = \mathrm{arsin}_k\!\left(\frac{2\,\langle -p\oplus x,\,a\rangle}{(1 + k|-p\oplus x|^2)\,|a|}\right)

    ``signed`` keeps the side, ``scaled`` multiplies by |a|. At k = 0 it is 2⟨x-p, a⟩/|a|. A zero normal gives 0.

    >>> dist2plane(torch.tensor([0.5, 0.0]), torch.tensor([0.0, 0.5]), torch.tensor([1.0, 0.0]), k=-1.0)
    tensor(1.0986)
    """
    return _PLANE_DISTANCES[bool(signed), bool(scaled)](x, p, a, k=k, dim=dim, keepdim=keepdim)


@operation
def antipode(x: Row, k: Number) -> Row:
    """The opposite point: -x/(k|x|²) on a sphere (the origin's is at infinity), -x where k ≤ 0."""
    squared = k * dot(x, x)
    return -x / where(squared > 0, squared, 1.0)
