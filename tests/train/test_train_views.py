"""Training on the neighbourhood of the wanted nodes is exact, or is not done."""

import pytest
import torch

import hgeo
from hgeo.data import hierarchy, karate
from hgeo.models import build
from hgeo.nn import HATConv
from hgeo.train import full_view, inspect, khop_view, layered_view, view_for


class Network(torch.nn.Module):
    hops = 2

    def __init__(self, data, **options):
        super().__init__()
        ball = hgeo.PoincareBall(c=1.0)
        self.first = HATConv(data.num_features, 3, ball, **options)
        self.second = HATConv(3, 4, hgeo.PoincareBall(c=1.0), in_manifold=ball, activation=None, **options)

    def forward(self, graph, features):
        return hgeo.log0(self.second.manifold, self.second(graph, self.first(graph, features)))


@pytest.fixture(scope="module")
def tree():
    return hierarchy(cross_links=0.0)


@pytest.fixture
def wanted():
    return torch.tensor([700, 3, 1500])  # in no order


def test_two_hops_give_the_outputs_and_gradients_of_the_whole_graph(tree, wanted):
    torch.manual_seed(0)
    model = Network(tree).double()
    data = tree.to(dtype=torch.float64)
    gradients = []
    for view in (full_view(data, wanted), khop_view(data, wanted, 2)):
        model.zero_grad()
        logits = view.output(model)
        logits.square().sum().backward()
        gradients.append((logits.detach(), model.first.weight.grad.clone()))
    for full, part in zip(*gradients, strict=True):
        assert torch.allclose(full, part, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("steps", [2, 3])
def test_a_layer_of_several_steps_looks_as_many_hops_further(tree, wanted, steps):
    model = build("hat", tree, "ball:3", radius_norm=False, degree_norm=False, steps=steps).eval()
    assert (model.hops, model.rounds) == (1 + steps, None)
    view = view_for(model, tree, wanted)
    assert view.num_edges < tree.num_edges / 2
    assert torch.allclose(full_view(tree, wanted).output(model), view.output(model), rtol=1e-4, atol=1e-6)
    assert not torch.allclose(
        full_view(tree, wanted).output(model), khop_view(tree, wanted, steps - 1).output(model), rtol=1e-3
    )


def test_one_hop_is_not_enough_for_two_layers(tree, wanted):
    model = Network(tree)
    assert not torch.allclose(
        full_view(tree, wanted).output(model), khop_view(tree, wanted, 1).output(model), rtol=1e-3
    )


def test_a_view_is_chosen_where_it_is_exact(tree, wanted):
    assert view_for(Network(tree), tree, wanted).num_edges < tree.num_edges / 5


@pytest.mark.parametrize("option", [{"radius_norm": True}, {"degree_norm": True}])
def test_the_whole_graph_is_taken_where_a_layer_looks_beyond_its_neighbours(tree, wanted, option):
    assert view_for(Network(tree, **option), tree, wanted).num_edges == tree.num_edges


@pytest.mark.parametrize(("name", "whole"), [("hat", True), ("hat-uniform", False), ("hat-paper", False)])
def test_hat_computes_in_each_layer_what_the_loss_needs(tree, wanted, name, whole):
    torch.manual_seed(0)
    data = tree.to(dtype=torch.float64)
    model = build(name, data, "ball:8").double().eval()
    view = view_for(model, data, wanted)
    inner, outer = view.graph
    assert outer.num_dst == len(wanted)
    assert (inner.num_dst == data.num_nodes) == whole
    gradients = []
    for seen in (full_view(data, wanted), view):
        model.zero_grad()
        logits = seen.output(model)
        logits.square().sum().backward()
        gradients.append((logits.detach(), model.conv1.weight.grad.clone(), model.conv2.weight.grad.clone()))
    for full, part in zip(*gradients, strict=True):
        assert torch.allclose(full, part, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["gcn", "gat", "sage", "hgcn", "lorentz"])
def test_a_convolution_computes_in_each_layer_what_the_loss_needs(tree, wanted, name):
    torch.manual_seed(0)
    model = build(name, tree, "euclidean:4" if name in ("gcn", "gat", "sage") else "ball:4").eval()
    view = view_for(model, tree, wanted)
    assert isinstance(view.graph, tuple)
    assert view.num_edges < tree.num_edges / 2
    torch.testing.assert_close(view.output(model), full_view(tree, wanted).output(model), rtol=1e-4, atol=1e-6)


def test_a_view_in_layers_can_be_inspected_like_the_graph(tree, wanted):
    torch.manual_seed(0)
    model = build("hat", tree, "ball:8")
    view = layered_view(tree, wanted, 2, whole=True)
    there, here = inspect(model, tree.graph, tree.features), inspect(model, view.graph, view.features)
    assert here.at_limit == there.at_limit
    assert here.entropy == pytest.approx(there.entropy, rel=0.3)  # the last layer's, of three nodes


def test_the_whole_graph_is_taken_when_the_neighbourhood_is_nearly_all_of_it(tree):
    view = view_for(Network(tree), tree, torch.arange(0, tree.num_nodes, 2))
    assert view.num_edges == tree.num_edges


def test_a_model_that_does_not_say_how_far_it_looks_gets_the_whole_graph(tree, wanted):
    model = Network(tree)
    model.hops = None
    assert view_for(model, tree, wanted).num_edges == tree.num_edges


def test_rows_of_sparse_features_are_the_rows_of_the_dense_ones():
    club = karate()
    view = khop_view(club, torch.tensor([16]), 1)  # node 16 knows 5 and 6
    dense = club.features.to_dense()
    assert torch.equal(view.features.to_dense(), dense[[5, 6, 16]])
    assert view.rows.tolist() == [2]
