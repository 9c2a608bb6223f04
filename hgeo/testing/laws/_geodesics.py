"""Geodesics and parallel transport: the laws of any Riemannian manifold."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hgeo.testing._space import Space, ratio, stereographic_embedding
from hgeo.testing.laws._law import SKIPPED, law, only
from hgeo.testing.laws._scales import carried_scale, distances, numbers, pairing_scale

__all__: list[str] = []


# ----------------------------------------------------------------------------------------------------------- geodesics


def _radius(space: Space, x: Tensor) -> Tensor:
    """Distance to the origin, in any coordinates."""
    if space.k is not None:
        return space.radius(x)
    return space.way(space.embed([np.zeros(space.dim)] * len(x)), x)


def _has_coordinates(space: Space, t: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Whether the geodesic's point at time t is away from the point at infinity of a projected sphere."""
    k = space.k or 0.0
    if k <= 0:
        return torch.ones(x.shape[0], dtype=torch.bool)
    a, b = (stereographic_embedding(value, k) * math.sqrt(k) for value in (x, y))
    angle = 2 * torch.atan2((a - b).norm(dim=-1, keepdim=True), (a + b).norm(dim=-1, keepdim=True))
    part = t.double().reshape(-1, 1)
    weights = [torch.sin((1 - part) * angle), torch.sin(part * angle)]
    height = (weights[0] * a + weights[1] * b)[:, 0] / torch.sin(angle).squeeze(-1)
    return ~(height < -0.9999)


@law("γ(0) = x and γ(1) = y", needs=["geodesic"], tolerance="chain", group="geodesics")
def geodesic_joins_its_ends(space: Space, x: Tensor, y: Tensor) -> Tensor:
    length = space.way(x, y)
    start, end = (space.manifold.geodesic(torch.full_like(x[..., :1], t), x, y) for t in (0.0, 1.0))
    plus = space.spread(length) + length
    error = torch.maximum(space.point_error(start, x, y, plus=length), space.point_error(end, y, x, plus=plus))
    return only(space.short(length), error)


@law(
    "d(x, γ(t)) = t·d(x, y) and d(γ(t), y) = (1−t)·d(x, y)",
    needs=["geodesic", "dist"],
    tolerance="chain",
    group="geodesics",
)
def geodesic_has_constant_speed(space: Space, t: Tensor, x: Tensor, y: Tensor) -> Tensor:
    between = space.manifold.geodesic(t, x, y)
    distance, part = distances(space, x, y), t.double().squeeze(-1)
    scale = distance + space.rounding(x, y, between) + space.spread(distance)
    first = ratio(distances(space, x, between) - part * distance, scale)
    second = ratio(distances(space, between, y) - (1 - part) * distance, scale)
    return only(space.resolved(distance) & _has_coordinates(space, t, x, y), torch.maximum(first, second))


@law("γ(t) = exp_x(t·log_x(y))", needs=["geodesic", "expmap", "logmap"], tolerance="chain", group="geodesics")
def geodesic_is_the_exponential_of_the_logarithm(space: Space, t: Tensor, x: Tensor, y: Tensor) -> Tensor:
    length = space.way(x, y)
    one = space.manifold.geodesic(t, x, y)
    other = space.manifold.expmap(x, t * space.manifold.logmap(x, y))
    error = space.point_error(one, other, x, y, plus=space.spread(length) + length)
    return only(space.resolved(length) & _has_coordinates(space, t, x, y), error)


@law(
    "γ(0) = x and γ(1) = y to a rounding of their coordinates, however long the way is",
    needs=["geodesic", "curvature"],
    tolerance="identity",
    group="geodesics",
)
def geodesic_loses_neither_end(space: Space, x: Tensor, y: Tensor) -> Tensor:
    start, end = (space.manifold.geodesic(torch.full_like(x[..., :1], t), x, y) for t in (0.0, 1.0))
    error = torch.maximum(space.point_error(start, x, y), space.point_error(end, y, x))
    return only(space.short(space.way(x, y)), error)


