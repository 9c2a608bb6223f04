"""The same space in other clothes: ball, hyperboloid, Klein's ball, sphere; and the trigonometry under them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hgeo.testing import oracle
from hgeo.testing._space import Space, curved_distance, ratio, stereographic_embedding
from hgeo.testing.laws._law import SKIPPED, everywhere, law, only

__all__: list[str] = []


def _embedded(space: Space, x: Tensor) -> Tensor:
    return stereographic_embedding(x, space.k or 0.0)


@law(
    "the distance is that of the hyperboloid (k < 0) or of the sphere (k > 0)",
    needs=["dist", "curvature"],
    tolerance="chain",
    group="models",
)
def distance_agrees_with_the_embedding(space: Space, x: Tensor, y: Tensor) -> Tensor:
    k = space.k or 0.0
    if k == 0:
        return everywhere(x, SKIPPED)
    root = math.sqrt(abs(k))
    difference = _embedded(space, x) - _embedded(space, y)
    if k > 0:
        chord = difference.norm(dim=-1)
        expected = 2 / root * torch.asin((root * chord / 2).clamp_max(1.0))
        wide = expected * root > 0.9 * math.pi
        return only(~wide, ratio(space.manifold.dist(x, y).double() - expected, expected + space.rounding(x, y)))
    form = difference[:, 1:].square().sum(-1) - difference[:, 0].square()
    expected = 2 / root * torch.asinh(root / 2 * form.clamp_min(0.0).sqrt())
    scale = (expected + space.rounding(x, y)) * space.condition(x, y)
    # two points whose separation is lost in the embedding's own rounding say nothing
    seen = form > 1e4 * 2.3e-16 * (_embedded(space, x).square().sum(-1) + _embedded(space, y).square().sum(-1))
    return only(seen, ratio(space.manifold.dist(x, y).double() - expected, scale))


@law(
    "ball → hyperboloid → ball and ball → Klein → ball change nothing, and the images lie where they should",
    needs=["ball_to_lorentz", "lorentz_to_ball", "ball_to_klein", "klein_to_ball", "negative curvature"],
    tolerance="chain",
    group="models",
)
def hyperbolic_models_are_one_space(space: Space, x: Tensor) -> Tensor:
    k = space.k or 0.0
    c = -k
    image = space.manifold.ball_to_lorentz(x)
    expected = _embedded(space, x)
    place = ratio((image.double() - expected).norm(dim=-1), expected.norm(dim=-1) * space.condition(x))
    back = ratio(space.gap(space.manifold.lorentz_to_ball(image), x), space.rounding(x))
    klein = space.manifold.ball_to_klein(x)
    gnomonic = expected[:, 1:] / expected[:, :1] / math.sqrt(c)
    flat = ratio((klein.double() - gnomonic).norm(dim=-1), gnomonic.norm(dim=-1) * space.condition(x))
    # Klein's ball keeps only half of the digits of what is left to the boundary
    again = space.manifold.klein_to_ball(klein)
    seen = space.flatness(x) > 64 * space.eps**0.5
    klein_back = only(seen, ratio(space.euclidean(again - x), space.euclidean(x) * space.condition(x) ** 2))
    return torch.stack([place, back, flat, klein_back]).amax(0)


@law(
    "projected sphere → sphere → projected sphere changes nothing, and the image lies on the sphere",
    needs=["stereo_to_sphere", "sphere_to_stereo", "positive curvature"],
    tolerance="chain",
    group="models",
)
def spherical_models_are_one_space(space: Space, x: Tensor) -> Tensor:
    k = space.k or 0.0
    image = space.manifold.stereo_to_sphere(x)
    expected = _embedded(space, x)
    place = (image.double() - expected).norm(dim=-1) * math.sqrt(k)
    back = ratio(space.euclidean(space.manifold.sphere_to_stereo(image) - x), space.euclidean(x))
    return torch.maximum(place, back)


@law(
    "exp0, log0 and the distance of the hyperboloid are those of the ball",
    needs=[
        "lorentz_expmap0",
        "lorentz_logmap0",
        "lorentz_dist",
        "ball_to_lorentz",
        "expmap0",
        "logmap0",
        "dist",
        "functions",
        "negative curvature",
    ],
    tolerance="chain",
    group="models",
)
def hyperboloid_maps_are_the_balls(space: Space, p: Tensor, x: Tensor, y: Tensor) -> Tensor:
    k = space.k or 0.0
    # the hyperboloid's coordinates have unit length: twice the ball's
    out = space.manifold.lorentz_expmap0(2 * p)
    expected = _embedded(space, space.manifold.expmap0(p))
    radius = 2 * space.euclidean(p) * math.sqrt(-k)
    forward = ratio((out.double() - expected).norm(dim=-1), expected.norm(dim=-1) * torch.cosh(radius))
    back = ratio(space.euclidean(space.manifold.lorentz_logmap0(out) - 2 * p), 2 * space.euclidean(p) * (1 + radius))
    above_x, above_y = space.manifold.ball_to_lorentz(x), space.manifold.ball_to_lorentz(y)
    distance = space.manifold.dist(x, y).double()
    apart = ratio(
        space.manifold.lorentz_dist(above_x, above_y).double() - distance,
        distance + space.rounding(x, y) * space.condition(x, y),
    )
    seen = space.condition(x, y) * space.eps < 1e-3
    return torch.maximum(torch.maximum(only(torch.exp(radius) * space.eps < 1e-2, forward), back), only(seen, apart))


@law(
    "exp0, log0 and the distance of the sphere are those of the projected sphere",
    needs=[
        "sphere_expmap0",
        "sphere_logmap0",
        "sphere_dist",
        "stereo_to_sphere",
        "expmap0",
        "dist",
        "functions",
        "positive curvature",
    ],
    tolerance="chain",
    group="models",
)
def sphere_maps_are_the_projected_ones(space: Space, p: Tensor, x: Tensor, y: Tensor) -> Tensor:
    k = space.k or 0.0
    out = space.manifold.sphere_expmap0(2 * p)
    expected = _embedded(space, space.manifold.expmap0(p))
    angle = 2 * space.euclidean(p) * math.sqrt(k)
    forward = (out.double() - expected).norm(dim=-1) * math.sqrt(k)
    back = ratio(space.euclidean(space.manifold.sphere_logmap0(out) - 2 * p), 2 * space.euclidean(p))
    distance = space.manifold.dist(x, y).double()
    above = space.manifold.sphere_dist(space.manifold.stereo_to_sphere(x), space.manifold.stereo_to_sphere(y)).double()
    apart = (above - distance).abs() * math.sqrt(k)
    maps = only(angle < 0.9 * math.pi, torch.maximum(forward, back))
    return torch.maximum(maps, apart)


# --------------------------------------------------------------------- manifolds that are the ball in other coordinates


def _pictured(space: Space, x: Tensor) -> tuple[float, Tensor]:
    """The curvature, and the points in stereographic coordinates, in float64."""
    assert space.chart is not None
    k, picture = space.chart
    return k, picture(x.detach().double())


def _pushed(space: Space, x: Tensor, u: Tensor) -> Tensor:
    """Tangent vectors in stereographic coordinates, in float64."""
    assert space.chart is not None
    point, vector = x.detach().double(), u.detach().double()
    return torch.autograd.functional.jvp(space.chart[1], point, vector)[1]


def _exactly(function: Callable[..., list[Any]], k: float, *values: Tensor) -> Tensor:
    """The oracle's vectors, row by row."""
    rows = [function(*row, k=k) for row in zip(*values, strict=True)]
    numbers = [[float(entry) if abs(entry) > oracle.TINY else 0.0 for entry in row] for row in rows]
    return torch.tensor(numbers, dtype=torch.float64)


