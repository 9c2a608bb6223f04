"""Graph convolution: the published layers, one answer for every graph format, and the Euclidean one as its limit."""

from __future__ import annotations

import dgl
import pytest
import torch
from torch import Tensor

import hgeo
import hgeo.nn as hnn

EDGES = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 1]])
NODES = 5  # the last is isolated
BALL = hgeo.PoincareBall(c=0.8)


def dense(norm: str) -> Tensor:
    a = torch.eye(NODES)
    a[EDGES[1], EDGES[0]] = 1
    return a / torch.sqrt(a.sum(1, keepdim=True) * a.sum(0)) if norm == "sym" else a / a.sum(1, keepdim=True)


def points() -> Tensor:
    return hgeo.exp0(BALL, 0.7 * torch.randn(NODES, 3, generator=torch.Generator().manual_seed(0)))


def test_without_bias_the_tangent_form_is_hgnn() -> None:
    conv = hnn.GCNConv(3, 2, BALL, in_manifold=BALL, bias="none")
    x = points()
    expected = BALL.expmap0(torch.relu(dense("sym") @ (BALL.logmap0(x) @ conv.weight.T)))
    torch.testing.assert_close(conv(EDGES, x), expected)


def test_with_a_point_bias_the_tangent_form_is_hgcn() -> None:
    conv = hnn.GCNConv(3, 2, BALL, in_manifold=BALL)
    with torch.no_grad():
        conv.bias.copy_(torch.tensor([0.3, -0.2]))
    h = BALL.mobius_add(BALL.mobius_matvec(conv.weight, points()), conv.bias)
    expected = BALL.expmap0(torch.relu(dense("sym") @ BALL.logmap0(h)))
    torch.testing.assert_close(conv(EDGES, points()), expected)


def test_the_gyrosum_is_kappa_gcn() -> None:
    conv = hnn.GCNConv(3, 2, BALL, in_manifold=BALL, aggregate="gyrosum", bias="none")
    h, a = BALL.mobius_matvec(conv.weight, points()), dense("sym")
    sums = torch.stack([BALL.weighted_midpoint(h, weights, reducedim=[0], lincomb=True) for weights in a])
    expected = BALL.expmap0(torch.relu(BALL.logmap0(sums)))
    torch.testing.assert_close(conv(EDGES, points()), expected)


@pytest.mark.parametrize("aggregate", ["tangent", "midpoint", "gyrosum"])
def test_the_same_graph_in_every_format_gives_the_same_answer(aggregate) -> None:  # type: ignore[no-untyped-def]
    conv = hnn.GCNConv(3, 2, BALL, in_manifold=BALL, aggregate=aggregate)
    graph = dgl.graph((EDGES[0], EDGES[1]), num_nodes=NODES)
    adjacency = torch.sparse_coo_tensor(EDGES.flip(0), torch.ones(EDGES.shape[1]), (NODES, NODES)).coalesce()
    expected = conv(EDGES, points())
    for same in (graph, dgl.add_self_loop(graph), adjacency, adjacency.to_sparse_csr(), hgeo.graph.as_graph(graph)):
        torch.testing.assert_close(conv(same, points()), expected)


def test_all_backends_agree() -> None:
    torch.manual_seed(0)
    conv = hnn.GCNConv(3, 2, BALL, in_manifold=BALL, aggregate="midpoint", backend="reference")
    expected = conv(EDGES, points())
    for backend, reason in hgeo.graph.backends().items():
        if reason is None:
            conv.backend = backend
            torch.testing.assert_close(conv(EDGES, points()), expected)


def test_sparse_features_are_read_like_dense_ones() -> None:
    conv = hnn.GCNConv(6, 2, BALL)
    x = (torch.rand(NODES, 6) < 0.3).float()
    torch.testing.assert_close(conv(EDGES, x.to_sparse()), conv(EDGES, x))


def test_swapped_arguments_and_wrong_sizes_are_named() -> None:
    conv = hnn.GCNConv(3, 2, BALL, in_manifold=BALL)
    with pytest.raises((TypeError, ValueError), match=r"layer\(graph, x\)|row for each"):
        conv(points(), EDGES)
    with pytest.raises(ValueError, match="3 numbers a node"):
        conv(EDGES, torch.zeros(NODES, 4))
    with pytest.raises(ValueError, match="aggregate must be one of"):
        hnn.GCNConv(3, 2, BALL, aggregate="sum")  # type: ignore[arg-type]


@pytest.mark.parametrize("aggregate", ["tangent", "midpoint", "gyrosum"])
@pytest.mark.parametrize("backend", ["torch", "reference", "auto"])
def test_it_has_a_jacobian_for_torch_func(backend: str, aggregate: str) -> None:
    conv = hnn.GCNConv(3, 2, BALL, aggregate=aggregate, backend=backend).double()
    graph, x = hgeo.Graph(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 0, 1]), 3), torch.randn(3, 3).double()
    ours = torch.func.jacrev(lambda x: conv(graph, x))(x)
    torch.testing.assert_close(ours, torch.autograd.functional.jacobian(lambda x: conv(graph, x), x))


@pytest.mark.parametrize("aggregate", ["tangent", "midpoint", "gyrosum"])
def test_its_second_derivatives_need_no_slow_backend(aggregate: str) -> None:
    conv = hnn.GCNConv(2, 2, BALL, aggregate=aggregate, activation=torch.tanh, backend="torch").double()
    graph = hgeo.Graph(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 0, 1]), 3)
    x = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    torch.autograd.gradgradcheck(lambda x: conv(graph, x), x)


@pytest.mark.parametrize("space", ["ball:2", "lorentz:2", "sphere:2"])
def test_tangent_rows_pass_between_layers_as_points_would(space: str) -> None:
    manifold = hgeo.space(space).manifold
    torch.manual_seed(0)
    points = hnn.Sequential(hnn.GCNConv(3, 2, manifold), hnn.GCNConv(2, 2, manifold, in_manifold=manifold)).double()
    torch.manual_seed(0)
    rows = hnn.Sequential(
        hnn.GCNConv(3, 2, manifold, output="tangent"),
        hnn.GCNConv(2, 2, manifold, in_manifold=manifold, input="tangent"),
    ).double()
    graph, x = hgeo.Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), 3), torch.randn(3, 3).double()
    torch.testing.assert_close(rows(graph, x), points(graph, x))
    with pytest.raises(ValueError, match=r"takes points of .*, but layer 0 gives tangent"):
        hnn.Sequential(rows[0], points[1])