@law(
    "before and beyond its ends a geodesic goes on: γ(−t) = exp_x(−t·log_x(y)), γ(1 + t) = exp_y(−t·log_y(x))",
    needs=["geodesic", "expmap", "logmap"],
    tolerance="chain",
    group="geodesics",
)
def geodesic_goes_on_beyond_its_ends(space: Space, t: Tensor, x: Tensor, y: Tensor) -> Tensor:
    length = space.way(x, y)
    worst = torch.full_like(length, SKIPPED)
    for time, near, far in ((-t, x, y), (1 + t, y, x)):
        one = space.manifold.geodesic(time, x, y)
        other = space.manifold.expmap(near, -t * space.manifold.logmap(near, far))
        error = space.point_error(one, other, x, y, plus=space.spread(2 * length) + length)
        expressible = _has_coordinates(space, time, x, y) & space.resolved(2 * length)
        if space.k is not None and space.k < 0:  # a step that leaves the ball's limit ends on it, in its own way
            expressible &= space.within(space.radius(near) + length)
        worst = torch.maximum(worst, only(expressible, error))
    return worst


@law(
    "γ'(0) = log_x(y), with all digits of the logarithm",
    needs=["geodesic", "logmap"],
    tolerance="chain",
    group="geodesics",
)
def geodesic_sets_out_with_the_logarithm(space: Space, x: Tensor, y: Tensor) -> Tensor:
    return _velocity_error(space, 0.0, x, y, x, space.manifold.logmap(x, y))


@law(
    "γ'(1) = −log_y(x), with all digits of the logarithm",
    needs=["geodesic", "logmap", "curvature"],
    tolerance="chain",
    group="geodesics",
)
def geodesic_arrives_with_the_logarithm(space: Space, x: Tensor, y: Tensor) -> Tensor:
    return _velocity_error(space, 1.0, x, y, y, -space.manifold.logmap(y, x))


def _velocity_error(space: Space, t: float, x: Tensor, y: Tensor, at: Tensor, tangent: Tensor) -> Tensor:
    """Deviation of the geodesic's velocity at time t, where it passes ``at``, from a tangent vector there."""
    time = torch.full_like(x[..., :1], t).requires_grad_()
    point = space.manifold.geodesic(time, x, y)
    parts = [torch.autograd.grad(part.sum(), time, retain_graph=True)[0] for part in point.unbind(-1)]
    velocity = torch.cat(parts, dim=-1)
    # as exact as the logarithm itself, which near the boundary is as exact as the room that its end leaves
    scale = torch.maximum(space.vector_rounding(at, tangent), space.length(at, tangent) * space.condition(x, y))
    if space.k is None:
        scale = scale + space.rounding(x, y)  # in ambient numbers a point is rounded off its manifold
    return only(space.short(space.way(x, y)), space.tangent_error(at, velocity, tangent, scale))


@law(
    "after time t the unit-speed geodesic is at distance t, in any coordinates, however long u is",
    needs=["geodesic_unit", "dist"],
    tolerance="chain",
    group="geodesics",
)
def unit_speed_in_any_coordinates(space: Space, t: Tensor, x: Tensor, u: Tensor) -> Tensor:
    time = t * min(1.0, space.reach / 4) * space.domain.unit
    end = space.manifold.geodesic_unit(time, x, u)
    wanted = time.double().squeeze(-1)
    speaks = (space.length(x, u) > 1e-3 * space.domain.unit) & space.within(_radius(space, x) + wanted)
    return only(
        speaks, ratio(distances(space, x, end) - wanted, wanted + space.rounding(x, end) + space.spread(wanted))
    )


@law(
    "the unit-speed geodesic is at distance t after time t, in the direction of u",
    needs=["geodesic_unit", "dist", "expmap", "curvature"],
    tolerance="chain",
    group="geodesics",
)
def unit_geodesic_has_unit_speed(space: Space, t: Tensor, x: Tensor, u: Tensor) -> Tensor:
    # u's length must not matter: it is handed over both as drawn and with a metric length of one.
    unit = space.domain.unit
    time = t * unit * min(1.0, space.reach / 4)
    size = space.length(x, u)
    elapsed = time.double().squeeze(-1)
    end = space.manifold.geodesic_unit(time, x, u)
    length = ratio(distances(space, x, end) - elapsed, elapsed + space.rounding(x, end) + space.spread(elapsed))
    along = (u.double() / size.clamp_min(1e-300).unsqueeze(-1) * time.double()).to(space.dtype)
    expected = space.manifold.expmap(x, along)
    place = space.point_error(end, expected, x, plus=space.spread(elapsed) + elapsed)
    speaks = (size > 1e-12) & space.within(space.radius(x) + elapsed)
    return only(speaks, torch.maximum(length, place))


# ----------------------------------------------------------------------------------------------------------- transport


