"""At the edge of the ball: in half precision, and a few ulps from the boundary."""

from fractions import Fraction

import pytest
import torch

import hgeo
import hgeo.math as hm
from hgeo.nn import HATConv

HALF = [torch.float16, torch.bfloat16]
BALLS = {
    "ball": lambda: hgeo.PoincareBall(1.0),
    "small ball": lambda: hgeo.PoincareBall(4.0),
    "stereo": lambda: hgeo.Stereographic(-0.3),
    "klein": lambda: hgeo.Klein(0.7),
}


def vectors(rows, d, dtype, seed=0):
    return torch.randn(rows, d, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("kind", BALLS)
def test_half_precision_keeps_points_inside_by_its_own_margin(kind, dtype):
    manifold = BALLS[kind]()
    c = abs(float(manifold.c if kind == "klein" else manifold.k))
    v = 3 * vectors(2000, 8, dtype)
    x = hgeo.exp0(manifold, v)
    for points in (x, manifold.projx(v), manifold.expmap(x, v.roll(1, 0))):
        assert points.dtype == dtype
        assert (c**0.5 * points.double().norm(dim=-1)).max() <= 1 - 3.99 * torch.finfo(dtype).eps
        assert torch.equal(manifold.projx(points), points)
        assert hgeo.log0(manifold, points).isfinite().all()
        assert hgeo.dist(manifold, points, points.roll(1, 0)).isfinite().all()


@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_stops_the_hyperboloid_where_it_stops_the_ball(dtype):
    manifold = hgeo.Lorentz(1.0)
    v = 9 * vectors(500, 4, dtype)
    x, near = hgeo.exp0(manifold, v), hgeo.exp0(manifold, v / 30)
    far = manifold.expmap(near, 20 * manifold.proju(near, near.roll(1, 0)))
    for points in (x, manifold.projx(100 * x), far):
        assert points.isfinite().all()
        assert hgeo.log0(manifold, points).isfinite().all()
        assert hgeo.dist(manifold, points, points.roll(1, 0)).isfinite().all()


def test_a_small_curvature_is_not_rounded_to_the_points_half_precision():
    x = hgeo.exp0(hgeo.Lorentz(1e-6), torch.tensor([1.0, 2.0], dtype=torch.float16))
    assert x.tolist() == [1000.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("aggregate", ["tangent", "midpoint"])
@pytest.mark.parametrize("space", [hgeo.PoincareBall, hgeo.Lorentz, hgeo.Klein])
def test_two_layers_in_half_precision_are_finite_far_out(space, aggregate, dtype):
    torch.manual_seed(0)
    manifold = space(1.0)
    first = HATConv(5, 4, manifold, aggregate=aggregate, backend="reference").to(dtype)
    second = HATConv(4, 3, manifold, in_manifold=manifold, aggregate=aggregate, backend="reference").to(dtype)
    edges = torch.randint(0, 20, (2, 80))
    x = hgeo.log0(manifold, second(edges, first(edges, 30 * vectors(20, 5, dtype))))
    assert x.dtype == dtype
    assert x.isfinite().all()
    if dtype == torch.bfloat16:  # float16 has the range for gradients only with a scaled loss
        x.float().square().sum().backward()
        assert all(p.grad.isfinite().all() for p in (*first.parameters(), *second.parameters()) if p.requires_grad)


# --- some ulps from the boundary ---


def interior(d, dtype, c):
    """Points of the open ball, by exact arithmetic, whose 1 - c|x|² rounding may make 0."""
    x = torch.randn(3000, d, dtype=torch.float64, generator=torch.Generator().manual_seed(d))
    x = (x / x.norm(dim=-1, keepdim=True) / c**0.5).to(dtype)
    return x[[Fraction(c) * sum(Fraction(number) ** 2 for number in row) < 1 for row in x.tolist()]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("c", [1.0, 100.0, 0.25])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_points_a_few_ulps_inside_have_finite_distances_and_gradients(d, c, dtype):
    x = (
        interior(d, dtype, c)
        if d > 1
        else torch.nextafter(torch.tensor([[c**-0.5]], dtype=dtype), torch.zeros(1, dtype=dtype))
    )
    assert len(x) > 0
    k = torch.tensor(-c, dtype=dtype)
    y = 0.3 * x.flip(0)
    operations = {
        "dist": lambda x, k: hm.dist(x, y, k=k),
        "dist to itself turned": lambda x, k: hm.dist(x, -x.flip(0), k=k),
        "dist0": lambda x, k: hm.dist0(x, k=k),
        "logmap0": lambda x, k: hm.logmap0(x, k=k),
        "logmap": lambda x, k: hm.logmap(x, y, k=k),
        "scalar multiple": lambda x, k: hm.mobius_scalar_mul(torch.tensor(0.5, dtype=dtype), x, k=k),
        "lambda": lambda x, k: hm.lambda_x(x, k=k),
        "transport": lambda x, k: hm.parallel_transport(x, y, x, k=k),
    }
    for name, operation in operations.items():
        leaf, bent = x.clone().requires_grad_(True), k.clone().requires_grad_(True)
        value = operation(leaf, bent)
        assert value.isfinite().all(), name
        for gradient in torch.autograd.grad(value.sum(), (leaf, bent)):
            assert gradient.isfinite().all(), name
    radius = hm.dist0(x, k=k) * c**0.5
    outermost = torch.log(torch.tensor(4 / torch.finfo(dtype).eps, dtype=dtype))  # 2 artanh(1 - eps/2)
    assert (radius <= outermost + 1).all()
    assert (radius >= outermost - 6).all()
