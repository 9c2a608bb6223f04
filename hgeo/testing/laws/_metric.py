"""Distance, inner product, exponential and logarithm, projections: the laws of any Riemannian manifold."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hgeo.testing._space import Space, ratio
from hgeo.testing.laws._law import law, only
from hgeo.testing.laws._scales import carried_scale, distances, numbers, pairing_scale

__all__: list[str] = []

_ONE = 1.0


# ------------------------------------------------------------------------------------------------------------- metric


@law("d(x, y) = d(y, x)", needs=["dist"], group="metric")
def distance_is_symmetric(space: Space, x: Tensor, y: Tensor) -> Tensor:
    there, back = distances(space, x, y), distances(space, y, x)
    return ratio(there - back, there.abs() * space.condition(x, y))


@law("d(x, x) = 0", needs=["dist"], tolerance="exact", group="metric")
def distance_to_itself_is_zero(space: Space, x: Tensor) -> Tensor:
    return distances(space, x, x).abs()


@law("d(x, y) > 0 for x ≠ y, and it is a number", needs=["dist"], tolerance="exact", group="metric")
def distance_tells_points_apart(space: Space, x: Tensor, y: Tensor) -> Tensor:
    apart = space.gap(x, y) > 32 * space.eps * space.rounding(x, y)
    distance = distances(space, x, y)
    return torch.where(torch.isfinite(distance) & ((distance > 0) | ~apart), 0.0, _ONE)


@law("d(x, z) ≤ d(x, y) + d(y, z)", needs=["dist"], group="metric")
def triangle_inequality(space: Space, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    direct, detour = distances(space, x, z), distances(space, x, y) + distances(space, y, z)
    return ratio((direct - detour).clamp_min(0.0), direct + space.rounding(x, y, z))


@law("dist2 is the square of dist", needs=["dist", "dist2"], group="metric")
def squared_distance_is_the_square(space: Space, x: Tensor, y: Tensor) -> Tensor:
    distance = distances(space, x, y)
    squared = numbers(space.manifold.dist2(x, y), x.shape[0])
    return ratio(squared - distance**2, distance**2 * space.condition(x, y))


@law("dist0(x) is the distance to the origin", needs=["dist", "dist0"], group="metric")
def distance_to_origin(space: Space, x: Tensor) -> Tensor:
    origin = space.embed([np.zeros(space.dim)] * x.shape[0])
    expected = distances(space, origin, x)
    # dist0 has no other point to lose digits to; relative to the result it is as exact as dist
    return ratio(numbers(space.manifold.dist0(x), x.shape[0]) - expected, expected * space.condition(x))


@law("⟨u, v⟩ = ⟨v, u⟩", needs=["inner"], tolerance="last bits", group="metric")
def inner_product_is_symmetric(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    one, other = space.manifold.inner(x, u, v), space.manifold.inner(x, v, u)
    return ratio(numbers(one - other, x.shape[0]), pairing_scale(space, x, u, v))


@law("⟨u + v, u + v⟩ = ⟨u, u⟩ + 2⟨u, v⟩ + ⟨v, v⟩, and ⟨u⟩ without v is ⟨u, u⟩", needs=["inner"], group="metric")
def inner_product_is_bilinear(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    inner = space.manifold.inner
    left = inner(x, u + v)
    right = inner(x, u, u) + 2 * inner(x, u, v) + inner(x, v, v)
    # (|u| + |v|)² without its mixed term
    scale = (pairing_scale(space, x, u, u) + pairing_scale(space, x, v, v)) * space.condition(x)
    return ratio(numbers(left - right, x.shape[0]), scale)


@law("⟨u, u⟩ > 0 for u ≠ 0", needs=["inner"], tolerance="exact", group="metric")
def inner_product_is_positive(space: Space, x: Tensor, u: Tensor) -> Tensor:
    value = numbers(space.manifold.inner(x, u), x.shape[0])
    large = space.euclidean(u) > 1e-4 * (1 + space.rounding(x))
    return torch.where((value > 0) | ~large, 0.0, _ONE)


@law("|u|² = ⟨u, u⟩", needs=["norm", "inner"], group="metric")
def norm_is_the_root_of_the_inner_product(space: Space, x: Tensor, u: Tensor) -> Tensor:
    inner = numbers(space.manifold.inner(x, u), x.shape[0])
    norm = numbers(space.manifold.norm(x, u), x.shape[0])
    return ratio(norm**2 - inner, pairing_scale(space, x, u, u) * space.condition(x))


@law("⟨u, v⟩ = λ²·(u·v)", needs=["inner", "lambda_x"], group="metric")
def inner_product_is_conformal(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    factor = space.manifold.lambda_x(x, keepdim=True).double()
    expected = (factor**2 * u.double() * v.double()).sum(-1)
    scale = factor.squeeze(-1) ** 2 * space.euclidean(u) * space.euclidean(v)
    return ratio(space.manifold.inner(x, u, v).double() - expected, scale)


@law("the length of a small step from x is λ_x times its Euclidean length", needs=["dist", "lambda_x"], group="metric")
def distance_is_the_metric_in_the_small(space: Space, x: Tensor, g: Tensor) -> Tensor:
    # A step of 1e-3 of the room that is left; its third-order term is 1e-6, so only gross errors are judged here.
    room = space.flatness(x) * space.domain.unit
    step = (1e-3 * room.unsqueeze(-1) * g.double()).to(space.dtype)
    moved = x + step
    taken = (moved.double() - x.double()).norm(dim=-1)
    # the geometric mean of both ends: exact up to the third order
    factor = space.manifold.lambda_x(x).double() * space.manifold.lambda_x(moved).double()
    expected = factor.sqrt() * taken
    resolved = taken > 1e-4 * room
    error = ratio(distances(space, x, moved) - expected, expected)
    return only(resolved, error / 1e-2 * 64 * space.eps)


# ------------------------------------------------------------------------------------------------------------ exp, log


@law("log_x(exp_x(u)) = u", needs=["expmap", "logmap"], tolerance="chain", group="maps")
def logarithm_inverts_exponential(space: Space, x: Tensor, u: Tensor) -> Tensor:
    length = space.length(x, u)
    y = space.manifold.expmap(x, u)
    scale = space.rounding(x, y) + space.spread(length) + length
    return only(space.direct(x, u), space.tangent_error(x, space.manifold.logmap(x, y), u, scale))


@law("exp_x(log_x(y)) = y", needs=["expmap", "logmap", "dist"], tolerance="chain", group="maps")
def exponential_inverts_logarithm(space: Space, x: Tensor, y: Tensor) -> Tensor:
    length = space.way(x, y)
    reached = space.manifold.expmap(x, space.manifold.logmap(x, y))
    return only(space.short(length), space.point_error(reached, y, x, plus=space.spread(length) + length))


@law("exp_x(0) = x and log_x(x) = 0", needs=["expmap", "logmap"], tolerance="chain", group="maps")
def maps_fix_their_base(space: Space, x: Tensor) -> Tensor:
    still = space.manifold.expmap(x, torch.zeros_like(x))
    nothing = space.manifold.logmap(x, x)
    scale = space.rounding(x) + space.euclidean(x)
    return torch.maximum(space.point_error(still, x), space.tangent_error(x, nothing, torch.zeros_like(nothing), scale))


@law("d(x, exp_x(u)) = |u|", needs=["expmap", "dist", "inner"], tolerance="chain", group="maps")
def exponential_travels_the_length(space: Space, x: Tensor, u: Tensor) -> Tensor:
    length = space.length(x, u)
    y = space.manifold.expmap(x, u)
    scale = length + space.rounding(x, y) + space.spread(length)
    return only(space.direct(x, u), ratio(distances(space, x, y) - length, scale))


@law("|log_x(y)| = d(x, y)", needs=["logmap", "dist", "inner"], tolerance="chain", group="maps")
def logarithm_has_the_length_of_the_distance(space: Space, x: Tensor, y: Tensor) -> Tensor:
    distance = distances(space, x, y)
    length = space.length(x, space.manifold.logmap(x, y))
    scale = distance * space.condition(x, y) if space.k is not None else distance + space.rounding(x, y)
    return only(space.short(distance), ratio(length - distance, scale))


@law(
    "exp_x is radial: log_x(exp_x(u/2)) = u/2 lies on the way to exp_x(u)",
    needs=["expmap", "dist"],
    tolerance="chain",
    group="maps",
)
def exponential_is_a_geodesic(space: Space, x: Tensor, u: Tensor) -> Tensor:
    length = space.length(x, u)
    middle, end = space.manifold.expmap(x, u / 2), space.manifold.expmap(x, u)
    scale = length + space.rounding(x, middle, end) + space.spread(length)
    error = torch.maximum(
        ratio(distances(space, x, middle) - length / 2, scale), ratio(distances(space, middle, end) - length / 2, scale)
    )
    return only(space.direct(x, u), error)


@law(
    "exp0 is exp at the origin, log0 is log at the origin",
    needs=["expmap", "logmap", "expmap0", "logmap0", "curvature"],
    group="maps",
)
def origin_maps_are_the_maps_at_the_origin(space: Space, p: Tensor, x: Tensor) -> Tensor:
    origin = torch.zeros_like(p)
    forward = space.point_error(space.manifold.expmap0(p), space.manifold.expmap(origin, p))
    there, expected = space.manifold.logmap0(x), space.manifold.logmap(origin, x)
    backward = ratio(space.euclidean(there - expected), space.euclidean(expected) * space.condition(x))
    forward = only(space.short(2 * space.euclidean(p)), forward)
    return torch.maximum(forward, only(space.short(space.radius(x)), backward))


@law("log0(exp0(v)) = v", needs=["expmap0", "logmap0", "curvature"], group="maps")
def logarithm_at_origin_inverts(space: Space, p: Tensor) -> Tensor:
    y = space.manifold.expmap0(p)
    size = space.euclidean(p)
    error = ratio(space.euclidean(space.manifold.logmap0(y) - p), size * space.condition(y))
    return only(space.short(2 * size), error)


@law("exp0(log0(x)) = x", needs=["expmap0", "logmap0", "curvature"], group="maps")
def exponential_at_origin_inverts(space: Space, x: Tensor) -> Tensor:
    return only(
        space.short(space.radius(x)),
        ratio(space.gap(space.manifold.expmap0(space.manifold.logmap0(x)), x), space.rounding(x)),
    )


@law(
    "√c|v| = 7 (float32) or 16 (float64) survives exp0 → log0 within 2 %, and so does its gradient",
    needs=["expmap0", "logmap0", "negative curvature"],
    tolerance="two percent",
    group="maps",
)
def long_tangents_survive(space: Space, g: Tensor) -> Tensor:
    size = (7.0 if space.dtype == torch.float32 else 16.0) / math.sqrt(-(space.k or 0.0))
    v = (g * size).requires_grad_()
    y = space.manifold.expmap0(v)
    back = space.manifold.logmap0(y)
    error = ratio(space.euclidean(back - v), space.euclidean(v))
    (gradient,) = torch.autograd.grad(y.square().sum(-1).sum(), v)
    alive = space.euclidean(gradient) > 0
    return torch.where(alive, error, torch.ones_like(error))


# --------------------------------------------------------------------------------- projection, retraction and gradients


@law("projecting twice is projecting once", needs=["projx"], group="projection")
def projection_is_idempotent(space: Space, e: Tensor) -> Tensor:
    nonzero = space.euclidean(e) > 0
    once = space.manifold.projx(e)
    twice = space.manifold.projx(once)
    speaks = nonzero if space.k is None else torch.ones_like(nonzero)
    return only(speaks, ratio(space.euclidean(twice - once), space.euclidean(once)))


@law(
    "a projected point lies on the manifold; one inside stays where it is; the ray is kept",
    needs=["projx", "curvature"],
    group="projection",
)
def projection_is_onto_and_leaves_points_alone(space: Space, e: Tensor, x: Tensor) -> Tensor:
    k = space.k or 0.0
    projected = space.manifold.projx(e)
    kept = space.euclidean(projected) * math.sqrt(abs(k))
    inside = torch.where(torch.isfinite(kept) & ((k >= 0) | (kept < 1)), 0.0, _ONE)
    still = ratio(space.euclidean(space.manifold.projx(x) - x), space.euclidean(x))
    # well inside a point is not touched at all
    inner = space.euclidean(x) * math.sqrt(abs(k)) < 0.99 if k < 0 else torch.ones_like(still, dtype=torch.bool)
    still = torch.where(inner & (still != 0), _ONE, still)
    size = space.euclidean(e)
    cosine = (projected.double() * e.double()).sum(-1)
    ray = ratio(size * space.euclidean(projected) - cosine, size * space.euclidean(projected)).clamp_min(0.0)
    if k < 0:
        # as close to the edge as a projection leaves anything: half of the room that the margin gives
        far = size * math.sqrt(-k) > 1
        short = torch.where(far & (kept < 0.99), _ONE, 0.0)
        inside = torch.maximum(inside, short)
    else:
        still = torch.maximum(still, ratio(space.euclidean(projected - e), size))
    return torch.stack([inside, still, ray]).amax(0)


@law(
    "a point within the limit is its own projection, to the last bit",
    needs=["projx", "curvature"],
    tolerance="exact",
    group="projection",
)
def projection_leaves_points_as_they_are(space: Space, x: Tensor) -> Tensor:
    same = (space.manifold.projx(x) == x).all(-1)
    # at the limit itself rounding decides
    within = space.euclidean(x) < (1 - 16 * space.eps) * space.domain.limit * space.domain.unit
    return only(within, torch.where(same, 0.0, _ONE))


@law(
    "the derivative of the projection is the identity inside, and outside |projx(e)|/|e| across the ray and 0 along it",
    needs=["projx", "negative curvature"],
    group="projection",
)
def projection_has_its_derivative(space: Space, e: Tensor, g: Tensor) -> Tensor:
    start = e.clone().requires_grad_()
    projected = space.manifold.projx(start)
    (slope,) = torch.autograd.grad((projected * g).sum(), start)  # the Jacobian is symmetric
    place, wish, size = e.double(), g.double(), space.euclidean(e).unsqueeze(-1)
    reach = size.squeeze(-1) / space.domain.unit
    ray = place / size.clamp_min(1e-300)
    across = (wish - (wish * ray).sum(-1, keepdim=True) * ray) * space.euclidean(projected).unsqueeze(-1) / size
    expected = torch.where(reach.unsqueeze(-1) > 1, across, wish)
    error = ratio(space.euclidean(slope - expected), space.euclidean(g))
    return only((reach < 0.99) | (reach > 1.01), error)


@law(
    "a projection leaves no more room to the boundary than rounding needs: √c|projx(e)| ≥ 1 − 10 eps for e outside",
    needs=["projx", "negative curvature"],
    tolerance="last bits",
    group="projection",
    factor=2.5,
)
def projection_wastes_no_room(space: Space, e: Tensor) -> Tensor:
    reach = space.euclidean(space.manifold.projx(e)) / space.domain.unit
    return only(space.euclidean(e) > space.domain.unit, (1 - reach).clamp_min(0.0))


def _beside(space: Space, x: Tensor, u: Tensor) -> Tensor:
    """How much of u is not tangent at x, in float64."""
    u = u.detach().double()
    return space.euclidean(u - space.wide.proju(x.detach().double(), u))


@law(
    "a projected vector is tangent, and projecting it again changes nothing",
    needs=["proju"],
    group="projection",
)
def projection_of_vectors_is_idempotent(space: Space, x: Tensor, g: Tensor) -> Tensor:
    once = space.manifold.proju(x, g)
    twice = space.manifold.proju(x, once)
    return ratio(space.euclidean(twice - once), space.vector_rounding(x, g) + space.euclidean(g))


@law(
    "a vector that a projection changes much does not pass the manifold's own check",
    needs=["proju", "check_vector_on_tangent"],
    tolerance="exact",
    group="projection",
    limit=32,
)
def what_is_no_tangent_is_told(space: Space, x: Tensor, g: Tensor) -> Tensor:
    moved = space.euclidean(space.manifold.proju(x, g) - g) > 0.1 * space.euclidean(g)
    check = space.manifold.check_vector_on_tangent
    passed = torch.tensor([bool(check(a, b, ok_point=True)) for a, b in zip(x, g, strict=True)])
    return only(moved & (space.euclidean(x) < 10), torch.where(passed, _ONE, 0.0))


@law("the projection of vectors leaves tangent ones alone", needs=["proju", "inner"], group="projection")
def projection_leaves_tangent_vectors_alone(space: Space, x: Tensor, u: Tensor) -> Tensor:
    return ratio(space.euclidean(space.manifold.proju(x, u) - u), space.vector_rounding(x, u) + space.euclidean(u))


@law("logarithms are tangent vectors", needs=["logmap", "proju"], tolerance="chain", group="projection")
def logarithms_are_tangent(space: Space, x: Tensor, y: Tensor) -> Tensor:
    vector = space.manifold.logmap(x, y)
    # the point itself is off the manifold by a rounding, and the vector leans with it
    scale = space.euclidean(vector) * (1 + space.rounding(x)) + space.rounding(x, y)
    return only(space.short(space.way(x, y)), ratio(_beside(space, x, vector), scale))


@law("transported vectors are tangent", needs=["transp", "proju"], tolerance="chain", group="projection")
def transported_vectors_are_tangent(space: Space, x: Tensor, y: Tensor, u: Tensor) -> Tensor:
    moved = space.manifold.transp(x, y, u)
    scale = carried_scale(space, x, y, u, moved) * (1 + space.rounding(x, y))
    return only(space.short(space.way(x, y)), ratio(_beside(space, y, moved), scale))


@law("Riemannian gradients are tangent vectors", needs=["egrad2rgrad", "proju"], group="projection")
def riemannian_gradients_are_tangent(space: Space, x: Tensor, g: Tensor) -> Tensor:
    scale = (space.vector_rounding(x, g) + space.euclidean(g)) * (1 + space.rounding(x))
    return ratio(_beside(space, x, space.manifold.egrad2rgrad(x, g)), scale)


@law(
    "the exponential map ends on the manifold: projecting its end changes nothing",
    needs=["expmap", "projx"],
    tolerance="chain",
    group="projection",
)
def exponentials_are_points(space: Space, x: Tensor, u: Tensor) -> Tensor:
    end = space.manifold.expmap(x, u)
    there = space.wide.projx(end.detach().double())
    return ratio(space.euclidean(there - end.detach().double()), space.rounding(x, end) + space.euclidean(end))


@law(
    "projected points pass the manifold's own check",
    needs=["projx", "check_point_on_manifold"],
    tolerance="exact",
    group="projection",
)
def projected_points_are_points(space: Space, e: Tensor) -> Tensor:
    usable = space.euclidean(e) > 0
    verdicts = [
        0.0 if not ok or space.manifold.check_point_on_manifold(space.manifold.projx(row.unsqueeze(0))[0]) else 1.0
        for row, ok in zip(e, usable.tolist(), strict=True)
    ]
    return only(usable, torch.tensor(verdicts, dtype=torch.float64))


@law(
    "the Riemannian gradient is the metric's dual: ⟨egrad2rgrad(g), u⟩ = g·u",
    needs=["egrad2rgrad", "inner"],
    group="projection",
)
def riemannian_gradient_is_the_dual(space: Space, x: Tensor, g: Tensor, u: Tensor) -> Tensor:
    gradient = space.manifold.egrad2rgrad(x, g)
    pairing = numbers(space.manifold.inner(x, gradient, u), x.shape[0])
    dims = len(space.shape)
    expected = (g.double() * u.double()).reshape(*g.shape[:-dims], -1).sum(-1)
    scale = space.euclidean(g) * space.euclidean(u) * (1 + (space.rounding(x) if space.k is None else 0.0))
    return ratio(pairing - expected, scale * space.condition(x))


@law(
    "on a projected sphere a retraction goes no farther than its vector is long",
    needs=["retr", "positive curvature"],
    tolerance="chain",
    group="projection",
)
def retraction_does_not_overshoot(space: Space, x: Tensor, u: Tensor) -> Tensor:
    end, length = space.manifold.retr(x, u), space.length(x, u)
    way = space.gap(x, end) - length
    # a point at infinity is as far as it is, whatever its coordinates say
    speaks = torch.isfinite(end).all(-1) & (space.euclidean(end) < 1e3 * space.domain.unit) & space.short(length)
    return only(speaks, ratio(way.clamp_min(0.0), length + space.rounding(x, end)))


@law("the norm of a vector has finite derivatives at 0", needs=["norm"], tolerance="exact", group="smooth", limit=8)
def norm_is_differentiable_at_zero(space: Space, x: Tensor) -> Tensor:
    zero = torch.zeros_like(x).requires_grad_()
    (slope,) = torch.autograd.grad(space.manifold.norm(x, zero).sum(), zero)
    return torch.where(torch.isfinite(slope).reshape(len(x), -1).all(-1), 0.0, _ONE)


@law(
    "a retraction agrees with exp to first order", needs=["retr", "expmap"], tolerance="first order", group="projection"
)
def retraction_agrees_to_first_order(space: Space, x: Tensor, g: Tensor) -> Tensor:
    # Halving a step must quarter the difference of retr and exp: judged against 4·|u|², the step 1e-2 of the room.
    step = 1e-2 if space.k is None else 1e-2 * space.flatness(x) * space.domain.unit
    u = g * (torch.as_tensor(step, dtype=torch.float64).reshape(-1, *[1] * len(space.shape))).to(space.dtype)
    if space.has("proju"):
        u = space.manifold.proju(x, u)
    if space.stranger:  # of which nobody knows what a step in coordinates is
        u = (u.double() * (step / space.length(x, u).clamp_min(1e-300)).reshape(-1, *[1] * len(space.shape))).to(u)
    length = space.length(x, u)
    difference = space.gap(space.manifold.retr(x, u), space.manifold.expmap(x, u))
    natural = 1 / space.domain.unit if space.k is not None else 1.0
    # the second-order term grows with the distance to the origin (Christoffel symbols of the chart: c·λ|x|)
    growth = natural * (1 + (space.rounding(x) * natural if space.k is not None else 1.0))
    allowed = 4 * length**2 * growth + 512 * space.eps * space.rounding(x)
    # What is odd in the step is right to one order more: a retraction that goes 1 % too far shows there.
    there, back = space.manifold.retr(x, u), space.manifold.retr(x, -u)
    exact_there, exact_back = space.manifold.expmap(x, u), space.manifold.expmap(x, -u)
    difference_of_odd = ((there.double() - back.double()) - (exact_there.double() - exact_back.double())) / 2
    odd = space.length(x, difference_of_odd) if space.stranger else space.euclidean(difference_of_odd)
    factor = 2 / space.flatness(x) if space.k is not None else torch.ones_like(length)
    third = 4 * length**3 * growth**2 + 512 * space.eps * space.rounding(x)
    difference, allowed = torch.maximum(difference / allowed, odd * factor / third), torch.ones_like(allowed)
    near_edge = ~space.within(space.radius(x) + 0.1 * space.domain.unit) if space.k is not None else length < 0
    return only(~near_edge, ratio(difference, allowed))


@law(
    "what a manifold returns as a point is one: inside the ball, however far an operation would go",
    needs=["expmap0", "expmap", "mobius_add", "module", "negative curvature"],
    tolerance="exact",
    group="projection",
)
def results_are_points(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    # Forty radii of curvature are beyond every dtype: whatever comes back must still be a point.
    far = g * (40.0 * space.domain.unit)
    f, many = space.manifold, torch.full_like(x[..., :1], 40.0)
    results = [f.expmap0(far), f.expmap(x, far), f.mobius_add(x, y)]
    if space.has("mobius_sub"):
        results.append(f.mobius_sub(x, y))
    if space.has("weighted_midpoint"):
        results.append(
            f.weighted_midpoint(torch.stack([x, x]), 20 + 0 * x[..., :1].mT.expand(2, -1), reducedim=[0], lincomb=True)
        )
    if space.has("retr"):
        results.append(f.retr(x, far))
    if space.has("mobius_scalar_mul") and space.has("mobius_matvec"):
        results += [f.mobius_scalar_mul(many, x), f.mobius_matvec(40 * torch.eye(space.dim, dtype=space.dtype), x)]
    if space.has("geodesic_unit") and space.has("mobius_pointwise_mul"):
        results += [f.geodesic_unit(many * space.domain.unit, x, g), f.mobius_pointwise_mul(many.expand_as(x), x)]
    if space.has("mobius_coadd") and space.has("mobius_fn_apply"):
        results += [f.mobius_coadd(x, y), f.mobius_fn_apply(lambda value: 40 * value, x)]
    root = math.sqrt(-(space.k or 0.0))
    inside = [
        space.euclidean(point) * root <= max(space.domain.limit, 1 - 4 * space.eps) * (1 + space.eps)
        for point in results
    ]
    return torch.where(torch.stack(inside).all(0), 0.0, 1.0)
