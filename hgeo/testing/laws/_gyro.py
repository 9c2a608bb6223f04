"""Gyrovector spaces: Möbius addition, gyration, scalar and matrix multiplication, midpoints, planes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgeo.testing._space import Space, ratio
from hgeo.testing.laws._law import law, only

__all__: list[str] = []


def _apply(matrix: Tensor, x: Tensor) -> Tensor:
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


# ------------------------------------------------------------------------------------------------------------ addition


@law("0 ⊕ x = x = x ⊕ 0", needs=["mobius_add", "curvature"], tolerance="last bits", group="gyro")
def zero_is_neutral(space: Space, x: Tensor) -> Tensor:
    add, zero = space.manifold.mobius_add, torch.zeros_like(x)
    return torch.maximum(
        ratio(space.euclidean(add(zero, x) - x), space.euclidean(x)),
        ratio(space.euclidean(add(x, zero) - x), space.euclidean(x)),
    )


@law("(−x) ⊕ x = 0", needs=["mobius_add", "curvature"], group="gyro")
def opposite_is_inverse(space: Space, x: Tensor) -> Tensor:
    return ratio(space.radius(space.manifold.mobius_add(-x, x)), space.rounding(x))


@law("(−x) ⊕ (x ⊕ y) = y", needs=["mobius_add", "curvature"], tolerance="chain", group="gyro")
def left_cancellation(space: Space, x: Tensor, y: Tensor) -> Tensor:
    add = space.manifold.mobius_add
    between = add(x, y)
    return only(space.addable(x, y), space.point_error(add(-x, between), y, x, between))


@law("x ⊖ y = x ⊕ (−y)", needs=["mobius_add", "mobius_sub", "curvature"], tolerance="last bits", group="gyro")
def subtraction_adds_the_opposite(space: Space, x: Tensor, y: Tensor) -> Tensor:
    expected = space.manifold.mobius_add(x, -y)
    error = ratio(space.euclidean(space.manifold.mobius_sub(x, y) - expected), space.euclidean(expected))
    return only(space.addable(x, -y), error)


@law(
    "x ⊕ (y ⊕ z) = (x ⊕ y) ⊕ gyr[x, y]z", needs=["mobius_add", "gyration", "curvature"], tolerance="chain", group="gyro"
)
def gyroassociativity(space: Space, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    add, gyr = space.manifold.mobius_add, space.manifold.gyration
    yz, xy, turned = add(y, z), add(x, y), gyr(x, y, z)
    left, right = add(x, yz), add(xy, turned)
    speaks = space.addable(x, y) & space.addable(y, z) & space.addable(x, yz) & space.addable(xy, turned)
    return only(speaks, space.point_error(left, right, x, y, z, yz, xy))


@law("x ⊕ y = gyr[x, y](y ⊕ x)", needs=["mobius_add", "gyration", "curvature"], tolerance="chain", group="gyro")
def gyrocommutativity(space: Space, x: Tensor, y: Tensor) -> Tensor:
    add = space.manifold.mobius_add
    left, right = add(x, y), space.manifold.gyration(x, y, add(y, x))
    return only(space.addable(x, y), space.point_error(left, right, x, y))


@law("gyr[x ⊕ y, y] = gyr[x, y]", needs=["mobius_add", "gyration", "curvature"], tolerance="chain", group="gyro")
def loop_property(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    gyr = space.manifold.gyration
    xy = space.manifold.mobius_add(x, y)
    left, right = gyr(xy, y, g), gyr(x, y, g)
    scale = space.euclidean(g) * (space.rounding(x, y, xy) * math.sqrt(abs(space.k or 0.0)) + 1)
    speaks = space.addable(x, y) & space.addable(xy, y)
    return only(speaks, ratio(space.euclidean(left - right), scale))


@law(
    "gyr[x, y]u = ⊖(x ⊕ y) ⊕ (x ⊕ (y ⊕ u))",
    needs=["mobius_add", "gyration", "curvature"],
    tolerance="chain",
    group="gyro",
)
def gyration_is_what_addition_lacks(space: Space, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    add = space.manifold.mobius_add
    xy, yz = add(x, y), add(y, z)
    outer = add(x, yz)
    speaks = space.addable(x, y) & space.addable(y, z) & space.addable(x, yz) & space.addable(-xy, outer)
    return only(speaks, space.point_error(space.manifold.gyration(x, y, z), add(-xy, outer), x, y, z, xy, yz, outer))


@law("gyrations are linear isometries that fix 0", needs=["gyration", "curvature"], tolerance="chain", group="gyro")
def gyrations_are_linear_isometries(space: Space, x: Tensor, y: Tensor, g: Tensor, u: Tensor) -> Tensor:
    def gyr(vector: Tensor) -> Tensor:
        return space.manifold.gyration(x, y, vector)

    size = (space.euclidean(g) + space.euclidean(u)) * space.condition(x, y)
    turned_g, turned_u = gyr(g).double(), gyr(u).double()
    length = ratio(space.euclidean(turned_g) - space.euclidean(g), size)
    angle = ratio((turned_g * turned_u).sum(-1) - (g.double() * u.double()).sum(-1), size**2)
    linear = ratio(space.euclidean(gyr(2 * g - u) - (2 * turned_g - turned_u)), size)
    fixed = space.euclidean(gyr(torch.zeros_like(g)))
    return only(space.addable(x, y), torch.stack([length, angle, linear, fixed]).amax(0))


@law("gyr[x, y] and gyr[y, x] are inverse", needs=["gyration", "curvature"], tolerance="chain", group="gyro")
def gyrations_invert(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    gyr = space.manifold.gyration
    back = gyr(y, x, gyr(x, y, g))
    return only(space.addable(x, y), ratio(space.euclidean(back - g), space.euclidean(g) * space.condition(x, y)))


@law(
    "x ⊞ y = x ⊕ gyr[x, −y]y, and it commutes",
    needs=["mobius_coadd", "mobius_add", "gyration", "curvature"],
    tolerance="chain",
    group="gyro",
)
def coaddition_commutes(space: Space, x: Tensor, y: Tensor) -> Tensor:
    total = space.manifold.mobius_coadd(x, y)
    turned = space.manifold.gyration(x, -y, y)
    expected = space.manifold.mobius_add(x, turned)
    swapped = space.manifold.mobius_coadd(y, x)
    # an error of x turns y, which lies far out: the two conditions multiply
    plus = space.rounding(x, y, total) * space.condition(x, y)
    error = torch.maximum(
        space.point_error(total, expected, x, y, plus=plus), space.point_error(total, swapped, x, y, plus=plus)
    )
    return only(space.addable(x, -y) & space.addable(x, turned), error)


@law(
    "x ⊟ y = x ⊞ (−y), and (x ⊟ y) ⊕ y = x",
    needs=["mobius_cosub", "mobius_coadd", "mobius_add", "curvature"],
    tolerance="chain",
    group="gyro",
)
def cosubtraction_cancels_on_the_right(space: Space, x: Tensor, y: Tensor) -> Tensor:
    less = space.manifold.mobius_cosub(x, y)
    opposite = space.manifold.mobius_coadd(x, -y)
    back = space.manifold.mobius_add(less, y)
    plus = space.rounding(x, y, less) * space.condition(x, y)
    error = torch.maximum(
        space.point_error(less, opposite, x, y, plus=plus), space.point_error(back, x, y, less, plus=plus)
    )
    turned = space.manifold.gyration(x, y, -y) if space.has("gyration") else -y
    return only(space.addable(x, y) & space.addable(x, turned) & space.addable(less, y), error)


@law("d(x, y) = 2 artan_k|(−x) ⊕ y|", needs=["mobius_add", "dist", "curvature"], tolerance="chain", group="gyro")
def distance_is_the_size_of_the_difference(space: Space, x: Tensor, y: Tensor) -> Tensor:
    distance = space.manifold.dist(x, y).double()
    difference = space.manifold.mobius_add(-x, y)
    speaks = space.addable(-x, y) & space.short(distance)
    return only(speaks, ratio(space.radius(difference) - distance, distance + space.rounding(x, y, difference)))


@law(
    "left translation is an isometry: d(z ⊕ x, z ⊕ y) = d(x, y)",
    needs=["mobius_add", "dist", "curvature"],
    tolerance="chain",
    group="gyro",
)
def left_translation_is_an_isometry(space: Space, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    add, dist = space.manifold.mobius_add, space.manifold.dist
    moved_x, moved_y = add(z, x), add(z, y)
    before, after = dist(x, y).double(), dist(moved_x, moved_y).double()
    scale = before + space.rounding(x, y, z, moved_x, moved_y)
    return only(space.addable(z, x) & space.addable(z, y), ratio(after - before, scale))


@law("rotation is an isometry: d(Qx, Qy) = d(x, y)", needs=["dist", "curvature"], tolerance="chain", group="gyro")
def rotation_is_an_isometry(space: Space, x: Tensor, y: Tensor, q: Tensor) -> Tensor:
    before = space.manifold.dist(x, y).double()
    after = space.manifold.dist(_apply(q, x), _apply(q, y)).double()
    return ratio(after - before, before + space.rounding(x, y))


@law(
    "the antipode of x is at distance π/√k (it is −x where there is none), and its antipode is x",
    needs=["antipode", "curvature"],
    tolerance="chain",
    group="gyro",
)
def antipode_is_opposite(space: Space, x: Tensor) -> Tensor:
    k = space.k or 0.0
    opposite = space.manifold.antipode(x)
    if k <= 0:
        return ratio(space.euclidean(opposite + x), space.euclidean(x))
    away = (math.pi / math.sqrt(k) - space.gap(x, opposite)).abs() * math.sqrt(k)
    again = ratio(space.euclidean(space.manifold.antipode(opposite) - x), space.euclidean(x))
    # arcsine near 1 turns an error eps into √eps: the squared defect is what is linear in the error
    return only(space.euclidean(x) * math.sqrt(k) > 1e-3, torch.maximum(away**2, again))


# ------------------------------------------------------------------------------------------ scalar and matrix factors


@law("1 ⊗ x = x, 0 ⊗ x = 0, (−1) ⊗ x = −x", needs=["mobius_scalar_mul", "curvature"], group="scalar")
def unit_scalars(space: Space, x: Tensor) -> Tensor:
    one = torch.ones_like(x[..., :1])
    times = space.manifold.mobius_scalar_mul
    scale = space.euclidean(x)
    errors = [
        ratio(space.euclidean(times(one, x) - x), scale),
        ratio(space.euclidean(times(-one, x) + x), scale),
        ratio(space.euclidean(times(0 * one, x)), scale),
    ]
    return only(space.short(space.radius(x)), torch.stack(errors).amax(0))


@law("(rs) ⊗ x = r ⊗ (s ⊗ x)", needs=["mobius_scalar_mul", "curvature"], tolerance="chain", group="scalar")
def scalar_associativity(space: Space, r: Tensor, s: Tensor, x: Tensor) -> Tensor:
    times = space.manifold.mobius_scalar_mul
    inner = times(s, x)
    left, right = times(r * s, x), times(r, inner)
    radius = space.radius(x)
    factor_s, factor_r = s.abs().double().squeeze(-1), r.abs().double().squeeze(-1)
    speaks = space.within(radius * factor_s) & space.within(radius * factor_s * factor_r) & space.within(radius)
    # r stretches the error of the inner product before the outer one maps it
    plus = factor_r * space.rounding(inner)
    return only(speaks, space.point_error(left, right, x, plus=plus))


@law(
    "(r + s) ⊗ x = (r ⊗ x) ⊕ (s ⊗ x)",
    needs=["mobius_scalar_mul", "mobius_add", "curvature"],
    tolerance="chain",
    group="scalar",
)
def scalar_distributivity(space: Space, r: Tensor, s: Tensor, x: Tensor) -> Tensor:
    times = space.manifold.mobius_scalar_mul
    one, other = times(r, x), times(s, x)
    left, right = times(r + s, x), space.manifold.mobius_add(one, other)
    radius = space.radius(x)
    speaks = space.within(radius) & space.addable(one, other)
    for factor in (r, s, r + s):
        speaks &= space.within(radius * factor.abs().double().squeeze(-1))
    size = (r.abs() + s.abs()).double().squeeze(-1)
    return only(speaks, space.point_error(left, right, x, one, other, plus=size * space.rounding(x)))


@law(
    "r ⊗ x is |r| times as far from the origin, on the ray of x",
    needs=["mobius_scalar_mul", "dist0", "curvature"],
    tolerance="chain",
    group="scalar",
)
def scalars_scale_the_distance(space: Space, r: Tensor, x: Tensor) -> Tensor:
    image = space.manifold.mobius_scalar_mul(r, x)
    size = r.abs().double().squeeze(-1)
    before, after = space.manifold.dist0(x).double(), space.manifold.dist0(image).double()
    length = ratio(after - size * before, size * before * space.condition(x, image))
    cosine = (image.double() * x.double() * r.double().sign()).sum(-1)
    product = space.euclidean(image) * space.euclidean(x)
    ray = ratio((product - cosine).clamp_min(0.0), product)
    radius = space.radius(x)
    # squares below the smallest float are 0
    seen = (space.euclidean(x) > 1e-15) & (space.euclidean(x) * size > 1e-15)
    return only(seen & space.within(radius) & space.within(size * radius), torch.maximum(length, ray))


@law("2 ⊗ x = x ⊕ x", needs=["mobius_scalar_mul", "mobius_add", "curvature"], tolerance="chain", group="scalar")
def twice_is_adding_itself(space: Space, x: Tensor) -> Tensor:
    left = space.manifold.mobius_scalar_mul(torch.full_like(x[..., :1], 2.0), x)
    right = space.manifold.mobius_add(x, x)
    return only(space.addable(x, x) & space.within(2 * space.radius(x)), space.point_error(left, right, x))


def _spectral(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix.double(), 2)


@law("(MN) ⊗ x = M ⊗ (N ⊗ x)", needs=["mobius_matvec", "curvature"], tolerance="chain", group="matrix")
def matrix_associativity(space: Space, m: Tensor, n: Tensor, x: Tensor) -> Tensor:
    times = space.manifold.mobius_matvec
    inner = times(n, x)
    left, right = times(m @ n, x), times(m, inner)
    first, second = _spectral(n), _spectral(n) * _spectral(m)
    radius = space.radius(x)
    speaks = space.within(radius) & space.within(radius * first) & space.within(radius * second)
    plus = (second * radius + _spectral(m) * space.rounding(inner)) * space.dim**0.5 + space.rounding(x)
    return only(speaks, space.point_error(left, right, plus=plus))


@law("(rI) ⊗ x = r ⊗ x", needs=["mobius_matvec", "mobius_scalar_mul", "curvature"], tolerance="chain", group="matrix")
def multiples_of_the_identity_are_scalars(space: Space, r: Tensor, x: Tensor) -> Tensor:
    eye = torch.eye(space.dim, dtype=space.dtype) * r.unsqueeze(-1)
    left, right = space.manifold.mobius_matvec(eye, x), space.manifold.mobius_scalar_mul(r, x)
    radius = space.radius(x)
    speaks = space.within(radius) & space.within(radius * r.abs().double().squeeze(-1))
    return only(speaks, space.point_error(left, right, x))


@law("Q ⊗ x = Qx for orthogonal Q", needs=["mobius_matvec", "curvature"], tolerance="chain", group="matrix")
def orthogonal_matrices_rotate(space: Space, q: Tensor, x: Tensor) -> Tensor:
    left, right = space.manifold.mobius_matvec(q, x), _apply(q, x)
    return only(space.short(space.radius(x)), space.point_error(left, right, x))


@law("log0(M ⊗ x) = M·log0(x)", needs=["mobius_matvec", "logmap0", "curvature"], tolerance="chain", group="matrix")
def matrices_act_in_the_tangent_space(space: Space, m: Tensor, x: Tensor) -> Tensor:
    image = space.manifold.mobius_matvec(m, x)
    expected = _apply(m.double(), space.manifold.logmap0(x).double())
    size = _spectral(m)
    radius = space.radius(x)
    scale = size * radius * space.condition(x, image) + 1e-300
    error = ratio(2 * space.euclidean(space.manifold.logmap0(image).double() - expected), scale)
    return only(space.within(radius) & space.within(size * radius), error)


@law(
    "a batch of points through one matrix is each point through it",
    needs=["mobius_matvec", "curvature"],
    group="matrix",
)
def one_matrix_serves_a_batch(space: Space, m: Tensor, x: Tensor) -> Tensor:
    one = m[:1].expand_as(m)
    together, apart = space.manifold.mobius_matvec(m[0], x), space.manifold.mobius_matvec(one, x)
    radius = space.radius(x)
    speaks = space.within(radius) & space.within(radius * _spectral(one))
    return only(speaks, space.point_error(together, apart, x))


@law(
    "pointwise multiplication is multiplication by a diagonal matrix",
    needs=["mobius_pointwise_mul", "mobius_matvec", "curvature"],
    tolerance="chain",
    group="matrix",
)
def pointwise_multiplication_is_diagonal(space: Space, g: Tensor, x: Tensor) -> Tensor:
    left = space.manifold.mobius_pointwise_mul(g, x)
    right = space.manifold.mobius_matvec(torch.diag_embed(g), x)
    return only(space.short(space.radius(x)), space.point_error(left, right, x))


@law(
    "the Möbius version of a linear map is its matrix product, of the identity is nothing",
    needs=["mobius_fn_apply", "mobius_matvec", "curvature"],
    tolerance="chain",
    group="matrix",
)
def functions_act_in_the_tangent_space(space: Space, m: Tensor, x: Tensor) -> Tensor:
    linear = space.manifold.mobius_fn_apply(lambda value: _apply(m, value), x)
    expected = space.manifold.mobius_matvec(m, x)
    same = space.manifold.mobius_fn_apply(lambda value: value, x)
    radius = space.radius(x)
    speaks = space.within(radius) & space.within(radius * _spectral(m))
    error = torch.maximum(space.point_error(linear, expected, x), space.point_error(same, x))
    return only(speaks, error)


# ------------------------------------------------------------------------------------------------------------ midpoints


@law(
    "the midpoint of two points is the middle of their geodesic",
    needs=["weighted_midpoint", "dist", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def midpoint_of_two_is_the_middle(space: Space, x: Tensor, y: Tensor) -> Tensor:
    middle = space.manifold.weighted_midpoint(torch.stack([x, y], dim=1), reducedim=[1])
    half = space.manifold.dist(x, y).double() / 2
    scale = half + space.rounding(x, y, middle)
    error = torch.maximum(
        ratio(space.manifold.dist(x, middle).double() - half, scale),
        ratio(space.manifold.dist(y, middle).double() - half, scale),
    )
    return only(space.short(2 * half) & _hemisphere(space, torch.stack([x, y], dim=1)), error)


def _hemisphere(space: Space, xs: Tensor) -> Tensor:
    """Whether a cloud is well inside a half sphere, where its midpoint is one of a kind; always for k ≤ 0.

    And away from the point at infinity, which has no coordinates.
    """
    k = space.k or 0.0
    if k <= 0:
        return torch.ones(xs.shape[0], dtype=torch.bool)
    spread = torch.stack([space.gap(xs[:, 0], xs[:, j]) for j in range(1, xs.shape[1])]).amax(0)
    outermost = space.radius(xs[:, 0])
    return ~((spread * math.sqrt(k) > 0.25 * math.pi) | (outermost * math.sqrt(k) > 0.6 * math.pi))


@law(
    "the midpoint moves with the points under translations and rotations",
    needs=["weighted_midpoint", "mobius_add", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def midpoint_is_equivariant(space: Space, xs: Tensor, ws: Tensor, z: Tensor, q: Tensor) -> Tensor:
    def middle(points: Tensor) -> Tensor:
        return space.manifold.weighted_midpoint(points, ws, reducedim=[1])

    add = space.manifold.mobius_add
    moved = add(z.unsqueeze(1).expand_as(xs), xs)
    before, after = middle(xs), middle(moved)
    turned = (q.unsqueeze(1) @ xs.unsqueeze(-1)).squeeze(-1)
    corners = [xs[:, j] for j in range(xs.shape[1])] + [moved[:, j] for j in range(xs.shape[1])]
    speaks = _hemisphere(space, xs) & space.addable(z, before)
    for j in range(xs.shape[1]):
        speaks &= space.addable(z, xs[:, j])
    translated = space.point_error(after, add(z, before), z, *corners)
    rotated = space.point_error(middle(turned), _apply(q, before), *corners)
    return only(speaks, torch.maximum(translated, rotated))


@law(
    "the midpoint does not depend on the order of the points or on the scale of the weights; equal weights are none",
    needs=["weighted_midpoint", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def midpoint_weights_are_relative(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    def middle(points: Tensor, weights: Tensor | None) -> Tensor:
        return space.manifold.weighted_midpoint(points, weights, reducedim=[1])

    corners = [xs[:, j] for j in range(xs.shape[1])]
    base = middle(xs, ws)
    errors = [
        space.point_error(middle(xs, 4 * ws), base, *corners),
        space.point_error(middle(xs.flip(1), ws.flip(1)), base, *corners),
        space.point_error(middle(xs, torch.ones_like(ws)), middle(xs, None), *corners),
    ]
    return only(_hemisphere(space, xs), torch.stack(errors).amax(0))


@law(
    "a point of weight 2 counts as two points of weight 1; one point is its own midpoint",
    needs=["weighted_midpoint", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def midpoint_weights_count(space: Space, xs: Tensor, x: Tensor) -> Tensor:
    twice = torch.cat([xs, xs[:, :1]], dim=1)
    weights = torch.ones(xs.shape[:2], dtype=xs.dtype)
    weights[:, 0] = 2.0
    left = space.manifold.weighted_midpoint(xs, weights, reducedim=[1])
    right = space.manifold.weighted_midpoint(twice, reducedim=[1])
    corners = [xs[:, j] for j in range(xs.shape[1])]
    alone = space.manifold.weighted_midpoint(x.unsqueeze(1), 3 * torch.ones_like(x[:, :1]), reducedim=[1])
    error = torch.maximum(space.point_error(left, right, *corners), space.point_error(alone, x))
    return only(_hemisphere(space, xs) & space.short(space.radius(x)), error)


@law(
    "the midpoint lies between: no farther from any point than the farthest of them",
    needs=["weighted_midpoint", "dist", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def midpoint_lies_between(space: Space, xs: Tensor, ws: Tensor, z: Tensor) -> Tensor:
    middle = space.manifold.weighted_midpoint(xs, ws, reducedim=[1])
    distances = torch.stack([space.manifold.dist(z, xs[:, j]).double() for j in range(xs.shape[1])])
    corners = [xs[:, j] for j in range(xs.shape[1])]
    beyond = (space.manifold.dist(z, middle).double() - distances.amax(0)).clamp_min(0.0)
    scale = distances.amax(0) + space.rounding(z, middle, *corners)
    # Balls are convex: on a sphere only those of less than a quarter of the circumference.
    speaks = _hemisphere(space, xs) & ~(distances.amax(0) * math.sqrt(max(space.k or 0.0, 0.0)) > 1.4)
    return only(speaks, ratio(beyond, scale))


@law(
    "lincomb multiplies the midpoint by the sum of the weights",
    needs=["weighted_midpoint", "mobius_scalar_mul", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def linear_combination_scales_the_midpoint(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    weights = ws / ws.sum(1, keepdim=True) * 1.5
    middle = space.manifold.weighted_midpoint(xs, weights, reducedim=[1])
    combined = space.manifold.weighted_midpoint(xs, weights, reducedim=[1], lincomb=True)
    expected = space.manifold.mobius_scalar_mul(torch.full_like(middle[..., :1], 1.5), middle)
    radius = space.radius(middle)
    speaks = _hemisphere(space, xs) & space.within(1.5 * radius) & space.within(radius)
    corners = [xs[:, j] for j in range(xs.shape[1])]
    return only(speaks, space.point_error(combined, expected, *corners))


@law(
    "segment midpoints are the midpoints of the segments; an empty one is the origin",
    needs=["segment_midpoint", "weighted_midpoint", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def segment_midpoints_are_midpoints(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    count, size = xs.shape[:2]
    rows = torch.arange(count).repeat_interleave(size)
    order = torch.arange(count * size).flip(0)  # not sorted by segment: the index alone decides
    flat, weights = xs.reshape(count * size, -1)[order], ws.reshape(-1)[order]
    segments = space.manifold.segment_midpoint(flat, weights, rows[order] + 1, count + 1)
    expected = space.manifold.weighted_midpoint(xs, ws, reducedim=[1])
    corners = [xs[:, j] for j in range(size)]
    error = space.point_error(segments[1:], expected, *corners)
    error = torch.where(segments[0].abs().sum() == 0, error, torch.ones_like(error))
    return only(_hemisphere(space, xs), error)


@law(
    "the centroid of the sums Σwλx, Σw(λ−1), Σw is the midpoint",
    needs=["centroid", "weighted_midpoint", "lambda_x", "curvature"],
    tolerance="chain",
    group="midpoint",
)
def centroid_is_the_midpoint(space: Space, xs: Tensor, ws: Tensor) -> Tensor:
    factor, w = space.manifold.lambda_x(xs, keepdim=True), ws.unsqueeze(-1)
    sums = [(w * factor * xs).sum(1), (w * (factor - 1)).sum(1), w.sum(1)]
    middle = space.manifold.weighted_midpoint(xs, ws, reducedim=[1])
    corners = [xs[:, j] for j in range(xs.shape[1])]
    # sums have lost what the points still know: T² − c|V|² cancels
    plus = space.rounding(*corners) * space.condition(*corners)
    error = space.point_error(space.manifold.centroid(*sums), middle, *corners, plus=plus)
    seen = ~(space.condition(*corners) ** 2 * space.eps > 1e-4)
    return only(_hemisphere(space, xs) & seen, error)


# --------------------------------------------------------------------------------------------------------------- planes


@law(
    "points on the plane are at distance 0; along its normal the distance is the way gone, with its sign",
    needs=["dist2plane", "expmap", "curvature"],
    tolerance="chain",
    group="plane",
)
def plane_distance_grows_along_the_normal(space: Space, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    length = space.length(x, u)
    ahead = space.manifold.expmap(x, u)
    behind = space.manifold.expmap(x, -u)
    scale = length + space.rounding(x, ahead, behind)
    plane = space.manifold.dist2plane
    forward = ratio(plane(ahead, x, u, signed=True).double() - length, scale)
    backward = ratio(plane(behind, x, u, signed=True).double() + length, scale)
    # the part of v across u stays on the plane
    along = (u.double() * v.double()).sum(-1, keepdim=True) / u.double().square().sum(-1, keepdim=True).clamp_min(
        1e-300
    )
    across = (v.double() - along * u.double()).to(space.dtype)
    aside = space.manifold.expmap(x, across)
    beside = space.rounding(x, aside) + space.spread(space.length(x, v)) + space.length(x, v)
    on = ratio(plane(aside, x, u).double(), beside)
    quarter = ~(torch.maximum(length, space.length(x, v)) * math.sqrt(max(space.k or 0.0, 0.0)) > 1.4)
    # a normal of 1e-8 of the unit has a direction only up to the rounding of its own components
    speaks = quarter & (length > 1e-4 * space.domain.unit)
    return only(speaks, torch.stack([forward, backward, on]).amax(0))


@law(
    "almost a quarter of a sphere along the normal the distance still is the way gone",
    needs=["dist2plane", "expmap", "positive curvature"],
    tolerance="chain",
    group="plane",
)
def plane_distance_is_right_a_quarter_away(space: Space, x: Tensor, g: Tensor, t: Tensor) -> Tensor:
    # near the origin, so that the end is nowhere near the point at infinity
    unit = space.domain.unit
    base = (x.double() * (0.3 * unit / space.euclidean(x).clamp_min(0.3 * unit).unsqueeze(-1))).to(space.dtype)
    short = 10 ** (-1 - 5 * t.double().squeeze(-1))  # of a quarter, by a tenth to a millionth
    length = math.pi / 2 * unit * (1 - short)
    size = (length / space.length(base, g).clamp_min(1e-300)).unsqueeze(-1)
    u = (g.double() * size).to(space.dtype)
    distance = space.manifold.dist2plane(space.manifold.expmap(base, u), base, g).double()
    return only(space.euclidean(g) > 0, ratio(distance - space.length(base, u), length))


@law(
    "turning the normal turns the sign; unsigned is absolute; scaled is times |a|; its length does not matter",
    needs=["dist2plane", "curvature"],
    group="plane",
)
def plane_options_agree(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    plane = space.manifold.dist2plane
    value = plane(x, y, g, signed=True).double()
    normal = 3 * g
    # the pairing of normal and difference may cancel: its error is that of the difference
    scale = space.gap(x, y) * space.condition(x, y)
    errors = [
        ratio(plane(x, y, -g, signed=True).double() + value, scale),
        ratio(plane(x, y, g).double() - value.abs(), scale),
        ratio(plane(x, y, normal, signed=True).double() - value, scale),
        ratio(plane(x, y, normal, signed=True, scaled=True).double() - value * space.euclidean(normal), 3 * scale),
    ]
    return torch.stack(errors).amax(0)


@law(
    "the plane is no farther than its own point: dist2plane(x, p, a) ≤ d(x, p)",
    needs=["dist2plane", "dist", "curvature"],
    tolerance="chain",
    group="plane",
)
def plane_is_nearer_than_its_point(space: Space, x: Tensor, y: Tensor, g: Tensor) -> Tensor:
    distance = space.manifold.dist(x, y).double()
    beyond = (space.manifold.dist2plane(x, y, g).double() - distance).clamp_min(0.0)
    return ratio(beyond, distance + space.rounding(x, y))
