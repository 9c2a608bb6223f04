"""When a curvature moves: bounds, points, momentum, and the gradient along which it moves."""

import geoopt
import pytest
import torch
from torch import nn

import hgeo
from hgeo.optim import riemannian_adam, riemannian_sgd

OPTIMIZERS = {
    "adam": lambda model, lr: riemannian_adam(model, lr=lr),
    "sgd": lambda model, lr: riemannian_sgd(model, lr=lr, momentum=0.9),
}


def plain(x):
    return x.detach().as_subclass(torch.Tensor)


def edge_points(manifold, dim, dtype=torch.float32):
    """Points from the origin to far out, so that a growing curvature leaves some of them outside."""
    generator = torch.Generator().manual_seed(1)
    v = torch.randn(8, dim, generator=generator, dtype=dtype)
    v = v / v.norm(dim=-1, keepdim=True) * torch.linspace(0.0, 3.0, 8, dtype=dtype)[:, None]
    return hgeo.exp0(manifold, v)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: hgeo.PoincareBall(1.0, learnable=True),
        lambda: hgeo.Stereographic(-1.0, learnable=True),
        lambda: hgeo.Lorentz(1.0, learnable=True),
        lambda: geoopt.PoincareBall(1.0, learnable=True),
        lambda: geoopt.Lorentz(1.0, learnable=True),
        lambda: hgeo.Product((hgeo.PoincareBall(1.0, learnable=True), 2), (hgeo.Lorentz(1.0, learnable=True), 2)),
    ],
    ids=["ball", "stereo", "lorentz", "geoopt-ball", "geoopt-lorentz", "product"],
)
@pytest.mark.parametrize("direction", [1.0, -1.0], ids=["grows", "shrinks"])
def test_points_and_momentum_lie_on_the_new_manifold(kind, make, direction):
    manifold = make()
    dim = getattr(manifold, "dim", 3) if isinstance(manifold, hgeo.Product) else 3
    point = geoopt.ManifoldParameter(edge_points(manifold, dim), manifold=manifold)
    frozen = geoopt.ManifoldParameter(edge_points(manifold, dim), manifold=manifold, requires_grad=False)
    optimizer = OPTIMIZERS[kind]([point, frozen], 0.05)
    target = hgeo.exp0(manifold, torch.full((dim,), 0.2)).detach()
    for _ in range(6):
        optimizer.zero_grad()
        target = manifold.projx(target).detach()
        loss = hgeo.dist(manifold, point, target.expand_as(point)).sum() * 1e-3
        # geoopt's Lorentz(k) is 1/c: the sign does not matter here, only that the curvature moves much.
        for curvature in manifold.parameters():
            loss = loss - direction * curvature
        loss.backward()
        optimizer.step()
    for x in (point, frozen):
        hgeo.validate(manifold, plain(x))
        assert manifold.check_point_on_manifold(plain(x))
    momentum = optimizer.state[point]["exp_avg" if kind == "adam" else "momentum_buffer"]
    assert manifold.check_vector_on_tangent(plain(point), momentum, atol=1e-5, rtol=1e-5)
    assert all(torch.isfinite(p).all() for p in (plain(point), momentum))


def test_buffers_that_lie_on_the_manifold_follow_too():
    module = nn.Module()
    module.ball = hgeo.PoincareBall(1.0, learnable=True)
    module.register_buffer("mean", geoopt.ManifoldTensor(torch.tensor([0.99, 0.0]), manifold=module.ball))
    optimizer = riemannian_sgd(module, lr=1.0)
    (-module.ball.c).backward()
    optimizer.step()
    assert module.ball.c.item() == 2.0
    assert plain(module.mean).norm() < 0.5**0.5
    hgeo.validate(module.ball, plain(module.mean))


def test_points_of_another_manifold_are_not_touched():
    moving, still = hgeo.PoincareBall(1.0, learnable=True), hgeo.PoincareBall(1.0)
    point = geoopt.ManifoldParameter(torch.tensor([0.9, 0.0]), manifold=still)
    optimizer = riemannian_sgd([moving, point], lr=1.0)
    (-moving.c).backward()
    version = point._version
    optimizer.step()
    assert point._version == version


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(("make", "sign"), [(hgeo.PoincareBall, -1), (hgeo.SphereProjection, 1)])
def test_a_curvature_stops_at_its_bound_and_returns_at_once(kind, make, sign):
    manifold = make(0.05, learnable=True)
    stored, _ = manifold.curvature_bound
    optimizer = OPTIMIZERS[kind](manifold, 0.1)
    for _ in range(20):  # far more than needed to reach the bound
        optimizer.zero_grad()
        (sign * manifold.k).backward()
        optimizer.step()
        assert stored.item() >= 0.0
    assert manifold.k.item() == 0.0
    optimizer.zero_grad()
    (-sign * manifold.k).backward()
    optimizer.step()
    assert stored.item() > 0.0