def _metric_length(x: Tensor, u: Tensor, k: float) -> Tensor:
    return 2 * u.norm(dim=-1) / (1 + k * x.square().sum(-1))


@law(
    "the distance is that of the stereographic model",
    needs=["dist", "chart"],
    tolerance="chain",
    group="models",
)
def distance_agrees_with_the_stereographic_model(space: Space, x: Tensor, y: Tensor) -> Tensor:
    k, a = _pictured(space, x)
    expected = curved_distance(a, _pictured(space, y)[1], k)
    distance = space.manifold.dist(x, y).double().reshape(len(x), -1).amax(-1)
    return only(space.short(expected), ratio(distance - expected, expected + space.rounding(x, y)))


@law(
    "the exponential map is that of the stereographic model",
    needs=["expmap", "chart"],
    tolerance="chain",
    group="models",
)
def exponential_agrees_with_the_stereographic_model(space: Space, x: Tensor, u: Tensor) -> Tensor:
    k, a = _pictured(space, x)
    length = space.length(x, u)
    end = space.manifold.expmap(x, u)
    expected = _exactly(oracle.expmap, k, a, _pushed(space, x, u))
    scale = length + space.spread(length) + space.rounding(x, end)
    return only(space.short(length), ratio(curved_distance(_pictured(space, end)[1], expected, k), scale))


