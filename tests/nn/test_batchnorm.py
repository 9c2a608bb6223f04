"""Batch normalisation moves the mean, sets the spread and remembers both."""

from __future__ import annotations

import pytest
import torch

import hgeo
import hgeo.nn as hnn

SPACES = ["ball:3,c=0.7", "lorentz:3,c=0.7", "sproj:3,k=0.3", "euclidean:3", "ball:2 x euclidean:1"]


def batch(manifold, seed: int = 0):  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(seed)
    v = 0.3 * torch.randn(40, 3, dtype=torch.float64, generator=generator) + 0.2
    return hgeo.exp0(manifold, v)


@pytest.mark.parametrize("space", SPACES)
def test_a_normalised_batch_has_its_frechet_mean_at_the_origin_and_unit_variance(space: str) -> None:
    manifold = hgeo.space(space).manifold
    norm = hnn.BatchNorm(3, manifold, mean="frechet", affine=False, eps=0.0).double()
    y = norm(batch(manifold))
    origin = hgeo.exp0(manifold, torch.zeros_like(y[:, :3]))
    torch.testing.assert_close(hgeo.log0(manifold, y).mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(hgeo.dist(manifold, y, origin).square().mean(), torch.ones((), dtype=torch.float64))


def test_point_and_gain_move_the_batch_and_stretch_it() -> None:
    manifold = hgeo.PoincareBall(c=0.7)
    norm = hnn.BatchNorm(3, manifold, mean="frechet", eps=0.0).double()
    with torch.no_grad():
        norm.gain.fill_(0.5)
        norm.point.copy_(torch.tensor([0.1, -0.4, 0.2]))
    y = norm(batch(manifold))
    mean = hnn.Midpoint(manifold, how="frechet")(y)
    torch.testing.assert_close(mean, norm.point.data, atol=1e-9, rtol=0)
    spread = hgeo.dist(manifold, y, mean.expand_as(y)).square().mean()
    torch.testing.assert_close(spread, torch.tensor(0.25, dtype=torch.float64))


@pytest.mark.parametrize("mean", ["gyro", "tangent", "frechet"])
@pytest.mark.parametrize("space", SPACES)
def test_running_statistics_settle_at_those_of_the_batch_and_serve_evaluation(space: str, mean) -> None:  # type: ignore[no-untyped-def]
    manifold = hgeo.space(space).manifold
    norm = hnn.BatchNorm(3, manifold, mean=mean, momentum=0.9, iterations=5).double()
    x = batch(manifold)
    for _ in range(12):
        y = norm(x)
    expected = hnn.Midpoint(manifold, how=mean)(x)
    torch.testing.assert_close(hgeo.exp0(manifold, norm.running_mean), expected, atol=1e-9, rtol=1e-9)
    assert int(norm.num_batches_tracked) == 12
    # evaluation uses the unbiased variance, as torch's does
    norm.eval()
    norm.running_var.mul_(39 / 40)
    torch.testing.assert_close(norm(x), y, atol=1e-8, rtol=1e-8)


def test_without_momentum_the_statistics_are_plain_averages() -> None:
    norm = hnn.BatchNorm(3, hgeo.Stereographic(k=0.0), momentum=None).double()
    batches = [batch(norm.manifold, seed) for seed in range(5)]
    for x in batches:
        norm(x)
    torch.testing.assert_close(norm.running_mean, torch.stack([x.mean(0) for x in batches]).mean(0))


def test_running_statistics_survive_a_curvature_that_moves() -> None:
    manifold = hgeo.PoincareBall(c=0.1, learnable=True)
    norm = hnn.BatchNorm(3, manifold)
    norm(hgeo.exp0(manifold, 2 * torch.randn(10, 3) + 3).detach())
    with torch.no_grad():
        manifold.stored_c.fill_(4.0)
    norm.eval()
    y = norm(hgeo.exp0(manifold, torch.randn(10, 3)))
    hgeo.validate(manifold, y.detach())


def test_a_batch_of_one_point_is_refused_in_training() -> None:
    norm = hnn.BatchNorm(3, hgeo.PoincareBall())
    with pytest.raises(ValueError, match="at least two points"):
        norm(torch.zeros(1, 3))
    norm.eval()
    assert norm(torch.zeros(1, 3)).shape == (1, 3)
