"""What every layer on a graph takes beside it: weights and attributes of edges, pairs of node sets, own rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hgeo
from hgeo.graph import Distance, Midpoint, MobiusSum, TangentSum, Uniform, backends

NODES, IN_DIM, DIM = 6, 5, 3
EDGES = torch.tensor([[3, 0, 2, 0, 1, 4, 5, 4], [1, 1, 2, 2, 0, 1, 4, 3]])
TIMES = torch.tensor([2, 0, 1, 3, 1, 0, 2, 1])  # how often an edge is there
BACKENDS = [
    pytest.param(name, marks=pytest.mark.scatter if name == "scatter" else ())
    for name in ("reference", "torch", "dgl", "scatter", "fused")
]


@pytest.fixture(params=BACKENDS)
def backend(request) -> str:
    reason = backends()[request.param]
    if reason is not None:
        pytest.skip(f"backend {request.param}: {reason}")
    return request.param


def hat(in_dim: Any = IN_DIM, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return hgeo.nn.HATConv(in_dim, DIM, hgeo.PoincareBall(0.7, learnable=True), **options).double()


def gcn(in_dim: Any = IN_DIM, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return hgeo.nn.GCNConv(in_dim, DIM, hgeo.PoincareBall(0.7, learnable=True), **options).double()


LAYERS = {
    "HATConv": hat,
    "HATConv, 2 heads, mean": lambda *a, **o: hat(*a, heads=2, merge="mean", **o),
    "HATConv, 2 heads, product": lambda *a, **o: hat(*a, heads=2, merge="product", **o),
    "HATConv, uniform": lambda *a, **o: hat(*a, score=Uniform(), **o),
    "HATConv, self_score mean": lambda *a, **o: hat(*a, score=Distance(self_score="mean", radius_norm=True), **o),
    "HATConv, degree_norm": lambda *a, **o: hat(*a, aggregate=TangentSum(degree_norm=True), **o),
    "HATConv, mobius": lambda *a, **o: hat(*a, aggregate=MobiusSum(degree_norm=True), **o),
    "HATConv, midpoint": lambda *a, **o: hat(*a, aggregate=Midpoint(degree_norm=True), **o),
    "GCNConv": gcn,
    "GCNConv, mean": lambda *a, **o: gcn(*a, norm="mean", **o),
    "GCNConv, sum": lambda *a, **o: gcn(*a, norm="sum", **o),
    "GCNConv, midpoint": lambda *a, **o: gcn(*a, aggregate="midpoint", **o),
    "GCNConv, gyrosum": lambda *a, **o: gcn(*a, aggregate="gyrosum", **o),
}
# a product of weights is no product of Möbius sums: (2w) ⊗ h is w ⊗ h ⊕ w ⊗ h only if nothing stands between
REPEATS = [name for name in LAYERS if name != "HATConv, mobius"]


def features(rows: int = NODES, numbers: int = IN_DIM, seed: int = 0) -> Tensor:
    return torch.randn(rows, numbers, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def value_and_gradients(layer: nn.Module, *args: Any, x: Tensor, **more: Any) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = layer(*args, x, **more)
    wanted = [x, *layer.parameters()]
    weights = features(*y.shape, seed=9)
    found = torch.autograd.grad((y * weights).sum(), wanted, allow_unused=True, materialize_grads=True)
    return [y.detach(), *found]


def agree(found: list[Tensor], expected: list[Tensor], atol: float = 1e-9) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=atol)


# --- weights ---


@pytest.mark.parametrize("name", REPEATS)
def test_an_edge_of_weight_2_is_two_edges_and_one_of_weight_0_is_none(name: str, backend: str) -> None:
    layer, x = LAYERS[name](backend=backend), features()
    repeated = EDGES.repeat_interleave(TIMES, dim=1)
    found = value_and_gradients(layer, EDGES, x=x, edge_weight=TIMES.double())
    agree(found, value_and_gradients(layer, repeated, x=x))


def test_an_edge_of_weight_0_is_none_in_a_mobius_sum(backend: str) -> None:
    layer, x, there = LAYERS["HATConv, mobius"](backend=backend), features(), TIMES > 0
    found = value_and_gradients(layer, EDGES, x=x, edge_weight=there.double())
    agree(found, value_and_gradients(layer, EDGES[:, there], x=x))


@pytest.mark.parametrize("name", LAYERS)
def test_a_node_all_of_whose_edges_weigh_nothing_hears_nothing(name: str, backend: str) -> None:
    layer, x = LAYERS[name](backend=backend, add_self_loops=False), features()
    weight = torch.where(EDGES[1] == 1, 0.0, 1.0).double().requires_grad_()
    found = value_and_gradients(layer, EDGES, x=x, edge_weight=weight)
    assert all(value.isfinite().all() for value in found)
    torch.testing.assert_close(found[0][1], torch.zeros_like(found[0][1]), rtol=0, atol=1e-12)
    (slope,) = torch.autograd.grad(layer(EDGES, x, edge_weight=weight).square().sum(), weight)
    assert slope.isfinite().all()


@pytest.mark.parametrize("name", LAYERS)
def test_the_gradient_of_a_weight_is_its_slope(name: str, backend: str) -> None:
    layer, x = LAYERS[name](backend=backend), features()
    weight = (0.2 + torch.rand(EDGES.shape[1], generator=torch.Generator().manual_seed(3))).double().requires_grad_()

    def loss(values: Tensor) -> Tensor:
        return layer(EDGES, x, edge_weight=values).square().sum()

    (slope,) = torch.autograd.grad(loss(weight), weight)
    for edge in range(EDGES.shape[1]):
        step = torch.zeros_like(weight).index_fill(0, torch.tensor([edge]), 1e-5)
        with torch.no_grad():
            expected = (loss(weight + step) - loss(weight - step)) / 2e-5
        torch.testing.assert_close(slope[edge], expected, rtol=1e-6, atol=1e-8)


def test_attention_follows_the_weights() -> None:
    conv = hat(score=Uniform(), add_self_loops=False)
    _, attention = conv(EDGES, features(), return_attention=True, edge_weight=TIMES.double())
    into_1 = EDGES[1] == 1
    torch.testing.assert_close(attention.edges[into_1, 0], torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64))
    assert attention.loops.abs().sum() == 0


@pytest.mark.parametrize("name", ["HATConv", "GCNConv"])
@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_no_weights_are_refused(name: str, wrong: float) -> None:
    weight = torch.ones(EDGES.shape[1])
    weight[3] = wrong
    with pytest.raises(ValueError, match=rf"edge_weight must be finite numbers of at least 0, got {wrong:g}".lower()):
        LAYERS[name]()(EDGES, features(), edge_weight=weight)
