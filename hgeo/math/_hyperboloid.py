r"""The hyperboloid of curvature -c, {X : -X₀² + |X'|² = -1/c, X₀ > 0}, in its own d + 1 numbers, time first.

Far out a tangent vector is almost a multiple of its point, and the Minkowski products of the textbook are differences
of huge numbers. So lengths, steps and transport read the spatial parts, which determine points and tangent vectors, and
go through the tangent space at the origin: with h = 1 + √c X₀ a tangent vector U at X is there

.. math:: a = U' - \frac{\sqrt c\,\langle X', U'\rangle}{X_0 h}\,X', \qquad |a| = |U|.

The point of the ball is X'/h, and its 1 - c|x|² is 2/h, with nothing to cancel.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hgeo.kernels import Ambient, Number, Row, careful_sum, dot, maximum, minimum, rounding, sealed, sqrt, where
from hgeo.math._contract import Curvature, PublicOperation, boundary_margin, floating, operation
from hgeo.math._scalars import arsin_ratio, cos_ratio, safe_sqrt, sin_ratio

__all__ = [
    "ball_to_lorentz",
    "lorentz_dist",
    "lorentz_dist0",
    "lorentz_egrad2rgrad",
    "lorentz_expmap",
    "lorentz_expmap0",
    "lorentz_inner",
    "lorentz_logmap",
    "lorentz_logmap0",
    "lorentz_norm",
    "lorentz_project",
    "lorentz_tangent",
    "lorentz_to_ball",
    "lorentz_transport",
    "lorentz_transport0",
    "lorentz_transport0back",
]


def root_of(value: Any) -> Any:
    """√c of a number, a tensor, or a formula's symbol."""
    return value**0.5 if isinstance(value, float | int) else sqrt(value)


def _height(x: Ambient, c: Number) -> Number:
    return 1 + root_of(c) * x.first


def _gap(x: Ambient, y: Ambient, c: Number) -> Row:
    """The way between the points of the ball, X'/h - Y'/g: of sums and differences, so that it is 0 between a point and
    itself, and changes its sign alone when they change places."""
    h, g = _height(x, c), _height(y, c)
    twice = (h + g) * (x.rest - y.rest) + root_of(c) * (y.first - x.first) * (x.rest + y.rest)
    return sealed(twice / (2 * h * g))


def _carried0(x: Ambient, u: Ambient, c: Number) -> Row:
    """A tangent vector at x carried to the origin: d coordinates, as long as u is."""
    turn = root_of(c) * dot(x.rest, u.rest) / (x.first * _height(x, c))
    return careful_sum(u.rest - turn * x.rest)


def _carried(y: Ambient, a: Row, c: Number) -> Ambient:
    """Back from the origin to y."""
    along = dot(y.rest, a)
    return Ambient(root_of(c) * along, a + c * along / _height(y, c) * y.rest)


def _point(spatial: Row, c: Number) -> Ambient:
    return Ambient(sqrt(1 / c + dot(spatial, spatial)), spatial)


def _within(spatial: Row, margin: Number, c: Number) -> Row:
    """At most at the radius that the ball's margin allows, √c|X'| = 2ρ/(1-ρ²) at ρ = 1 - margin; 0 is none."""
    rho = 1 - margin
    scaled = careful_sum(spatial * (root_of(c) * ((1 - rho) * (1 + rho) / (2 * rho))))  # before its square is infinite
    squared = dot(scaled, scaled)
    outside = squared > 1
    return where(outside, spatial * (1 / sqrt(where(outside, squared, 1.0))), spatial)


# --- from the ball and back -------------------------------------------------------------------------------------------


@operation
def ball_to_lorentz(x: Row, c: Number) -> Ambient:
    """Poincaré ball -> hyperboloid of curvature -c, c > 0: X' = λx, X₀ = (λ - 1)/√c.

    >>> import torch
    >>> ball_to_lorentz(torch.zeros(2), c=1.0)
    tensor([1., 0., 0.])
    """
    squared = dot(x, x)
    flatness = 1 - c * squared
    # rounding makes 0 of that of a point some ulps inside the boundary
    lam = 2 / maximum(flatness, rounding(x) / 2)
    return Ambient((1 + c * squared) * lam / (2 * root_of(c)), lam * x)


