"""A chain of layers fits together, or says what is missing."""

from __future__ import annotations

import dgl
import pytest
import torch
import torch_geometric.nn
from torch import nn

import hgeo
import hgeo.nn as hnn
from hgeo._geoopt import geoopt

BALL = hgeo.PoincareBall(c=1.0)
EDGES = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


def test_the_graph_goes_to_the_layers_that_need_it() -> None:
    torch.manual_seed(0)
    first, second = hnn.GCNConv(5, 4, BALL), hnn.HATConv(4, 3, BALL, in_manifold=BALL)
    act, last = hnn.Activation(torch.tanh, BALL), hnn.MLR(3, 2, BALL)
    net = hnn.Sequential(first, act, second, last)
    x = torch.randn(4, 5)
    assert torch.equal(net(EDGES, x), last(second(EDGES, act(first(EDGES, x)))))


def test_without_graph_layers_it_takes_points_only() -> None:
    net = hnn.Sequential(hnn.ToManifold(BALL), hnn.FromManifold(BALL))
    x = 0.1 * torch.randn(4, 5)
    torch.testing.assert_close(net(x), x)
    with pytest.raises(TypeError, match="no layer needs a graph"):
        net(EDGES, x)


def test_each_graph_layer_gets_a_block_of_its_own() -> None:
    torch.manual_seed(0)
    graph = dgl.graph((EDGES[0], EDGES[1]))
    sampler = dgl.dataloading.MultiLayerFullNeighborSampler(2)
    inputs, outputs, blocks = sampler.sample(graph, torch.tensor([2]))
    net = hnn.Sequential(hnn.GCNConv(5, 4, BALL, norm="mean"), hnn.GCNConv(4, 3, BALL, in_manifold=BALL, norm="mean"))
    x = torch.randn(4, 5)
    torch.testing.assert_close(net(blocks, x[inputs]), net(graph, x)[outputs])
    with pytest.raises(ValueError, match="2 layers need a graph, got a list of 1 blocks"):
        net(blocks[:1], x[inputs])


def test_layers_of_dgl_and_of_pyg_get_the_graph_in_their_own_order() -> None:
    torch.manual_seed(0)
    theirs, ours = torch_geometric.nn.SAGEConv(5, 4), hnn.GCNConv(4, 3, BALL)
    x = torch.randn(4, 5)
    assert torch.equal(hnn.Sequential(theirs, ours)(EDGES, x), ours(EDGES, theirs(x, EDGES)))
    graph = dgl.graph((EDGES[0], EDGES[1]))
    dgls = dgl.nn.GraphConv(5, 4)
    assert torch.equal(hnn.Sequential(dgls, ours)(graph, x), ours(graph, dgls(graph, x)))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (lambda: (hnn.ToManifold(BALL), nn.ReLU()), "knows nothing of ball,c=1: put FromManifold"),
        (lambda: (hnn.FromManifold(BALL), hnn.Linear(3, 3, BALL)), "put ToManifold before it"),
        (lambda: (hnn.ToManifold(BALL), hnn.Linear(3, 3, BALL, in_manifold=None)), "put FromManifold before it"),
        (lambda: (hnn.ToManifold(BALL), hnn.MLR(3, 2, hgeo.Lorentz())), r"put Transfer\(source, target\)"),
        (lambda: (hnn.ToManifold(BALL), hnn.MLR(3, 2, hgeo.PoincareBall(c=2.0))), "one manifold object"),
        (
            lambda: (
                hnn.ToManifold(hgeo.PoincareBall(learnable=True)),
                hnn.MLR(3, 2, hgeo.PoincareBall(learnable=True)),
            ),
            "which a learnable curvature needs to stay one",
        ),
        (lambda: (hnn.Linear(3, 4, BALL), hnn.Linear(3, 4, BALL)), "takes ball:3,c=1, but layer 0 gives ball:4,c=1"),
    ],
)
def test_layers_that_do_not_fit_are_refused_when_the_chain_is_built(layers, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=words):
        hnn.Sequential(*layers())


def test_equal_fixed_spaces_and_flat_spaces_fit() -> None:
    hnn.Sequential(hnn.ToManifold(hgeo.PoincareBall(c=1.0)), hnn.MLR(3, 2, hgeo.PoincareBall(c=1.0)))
    hnn.Sequential(nn.Linear(3, 4), hnn.MLR(4, 2, geoopt.Euclidean(1)), nn.ReLU())
    product = [hgeo.space("ball:2 x sphere:1").manifold for _ in range(2)]
    hnn.Sequential(hnn.ToManifold(product[0]), hnn.MLR(3, 2, product[1]))


def test_dimensions_are_followed_through_layers_that_take_any() -> None:
    with pytest.raises(ValueError, match="dimensions differ"):
        hnn.Sequential(hnn.Linear(3, 4, BALL), hnn.Activation(torch.relu, BALL), hnn.MLR(5, 2, BALL))


def test_its_repr_shows_shapes_and_spaces() -> None:
    learned = hgeo.PoincareBall(c=0.5, learnable=True)
    net = hnn.Sequential(
        hnn.GCNConv(8, 4, learned), hnn.Transfer(learned, hgeo.Lorentz()), hnn.CentroidClassifier(4, 3, hgeo.Lorentz())
    )
    lines = repr(net).splitlines()
    assert lines[1].split() == ["(0)", "GCNConv", "R:8", "→", "ball:4,c=0.5,learn", "with", "the", "graph"]
    assert lines[2].split() == ["(1)", "Transfer", "ball:4,c=0.5,learn", "→", "lorentz:4,c=1"]
    assert lines[3].split() == ["(2)", "CentroidClassifier", "lorentz:4,c=1", "→", "R:3"]


def test_chains_nest_and_slice() -> None:
    inner = hnn.Sequential(hnn.Linear(3, 4, BALL), hnn.Linear(4, 5, BALL))
    net = hnn.Sequential(hnn.ToManifold(BALL), inner, hnn.MLR(5, 2, BALL))
    assert (inner.in_dim, inner.out_dim) == (3, 5)
    assert net(torch.randn(2, 3)).shape == (2, 2)
    assert len(net[:2]) == 2
    assert net[0] is next(iter(net))
    with pytest.raises(TypeError, match="layer 0 is not a module"):
        hnn.Sequential(torch.relu)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"unpack it: Sequential\(\*layers\)"):
        hnn.Sequential([hnn.ToManifold(BALL)])  # type: ignore[arg-type]


def test_a_curvature_shared_by_layers_is_one_parameter() -> None:
    ball = hgeo.PoincareBall(learnable=True)
    net = hnn.Sequential(hnn.Linear(3, 3, ball), hnn.Activation(torch.relu, ball), hnn.MLR(3, 2, ball))
    assert sum(parameter is ball.stored_c for parameter in net.parameters()) == 1