def test_the_hyperboloid_keeps_a_positive_curvature():
    manifold = hgeo.Lorentz(0.05, learnable=True)
    optimizer = riemannian_adam(manifold, lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        manifold.c.backward()
        optimizer.step()
    smallest = manifold.curvature_bound[1]
    assert manifold.stored_c.item() == pytest.approx(smallest) == pytest.approx(1e-6)
    optimizer.zero_grad()
    (-manifold.c).backward()
    optimizer.step()
    assert manifold.stored_c.item() > 0.01


# --- which gradient c uses ---


def distances(manifold, x, y):
    return hgeo.dist(manifold, x, y).sum()


def test_on_the_ball_c_follows_the_partial_derivative_at_fixed_coordinates():
    # At fixed coordinates, and at fixed tangent coordinates (points carried along), the derivatives differ in sign.
    v = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    ball = hgeo.PoincareBall(torch.tensor(1.0, dtype=torch.float64), learnable=True)
    x = geoopt.ManifoldParameter(ball.expmap0(v).detach(), manifold=ball)
    before = plain(x).clone()

    def loss():
        return distances(ball, x[:1], x[1:]) - 2.2 * ball.dist0(x).sum()

    fixed_points = torch.autograd.grad(loss(), ball.stored_c)[0].item()
    carried = ball.expmap0(v)
    along = distances(ball, carried[:1], carried[1:]) - 2.2 * ball.dist0(carried).sum()
    carried_points = torch.autograd.grad(along, ball.stored_c)[0].item()
    assert fixed_points < 0 < carried_points
    optimizer = riemannian_sgd([x], lr=0.0, curvature_lr=0.01)
    loss().backward()
    optimizer.step()
    assert ball.c.item() == pytest.approx(1.0 - 0.01 * fixed_points, rel=1e-9)
    # and the points were indeed not carried along
    torch.testing.assert_close(plain(x), before, rtol=0, atol=0)


def test_on_the_hyperboloid_c_follows_the_derivative_at_fixed_spatial_coordinates():
    generator = torch.Generator().manual_seed(0)
    spatial = torch.randn(6, 3, dtype=torch.float64, generator=generator)
    lorentz = hgeo.Lorentz(torch.tensor(0.7, dtype=torch.float64), learnable=True)

    def lifted(c):
        return torch.cat([(1 / c + spatial.square().sum(-1, keepdim=True)).sqrt(), spatial], -1)

    c = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    points = lifted(c)
    expected = torch.autograd.grad(hgeo.math.lorentz_dist(points[:3], points[3:], c=c).sum(), c)[0].item()
    x = geoopt.ManifoldParameter(lifted(c).detach(), manifold=lorentz)
    loss = distances(lorentz, x[:3], x[3:])
    partial = torch.autograd.grad(loss, lorentz.stored_c, retain_graph=True)[0].item()
    assert abs(partial - expected) > 0.05 * abs(expected)  # the motion of x₀ matters
    optimizer = riemannian_sgd([x], lr=0.0, curvature_lr=1e-3)
    loss.backward()
    optimizer.step()
    assert (0.7 - lorentz.c.item()) / 1e-3 == pytest.approx(expected, rel=1e-9)
    torch.testing.assert_close(plain(x)[:, 1:], spatial, rtol=0, atol=0)


def test_a_small_step_of_c_lowers_the_loss_on_every_manifold():
    """The gradient used is that of the loss along the path on which c and its points move, clamped points included."""
    for make in (hgeo.PoincareBall, hgeo.Lorentz, geoopt.PoincareBall, geoopt.Lorentz):
        manifold = make(torch.tensor(0.9, dtype=torch.float64), learnable=True).double()
        x = geoopt.ManifoldParameter(edge_points(manifold, 3, torch.float64), manifold=manifold)

        def loss(manifold=manifold, x=x):
            return (hgeo.dist(manifold, x[:4], x[4:]) - 1.0).square().mean()

        for _ in range(5):
            before = loss()
            optimizer = riemannian_sgd([x], lr=0.0, curvature_lr=1e-4)
            before.backward()
            optimizer.step()
            assert loss().item() < before.item(), make
            optimizer.zero_grad()