@law(
    "the logarithm is that of the stereographic model",
    needs=["logmap", "chart"],
    tolerance="chain",
    group="models",
)
def logarithm_agrees_with_the_stereographic_model(space: Space, x: Tensor, y: Tensor) -> Tensor:
    (k, a), (_, b) = _pictured(space, x), _pictured(space, y)
    length = curved_distance(a, b, k)
    speaks = space.short(length)
    vector = _pushed(space, x, space.manifold.logmap(x, y))
    expected = _exactly(oracle.logmap, k, a, torch.where(speaks.unsqueeze(-1), b, a))
    return only(speaks, ratio(_metric_length(a, vector - expected, k), length + space.rounding(x, y)))


@law(
    "parallel transport is that of the stereographic model",
    needs=["transp", "chart"],
    tolerance="chain",
    group="models",
)
def transport_agrees_with_the_stereographic_model(space: Space, x: Tensor, y: Tensor, u: Tensor) -> Tensor:
    (k, a), (_, b) = _pictured(space, x), _pictured(space, y)
    moved = space.manifold.transp(x, y, u)
    expected = _exactly(oracle.parallel_transport, k, a, b, _pushed(space, x, u))
    deviation = _metric_length(b, _pushed(space, y, moved) - expected, k)
    # an error of a point turns the vector: its condition multiplies that of the vector
    turn = 1 + math.sqrt(abs(k)) * space.rounding(x, y)
    scale = (space.vector_rounding(x, u) + space.vector_rounding(y, moved)) * turn
    return only(space.short(curved_distance(a, b, k)), ratio(deviation, scale))


# -------------------------------------------------------------------------------------------------------- trigonometry

_GRID = (0.0, 1e-30, 1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 0.01, 0.0199, 0.0201, 0.1, 0.24, 0.26, 0.5, 0.9, 0.99)


@law(
    "tan_k, sin_k and their inverses invert each other; cos_k² + k sin_k² = 1; tan_k = sin_k/cos_k",
    needs=["tan_k", "artan_k", "sin_k", "arsin_k", "cos_k", "functions"],
    tolerance="identity",
    group="models",
)
def curved_trigonometry_holds_together(space: Space, x: Tensor) -> Tensor:
    k = space.k or 0.0
    r = x.double().norm(dim=-1)
    r = (r * (0.7 * space.domain.unit / r.clamp_min(0.7 * space.domain.unit))).to(space.dtype)
    f = space.manifold
    tan, sin, cos = f.tan_k(r).double(), f.sin_k(r).double(), f.cos_k(r).double()
    errors = [
        ratio(f.artan_k(f.tan_k(r)).double() - r, r.double()),
        ratio(f.arsin_k(f.sin_k(r)).double() - r, r.double()),
        (cos**2 + k * sin**2 - 1).abs(),
        ratio(tan * cos - sin, sin),
    ]
    return torch.stack(errors).amax(0)


