"""What a manifold promises beside its formulas: options, the points it makes, more dimensions, what it stores."""

from __future__ import annotations

import copy
import inspect
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hgeo._geoopt import geoopt
from hgeo.testing import oracle
from hgeo.testing._space import Space, ratio, stereographic_embedding
from hgeo.testing.laws._law import SKIPPED, everywhere, law, only

__all__: list[str] = []


def _deviation_and_size(computed: Tensor, exact: list[Any]) -> tuple[Tensor, Tensor]:
    """How far each computed vector is from the right one, and how long that is."""
    deviations = [float(oracle.difference(a, b)) for a, b in zip(computed, exact, strict=True)]
    sizes = [float(oracle.length(b)) for b in exact]
    return torch.tensor(deviations, dtype=torch.float64), torch.tensor(sizes, dtype=torch.float64)


def _takes(manifold: Any, operation: str, word: str) -> bool:
    try:
        return word in inspect.signature(getattr(manifold, operation)).parameters
    except (AttributeError, ValueError):
        return False


def _kin(space: Space) -> list[Any]:
    """The space itself, and its kin of a quarter of the curvature: what is right at 1 alone is wrong there."""
    other = space.stretched()
    return [space.manifold] if other is None else [space.manifold, other]


# --------------------------------------------------------------------------------------------------------------- points


@law(
    "the origin is a point, of this space and of its kin of a quarter of the curvature",
    needs=["origin", "check_point_on_manifold"],
    tolerance="exact",
    group="projection",
    limit=1,
)
def origin_is_a_point(space: Space, x: Tensor) -> Tensor:
    points = [(m, m.origin(*space.shape, dtype=space.dtype)) for m in _kin(space)]
    return everywhere(x, 0.0 if all(m.check_point_on_manifold(point) for m, point in points) else 1.0)


