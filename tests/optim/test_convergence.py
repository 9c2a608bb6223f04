"""Riemannian Adam arrives: at Fréchet means, and at the curvature that made the distances.

The experiments are those of benchmarks/convergence.py.
"""

import importlib.util
import pathlib

import pytest
import torch

import hgeo
from hgeo.optim import riemannian_adam

PATH = pathlib.Path(__file__).parents[2] / "benchmarks" / "convergence.py"
SPEC = importlib.util.spec_from_file_location("convergence", PATH)
convergence = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(convergence)


@pytest.mark.parametrize("space", convergence.SPACES)
def test_it_finds_the_frechet_mean_of_a_thousand_points(space):
    assert convergence.mean_error(space) < 1e-6


@pytest.mark.parametrize(("model", "c"), convergence.CURVATURES)
def test_it_learns_the_curvature_back_from_distances(model, c):
    found = convergence.learned_curvature(model, c)
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
