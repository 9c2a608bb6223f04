"""Layers on points drawn by the law kit: the origin, the edge, every scale between, and points in hard relations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hgeo
import hgeo.nn as hnn
from hgeo.testing import strategies

DIM = 3
SPACES = {
    "ball": hgeo.PoincareBall(c=1.0, learnable=True).double(),
    "lorentz": hgeo.Lorentz(c=1.0, learnable=True).double(),
    "sphere": hgeo.space("sphere:3").manifold,
    "stereographic": hgeo.Stereographic(k=0.5, learnable=True).double(),
}


def layers(manifold: Any) -> list[torch.nn.Module]:
    torch.manual_seed(0)
    made: list[torch.nn.Module] = [
        hnn.Linear(DIM, DIM, manifold),
        hnn.Activation(torch.tanh, manifold),
        hnn.BatchNorm(DIM, manifold),
        hnn.Midpoint(manifold),
        hnn.Midpoint(manifold, how="frechet", iterations=3),
        hnn.MLR(DIM, 2, manifold),
        hnn.CentroidClassifier(DIM, 2, manifold),
    ]
    return [layer.double() for layer in made]


@pytest.mark.parametrize("space", SPACES)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_outputs_stay_on_the_manifold_and_gradients_finite_wherever_two_points_lie(space: str, data: Any) -> None:
    manifold = SPACES[space]
    x = data.draw(strategies.points(manifold, DIM))
    y = data.draw(strategies.points(manifold, DIM, near=x))
    pair = torch.stack([x, y]).detach().requires_grad_()
    for layer in layers(manifold):
        out = layer(pair)
        if layer.manifold is not None:
            hgeo.validate(manifold, out.detach())
        assert torch.isfinite(out).all(), type(layer).__name__
        inputs = [pair, *[p for p in layer.parameters() if p.requires_grad]]
        for slope in torch.autograd.grad(out.square().sum(), inputs, allow_unused=True, materialize_grads=True):
            assert torch.isfinite(slope).all(), type(layer).__name__