@operation
def lorentz_to_ball(x: Ambient, c: Number) -> Row:
    """Hyperboloid -> Poincaré ball: X'/(1 + √c X₀)."""
    return x.rest / _height(x, c)


# --- at the origin (1/√c, 0) ------------------------------------------------------------------------------------------


@operation
def lorentz_expmap0(v: Row, c: Number) -> Ambient:
    """Exponential map at the origin, from d tangent coordinates to d + 1 numbers."""
    z = -c * dot(v, v)
    return Ambient(cos_ratio(z) / root_of(c), sin_ratio(z) * v)


@operation
def lorentz_logmap0(x: Ambient, c: Number) -> Row:
    """Inverse of :func:`lorentz_expmap0`. Only the spatial part is read: it determines the point."""
    return x.rest * arsin_ratio(-c * dot(x.rest, x.rest))


@operation
def lorentz_dist0(x: Ambient, c: Number) -> Number:
    """Distance to the origin, arsinh(√c|X'|)/√c."""
    squared = dot(x.rest, x.rest)
    return safe_sqrt(squared) * arsin_ratio(-c * squared)


# --- distance, steps --------------------------------------------------------------------------------------------------


@operation
def lorentz_dist(x: Ambient, y: Ambient, c: Number) -> Number:
    """Distance on the hyperboloid, by the asinh form of the ball: exact for close points, where arcosh is noise."""
    gap = _gap(x, y, c)
    squared, room = dot(gap, gap), _height(x, c) * _height(y, c) / 4
    return 2 * safe_sqrt(squared) * sqrt(room) * arsin_ratio(-c * (squared * room))


def _exponential(tangent: bool) -> PublicOperation:
    @operation
    def lorentz_expmap(x: Ambient, u: Ambient, longest: Number, margin: Number, c: Number) -> Ambient:
        a = _carried0(x, u if tangent else lorentz_tangent.formula(x, u, c), c)
        # No two points are further apart than this, and soon sinh is infinite.
        squared = c * dot(a, a)
        beyond = squared > longest * longest
        a = where(beyond, longest / sqrt(where(beyond, squared, 1.0)), 1.0) * a
        # x ⊕ exp0(a): a sum s of points of the ball is h (s + c|s|² x'/2) on the hyperboloid. A short step is added to
        # x', so that none at all leaves x as it is.
        step, height_x, at = lorentz_expmap0.formula(a, c), _height(x, c), x.rest
        height, moved = _height(step, c), step.rest
        s = careful_sum(at / height_x + moved / height)
        along = dot(moved, moved) / height + dot(at, moved) / height_x
        near = squared < 1
        spatial = where(near, at + moved + c * along * at, height * (s + c * dot(s, s) / 2 * at))
        return _point(_within(sealed(spatial), margin, c), c)

    return lorentz_expmap


_EXPONENTIALS = {tangent: _exponential(tangent) for tangent in (False, True)}


def lorentz_expmap(
    x: Tensor,
    u: Tensor,
    *,
    c: Curvature,
    dim: int = -1,
    margin: float | None = None,
    project: bool = True,
    tangent: bool = True,
) -> Tensor:
    """Exponential map at x, stopped at the radius at which the ball's points are; ``project=False`` only where no two
    points are further apart. If u may not be ``tangent``, it is made so first."""
    margin = _margin("lorentz_expmap", x) if margin is None else margin
    longest = 4 * math.atanh(1 - margin)
    return _EXPONENTIALS[tangent](x, u, longest, margin if project else 0.0, c=c, dim=dim)


@operation
def lorentz_logmap(x: Ambient, y: Ambient, c: Number) -> Ambient:
    """Logarithm at x: the tangent vector, as long as the distance is, of the geodesic to y."""
    distance = lorentz_dist.formula(x, y, c)
    z = -c * distance * distance
    # y - cosh·x = (y - x) - (cosh - 1)·x keeps its digits for close points; cosh - 1 = 2 sinh²(√c d/2).
    excess = -z / 2 * sin_ratio(z / 4) ** 2
    ratio = sin_ratio(z)
    return Ambient(((y.first - x.first) - excess * x.first) / ratio, ((y.rest - x.rest) - excess * x.rest) / ratio)


# --- transport --------------------------------------------------------------------------------------------------------


