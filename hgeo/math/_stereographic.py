r"""Gyrovector operations on the stereographic model of curvature k, in forms that do not cancel.

The model is {x : 1 + k|x|² > 0} with metric λ² |dx|², λ = 2/(1 + k|x|²): the Poincaré ball for k < 0, Euclidean space
with the metric 4|dx|² for k = 0, the projected sphere for k > 0. Points are last-dimension vectors (``dim`` moves
that), ``k`` a number or a tensor that broadcasts against them.

Two identities carry the accuracy. With s = x + y, a = 1 + k|x|², b = 1 + k|y|²

    x ⊕ y = (a s - k|s|² x) / (a b - k|s|²),      |x ⊕ y|² = |s|² / (a b - k|s|²),

nothing cancels when y ≈ -x near the boundary, where the printed formula loses half of its digits. And with
q = |x-y|²/(ab) the half distance is arsin_k(√q) = √q · arsin_ratio(k q), which needs neither tanh⁻¹ nor 1 - |x ⊕ y|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from hgeo.math._contract import Curvature, boundary_margin, geometry, same_dimension
from hgeo.math._scalars import (
    arsin_ratio,
    artan_ratio,
    careful_dot,
    careful_flatness,
    cos_ratio,
    safe_sqrt,
    sin_ratio,
    tan_ratio,
)

__all__ = [
    "antipode",
    "arsin_k",
    "artan_k",
    "centroid",
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
    "segment_midpoint",
    "sin_k",
    "sqdist",
    "tan_k",
    "weighted_midpoint",
]


def _dot(x: Tensor, y: Tensor, dim: int) -> Tensor:
    return (x * y).sum(dim=dim, keepdim=True)


def _reduced(value: Tensor, dim: int, keepdim: bool) -> Tensor:
    return value if keepdim else value.squeeze(dim)


def _flatness(x: Tensor, k: Curvature, dim: int) -> Tensor:
    """1 + k|x|², that is 2/λ."""
    return _at_least(1 + k * _dot(x, x, dim), k)


def _at_least(flatness: Tensor, k: Curvature) -> Tensor:
    """1 + k|x|² with a floor of eps/2: rounding makes 0 or less of that of a point some ulps inside the boundary."""
    if not isinstance(k, Tensor) and k >= 0:
        return flatness
    return flatness.clamp(min=torch.finfo(flatness.dtype).eps / 2)


# --- curved trigonometry of a radius ----------------------------------------------------------------------------------


@geometry
def tan_k(x: Tensor, *, k: Curvature) -> Tensor:
    """tan(√k x)/√k, tanh(√-k x)/√-k, or x at k = 0."""
    return x * tan_ratio(k * x * x)


@geometry
def artan_k(x: Tensor, *, k: Curvature) -> Tensor:
    """Inverse of :func:`tan_k`: atan(√k x)/√k, atanh(√-k x)/√-k, or x at k = 0."""
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


@geometry
def lambda_x(x: Tensor, *, k: Curvature, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Conformal factor λ_x = 2/(1 + k|x|²).

    >>> lambda_x(torch.tensor([0.0, 0.5]), k=-1.0)
    tensor(2.6667)
    """
    return _reduced(2 / _flatness(x, k, dim), dim, keepdim)


@geometry
def inner(
    x: Tensor, u: Tensor, v: Tensor | None = None, *, k: Curvature, dim: int = -1, keepdim: bool = False
) -> Tensor:
    """Riemannian inner product λ_x² ⟨u, v⟩ of tangent vectors at x (v = u if it is not given)."""
    v = u if v is None else v
    same_dimension("inner", dim, x=x, u=u, v=v)
    return _reduced((2 / _flatness(x, k, dim)) ** 2 * _dot(u, v, dim), dim, keepdim)


