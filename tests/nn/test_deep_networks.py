"""Deep networks of curved layers begin well inside, and train in single precision without leaving their manifolds."""

from __future__ import annotations

import pytest
import torch
from deep_networks import NETWORKS, ROWS, WIDTH, Lanes, check_everything_lies_on_its_manifold, data
from torch import nn

import hgeo
import hgeo.nn as hnn
import hgeo.optim


@pytest.mark.parametrize("depth", [1, 32, 128])
def test_points_begin_well_inside_at_any_depth(depth: int) -> None:
    torch.manual_seed(0)
    ball = hgeo.PoincareBall(c=1.0)
    net = hnn.Sequential(hnn.ToManifold(ball), *[hnn.Linear(16, 16, ball) for _ in range(depth)])
    directions = nn.functional.normalize(torch.randn(200, 16), dim=-1)
    with torch.no_grad():
        assert float(net(directions).norm(dim=-1).max()) < 0.95


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_of_32_layers_trains_at_a_high_rate_with_the_packages_own_optimiser(network: str) -> None:
    torch.manual_seed(0)
    net = NETWORKS[network](32)
    optimizer = hgeo.optim.riemannian_adam(net, lr=0.1)
    x, labels = data(0)
    curvature = next(p for name, p in net.named_parameters() if "stored" in name)
    before = float(curvature.detach())
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x)[:, :3], labels)
        loss.backward()
        optimizer.step()
        assert torch.isfinite(loss)
    assert float(curvature.detach()) != before
    check_everything_lies_on_its_manifold(net, x)


@pytest.mark.parametrize("network", NETWORKS)
def test_lanes_are_the_networks_that_they_stand_for(network: str) -> None:
    lanes = Lanes(network, 8, [0, 1, 2], [0.1, 0.01, 0.1])
    for _ in range(3):
        lanes.step()
    together = lanes.net(lanes.x)
    for number in range(3):
        alone = lanes.lane(number)(lanes.x[number])
        assert alone.shape == (ROWS, WIDTH)
        torch.testing.assert_close(together[number], alone, atol=1e-4, rtol=1e-3)


def train_in_lanes(network: str, seeds: list[int], rates: list[float], steps: int) -> None:
    lanes = Lanes(network, 32, [seed for seed in seeds for _ in rates], [rate for _ in seeds for rate in rates])
    for step in range(steps):
        losses = lanes.step()
        assert torch.isfinite(losses).all(), f"step {step}: losses {losses.tolist()}"
    for number in range(len(lanes.rates)):
        check_everything_lies_on_its_manifold(lanes.lane(number), lanes.x[number])


@pytest.mark.parametrize("network", NETWORKS)
def test_32_layers_train_from_any_seed_at_any_rate(network: str) -> None:
    train_in_lanes(network, seeds=[0, 1, 2], rates=[1e-3, 1e-2, 1e-1], steps=20)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_32_layers_train_1000_steps_from_20_seeds_at_every_rate(network: str) -> None:
    train_in_lanes(network, seeds=list(range(20)), rates=[1e-3, 1e-2, 1e-1], steps=1000)