@operation
def lorentz_transport(x: Ambient, y: Ambient, v: Ambient, c: Number) -> Ambient:
    """Parallel transport of v from x to y along their geodesic.

    The ball's gyration gyr[p, -q] = 1 + 2 (w² - h w)/n between the points p of y and q of x, w = -c p∧(p - q), turns
    the vector at the origin; h and n are sums of positive terms.
    """
    height_x, height_y = _height(x, c), _height(y, c)
    p, s = y.rest / height_y, _gap(y, x, c)
    squared = c * dot(s, s)
    half = 1 / height_x + 1 / height_y + squared / 2
    bent = -c * p

    def wedge(a: Row) -> Row:
        return dot(s, a) * bent - dot(bent, a) * s

    a = _carried0(x, v, c)
    turned = careful_sum(wedge(a))
    a = a + 2 * (wedge(turned) - half * turned) / (4 / (height_x * height_y) + squared)
    return _carried(y, careful_sum(a), c)


@operation
def lorentz_transport0(y: Ambient, v: Ambient, c: Number) -> Ambient:
    """Parallel transport of v from the origin to y."""
    return _carried(y, v.rest, c)


@operation
def lorentz_transport0back(x: Ambient, v: Ambient, c: Number) -> Ambient:
    """Parallel transport of v from x to the origin."""
    return Ambient(0.0, _carried0(x, v, c))


# --- the metric -------------------------------------------------------------------------------------------------------


def _form(x: Ambient, y: Ambient) -> Number:
    return dot(x.rest, y.rest) - x.first * y.first


@operation
def _inner(x: Ambient, u: Ambient, v: Ambient, slack: Number, c: Number) -> Number:
    product = dot(_carried0(x, u, c), _carried0(x, v, c))
    # c⟨x, x⟩ is -1 of a point, whatever rounding adds to it, and not negative of a tangent vector.
    is_point = c * _form(x, x) + 0.5 <= slack * (1 + c * x.first * x.first)
    return where(is_point, product, _form(u, v))


def lorentz_inner(
    x: Tensor, u: Tensor, v: Tensor | None = None, *, c: Curvature, dim: int = -1, keepdim: bool = False
) -> Tensor:
    """⟨u, v⟩ of tangent vectors at x (v = u if it is not given), never negative for u = v.

    Where x is no point of the hyperboloid it is the Minkowski product of u and v, which needs none.
    """
    floating("lorentz_inner", "x", x)
    slack = max(1e-5, 16 * torch.finfo(x.dtype).eps)  # what rounding, and a conversion from float32, leave a point
    return _inner(x, u, u if v is None else v, slack, c=c, dim=dim, keepdim=keepdim)


@operation
def lorentz_norm(x: Ambient, u: Ambient, c: Number) -> Number:
    """Length of a tangent vector at x, with derivatives 0, not infinite, at the zero vector."""
    a = _carried0(x, u, c)
    return safe_sqrt(dot(a, a))


@operation
def lorentz_tangent(x: Ambient, v: Ambient, c: Number) -> Ambient:
    """The tangent vector at x nearest to v: v + c⟨x, v⟩x with the Minkowski product."""
    defect = _form(x, v)
    # What a tangent vector gives by rounding alone is no defect: multiplied by c x₀ it would be larger than v.
    most = dot(x.rest, x.rest).detach() * dot(v.rest, v.rest).detach()
    most = (safe_sqrt(most) + abs((x.first * v.first).detach())) * (8 * rounding(v.rest))
    excess = c * (defect - minimum(maximum(defect.detach(), -most), most))
    return Ambient(v.first + excess * x.first, v.rest + excess * x.rest)


@operation
def lorentz_egrad2rgrad(x: Ambient, grad: Ambient, c: Number) -> Ambient:
    """Riemannian gradient from the Euclidean one: its time turned round, and made tangent."""
    return lorentz_tangent.formula(x, Ambient(-grad.first, grad.rest), c)


@operation
def _project(x: Ambient, margin: Number, c: Number) -> Ambient:
    return _point(_within(x.rest, margin, c), c)


def lorentz_project(x: Tensor, *, c: Curvature, dim: int = -1, margin: float | None = None) -> Tensor:
    """The point with the same spatial part, within the radius at which the ball's points are stopped."""
    return _project(x, _margin("lorentz_project", x) if margin is None else margin, c=c, dim=dim)


def _margin(title: str, x: Tensor) -> float:
    floating(title, "x", x)
    return boundary_margin(x.dtype)
