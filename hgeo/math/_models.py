r"""Isometries between the models of one curved space.

The hyperboloid of curvature -c is {X : -X₀² + |X'|² = -1/c, X₀ > 0}, time first; the sphere of curvature k is
{X : |X|² = 1/k} with its pole on the first axis; Klein's ball is the gnomonic picture of the hyperboloid.
"""

from __future__ import annotations

from torch import Tensor

from hgeo.kernels import Ambient, Number, Row, atan2, dot, maximum, rounding, sqrt, where
from hgeo.math._contract import operation
from hgeo.math._hyperboloid import root_of
from hgeo.math._scalars import arsin_ratio, cos_ratio, safe_sqrt, sin_ratio

__all__ = [
    "ball_to_klein",
    "klein_to_ball",
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
    return maximum(1 - c * dot(x, x), rounding(x) / 2)


@operation
def ball_to_klein(x: Row, c: Number) -> Row:
    """Poincaré ball -> Klein ball: 2x/(1 + c|x|²)."""
    return 2 * x / (1 + c * dot(x, x))


@operation
def klein_to_ball(x: Row, c: Number) -> Row:
    """Klein ball -> Poincaré ball: x/(1 + √(1 - c|x|²))."""
    return x / (1 + sqrt(_flatness(x, c)))


@operation
def stereo_to_sphere(x: Row, k: Number) -> Ambient:
    """Projected sphere -> embedded sphere of radius 1/√k, k > 0: X' = λx, X₀ = (λ - 1)/√k."""
    squared = dot(x, x)
    lam = 2 / (1 + k * squared)
    return Ambient((1 - k * squared) * lam / (2 * root_of(k)), lam * x)


@operation
def sphere_to_stereo(x: Ambient, k: Number) -> Row:
    """Embedded sphere -> projected sphere: X'/(1 + √k X₀). The pole opposite to the origin goes to infinity."""
    pole = root_of(k) * x.first
    # Near the opposite pole 1 + √k X₀ cancels; it equals k|X'|²/(1 - √k X₀) there.
    below = pole < 0
    return x.rest / where(below, k * dot(x.rest, x.rest) / where(below, 1 - pole, 1.0), 1 + pole)


# --- the embedded sphere in its own coordinates -----------------------------------------------------------------------


@operation
def sphere_expmap0(v: Row, k: Number) -> Ambient:
    """Exponential map at the pole (1/√k, 0) of the embedded sphere, from d tangent coordinates to d + 1 numbers."""
    z = k * dot(v, v)
    return Ambient(cos_ratio(z) / root_of(k), sin_ratio(z) * v)


@operation
def sphere_logmap0(x: Ambient, k: Number) -> Row:
    """Inverse of :func:`sphere_expmap0` on the sphere without the opposite pole."""
    z = k * dot(x.rest, x.rest)
    pole = root_of(k) * x.first
    near = (z < 0.25) & (pole > 0)
    sine = sqrt(where(near | (z == 0), 0.25, z))
    return x.rest * where(near, arsin_ratio(where(near, z, 0.0)), atan2(sine, pole) / sine)


@operation
def sphere_dist(x: Row, y: Row, k: Number) -> Number:
    """Distance on the embedded sphere, (2/√k) atan2(|x-y|, |x+y|): exact for close points and near the antipode."""
    chord, cochord = safe_sqrt(dot(x - y, x - y)), safe_sqrt(dot(x + y, x + y))
    # atan2 has no derivative at (0, 0), which no two points of a sphere give; points of a zero sphere do.
    nowhere = (chord == 0) & (cochord == 0)
    return 2 / root_of(k) * atan2(chord, where(nowhere, 1.0, cochord))
