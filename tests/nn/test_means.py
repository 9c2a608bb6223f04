"""Means of points: what defines each, their derivatives, sets and segments."""

from __future__ import annotations

from typing import Any

import dgl
import pytest
import torch
from torch import Tensor

import hgeo
import hgeo.nn as hnn

SPACES = ["ball:3,c=0.7", "lorentz:3,c=0.7", "sphere:3", "sproj:3,k=0.5", "euclidean:3", "ball:2 x sphere:1"]
HOWS = ["gyro", "tangent", "frechet"]


def some_points(manifold: Any, rows: int = 7, size: float = 0.5) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return hgeo.exp0(manifold, size * torch.randn(rows, 3, dtype=torch.float64, generator=generator)).detach()


@pytest.mark.parametrize("space", SPACES)
def test_no_point_nearby_has_a_smaller_sum_of_squared_distances_than_the_frechet_mean(space: str) -> None:
    manifold = hgeo.space(space).manifold
    x = some_points(manifold)
    weights = torch.linspace(0.2, 1.0, len(x), dtype=torch.float64)
    mean = hnn.Midpoint(manifold, how="frechet")(x, weights)
    v = hgeo.log0(manifold, mean).requires_grad_()

    def objective(v: Tensor) -> Tensor:
        return (weights * hgeo.dist(manifold, x, hgeo.exp0(manifold, v).expand_as(x)) ** 2).sum()

    (slope,) = torch.autograd.grad(objective(v), v)
    assert float(slope.abs().max()) < 1e-9


@pytest.mark.parametrize("space", ["ball:3,c=0.7", "lorentz:3,c=0.7", "sphere:3", "stereo:3,k=0.0"])
def test_the_frechet_mean_has_the_right_derivatives_in_points_weights_and_curvature(space: str) -> None:
    manifold = hgeo.space(space).manifold.double()
    layer = hnn.Midpoint(manifold, how="frechet", iterations=12)
    v = 0.3 * torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.linspace(0.5, 1.0, 3, dtype=torch.float64)
    curvatures = list(manifold.parameters())

    def mean(v: Tensor, weights: Tensor, *curvature: Tensor) -> Tensor:
        named = {name: value for (name, _), value in zip(manifold.named_parameters(), curvature, strict=True)}
        state = {f"layer.manifold.{name}": value for name, value in named.items()}
        return torch.func.functional_call(_Mean(layer), state, (v, weights))

    inputs = [v, weights, *[c.detach().clone() for c in curvatures]]
    for value in inputs:
        value.requires_grad_()
    assert torch.autograd.gradcheck(mean, inputs, eps=1e-6, atol=1e-6)


class _Mean(torch.nn.Module):
    def __init__(self, layer: hnn.Midpoint) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, v: Tensor, weights: Tensor) -> Tensor:
        return hgeo.log0(self.layer.manifold, self.layer(hgeo.exp0(self.layer.manifold, v), weights))


@pytest.mark.parametrize("space", ["ball:3", "lorentz:3"])
def test_the_frechet_mean_is_found_for_points_far_apart(space: str) -> None:
    manifold = hgeo.space(space).manifold
    x = some_points(manifold, size=2.0)
    mean = hnn.Midpoint(manifold, how="frechet", iterations=60)(x)
    again = hnn.Midpoint(manifold, how="frechet", iterations=200)(x)
    torch.testing.assert_close(mean, again, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("how", ["gyro", "frechet"])
@pytest.mark.parametrize("space", SPACES)
def test_the_mean_of_two_points_halves_their_geodesic(space: str, how: Any) -> None:
    manifold = hgeo.space(space).manifold
    x = some_points(manifold, rows=2)
    mean = hnn.Midpoint(manifold, how=how)(x)
    whole = hgeo.dist(manifold, x[0], x[1])
    for end in x:
        torch.testing.assert_close(hgeo.dist(manifold, mean, end), whole / 2)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("space", SPACES)
def test_segments_are_means_of_their_own_points_and_an_empty_one_is_the_origin(space: str, how: Any) -> None:
    manifold = hgeo.space(space).manifold
    x = some_points(manifold)
    index = torch.tensor([0, 0, 3, 0, 1, 1, 0])
    pooled = hnn.Pool(manifold, how=how)(index, x, num_graphs=5)
    mean = hnn.Midpoint(manifold, how=how)
    for segment in (0, 1, 3):
        torch.testing.assert_close(pooled[segment], mean(x[index == segment]))
    origin = hgeo.exp0(manifold, torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(pooled[2], origin)
    torch.testing.assert_close(pooled[4], origin)


def test_a_batch_of_dgl_graphs_and_a_single_graph_are_pooled_by_graph() -> None:
    manifold = hgeo.PoincareBall()
    graphs = [dgl.rand_graph(n, n) for n in (3, 1, 2)]
    x = some_points(manifold, rows=6).float()
    pool = hnn.Pool(manifold)
    expected = pool(torch.tensor([0, 0, 0, 1, 2, 2]), x)
    torch.testing.assert_close(pool(dgl.batch(graphs), x), expected)
    torch.testing.assert_close(pool(graphs[0], x[:3]), expected[:1])
    torch.testing.assert_close(pool(hgeo.graph.as_graph(graphs[0]), x[:3]), expected[:1])


def test_the_mean_may_be_taken_over_any_dimension_but_the_last() -> None:
    manifold = hgeo.PoincareBall()
    x = some_points(manifold, rows=24).view(2, 3, 4, 3)
    assert torch.equal(hnn.Midpoint(manifold, dim=0)(x), hnn.Midpoint(manifold, dim=-2)(x.movedim(0, 2)))
    assert torch.equal(hnn.Midpoint(manifold)(x)[1, 2], hnn.Midpoint(manifold)(x[1, 2]))
    with pytest.raises(ValueError, match="does not count points"):
        hnn.Midpoint(manifold, dim=-1)(x)
    with pytest.raises(ValueError, match="expected a weight a point"):
        hnn.Midpoint(manifold)(x, torch.ones(4))


def test_pool_refuses_what_it_cannot_read() -> None:
    pool, x = hnn.Pool(hgeo.PoincareBall()), torch.zeros(3, 2)
    for given in (torch.tensor([0, 0, 1]), x):
        with pytest.raises(TypeError, match=r"arguments are swapped: call pool\(graph, x\)"):
            pool(x, given)
    with pytest.raises(TypeError, match=r"of a PyG batch: batch\.batch"):
        pool(torch.tensor([[0, 1], [1, 2]]), x)
    with pytest.raises(ValueError, match="the graph has 2 nodes, x has 3 rows"):
        pool(torch.tensor([0, 1]), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("space", [*SPACES, "klein:3"])
@pytest.mark.parametrize("how", HOWS)
def test_means_of_half_precision_are_those_of_float32_rounded(dtype: torch.dtype, space: str, how: Any) -> None:
    manifold = hgeo.space(space).manifold
    x = some_points(manifold).to(dtype).requires_grad_()
    mean = hnn.Midpoint(manifold, how)(x)
    expected = hnn.Midpoint(manifold, how)(x.detach().float())
    assert mean.dtype == dtype
    torch.testing.assert_close(mean.float(), expected, rtol=0.0, atol=3 * torch.finfo(dtype).eps)
    mean.sum().backward()
    assert torch.isfinite(x.grad).all()
