"""SAGE on curved spaces: a node's own part, moved by the mean of its neighbours."""

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


def points(manifold: object = BALL) -> Tensor:
    return hgeo.exp0(manifold, 0.7 * torch.randn(NODES, 3, generator=torch.Generator().manual_seed(0)))


def test_it_is_the_gyromidpoint_of_the_neighbours_plus_the_nodes_own_point() -> None:
    conv, x = hnn.SAGEConv(3, 2, BALL, in_manifold=BALL, activation=None), points()
    with torch.no_grad():
        conv.bias.copy_(torch.tensor([0.3, -0.2]))
    told = BALL.mobius_matvec(conv.weight, x)
    middle = hnn.Midpoint(BALL)(torch.stack([told[0], told[3]]))  # node 1 hears 0 and 3
    own = BALL.mobius_add(BALL.mobius_matvec(conv.weight_self, x[1]), conv.bias)
    torch.testing.assert_close(conv(EDGES, x)[1], BALL.mobius_add(middle, own))


@pytest.mark.parametrize("aggregate", ["midpoint", "tangent"])
def test_a_node_without_neighbours_keeps_its_own_part(aggregate: str) -> None:
    conv = hnn.SAGEConv(3, 2, BALL, in_manifold=BALL, aggregate=aggregate, activation=None)
    own = BALL.mobius_matvec(conv.weight_self, points())
    torch.testing.assert_close(conv(EDGES, points())[4], own[4])


@pytest.mark.parametrize("aggregate", ["midpoint", "tangent"])
def test_in_flat_space_it_is_dgls(aggregate: str) -> None:
    conv = hnn.SAGEConv(3, 2, hgeo.space("euclidean:2").manifold, aggregate=aggregate, activation=None)
    theirs = dgl.nn.SAGEConv(3, 2, "mean")
    with torch.no_grad():
        conv.weight.copy_(theirs.fc_neigh.weight)
        conv.weight_self.copy_(theirs.fc_self.weight)
        conv.bias.copy_(theirs.fc_self.bias)
    x = torch.randn(NODES, 3)
    torch.testing.assert_close(conv(EDGES, x), theirs(dgl.graph(tuple(EDGES), num_nodes=NODES), x))


@pytest.mark.parametrize("aggregate", ["midpoint", "tangent"])
def test_weights_are_shares_of_the_mean_and_weight_zero_is_no_edge(aggregate: str) -> None:
    conv, x = hnn.SAGEConv(3, 2, BALL, in_manifold=BALL, aggregate=aggregate), points()
    expected = conv(EDGES[:, 1:], x)
    weights = torch.tensor([0.0, 2.0, 0.5, 3.0, 2.0])
    torch.testing.assert_close(conv(EDGES, x, edge_weight=weights), expected)
    doubled = torch.cat([EDGES, EDGES[:, :1]], 1)
    twice = torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0])
    torch.testing.assert_close(conv(EDGES, x, edge_weight=twice), conv(doubled, x))


@pytest.mark.parametrize("aggregate", ["midpoint", "tangent"])
def test_all_backends_formats_and_blocks_agree(aggregate: str) -> None:
    conv = hnn.SAGEConv(3, 2, BALL, in_manifold=BALL, aggregate=aggregate)
    expected = conv(EDGES, points())
    torch.testing.assert_close(conv(dgl.graph(tuple(EDGES), num_nodes=NODES), points()), expected)
    block = hgeo.Graph(*EDGES[:, EDGES[1] < 2], num_src=NODES, num_dst=2)
    torch.testing.assert_close(conv(block, points()), expected[:2])
    for backend, reason in hgeo.graph.backends().items():
        if reason is None:
            conv.backend = backend
            torch.testing.assert_close(conv(EDGES, points()), expected)


def test_sources_and_destinations_may_be_two_sets() -> None:
    conv = hnn.SAGEConv((3, 4), 2, BALL)
    y = conv(torch.tensor([[0, 1, 2], [0, 0, 1]]), (torch.randn(3, 3), torch.randn(2, 4)))
    hgeo.validate(BALL, y.detach())
    assert y.shape == (2, 2)


def test_sparse_features_are_read_like_dense_ones() -> None:
    conv, x = hnn.SAGEConv(6, 2, BALL), (torch.rand(NODES, 6) < 0.3).float()
    torch.testing.assert_close(conv(EDGES, x.to_sparse_csr()), conv(EDGES, x))
