"""Riemannian Adam arrives: at Fréchet means, and at the curvature that made the distances."""

import geoopt
import pytest
import torch

import hgeo
from hgeo.optim import riemannian_adam

SPACES = [
    "ball:3",
    "ball:3,c=0",
    "stereo:3,k=0.5",
    "sproj:3",
    "lorentz:3",
    "sphere:3",
    "euclidean:3",
    "ball:2 x sphere:2 x euclidean:1",
]


def frechet_mean(manifold, x, mean):
    """The mean by a method that has nothing to do with the optimiser: m ← exp_m(average of log_m(x))."""
    for _ in range(60):
        mean = manifold.expmap(mean, manifold.logmap(mean.expand_as(x), x).mean(0))
    return mean


@pytest.mark.parametrize("text", SPACES)
def test_it_finds_the_frechet_mean_of_a_thousand_points(text):
    manifold, dim = hgeo.space(text)
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(1000, dim, dtype=torch.float64, generator=generator) * 0.25 + 0.1
    x = hgeo.exp0(manifold, v).detach()
    start = hgeo.exp0(manifold, torch.full((dim,), -0.2, dtype=torch.float64)).detach()
    mean = geoopt.ManifoldParameter(start.clone(), manifold=manifold)
    optimizer = riemannian_adam([mean], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    for _ in range(300):
        optimizer.zero_grad()
        (hgeo.dist(manifold, mean.expand_as(x), x) ** 2).mean().backward()
        optimizer.step()
        schedule.step()
    found = mean.detach().as_subclass(torch.Tensor)
    assert hgeo.dist(manifold, found, frechet_mean(manifold, x, start)).item() < 1e-6


@pytest.mark.parametrize(
    ("make", "c"),
    [*[(hgeo.PoincareBall, c) for c in (0.0, 0.1, 1.0, 10.0)], *[(hgeo.Lorentz, c) for c in (0.1, 1.0, 10.0)]],
)
def test_it_learns_the_curvature_back_from_distances(make, c):
    # Coordinates that mean the same for every c: those of the ball, or the spatial ones of the hyperboloid.
    generator = torch.Generator().manual_seed(0)
    radius = 0.6 / max(c, 1.0) ** 0.5
    u = torch.randn(60, 3, dtype=torch.float64, generator=generator)
    u = u / u.norm(dim=-1, keepdim=True) * torch.rand(60, 1, dtype=torch.float64, generator=generator) * radius

    def points(manifold):
        if make is hgeo.PoincareBall:
            return manifold.projx(u)
        return manifold.projx(torch.cat([torch.ones_like(u[:, :1]), 3 * u], -1))

    truth = make(torch.tensor(c, dtype=torch.float64))
    wanted = hgeo.dist(truth, points(truth)[:30], points(truth)[30:])
    manifold = make(torch.tensor(0.5, dtype=torch.float64), learnable=True)
    optimizer = riemannian_adam(manifold, lr=0.5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
    for _ in range(300):
        optimizer.zero_grad()
        x = points(manifold)
        (hgeo.dist(manifold, x[:30], x[30:]) / wanted - 1).square().mean().backward()
        optimizer.step()
        schedule.step()
    found = manifold.c.item()
    assert found == pytest.approx(c, rel=0.01) if c else found < 0.01


@pytest.mark.parametrize("k", [-1.0, 0.0, 1.0])
def test_it_learns_a_curvature_of_either_sign(k):
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(60, 3, dtype=torch.float64, generator=generator) * 0.2
    wanted = hgeo.math.dist(u[:30], u[30:], k=k)
    manifold = hgeo.Stereographic(torch.tensor(-k / 2 + 0.3, dtype=torch.float64), learnable=True)
    optimizer = riemannian_adam(manifold, lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    for _ in range(200):
        optimizer.zero_grad()
        (manifold.dist(u[:30], u[30:]) / wanted - 1).square().mean().backward()
        optimizer.step()
        schedule.step()
    assert manifold.k.item() == pytest.approx(k, abs=0.01)