@law(
    "random points are points",
    needs=["random", "check_point_on_manifold"],
    tolerance="exact",
    group="projection",
    limit=1,
)
def random_points_are_points(space: Space, x: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = space.manifold.random(16, *space.shape, dtype=space.dtype)
    rows = torch.as_tensor(drawn).as_subclass(Tensor)
    return everywhere(x, 0.0 if all(space.manifold.check_point_on_manifold(row) for row in rows) else 1.0)


@law(
    "what a projection moves far does not pass the manifold's own check",
    needs=["projx", "check_point_on_manifold"],
    tolerance="exact",
    group="projection",
    limit=32,
)
def what_is_no_point_is_told(space: Space, e: Tensor) -> Tensor:
    size, there = space.euclidean(e), space.manifold.projx(e)
    way = space.euclidean(there - e)
    moved = (size > 0) & (way > 0.1 * size) & (way > 1e-3)  # less is within what geoopt's checks allow
    told = [not bool(space.manifold.check_point_on_manifold(row)) for row in e]
    # two names of the same point, as angles have them
    same = [not seen and _is_same(space, row, image) for seen, row, image in zip(told, e, there, strict=True)]
    return only(moved & ~torch.tensor(same), torch.where(torch.tensor(told), 0.0, 1.0))


def _is_same(space: Space, x: Tensor, y: Tensor) -> bool:
    return space.stranger and space.has("dist") and float(space.manifold.dist(x, y).detach().max()) < 1e-6


@law(
    "projx(e) is e inside the limit, and the point of its ray at the limit outside",
    needs=["projx", "curvature"],
    tolerance="oracle",
    group="oracle",
)
def oracle_projx(space: Space, e: Tensor) -> Tensor:
    k = space.k or 0.0
    margin = 1 - space.domain.limit if k < 0 else 0.0
    projected = space.manifold.projx(e)
    exact = [oracle.project(row, k=k, margin=margin) for row in e]
    return ratio(*_deviation_and_size(projected, exact))


# -------------------------------------------------------------------------------------------------------------- options


@law(
    "with keepdim a number an example keeps the last dimension, and is the same number",
    needs=["dist"],
    tolerance="identity",
    group="interface",
)
def numbers_keep_their_dimension(space: Space, x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    if len(space.shape) > 1:
        return everywhere(x, SKIPPED)
    arguments = {"dist": (x, y), "dist2": (x, y), "dist0": (x,), "inner": (x, u, v), "norm": (x, u)}
    worst = everywhere(x, 0.0)
    for name, values in arguments.items():
        if not (space.has(name) and _takes(space.manifold, name, "keepdim")):
            continue
        plain, kept = (getattr(space.manifold, name)(*values, keepdim=keep) for keep in (False, True))
        if plain.shape != x.shape[:1] or kept.shape != (x.shape[0], 1):
            return everywhere(x, math.inf)
        # sums that cancel may do so in another order
        scale = plain.abs() + (space.vector_rounding(x, u) * space.vector_rounding(x, v) if name == "inner" else 0.0)
        worst = torch.maximum(worst, ratio(kept.squeeze(-1) - plain, scale))
    return worst


@law(
    "project=False leaves a result beyond the limit where it is, and one inside alone",
    needs=["expmap0", "negative curvature", "module"],
    tolerance="last bits",
    group="projection",
)
def projection_can_be_left_out(space: Space, g: Tensor, p: Tensor) -> Tensor:
    if not _takes(space.manifold, "expmap0", "project"):
        return everywhere(g, SKIPPED)
    root = math.sqrt(-(space.k or 0.0))
    far = space.manifold.expmap0(g * (40.0 / root), project=False)
    beyond = torch.where(space.euclidean(far) * root > space.domain.limit * (1 + space.eps), 0.0, 1.0)
    free, kept = (space.manifold.expmap0(p, project=project) for project in (False, True))
    inside = space.euclidean(free) * root < 0.99 * space.domain.limit
    same = ratio(space.euclidean(free - kept), space.euclidean(free))
    return torch.maximum(only(space.euclidean(g) > 0.5, beyond), only(inside, same))


@law(
    "posweight gives a negative weight to the antipode",
    needs=["weighted_midpoint", "antipode", "curvature", "module"],
    tolerance="chain",
    group="midpoint",
)
def negative_weights_belong_to_antipodes(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    if not _takes(space.manifold, "weighted_midpoint", "posweight"):
        return everywhere(ws, SKIPPED)
    middle, k = space.manifold.weighted_midpoint, space.k or 0.0
    signs = torch.ones_like(ws)
    signs[:, 0] = -1.0
    mirrored = xs.clone()
    mirrored[:, 0] = space.manifold.antipode(xs[:, 0])
    one = middle(xs, signs * ws, reducedim=[1], posweight=True)
    other = middle(mirrored, ws, reducedim=[1])
    near = xs.double().norm(dim=-1).amin(1) * math.sqrt(max(k, 0.0)) > 1e-2 if k > 0 else ws[:, 0] > 0
    corners = [mirrored[:, j] for j in range(xs.shape[1])]
    return only(near, space.point_error(one, other, *corners))


@law(
    "functions compose: f then g is g ∘ f, and what is handed on reaches the function",
    needs=["mobius_fn_apply", "curvature"],
    tolerance="chain",
    group="matrix",
)
def functions_compose(space: Space, x: Tensor) -> Tensor:
    def shrink(value: Tensor) -> Tensor:
        return value.flip(-1) / 2

    def bend(value: Tensor, by: float = 1.0) -> Tensor:
        return by * value / (1 + value.norm(dim=-1, keepdim=True) / space.domain.unit)

    apply = space.manifold.mobius_fn_apply
    steps, whole = apply(bend, apply(shrink, x)), apply(lambda value: bend(shrink(value)), x)
    handed, told = apply(bend, x, 0.25), apply(lambda value: bend(value, 0.25), x)
    error = torch.maximum(space.point_error(steps, whole, x), space.point_error(handed, told, x))
    return only(space.short(space.radius(x)), error)


@law(
    "what a function is told by keyword reaches it",
    needs=["mobius_fn_apply", "mobius_scalar_mul", "curvature"],
    tolerance="chain",
    group="matrix",
)
def functions_hear_their_keywords(space: Space, x: Tensor) -> Tensor:
    def scale(value: Tensor, by: float = 1.0) -> Tensor:
        return by * value

    told = space.manifold.mobius_fn_apply(scale, x, by=0.25)
    expected = space.manifold.mobius_scalar_mul(torch.full_like(x[..., :1], 0.25), x)
    return only(space.short(space.radius(x)), space.point_error(told, expected, x))


@law(
    "a chain of functions is applied from the first to the last",
    needs=["mobius_fn_apply_chain", "mobius_fn_apply", "curvature"],
    tolerance="chain",
    group="matrix",
)
def chains_are_applied_in_order(space: Space, x: Tensor) -> Tensor:
    def shrink(value: Tensor) -> Tensor:
        return value / 2

    def cut(value: Tensor) -> Tensor:
        return value.clamp(-0.2 * space.domain.unit, 0.2 * space.domain.unit)

    chained = space.manifold.mobius_fn_apply_chain(x, shrink, cut)
    expected = space.manifold.mobius_fn_apply(lambda value: cut(shrink(value)), x)
    return only(space.short(space.radius(x)), space.point_error(chained, expected, x))


@law(
    "dist2plane with its sign and scaled by |a| is right",
    needs=["dist2plane", "curvature"],
    tolerance="oracle",
    group="oracle",
    factor=4.0,
    limit=200,
)
def oracle_dist2plane_with_options(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    k = space.k or 0.0
    normal = 3 * g
    value = space.manifold.dist2plane(x, y, normal, signed=True, scaled=True)
    rows = zip(x, y, normal, strict=True)
    exact = torch.tensor(
        [float(oracle.dist2plane(a, b, c, k=k, signed=True, scaled=True)) for a, b, c in rows], dtype=torch.float64
    )
    scale = (space.gap(x, y) + space.rounding(x, y) * (k > 0)) * space.euclidean(normal) * space.condition(x, y)
    return only(space.short(space.gap(x, y)), ratio(value.double() - exact, scale))


@law(
    "a linear combination is Σw times the midpoint: right to sixty digits",
    needs=["weighted_midpoint", "negative curvature"],
    tolerance="oracle",
    group="oracle",
    factor=8.0,
    limit=200,
)
def oracle_linear_combination(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    k = space.k or 0.0
    # well inside, so that the multiple stays there
    size = xs.double().norm(dim=-1, keepdim=True) / space.domain.unit
    inner = (xs.double() * (0.5 / size.clamp_min(0.5))).to(space.dtype)
    combined = space.manifold.weighted_midpoint(inner, ws, reducedim=[1], lincomb=True)
    exact = [oracle.weighted_midpoint(a, w, k=k, lincomb=True) for a, w in zip(inner, ws, strict=True)]
    deviation, reach = _deviation_and_size(combined, exact)
    room = (1 + k * reach**2).clamp_min(space.eps)
    scale = torch.maximum(reach, inner.double().norm(dim=-1).amax(1)) * ws.double().sum(1).clamp_min(1.0) / room
    return only(room > 1e-3, ratio(deviation, scale))


@law(
    "midpoints of segments do not depend on the order of the rows",
    needs=["segment_midpoint", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def segments_have_no_order(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    count, size = xs.shape[:2]
    flat, weights = xs.reshape(count * size, -1), ws.reshape(-1)
    rows = torch.arange(count).repeat_interleave(size)
    order = torch.arange(count * size).reshape(count, size).T.reshape(-1)  # the segments take turns
    one = space.manifold.segment_midpoint(flat, weights, rows, count)
    other = space.manifold.segment_midpoint(flat[order], weights[order], rows[order], count)
    corners = [xs[:, j] for j in range(size)]
    finite = torch.isfinite(one).all(-1) & torch.isfinite(other).all(-1)
    if (space.k or 0.0) > 0:  # four points all around a sphere have no middle
        finite &= xs.double().norm(dim=-1).amax(1) * math.sqrt(space.k or 0.0) < 1
    return only(finite, space.point_error(one, other, *corners))


@law(
    "the centroid of the sums of one point is the point, however near to the boundary",
    needs=["centroid", "lambda_x", "curvature"],
    tolerance="oracle",
    group="midpoint",
)
def centroid_of_one_point(space: Space, x: Tensor, ws: Tensor) -> Tensor:
    return _centroid_error(space, x, ws[:, :1])


@law(
    "the centroid of the sums of a point with itself is the point, however near to the boundary",
    needs=["centroid", "lambda_x", "curvature"],
    tolerance="oracle",
    group="midpoint",
)
def centroid_of_a_point_with_itself(space: Space, x: Tensor, ws: Tensor) -> Tensor:
    return _centroid_error(space, x, ws)


def _centroid_error(space: Space, x: Tensor, ws: Tensor) -> Tensor:
    """How far the centroid of x, counted once for each weight, is from x."""
    factor = space.manifold.lambda_x(x, keepdim=True)
    parts = [[part * value for part in ws.split(1, dim=-1)] for value in (factor * x, factor - 1)]
    spatial, height = (sum(part[1:], part[0]) for part in parts)
    middle = space.manifold.centroid(spatial, height, ws.sum(-1, keepdim=True))
    # beyond the equator of a sphere T + N cancels once more
    inside = space.euclidean(x) * math.sqrt(max(space.k or 0.0, 0.0)) <= 1
    return only(inside, ratio(space.euclidean(middle - x), space.euclidean(x) * space.condition(x)))


# --------------------------------------------------------------------------------------------------------------- models


@law(
    "the embedding called sproj inverts, and lies on the hyperboloid or sphere, its special axis last",
    needs=["sproj", "inv_sproj", "curvature", "module"],
    tolerance="chain",
    group="models",
)
def embedding_of_the_family_inverts(space: Space, x: Tensor) -> Tensor:
    if not space.k:
        return everywhere(x, SKIPPED)
    worst = everywhere(x, 0.0)
    for manifold, size, k in zip(_kin(space), (1.0, 2.0), (space.k, space.k / 4), strict=False):
        point = size * x
        image = manifold.inv_sproj(point)
        expected = stereographic_embedding(point, k).roll(-1, dims=-1)
        scale = expected.norm(dim=-1) * space.condition(x)
        place = ratio((image.double() - expected).norm(dim=-1), scale)
        back = ratio(space.euclidean(manifold.sproj(image) - point), space.euclidean(point) * space.condition(x))
        # near the opposite pole of a sphere the axis is all that is left of a point
        near = space.euclidean(x) * math.sqrt(max(space.k, 0.0)) <= 1
        worst = torch.maximum(worst, torch.maximum(place, only(near, back)))
    return worst


def _models_agree(space: Space, p: Tensor, names: tuple[str, str, str, str], kin: list[tuple[Any, float]]) -> Tensor:
    exp0, log0, distance, down = names
    worst = everywhere(p, 0.0)
    for functions, size in kin:
        v = size * p
        length = 2 * space.euclidean(v)
        above, pole = getattr(functions, exp0)(2 * v), getattr(functions, exp0)(torch.zeros_like(v))
        gap = ratio(getattr(functions, distance)(pole, above).double() - length, length)
        back = ratio(space.euclidean(getattr(functions, log0)(above) - 2 * v), length)
        below = getattr(functions, down)(above)
        seen = functions.expmap0(v)
        place = ratio(space.euclidean(below - seen), space.euclidean(seen))
        worst = torch.stack([worst, gap, back, place]).amax(0)
    return worst


@law(
    "from the pole of the hyperboloid the distance is the length of the coordinates, and the ball sees the same point",
    needs=["lorentz_expmap0", "lorentz_logmap0", "lorentz_dist", "lorentz_to_ball", "expmap0", "negative curvature"],
    tolerance="chain",
    group="models",
)
def hyperboloid_is_seen_from_its_pole(space: Space, p: Tensor) -> Tensor:
    names = ("lorentz_expmap0", "lorentz_logmap0", "lorentz_dist", "lorentz_to_ball")
    short = ~(2 * space.euclidean(p) / space.domain.unit > 3)
    return only(
        short, _models_agree(space, p, names, [(space.manifold, 1.0), (space.sibling(4 * (space.k or 0)), 0.5)])
    )


@law(
    "from the pole of the sphere the distance is the length of the coordinates, and its projection is the same point",
    needs=["sphere_expmap0", "sphere_logmap0", "sphere_dist", "sphere_to_stereo", "expmap0", "positive curvature"],
    tolerance="chain",
    group="models",
)
def sphere_is_seen_from_its_pole(space: Space, p: Tensor) -> Tensor:
    names = ("sphere_expmap0", "sphere_logmap0", "sphere_dist", "sphere_to_stereo")
    short = ~(2 * space.euclidean(p) / space.domain.unit > 2.5)
    return only(
        short, _models_agree(space, p, names, [(space.manifold, 1.0), (space.sibling(4 * (space.k or 0)), 0.5)])
    )


@law(
    "exp0 is exp at the origin and log0 is log at the origin, in other coordinates than the stereographic ones",
    needs=["expmap0", "logmap0", "expmap", "logmap", "chart", "frame"],
    tolerance="chain",
    group="maps",
)
def origin_maps_in_other_coordinates(space: Space, x: Tensor, g: Tensor) -> Tensor:
    origin = space.embed([np.zeros(space.dim)] * x.shape[0])
    u = space.tangents(origin, list(g.double().numpy()))
    there, expected = space.manifold.expmap0(u), space.manifold.expmap(origin, u)
    forward = ratio(space.euclidean(there - expected), space.euclidean(expected))
    back, vector = space.manifold.logmap0(x), space.manifold.logmap(origin, x)
    backward = ratio(space.euclidean(back - vector), space.euclidean(vector) + space.rounding(x))
    return torch.maximum(forward, only(space.short(space.way(origin, x)), backward))


@law(
    "on a hyperboloid coordinates of length √c|v| = 14 (float32) or 32 (float64) survive exp0 → log0 within 2 %",
    needs=["frame", "chart"],
    tolerance="two percent",
    group="frame",
)
def long_coordinates_survive(space: Space, g: Tensor) -> Tensor:
    from hgeo import manifolds

    if not isinstance(space.manifold, geoopt.Lorentz):
        return everywhere(g, SKIPPED)
    size = (14.0 if space.dtype == torch.float32 else 32.0) / math.sqrt(-space.sectional)
    v = g[:, 1:] / g[:, 1:].norm(dim=-1, keepdim=True).clamp_min(1e-30) * size
    back = manifolds.log0(space.manifold, manifolds.exp0(space.manifold, v))
    return only(g[:, 1:].norm(dim=-1) > 0, ratio((back - v).double().norm(dim=-1), v.double().norm(dim=-1)))


@law(
    "on a hyperboloid a long step across the origin ends where it should, and one beyond the limit of the dtype on it",
    needs=["expmap", "transp0", "dist0", "projx", "chart", "frame"],
    tolerance="two percent",
    group="maps",
)
def long_steps_survive(space: Space, g: Tensor) -> Tensor:
    from hgeo import manifolds

    if not isinstance(space.manifold, geoopt.Lorentz):
        return everywhere(g, SKIPPED)
    root, spatial = math.sqrt(-space.sectional), g[:, 1:]
    axis = spatial / spatial.norm(dim=-1, keepdim=True).clamp_min(1e-30)
    # twice as far out the rounding of the step would decide where it ends
    half = (4.5 if space.dtype == torch.float32 else 14.0) / root
    start = manifolds.exp0(space.manifold, -half * axis)
    step = space.manifold.transp0(start, torch.cat([torch.zeros_like(axis[:, :1]), axis], dim=-1) * (2 * half))
    end = manifolds.log0(space.manifold, space.manifold.expmap(start, step))
    across = (end - half * axis).double().norm(dim=-1) / half
    # and what leads beyond the limit of the dtype ends there, as the projection and exp0 do
    far = manifolds.exp0(space.manifold, 100 * half * axis)
    beyond = space.manifold.projx(torch.cat([g[:, :1], 1e18 * axis], dim=-1))
    ends = [far, space.manifold.expmap(start, 100 * step), beyond]
    radii = [space.manifold.dist0(end).double() for end in ends]
    limit = torch.stack([ratio(radius - radii[0], radii[0]) for radius in radii]).amax(0)
    finite = torch.isfinite(torch.stack(radii)).all(0)
    return only(spatial.norm(dim=-1) > 0, torch.where(finite, torch.maximum(across, limit), math.inf))


@law(
    "in other than stereographic coordinates gradients by points, vectors and curvature are those of differences",
    needs=["expmap", "logmap", "transp", "projx", "egrad2rgrad", "inner", "chart", "stored curvature"],
    tolerance="limit",
    group="smooth",
    limit=8,
)
def derivatives_in_other_coordinates(space: Space, x: Tensor, y: Tensor, u: Tensor, g: Tensor) -> Tensor:
    manifold = copy.deepcopy(space.manifold).double().requires_grad_()
    ((name, stored),) = manifold.named_parameters()
    x, y, u, g = (value.detach().double() for value in (x, y, u, g))
    operations = {
        "expmap": (x, u),
        "logmap": (x, y),
        "transp": (x, y, u),
        "projx": (x,),
        "egrad2rgrad": (x, g),
        "inner": (x, u),
    }
    seen = space.way(x, y) > 1e-2 * space.domain.unit
    seen &= (space.length(x, u) > 1e-2 * space.domain.unit) & (_numbers(space, x, y, u) < 1e2 * space.domain.unit)
    worst = everywhere(x, 0.0)
    for operation, values in operations.items():

        def value(number: Tensor, *given: Tensor, operation: str = operation) -> Tensor:
            return torch.func.functional_call(_Asked(manifold, operation), {f"manifold.{name}": number}, given)

        inputs = (stored.detach(), *values)
        for i, entry in enumerate(inputs):
            way = torch.ones_like(entry) if i == 0 else g
            size = entry.abs() if i == 0 else entry.norm(dim=-1, keepdim=True).clamp_min(1e-3 * space.domain.unit)

            def along(step: Tensor, i: int = i, way: Tensor = way, inputs: tuple[Tensor, ...] = inputs) -> Tensor:
                moved = [e + step * way if j == i else e for j, e in enumerate(inputs)]
                return value(*moved).reshape(len(x), -1)

            step = 1e-5 * size
            zero = torch.zeros_like(size)
            slope = torch.func.jvp(along, (zero,), (torch.ones_like(size),))[1]
            expected = ((along(step) - along(-step)).detach() / (2 * step)).reshape(len(x), -1)
            at = along(zero).detach().norm(dim=-1) / size.reshape(-1)
            natural = expected.norm(dim=-1) + 1e-2 * at + 1e-6  # what vanishes does so by cancellation
            error = ratio((slope.detach() - expected).norm(dim=-1), 1e-4 * natural)
            worst = torch.maximum(worst, error)
    return only(seen, worst)


def _numbers(space: Space, *values: Tensor) -> Tensor:
    return torch.stack([space.euclidean(value) for value in values]).amax(0)


class _Asked(torch.nn.Module):
    """One operation of a manifold as a module, so that its stored numbers can be replaced."""

    def __init__(self, manifold: torch.nn.Module, operation: str) -> None:
        super().__init__()
        self.manifold, self.operation = manifold, operation

    def forward(self, *values: Tensor) -> Tensor:
        result: Tensor = getattr(self.manifold, self.operation)(*values)
        return result


# ----------------------------------------------------------------------------------------- more dimensions, far places


@law(
    "a flat copy of the space in sixty more dimensions is the same space",
    needs=["dist", "mobius_add", "expmap0", "logmap0", "gyration", "transp", "curvature"],
    tolerance="identity",
    group="gyro",
)
def more_dimensions_change_nothing(space: Space, x: Tensor, y: Tensor, g: Tensor, p: Tensor) -> Tensor:
    f = space.manifold

    def deep(value: Tensor) -> Tensor:
        return torch.cat([torch.zeros(len(value), 60, dtype=value.dtype), value], dim=-1)

    def error(one: Tensor, other: Tensor, scale: Tensor) -> Tensor:
        return ratio(space.euclidean(other - deep(one)), scale)

    speaks = space.addable(x, y) & space.short(space.gap(x, y))
    there, total, turned = f.dist(x, y), f.mobius_add(x, y), f.gyration(x, y, g)
    carried = f.transp(x, y, g)
    condition = space.condition(x, y)
    vectors = space.euclidean(g) * condition
    size = torch.maximum(space.euclidean(total), torch.maximum(space.euclidean(x), space.euclidean(y)))
    pairs = [
        ratio(f.dist(deep(x), deep(y)) - there, there * condition),
        error(total, f.mobius_add(deep(x), deep(y)), size * condition),
        error(turned, f.gyration(deep(x), deep(y), deep(g)), vectors),
        error(carried, f.transp(deep(x), deep(y), deep(g)), vectors + space.euclidean(carried) * condition),
    ]
    maps = [
        error(f.expmap0(p), f.expmap0(deep(p)), space.euclidean(f.expmap0(p)) * space.condition(f.expmap0(p))),
        error(f.logmap0(x), f.logmap0(deep(x)), space.euclidean(f.logmap0(x)) * space.condition(x)),
    ]
    return torch.maximum(only(speaks, torch.stack(pairs).amax(0)), torch.stack(maps).amax(0))


@law(
    "lengths are the same in sixty more dimensions",
    needs=["lambda_x", "dist0", "inner", "norm", "curvature"],
    tolerance="identity",
    group="metric",
)
def more_dimensions_change_no_length(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    f = space.manifold
    zeros = torch.zeros(len(x), 60, dtype=x.dtype)
    a, b, c = (torch.cat([zeros, value], dim=-1) for value in (x, u, v))
    pairing = space.length(x, u) * space.length(x, v) * space.condition(x)
    errors = [
        ratio(f.lambda_x(a) - f.lambda_x(x), f.lambda_x(x) * space.condition(x)),
        ratio(f.dist0(a) - f.dist0(x), f.dist0(x) * space.condition(x)),
        ratio(f.norm(a, b) - f.norm(x, u), f.norm(x, u) * space.condition(x)),
        ratio(f.inner(a, b, c) - f.inner(x, u, v), pairing),
    ]
    return torch.stack(errors).amax(0)


@law(
    "far out on a sphere a short step is added with all of its digits",
    needs=["mobius_add", "positive curvature"],
    tolerance="oracle",
    group="oracle",
    factor=4.0,
)
def oracle_short_steps_far_out(space: Space, x: Tensor, g: Tensor, t: Tensor) -> Tensor:
    k = space.k or 1.0
    base = x.double() / space.euclidean(x).clamp_min(1e-300).unsqueeze(-1) * (20 + 80 * t.double()) / math.sqrt(k)
    point = base.to(space.dtype)
    # so short that the sum, about x + (1 + k|x|²) y, stays where x is
    y = (g.double() * (1e-2 / (k * space.euclidean(point).unsqueeze(-1)))).to(space.dtype)
    total = space.manifold.mobius_add(point, y)
    exact = [oracle.mobius_add(a, b, k=k) for a, b in zip(point, y, strict=True)]
    deviation, _ = _deviation_and_size(total, exact)
    return only(space.euclidean(x) > 1e-6 / math.sqrt(k), ratio(deviation, space.euclidean(point)))


@law(
    "on a sphere the distances to a plane and to its pole make up a quarter",
    needs=["dist2plane", "dist", "expmap", "positive curvature"],
    tolerance="chain",
    group="plane",
)
def plane_and_pole_are_a_quarter_apart(space: Space, x: Tensor, g: Tensor, u: Tensor, t: Tensor) -> Tensor:
    unit = space.domain.unit
    base = (x.double() * (0.3 * unit / space.euclidean(x).clamp_min(0.3 * unit).unsqueeze(-1))).to(space.dtype)
    size = (math.pi / 2 * unit / space.length(base, g).clamp_min(1e-300)).unsqueeze(-1)
    pole = space.manifold.expmap(base, (g.double() * size).to(space.dtype))
    away = 10 ** (-5 * t.double()) * unit / 4  # around the pole, from near to very near
    near = space.length(pole, u).clamp_min(1e-300).unsqueeze(-1)
    point = space.manifold.expmap(pole, (u.double() / near * away).to(space.dtype))
    plane, rest = space.manifold.dist2plane(point, base, g).double(), space.manifold.dist(point, pole).double()
    speaks = (space.euclidean(g) > 0) & (space.euclidean(u) > 1e-12 * unit) & (space.euclidean(pole) < 5 * unit)
    return only(speaks, ratio(plane + rest - math.pi / 2 * unit, space.rounding(base, pole, point) + unit))


# ------------------------------------------------------------------------------------------------------------ gradients


@law(
    "the mixed second derivative of the squared distance at x = y is −2λ²I",
    needs=["dist2", "curvature"],
    tolerance="second derivative",
    group="smooth",
    limit=16,
)
def squared_distance_has_its_mixed_hessian(space: Space, x: Tensor) -> Tensor:
    eye, errors = torch.eye(space.dim, dtype=torch.float64), []
    for row in x:
        blocks = torch.autograd.functional.hessian(space.manifold.dist2, (row, row.clone()))
        expected = -2 * float(2 / (1 + (space.k or 0.0) * row.double().square().sum())) ** 2 * eye
        errors.append(ratio((blocks[0][1].double() - expected).norm(), expected.norm()))
    return only(space.condition(x) < 1e3, torch.stack(errors) / space.condition(x) ** 2)


@law(
    "the gradient of a distance by every number the space stores is that of differences",
    needs=["dist", "stored curvature"],
    tolerance="limit",
    group="curvature",
    limit=16,
)
def stored_numbers_have_their_gradient(space: Space, x: Tensor, y: Tensor) -> Tensor:
    if space.k is not None:
        size = (space.euclidean(value).unsqueeze(-1) / space.domain.unit for value in (x, y))
        x, y = (v.double() * (0.5 / s.clamp_min(0.5)) for v, s in zip((x, y), size, strict=True))
    x, y = x.detach().double(), y.detach().double()
    manifold = copy.deepcopy(space.manifold).double().requires_grad_()
    worst = everywhere(x, SKIPPED)
    for name, stored in manifold.named_parameters():
        number = float(stored.detach())
        if number == 0:
            continue  # on a bound there are no differences to both sides
        distance = manifold.dist(x, y)
        if not distance.requires_grad:
            return everywhere(x, math.inf)
        found = torch.stack(
            [
                torch.autograd.grad(entry, stored, retain_graph=True, allow_unused=True)[0] or torch.zeros_like(stored)
                for entry in distance
            ]
        )
        step = 1e-4 * abs(number)
        ends = []
        for sign in (1.0, -1.0):
            moved = copy.deepcopy(manifold)
            with torch.no_grad():
                dict(moved.named_parameters())[name].fill_(number + sign * step)
                ends.append(moved.dist(x, y))
        expected = (ends[0] - ends[1]) / (2 * step)
        scale = expected.abs() + 1e-3 * distance.detach() / abs(number)
        # two floats that touch are at a distance that differences do not resolve
        seen = distance.detach() > 1e-6 * space.domain.unit
        worst = torch.maximum(worst, only(seen, ratio(found - expected, 1e-4 * scale)))
    return worst