@law(
    "tan_k, sin_k and their inverses are odd, cos_k is even; a sine that rounding made larger than 1 counts as 1",
    needs=["tan_k", "artan_k", "sin_k", "arsin_k", "cos_k", "functions"],
    tolerance="last bits",
    group="models",
)
def curved_trigonometry_is_symmetric(space: Space, x: Tensor) -> Tensor:
    k, f = space.k or 0.0, space.manifold
    r = x.double().norm(dim=-1)
    r = (r * (0.7 * space.domain.unit / r.clamp_min(0.7 * space.domain.unit))).to(space.dtype)
    odd = [getattr(f, name) for name in ("tan_k", "artan_k", "sin_k", "arsin_k")]
    errors = [ratio(function(-r) + function(r), function(r)) for function in odd]
    errors.append((f.cos_k(-r) - f.cos_k(r)).double().abs())
    if k > 0:
        beyond = torch.full_like(r, (1 + 2 * space.eps) / math.sqrt(k))
        quarter = math.pi / (2 * math.sqrt(k))
        errors.append((f.arsin_k(beyond).double() - quarter).abs() / quarter)
    return torch.stack(errors).amax(0)


def _ratios_are_right(space: Space, x: Tensor, sign: float) -> Tensor:
    """Values and z-derivatives of the five ratio functions at z = ±grid and z = k|x|²."""
    count = x.shape[0]
    grid = torch.tensor([_GRID[i % len(_GRID)] * sign for i in range(count)], dtype=torch.float64)
    own = (space.k or 0.0) * x.double().square().sum(-1)
    error = torch.zeros(count, dtype=torch.float64)
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-3}.get(space.dtype, 1e-3)
    for drawn in (grid, own):
        for name in ("tan_ratio", "artan_ratio", "sin_ratio", "arsin_ratio", "cos_ratio"):
            z = drawn.clone()
            if name in ("artan_ratio",):
                z = z.clamp_min(-0.999)
            if name == "arsin_ratio":
                z = z.clamp_max(0.99)
            if name in ("tan_ratio", "cos_ratio"):
                z = z.clamp_max(2.0)
            z = z.clamp(-60.0, 6.0).to(space.dtype).requires_grad_()
            value = getattr(space.manifold.module, name)(z)
            (slope,) = torch.autograd.grad(value.sum(), z)
            for i in range(count):
                at = oracle.number(z[i].detach())
                exact = getattr(oracle, name)(at)
                step = oracle.mp.mpf(10) ** -70
                exact_slope = (getattr(oracle, name)(at + step) - exact) / step
                relative = float(oracle.difference(value[i].detach(), exact) / max(abs(exact), 0.1))
                steep = float(oracle.difference(slope[i], exact_slope) / max(abs(exact_slope), 0.01))
                condition = 1 + abs(float(at)) if name != "artan_ratio" else 1 / max(1 + float(at), 1e-3)
                if abs(float(at)) < 0.1:  # nothing is lost near 0: four units in the last place
                    relative *= 4
                error[i] = max(float(error[i]), relative / condition, steep / condition * 16 * space.eps / tolerance)
    return error


@law(
    "the ratio functions are analytic in z: values and slopes are right on both sides of 0",
    needs=["tan_ratio", "artan_ratio", "sin_ratio", "arsin_ratio", "cos_ratio", "functions"],
    tolerance="oracle",
    group="models",
)
def ratios_are_analytic(space: Space, x: Tensor) -> Tensor:
    return torch.maximum(_ratios_are_right(space, x, 1.0), _ratios_are_right(space, x, -1.0))