@law("transport preserves inner products", needs=["transp", "inner"], tolerance="chain", group="transport")
def transport_is_an_isometry(space: Space, x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    moved_u, moved_v = space.manifold.transp(x, y, u), space.manifold.transp(x, y, v)
    before = numbers(space.manifold.inner(x, u, v), x.shape[0])
    after = numbers(space.manifold.inner(y, moved_u, moved_v), x.shape[0])
    scale = pairing_scale(space, x, u, v) + pairing_scale(space, y, moved_u, moved_v)
    return only(space.short(space.way(x, y)), ratio(after - before, scale * space.condition(x, y)))


@law("transport to y and back changes nothing", needs=["transp"], tolerance="chain", group="transport")
def transport_inverts(space: Space, x: Tensor, y: Tensor, u: Tensor) -> Tensor:
    there = space.manifold.transp(x, y, u)
    back = space.manifold.transp(y, x, there)
    scale = space.euclidean(u) * space.condition(x, y)
    if space.k is None:
        scale = scale + carried_scale(space, x, y, u, there)
    return only(space.short(space.way(x, y)), ratio(space.euclidean(back - u), scale))


@law("transport is linear", needs=["transp"], tolerance="chain", group="transport")
def transport_is_linear(space: Space, x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    move = space.manifold.transp
    moved_u, moved_v = move(x, y, u), move(x, y, v)
    left, right = move(x, y, 2 * u - v), 2 * moved_u - moved_v
    scale = carried_scale(space, x, y, u, moved_u) + carried_scale(space, x, y, v, moved_v)
    return only(space.short(space.way(x, y)), ratio(space.euclidean(left - right), scale))


@law(
    "transport of the geodesic's velocity is its velocity: P(log_x y) = −log_y x",
    needs=["transp", "logmap"],
    tolerance="chain",
    group="transport",
)
def transport_carries_velocity(space: Space, x: Tensor, y: Tensor) -> Tensor:
    length = space.way(x, y)
    carried = space.manifold.transp(x, y, space.manifold.logmap(x, y))
    expected = -space.manifold.logmap(y, x)
    scale = length * space.condition(x, y) if space.k is not None else length + space.rounding(x, y)
    return only(space.short(length), space.tangent_error(y, carried, expected, scale))


@law(
    "transp0 is transport from the origin, transp0back its inverse",
    needs=["transp0", "transp0back", "transp"],
    group="transport",
)
def origin_transport_is_transport_from_the_origin(space: Space, x: Tensor, u: Tensor) -> Tensor:
    origin = space.embed([np.zeros(space.dim)] * x.shape[0])
    back = space.manifold.transp0back(x, u)
    scale = carried_scale(space, x, origin, u, back)
    there = ratio(space.euclidean(back - space.manifold.transp(x, origin, u)), scale)
    out = space.manifold.transp0(x, back)
    scale = carried_scale(space, origin, x, back, out)
    return torch.maximum(there, ratio(space.euclidean(out - space.manifold.transp(origin, x, back)), scale))


def _combined_error(
    space: Space, x: Tensor, u: Tensor, v: Tensor, end: Tensor, y: Tensor, carried: Tensor, followed: Tensor
) -> Tensor:
    """How far a step and a transport in one call (y, carried, followed) are from two calls, which end at ``end``."""
    expected = space.manifold.transp(x, end, v)
    scale = carried_scale(space, x, y, v, expected)
    place = space.point_error(y, end, x, plus=space.spread(space.length(x, u)))
    vectors = torch.maximum(
        ratio(space.euclidean(carried - expected), scale), ratio(space.euclidean(followed - expected), scale)
    )
    return torch.maximum(place, vectors)


@law(
    "expmap_transp and transp_follow_expmap do what expmap and transp do",
    needs=["expmap_transp", "transp_follow_expmap", "expmap", "transp"],
    group="transport",
)
def combined_exponential_and_transport_agree(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    y, carried = space.manifold.expmap_transp(x, u, v)
    followed = space.manifold.transp_follow_expmap(x, u, v)
    end = space.manifold.expmap(x, u)
    error = _combined_error(space, x, u, v, end, y, carried, followed)
    return only(space.direct(x, u), error)


@law(
    "retr_transp and transp_follow_retr do what retr and transp do",
    needs=["retr_transp", "transp_follow_retr", "retr", "transp"],
    group="transport",
)
def combined_retraction_and_transport_agree(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    y, carried = space.manifold.retr_transp(x, u, v)
    followed = space.manifold.transp_follow_retr(x, u, v)
    end = space.manifold.retr(x, u)
    error = _combined_error(space, x, u, v, end, y, carried, followed)
    return only(space.short(space.way(x, end)), error)
