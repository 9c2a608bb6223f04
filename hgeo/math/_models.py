r"""Isometries between the models of one curved space.

The hyperboloid of curvature -c is {X : -X₀² + |X'|² = -1/c, X₀ > 0}, time first; the sphere of curvature k is
{X : |X|² = 1/k} with its pole on the first axis; Klein's ball is the gnomonic picture of the hyperboloid.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.kernels import Number, Row, dot, maximum, rounding, sqrt
from hgeo.math._contract import Curvature, geometry, operation, same_dimension
from hgeo.math._scalars import arsin_ratio, cos_ratio, safe_sqrt, sin_ratio

__all__ = [
    "ball_to_klein",
    "ball_to_lorentz",
    "klein_to_ball",
    "lorentz_dist",
    "lorentz_expmap0",
    "lorentz_logmap0",
    "lorentz_to_ball",
    "sphere_dist",
    "sphere_expmap0",
    "sphere_logmap0",
    "sphere_to_stereo",
    "stereo_to_sphere",
]


def time_part(x: Tensor) -> Tensor:
    """The first number of each point. Not by slicing, which fake CUDA tensors do not survive without CUDA."""
    return x.narrow(-1, 0, 1)


def space_part(x: Tensor) -> Tensor:
    """All numbers of each point but the first."""
    return x.narrow(-1, 1, x.shape[-1] - 1)


def _flatness(x: Row, c: Number) -> Number:
    """1 - c|x|² with a floor of eps/2: rounding makes 0 of that of a point some ulps inside the boundary."""
    flatness = 1 - c * dot(x, x)
    return maximum(flatness, rounding(flatness) / 2)


def _root(value: Curvature) -> Curvature:
    return value**0.5 if isinstance(value, float | int) else sqrt(value)


def _squared(x: Tensor) -> Tensor:
    return dot(x, x)


@geometry
def ball_to_lorentz(x: Tensor, *, c: Curvature) -> Tensor:
    """Poincaré ball -> hyperboloid of curvature -c, c > 0: X' = λx, X₀ = (λ - 1)/√c.

    >>> ball_to_lorentz(torch.zeros(2), c=1.0)
    tensor([1., 0., 0.])
    """
    squared = _squared(x)
    lam = 2 / _flatness(x, c)
    time = (1 + c * squared) * lam / (2 * _root(c))
    return torch.cat([time, lam * x], dim=-1)


@geometry
def lorentz_to_ball(x: Tensor, *, c: Curvature) -> Tensor:
    """Hyperboloid -> Poincaré ball: X'/(1 + √c X₀)."""
    return space_part(x) / (1 + _root(c) * time_part(x))


@operation
def ball_to_klein(x: Row, c: Number) -> Row:
    """Poincaré ball -> Klein ball: 2x/(1 + c|x|²)."""
    return 2 * x / (1 + c * dot(x, x))


@operation
def klein_to_ball(x: Row, c: Number) -> Row:
    """Klein ball -> Poincaré ball: x/(1 + √(1 - c|x|²))."""
    return x / (1 + sqrt(_flatness(x, c)))


@geometry
def stereo_to_sphere(x: Tensor, *, k: Curvature) -> Tensor:
    """Projected sphere -> embedded sphere of radius 1/√k, k > 0: X' = λx, X₀ = (λ - 1)/√k."""
    squared = _squared(x)
    lam = 2 / (1 + k * squared)
    pole = (1 - k * squared) * lam / (2 * _root(k))
    return torch.cat([pole, lam * x], dim=-1)


@geometry
def sphere_to_stereo(x: Tensor, *, k: Curvature) -> Tensor:
    """Embedded sphere -> projected sphere: X'/(1 + √k X₀). The pole opposite to the origin goes to infinity."""
    pole, rest = _root(k) * time_part(x), space_part(x)
    # Near the opposite pole 1 + √k X₀ cancels; it equals k|X'|²/(1 - √k X₀) there.
    below = pole < 0
    height = torch.where(below, k * _squared(rest) / torch.where(below, 1 - pole, 1.0), 1 + pole)
    return rest / height


# --- the hyperboloid and the embedded sphere in their own coordinates -------------------------------------------------


@geometry
def lorentz_expmap0(v: Tensor, *, c: Curvature) -> Tensor:
    """Exponential map at (1/√c, 0) of the hyperboloid, from d tangent coordinates to d + 1 numbers."""
    z = -c * _squared(v)
    return torch.cat([cos_ratio(z) / _root(c), sin_ratio(z) * v], dim=-1)


@geometry
def lorentz_logmap0(x: Tensor, *, c: Curvature) -> Tensor:
    """Inverse of :func:`lorentz_expmap0`. Only the spatial part is read: it determines the point."""
    spatial = space_part(x)
    return spatial * arsin_ratio(-c * _squared(spatial))


@geometry
def lorentz_dist(x: Tensor, y: Tensor, *, c: Curvature, keepdim: bool = False) -> Tensor:
    """Distance on the hyperboloid, by the asinh form of the ball: exact for close points, where arcosh is noise.

    The ball point p = X'/(1 + √c X₀) has 1 - c|p|² = 2/(1 + √c X₀) with nothing to cancel.
    """
    same_dimension("lorentz_dist", -1, x=x, y=y)
    root = _root(c)
    height_x, height_y = 1 + root * time_part(x), 1 + root * time_part(y)
    squared = _squared(space_part(x) / height_x - space_part(y) / height_y)
    quotient = squared * height_x * height_y / 4
    half = safe_sqrt(squared) * torch.sqrt(height_x * height_y) / 2 * arsin_ratio(-c * quotient)
    return 2 * half if keepdim else (2 * half).squeeze(-1)


@geometry
def sphere_expmap0(v: Tensor, *, k: Curvature) -> Tensor:
    """Exponential map at the pole (1/√k, 0) of the embedded sphere, from d tangent coordinates to d + 1 numbers."""
    z = k * _squared(v)
    return torch.cat([cos_ratio(z) / _root(k), sin_ratio(z) * v], dim=-1)


@geometry
def sphere_logmap0(x: Tensor, *, k: Curvature) -> Tensor:
    """Inverse of :func:`sphere_expmap0` on the sphere without the opposite pole."""
    spatial = space_part(x)
    z = k * _squared(spatial)
    pole = _root(k) * time_part(x)
    near = (z < 0.25) & (pole > 0)
    sine = torch.sqrt(torch.where(near | (z == 0), 0.25, z))
    return spatial * torch.where(near, arsin_ratio(torch.where(near, z, 0.0)), torch.atan2(sine, pole) / sine)


@geometry
def sphere_dist(x: Tensor, y: Tensor, *, k: Curvature, keepdim: bool = False) -> Tensor:
    """Distance on the embedded sphere, (2/√k) atan2(|x-y|, |x+y|): exact for close points and near the antipode."""
    same_dimension("sphere_dist", -1, x=x, y=y)
    chord, cochord = safe_sqrt(_squared(x - y)), safe_sqrt(_squared(x + y))
    # atan2 has no derivative at (0, 0), which no two points of a sphere give; points of a zero sphere do.
    nowhere = (chord == 0) & (cochord == 0)
    distance = 2 / _root(k) * torch.atan2(chord, torch.where(nowhere, 1.0, cochord))
    return distance if keepdim else distance.squeeze(-1)