@geometry
def norm(x: Tensor, u: Tensor, *, k: Curvature, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Riemannian length λ_x |u| of a tangent vector at x."""
    same_dimension("norm", dim, x=x, u=u)
    return _reduced(2 / _flatness(x, k, dim) * safe_sqrt(_dot(u, u, dim)), dim, keepdim)


@geometry
def egrad2rgrad(x: Tensor, grad: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Riemannian gradient λ_x⁻² ∇f from the Euclidean one."""
    same_dimension("egrad2rgrad", dim, x=x, grad=grad)
    return grad * (_flatness(x, k, dim) / 2) ** 2


@geometry
def project(x: Tensor, *, k: Curvature, dim: int = -1, margin: float | None = None) -> Tensor:
    """Bring points that left the ball, or came nearer to its boundary than the margin, back inside. Identity for k ≥ 0.

    Points beyond √c|x| = 1 - 4·eps are put at 1 - 6·eps, so that projecting twice changes nothing. ``margin`` is 4·eps
    of the points' dtype unless it is given.
    """
    margin = boundary_margin(x.dtype) if margin is None else margin
    squared = -k * _dot(x, x, dim)
    outside = squared > (1 - margin) ** 2
    factor = (1 - 1.5 * margin) * torch.rsqrt(torch.where(outside, squared, 1.0))
    return torch.where(outside, x * factor, x)


# --- gyrovector operations --------------------------------------------------------------------------------------------


def _hyperbolic(k: Curvature) -> bool:
    """Whether k ≤ 0 is known without looking into a tensor: what only spheres need is then left out."""
    return not isinstance(k, Tensor) and k <= 0


def _far_apart(xx: Tensor, yy: Tensor, ss: Tensor) -> Tensor:
    """Whether y is well away from -x: there, sums written with x and y lose nothing and x + y brings no gain."""
    return 4 * ss > torch.maximum(xx, yy)


def _add_parts(
    x: Tensor, y: Tensor, k: Curvature, dim: int, linked: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Numerator and denominator of x ⊕ y, |x + y|², 1 + k|x|² and 1 + k|y|².

    Near the boundary the last two are rounded in their last bits, each in its own way. Where their quotient is wanted,
    and its derivative by k, ``linked`` takes the second from the first when y ≈ -x: 1 + k|x|² + k⟨y - x, y + x⟩.
    """
    s = x + y
    xx, yy, ss = _dot(x, x, dim), _dot(y, y, dim), _dot(s, s, dim)
    a, b = _at_least(1 + k * xx, k), _at_least(1 + k * yy, k)
    if linked:
        b = torch.where(_far_apart(xx, yy, ss), b, _at_least(a + k * _dot(s, y - x, dim), k))
    numerator = a * s - k * ss * x
    if not _hyperbolic(k):
        # Far out on a sphere it is a s that cancels, and the printed form that does not.
        printed = (1 - 2 * k * _dot(x, y, dim) - k * yy) * x + a * y
        numerator = torch.where((a > 1) & _far_apart(xx, yy, ss), printed, numerator)
    return numerator, _denominator(x, y, xx, yy, ss, a, b, k, dim), ss, a, b


def _denominator(
    x: Tensor, y: Tensor, xx: Tensor, yy: Tensor, ss: Tensor, a: Tensor, b: Tensor, k: Curvature, dim: int
) -> Tensor:
    """1 - 2k⟨x,y⟩ + k²|x|²|y|² without cancellation.

    For k ≤ 0 it is ab + |k||x+y|², a sum of positive terms. For k > 0 it can vanish (the sum is then the point at
    infinity), and is | x/|x| - k|x| y |², taken from the larger of the two points so that x/|x| is safe.
    """
    hyperbolic = a * b - k * ss
    if _hyperbolic(k):
        return hyperbolic
    swap = yy > xx
    far, near, far2 = torch.where(swap, y, x), torch.where(swap, x, y), torch.where(swap, yy, xx)
    use = k * far2 > 0.25
    length = torch.sqrt(torch.where(use, far2, 1.0))
    gap = far / length - k * length * near
    return torch.where(use, _dot(gap, gap, dim), hyperbolic)


@geometry
def mobius_add(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    r"""Möbius addition.

    .. math:: x \oplus y = \frac{(1 - 2k\langle x,y\rangle - k|y|^2)\,x + (1 + k|x|^2)\,y}
                               {1 - 2k\langle x,y\rangle + k^2|x|^2|y|^2}

    >>> mobius_add(torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.8000, 0.0000])
    """
    same_dimension("mobius_add", dim, x=x, y=y)
    numerator, denominator, *_ = _add_parts(x, y, k, dim)
    return numerator / denominator


@geometry
def mobius_sub(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Möbius subtraction x ⊕ (-y)."""
    return mobius_add(x, -y, k=k, dim=dim)


@geometry
def mobius_coadd(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    r"""Möbius coaddition, the commutative one: x ⊞ y = x ⊕ gyr[x, -y] y.

    .. math:: x \boxplus y = \frac{(1 + k|y|^2)\,x + (1 + k|x|^2)\,y}{1 - k^2|x|^2|y|^2}
    """
    same_dimension("mobius_coadd", dim, x=x, y=y)
    s = x + y
    a, b = _flatness(x, k, dim), _flatness(y, k, dim)
    # b x + a y = a s + (b - a) x, and b - a = k⟨s, y - x⟩ loses nothing when y ≈ -x. There y - x = s - 2x, and where s
    # lies across x its products with x cancel: what rounding leaves of them is multiplied by x.
    xx, yy, ss = _dot(x, x, dim), _dot(y, y, dim), _dot(s, s, dim)
    apart = _far_apart(xx, yy, ss)
    excess = k * torch.where(apart, _dot(s, y - x, dim), ss - 2 * careful_dot(s, x, dim))
    numerator = a * s + excess * x
    # Near the boundary a and b are rounded each in its own way; only their quotient has a small derivative by k.
    b = torch.where((b < 2 * a) & (a < 2 * b), a + excess, b)
    if _hyperbolic(k):
        return numerator / (a + b - a * b)
    spherical = a + b > 2
    numerator = torch.where(spherical & apart, b * x + a * y, numerator)
    return numerator / torch.where(spherical, 1 - (k * xx) * (k * yy), a + b - a * b)


@geometry
def mobius_cosub(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Möbius cosubtraction x ⊞ (-y)."""
    return mobius_coadd(x, -y, k=k, dim=dim)


@geometry
def gyration(a: Tensor, b: Tensor, u: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    r"""Gyration gyr[a, b] u = ⊖(a ⊕ b) ⊕ (a ⊕ (b ⊕ u)), a rotation of u in the plane of a and b.

    With the wedge (a∧b)u = ⟨b,u⟩ a - ⟨a,u⟩ b and p = 1 - k⟨a,b⟩:

    .. math:: \mathrm{gyr}[a,b]\,u = u + 2k\,\frac{k\,(a\wedge b)^2 u - p\,(a\wedge b)\,u}
                                               {1 - 2k\langle a,b\rangle + k^2|a|^2|b|^2}
    """
    same_dimension("gyration", dim, a=a, b=b, u=u)
    s = a + b
    aa, bb, ss = _dot(a, a, dim), _dot(b, b, dim), _dot(s, s, dim)
    flat_a, flat_b = _at_least(1 + k * aa, k), _at_least(1 + k * bb, k)
    # p of a ball is a sum of positive terms in this form; a∧b = a∧(a+b), and the shorter partner cancels less.
    p = (flat_a + flat_b - k * ss) / 2
    if not _hyperbolic(k):
        p = torch.where(flat_a + flat_b > 2, 1 - k * _dot(a, b, dim), p)
    partner = torch.where(ss < bb, s, b)
    bent = k * a  # k goes in here: on a nearly flat sphere the wedge of far points alone leaves the range of float32

    def wedge(v: Tensor) -> Tensor:
        return _dot(partner, v, dim) * bent - _dot(bent, v, dim) * partner

    turned = wedge(u)
    denominator = _denominator(a, b, aa, bb, ss, flat_a, flat_b, k, dim)
    return u + 2 * (wedge(turned) - p * turned) / denominator


@geometry
def mobius_scalar_mul(r: Tensor, x: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Möbius scalar multiplication r ⊗ x = tan_k(r · artan_k(|x|)) x/|x|, that is exp0(r · log0(x)).

    >>> mobius_scalar_mul(torch.tensor(2.0), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor([0.8000, 0.0000])
    """
    return expmap0(r * logmap0(x, k=k, dim=dim), k=k, dim=dim)


@geometry
def mobius_matvec(m: Tensor, x: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Möbius matrix–vector multiplication M ⊗ x = exp0(M log0(x)).

    ``m`` is (out, in), or (..., out, in) with batch dimensions that broadcast against those of x. The Jacobian at
    x = 0 is M.
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
    """Möbius multiplication by a diagonal matrix: diag(w) ⊗ x = exp0(w · log0(x))."""
    return expmap0(w * logmap0(x, k=k, dim=dim), k=k, dim=dim)


def mobius_fn_apply(
    fn: Callable[..., Tensor], x: Tensor, *args: Any, k: Curvature, dim: int = -1, **kwargs: Any
) -> Tensor:
    """The Möbius version of a function of vectors: exp0(fn(log0(x)))."""
    return expmap0(fn(logmap0(x, k=k, dim=dim), *args, **kwargs), k=k, dim=dim)


# --- exponential, logarithm, geodesics --------------------------------------------------------------------------------


@geometry
def expmap0(u: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Exponential map at the origin, tan_k(|u|) u/|u|. Not projected: see :func:`project`.

    >>> expmap0(torch.tensor([0.0, 1.0]), k=-1.0)
    tensor([0.0000, 0.7616])
    """
    return u * tan_ratio(k * _dot(u, u, dim))


@geometry
def logmap0(x: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Logarithm at the origin, artan_k(|x|) x/|x|: the inverse of :func:`expmap0`. Its Jacobian at 0 is I."""
    return x * artan_ratio(k * _dot(x, x, dim))


@geometry
def expmap(x: Tensor, u: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Exponential map at x: x ⊕ exp0(λ_x u / 2)."""
    same_dimension("expmap", dim, x=x, u=u)
    return mobius_add(x, expmap0(u / _flatness(x, k, dim), k=k, dim=dim), k=k, dim=dim)


def _half_distance_ratio(q: Tensor, complement: Tensor, k: Curvature) -> Tensor:
    """(d/2)/√q for q = |x-y|²/(ab), with ``complement`` = 1 - kq computed without cancellation.

    On a sphere, sin² and cos² of half the angle are kq and 1 - kq; from an eighth of a turn on the arcsine gives way to
    atan2, which keeps its digits up to the antipode.
    """
    z = k * q
    if _hyperbolic(k):
        return arsin_ratio(z)
    wide = z > 0.25
    sine = torch.sqrt(torch.where(wide, z, 0.25))
    return torch.where(wide, torch.atan2(sine, safe_sqrt(complement)) / sine, arsin_ratio(torch.where(wide, 0.0, z)))


@geometry
def logmap(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Logarithm at x: (2/λ_x) artan_k(|w|) w/|w| with w = -x ⊕ y. At the antipode of x it is not defined."""
    same_dimension("logmap", dim, x=x, y=y)
    numerator, denominator, ss, a, b = _add_parts(-x, y, k, dim, linked=True)
    ab = a * b
    ratio = _half_distance_ratio(ss / ab, denominator / ab, k)
    # artan_k(|w|)/|w| = ratio · √q/|w| and |w|² = |x-y|²/denominator.
    return a * ratio * numerator * torch.rsqrt(ab * denominator)


@geometry
def geodesic(t: Tensor, x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    r"""The point at time t on the geodesic from x (t = 0) to y (t = 1): x ⊕ (t ⊗ (-x ⊕ y)).

    Between the ends it is a sum on the hyperboloid or sphere that nothing cancels in, with d the distance:

    .. math:: \gamma(t) = \frac{\alpha\lambda_x x + \beta\lambda_y y}{\alpha(\lambda_x-1) + \beta(\lambda_y-1) + 1},
              \quad \alpha = \frac{\sin_k((1-t)d)}{\sin_k d},\ \beta = \frac{\sin_k(t d)}{\sin_k d}

    Before and beyond them it is the exponential map from the nearer end.
    """
    same_dimension("geodesic", dim, x=x, y=y)
    between = (t >= 0) & (t <= 1)
    after = t > 1
    near, far = torch.where(after, y, x), torch.where(after, x, y)
    time = torch.where(between, 0.0, torch.where(after, 1 - t, t))
    beyond = expmap(near, time * logmap(near, far, k=k, dim=dim), k=k, dim=dim)
    t = torch.where(between, t, 0.5)
    squared, ab, ratio = _separation(x, y, k, dim)
    z = k * (4 * squared / ab * ratio * ratio)
    whole = sin_ratio(z)
    alpha = (1 - t) * sin_ratio((1 - t) * (1 - t) * z) / whole
    beta = t * sin_ratio(t * t * z) / whole
    a, b = _flatness(x, k, dim), _flatness(y, k, dim)
    spatial = 2 * (alpha / a * x + beta / b * y)
    height = alpha * (2 / a - 1) + beta * (2 / b - 1)
    # Points that are near each other, seen from afar, leave the velocity as the small difference of those two terms.
    # There it is half of the sum times α + β and half of the difference times β - α, each without cancellation.
    close = (z.abs() < 1) & (4 * squared <= torch.maximum(_dot(x, x, dim), _dot(y, y, dim)))
    quarter, s = torch.where(close, z, 0.0) / 4, 2 * t - 1
    even = cos_ratio(s * s * quarter) / cos_ratio(quarter)
    odd = s * sin_ratio(s * s * quarter) / sin_ratio(quarter)
    step = y - x
    excess = k * _dot(step, x + y, dim)  # b - a
    spatial = torch.where(close, even * (x / a + y / b) + odd * ((a * step - excess * x) / ab), spatial)
    height = torch.where(close, even * (1 / a + 1 / b - 1) - odd * (excess / ab), height)
    length2 = torch.ones_like(height)
    if not _hyperbolic(k):  # near antipodes of a sphere the sum is short, and its length brings it back
        length2 = torch.where(a + b > 2, height * height + k * _dot(spatial, spatial, dim), length2)
    # the opposite pole of a sphere is at infinity, and no number stands for it
    return torch.where(between, _lowered(spatial, height, length2, k, dim, pole=torch.nan), beyond)


@geometry
def geodesic_unit(t: Tensor, x: Tensor, u: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """The point at distance t from x along the direction of u: x ⊕ tan_k(t/2) u/|u|."""
    same_dimension("geodesic_unit", dim, x=x, u=u)
    squared = _dot(u, u, dim)
    direction = u * torch.rsqrt(torch.where(squared == 0, 1.0, squared))
    half = t / 2
    return mobius_add(x, half * tan_ratio(k * half * half) * direction, k=k, dim=dim)


# --- transport --------------------------------------------------------------------------------------------------------


@geometry
def parallel_transport(x: Tensor, y: Tensor, v: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Parallel transport of v from x to y along their geodesic: (λ_x/λ_y) gyr[y, -x] v."""
    same_dimension("parallel_transport", dim, x=x, y=y, v=v)
    # With all of their digits: the derivative of the quotient by k, (|y|² - |x|²)/(1 + k|x|²)², would else be that of
    # two numbers that near the boundary are rounded each in its own way.
    quotient = careful_flatness(y, k, dim) / careful_flatness(x, k, dim)
    return gyration(y, -x, v, k=k, dim=dim) * quotient


@geometry
def parallel_transport0(y: Tensor, v: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Parallel transport of v from the origin to y: (λ_0/λ_y) v."""
    same_dimension("parallel_transport0", dim, y=y, v=v)
    return v * _flatness(y, k, dim)


@geometry
def parallel_transport0back(x: Tensor, v: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Parallel transport of v from x to the origin: (λ_x/λ_0) v."""
    same_dimension("parallel_transport0back", dim, x=x, v=v)
    return v / _flatness(x, k, dim)


# --- distances --------------------------------------------------------------------------------------------------------


def _separation(x: Tensor, y: Tensor, k: Curvature, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """|x-y|², (1+k|x|²)(1+k|y|²) and the ratio of half the distance to √(their quotient)."""
    xx, yy = _dot(x, x, dim), _dot(y, y, dim)
    difference = x - y
    squared = _dot(difference, difference, dim)
    a, b = _at_least(1 + k * xx, k), _at_least(1 + k * yy, k)
    ab = a * b
    complement = _denominator(x, -y, xx, yy, squared, a, b, k, dim) / ab
    return squared, ab, _half_distance_ratio(squared / ab, complement, k)


@geometry
def dist(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1, keepdim: bool = False) -> Tensor:
    r"""Geodesic distance.

    .. math:: d(x,y) = 2\,\mathrm{arsin}_k\sqrt{\frac{|x-y|^2}{(1+k|x|^2)(1+k|y|^2)}}

    equal to 2 artan_k(|-x ⊕ y|); 2|x-y| at k = 0. At x = y the gradient is 0 and second derivatives are finite.

    >>> dist(torch.tensor([0.0, 0.0]), torch.tensor([0.5, 0.0]), k=-1.0)
    tensor(1.0986)
    """
    same_dimension("dist", dim, x=x, y=y)
    squared, ab, ratio = _separation(x, y, k, dim)
    return _reduced(2 * safe_sqrt(squared) * torch.rsqrt(ab) * ratio, dim, keepdim)


@geometry
def sqdist(x: Tensor, y: Tensor, *, k: Curvature, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Squared geodesic distance, smooth at x = y: its Hessian there is 2λ² I."""
    same_dimension("sqdist", dim, x=x, y=y)
    squared, ab, ratio = _separation(x, y, k, dim)
    return _reduced(4 * squared / ab * ratio * ratio, dim, keepdim)


@geometry
def dist0(x: Tensor, *, k: Curvature, dim: int = -1, keepdim: bool = False) -> Tensor:
    """Distance to the origin, 2 artan_k(|x|)."""
    squared = _dot(x, x, dim)
    return _reduced(2 * safe_sqrt(squared) * artan_ratio(k * squared), dim, keepdim)


@geometry
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
    """
    same_dimension("dist2plane", dim, x=x, p=p, a=a)
    numerator, denominator, ss, flat_p, flat_x = _add_parts(-p, x, k, dim)
    # 1 + k|w|² = (1+k|p|²)(1+k|x|²)/denominator for w = -p ⊕ x = numerator/denominator: the denominators cancel.
    squared = _dot(a, a, dim)
    length = torch.sqrt(torch.where(squared == 0, 1.0, squared))
    flat = flat_p * flat_x
    # Near the boundary ⟨-p ⊕ x, a⟩ is a small part of ⟨-p, a⟩, on whose last bits the derivative by k rests.
    along = flat_p * _dot(x - p, a, dim) + k * ss * careful_dot(p, a, dim)
    if not _hyperbolic(k):
        along = torch.where(flat_p > 1, _dot(numerator, a, dim), along)
    along = along / length
    sine = 2 * along / flat
    # A quarter of a sphere away from the plane the sine stands still; the cosine, from what lies across, does not.
    across = numerator - along * a / length
    cosine2 = ((denominator - k * ss) ** 2 + 4 * k * _dot(across, across, dim)) / (flat * flat)
    distance = sine * _half_distance_ratio(sine * sine, cosine2.clamp(min=0.0), k)
    if not signed:
        distance = distance.abs()
    if scaled:
        distance = distance * safe_sqrt(squared)
    return _reduced(distance, dim, keepdim)


@geometry
def antipode(x: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """The opposite point: -x/(k|x|²) on a sphere (the origin's is at infinity), -x where k ≤ 0."""
    squared = k * _dot(x, x, dim)
    return -x / torch.where(squared > 0, squared, 1.0)


# --- midpoints --------------------------------------------------------------------------------------------------------


def _lowered(spatial: Tensor, height: Tensor, length2: Tensor, k: Curvature, dim: int, *, pole: float = 0.0) -> Tensor:
    """V/(T + N): the sum (T, V) of Minkowski or Euclidean length N, scaled to the hyperboloid or sphere, seen
    stereographically. No weight at all is the origin; ``pole`` stands for the opposite pole of a sphere, where the
    means of points that cancel end: there is no such mean, and any point will do."""
    length = safe_sqrt(length2)
    # Below the equator of a sphere T + N cancels; it equals k|V|²/(N - T).
    below = height < 0
    other = k * _dot(spatial, spatial, dim) / torch.where(below, length - height, 1.0)
    denominator = torch.where(below, other, height + length)
    nothing = denominator == 0
    return torch.where(nothing & below, pole, spatial / torch.where(nothing, 1.0, denominator))


@geometry
def centroid(spatial: Tensor, height: Tensor, weight: Tensor, *, k: Curvature, dim: int = -1) -> Tensor:
    """Midpoint from sums that anything may have made: V = Σ w λ x, T = Σ w (λ - 1) and W = Σ w, w ≥ 0.

    ``height`` and ``weight`` have size 1 along ``dim``; sums of 0 give the origin. Near the boundary of a ball
    T² - c|V|² cancels; W² is a lower bound of it. :func:`weighted_midpoint` and :func:`segment_midpoint`, which see the
    points, lose nothing there.
    """
    length2 = height * height + k * _dot(spatial, spatial, dim)
    floor = torch.where(height > 0, torch.minimum(weight, height), 0.0) ** 2
    return _lowered(spatial, height, torch.maximum(length2, floor), k, dim)


def _midpoint(
    x: Tensor,
    w: Tensor,
    k: Curvature,
    dim: int,
    total: Callable[[Tensor], Tensor],
    spread: Callable[[Tensor], Tensor],
) -> Tensor:
    """Midpoints of groups: ``total`` adds up over a group, ``spread`` hands a group's value back to its members."""
    # Weights of points near the boundary are as good as 1 + k|x|² is there; their derivatives by k cancel in the sums.
    flat = careful_flatness(x, k, dim)
    lam = 2 / flat
    spatial, height = total(w * lam * x), total(w * (lam - 1))
    squared = _dot(spatial, spatial, dim)
    length2 = height * height + k * squared
    # Near the boundary of a ball T² and c|V|² are huge and almost equal. There N² = (T - √c|V|)(T + √c|V|), and with
    # e = V/|V| the small factor is Σ w |√c x - e|²/(1 - c|x|²), a sum of positive terms.
    steep = 2 * length2 < height * height
    root = torch.sqrt(torch.where(steep, -k * torch.ones_like(squared), 1.0))
    extent = torch.sqrt(torch.where(steep, squared, 1.0))
    gap = spread(root) * x - spread(spatial / extent)
    small = total(w * _dot(gap, gap, dim) / flat)
    return _lowered(spatial, height, torch.where(steep, small * (height + root * extent), length2), k, dim)


@geometry
def weighted_midpoint(
    xs: Tensor,
    weights: Tensor | None = None,
    *,
    k: Curvature,
    reducedim: Sequence[int] | int | None = None,
    dim: int = -1,
    keepdim: bool = False,
    lincomb: bool = False,
) -> Tensor:
    r"""Gyromidpoint of points with weights w ≥ 0, over ``reducedim`` (default: all but ``dim``).

    .. math:: m = \frac12 \otimes \frac{\sum_i w_i \lambda_i x_i}{\sum_i w_i (\lambda_i - 1)}

    computed as the normalised weighted sum on the hyperboloid or sphere, so that it is right on both sides of a
    sphere's equator. At k = 0 it is the weighted mean; no weight at all gives the origin. ``weights`` has the shape of
    ``xs`` without ``dim``. ``lincomb`` multiplies the result by Σw (Möbius scalar multiplication).
    """
    dim = dim % xs.dim()
    w = torch.ones_like(xs.select(dim, 0).unsqueeze(dim)) if weights is None else weights.unsqueeze(dim)
    if reducedim is None:
        axes = [axis for axis in range(xs.dim()) if axis != dim]
    else:
        axes = [axis % xs.dim() for axis in ([reducedim] if isinstance(reducedim, int) else reducedim)]

    def total(value: Tensor) -> Tensor:
        value = value.expand(torch.broadcast_shapes(value.shape, (*xs.shape[:dim], 1, *xs.shape[dim + 1 :])))
        return value.sum(axes, keepdim=True) if axes else value

    middle = _midpoint(xs, w, k, dim, total, lambda value: value)
    if lincomb:
        middle = mobius_scalar_mul(total(w), middle, k=k, dim=dim)
    return middle if keepdim or not axes else middle.squeeze(axes)


@geometry
def segment_midpoint(x: Tensor, weights: Tensor, index: Tensor, num_segments: int, *, k: Curvature) -> Tensor:
    """Gyromidpoints of segments: row i of ``x`` (E, ..., d) with weight ``weights[i]`` (E, ...) belongs to segment
    ``index[i]``. An empty segment gives the origin.
    """

    def total(value: Tensor) -> Tensor:
        value = value.expand(*x.shape[:-1], value.shape[-1])
        return value.new_zeros((num_segments, *value.shape[1:])).index_add(0, index, value)

    return _midpoint(x, weights.unsqueeze(-1), k, -1, total, lambda value: value.index_select(0, index))
