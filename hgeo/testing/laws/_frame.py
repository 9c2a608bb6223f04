"""The origin frame: exp0 and log0 of any manifold, seen through hgeo.manifolds."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgeo.testing._space import Space, ratio
from hgeo.testing.laws._law import SKIPPED, law, only

__all__: list[str] = []


def _scaled(space: Space, p: Tensor) -> tuple[Tensor, Tensor]:
    """Coordinates whose metric length stays within reach, and that length."""
    from hgeo import manifolds

    scale = manifolds.frame_scale(space.manifold)
    limit = (space.reach - 0.1) * space.domain.unit / scale
    size = p.double().norm(dim=-1, keepdim=True)
    short = (p.double() * (limit / size.clamp_min(limit))).to(space.dtype)
    return short, scale * short.double().norm(dim=-1)


def _rounding(space: Space, points: Tensor) -> Tensor | float:
    """What rounding the points costs in a space of which nothing is known: short coordinates drown in their numbers."""
    return space.rounding(points) if space.stranger else 0.0


def _direct(space: Space, p: Tensor) -> Tensor:
    """Whether the geodesic with coordinates p is the shortest way from the origin to its end."""
    from hgeo import manifolds

    if not space.stranger:
        return torch.ones(len(p), dtype=torch.bool)
    wide = p.double()
    end = manifolds.exp0(space.wide, wide).detach()
    other = manifolds.log0(space.wide, end).detach()
    arrives = space.euclidean(manifolds.exp0(space.wide, other).detach() - end) <= 1e-6 * (1 + space.euclidean(end))
    size, wanted = other.norm(dim=-1), wide.norm(dim=-1)
    return ~(arrives & (size < (1 - 1e-12) * wanted) & ((other - wide).norm(dim=-1) > 0.05 * wanted))


def _growth(space: Space, length: Tensor) -> Tensor:
    """What rounding at the far end costs: cosh of the way on negatively curved spaces, 1 elsewhere."""
    if space.sectional >= 0:
        return torch.ones_like(length)
    return torch.cosh((length * math.sqrt(-space.sectional)).clamp_max(300.0))


@law("log0(exp0(v)) = v in the origin frame", needs=["frame"], tolerance="identity", group="frame")
def frame_coordinates_invert(space: Space, p: Tensor) -> Tensor:
    from hgeo import manifolds

    short, length = _scaled(space, p)
    points = manifolds.exp0(space.manifold, short)
    back = manifolds.log0(space.manifold, points)
    scale = short.double().norm(dim=-1) * _growth(space, length) + _rounding(space, points)
    return only(_direct(space, short), ratio((back.double() - short.double()).norm(dim=-1), scale))


@law(
    "the point with coordinates v is at distance frame_scale·|v| from the origin",
    needs=["frame"],
    tolerance="identity",
    group="frame",
)
def frame_coordinates_have_their_length(space: Space, p: Tensor) -> Tensor:
    from hgeo import manifolds

    short, length = _scaled(space, p)
    origin = manifolds.exp0(space.manifold, torch.zeros_like(short))
    points = manifolds.exp0(space.manifold, short)
    distance = manifolds.dist(space.manifold, origin, points).double()
    scale = length * _growth(space, length) + _rounding(space, points) + _rounding(space, origin)
    return only(_direct(space, short), ratio(distance - length, scale))


@law(
    "triangles at the origin obey the law of cosines of the curvature",
    needs=["frame"],
    tolerance="chain",
    group="frame",
)
def frame_obeys_the_law_of_cosines(space: Space, p: Tensor, w: Tensor) -> Tensor:
    from hgeo import manifolds

    k = space.constant
    if k is None:
        return torch.full((p.shape[0],), SKIPPED, dtype=torch.float64)
    (a, length_a), (b, length_b) = _scaled(space, p), _scaled(space, w)
    direction = [v.double() / v.double().norm(dim=-1, keepdim=True).clamp_min(1e-300) for v in (a, b)]
    half_angle_squared = (direction[0] - direction[1]).square().sum(-1) / 4
    root = math.sqrt(abs(k))

    def sine(length: Tensor) -> Tensor:
        return (torch.sin(root * length) if k > 0 else torch.sinh(root * length)) / root if k else length

    # haversine form: sin²(d/2) = sin²((a−b)/2) + sin a · sin b · sin²(γ/2), which does not cancel
    square = sine((length_a - length_b) / 2) ** 2 + sine(length_a) * sine(length_b) * half_angle_squared
    chord = square.clamp_min(0.0).sqrt()
    if k:
        inverse = torch.asin((root * chord).clamp_max(1.0)) if k > 0 else torch.asinh(root * chord)
        expected = 2 * inverse / root
    else:
        expected = 2 * chord
    points = [manifolds.exp0(space.manifold, v) for v in (a, b)]
    distance = manifolds.dist(space.manifold, *points).double()
    growth = torch.maximum(_growth(space, length_a), _growth(space, length_b))
    scale = expected + (length_a + length_b + (1 / root if k < 0 else 0.0) * (growth - 1)) + 1e-300
    scale = scale + _rounding(space, points[0]) + _rounding(space, points[1])
    seen = ~(growth * space.eps > 1e-3)
    wide = expected * root > 0.9 * math.pi if k > 0 else torch.zeros_like(seen)
    return only(seen & ~wide, ratio(distance - expected, scale))


@law(
    "exp0 makes points of the manifold with as many numbers as ambient_dim says",
    needs=["frame", "check_point_on_manifold"],
    tolerance="exact",
    group="frame",
    limit=32,
)
def frame_points_are_points(space: Space, p: Tensor) -> Tensor:
    from hgeo import manifolds

    short, _ = _scaled(space, p)
    points = manifolds.exp0(space.manifold, short)
    size = points.shape[-1] == manifolds.ambient_dim(space.manifold, space.dim)
    verdicts = [0.0 if size and space.manifold.check_point_on_manifold(row) else 1.0 for row in points]
    return torch.tensor(verdicts, dtype=torch.float64)


@law(
    "hgeo.dist is a metric on frame points: symmetric, zero only at home, and obeys the triangle inequality",
    needs=["frame"],
    tolerance="chain",
    group="frame",
)
def frame_distance_is_a_metric(space: Space, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    from hgeo import manifolds

    def dist(a: Tensor, b: Tensor) -> Tensor:
        return manifolds.dist(space.manifold, a, b).double()

    xy, yx, yz, xz = dist(x, y), dist(y, x), dist(y, z), dist(x, z)
    scale = xz + xy + space.rounding(x, y, z)
    symmetric = ratio(xy - yx, xy * space.condition(x, y))
    triangle = ratio((xz - xy - yz).clamp_min(0.0), scale)
    return torch.stack([symmetric, triangle, dist(x, x).abs()]).amax(0)
