"""Deep networks of curved layers begin well inside, and train in single precision without leaving their manifolds.

The networks and the full experiment are in benchmarks/deep_networks.py.
"""

from __future__ import annotations

import importlib.util
import itertools
import pathlib

import pytest
import torch
from torch import nn

import hgeo
import hgeo.nn as hnn
import hgeo.optim

PATH = pathlib.Path(__file__).parents[2] / "benchmarks" / "deep_networks.py"
SPEC = importlib.util.spec_from_file_location("deep_networks", PATH)
assert SPEC is not None
assert SPEC.loader is not None
deep = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(deep)

every_network = pytest.mark.parametrize("network", sorted(deep.NETWORKS))


@pytest.mark.parametrize("depth", [1, 32, 128])
def test_points_begin_well_inside_at_any_depth(depth: int) -> None:
    torch.manual_seed(0)
    ball = hgeo.PoincareBall(c=1.0)
    net = hnn.Sequential(hnn.ToManifold(ball), *[hnn.Linear(16, 16, ball) for _ in range(depth)])
    directions = nn.functional.normalize(torch.randn(200, 16), dim=-1)
    with torch.no_grad():
        assert float(net(directions).norm(dim=-1).max()) < 0.95


@every_network
def test_lanes_are_the_networks_that_they_stand_for(network: str) -> None:
    # In float64, where rounding cannot hide or pretend a difference.
    seeds, rates, steps = [0, 1], [0.003, 0.01], 4
    lanes = deep.Lanes(network, 6, seeds, rates, torch.float64)
    for _ in range(steps):
        lanes.step()
    for (rate, seed), lane in zip(itertools.product(rates, seeds), lanes.lanes(), strict=True):
        torch.manual_seed(seed)
        alone = deep.NETWORKS[network](6).double()
        optimizer = hgeo.optim.riemannian_adam(alone, lr=rate)
        x, labels = deep.data(seed)
        for _ in range(steps):
            optimizer.zero_grad()
            deep.loss_of(alone(x.double())[None], labels[None]).backward()
            optimizer.step()
        for (name, mine), theirs in zip(alone.named_parameters(), lane.parameters(), strict=True):
            torch.testing.assert_close(theirs, mine, atol=1e-9, rtol=1e-9, msg=name)


@every_network
def test_32_layers_train_from_any_seed_at_any_rate(network: str) -> None:
    for result in deep.train(network, 32, seeds=[0, 1, 2], rates=[1e-3, 1e-2, 1e-1], steps=15):
        low, high = result["curvature"]
        assert low < high  # each lane learned curvatures of its own


def test_a_point_outside_is_noticed() -> None:
    net = deep.ball_network(2)
    x, _ = deep.data(0)
    deep.check_everything_lies_on_its_manifold(net, x)
    with torch.no_grad():
        net[0].bias.fill_(2.0)
    with pytest.raises(ValueError, match=r"layers\.0\.bias"):
        deep.check_everything_lies_on_its_manifold(net, x)


@pytest.mark.slow
@every_network
def test_32_layers_train_1000_steps_from_20_seeds(network: str) -> None:
    deep.train(network, 32, seeds=list(range(20)), rates=[1e-3, 1e-2, 1e-1], steps=1000)
