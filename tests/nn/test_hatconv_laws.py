"""What must hold for attention by distance on every graph, whatever its shape."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hgeo
from hgeo.graph import Graph
from hgeo.nn import HATConv

IN_DIM, DIM = 3, 4
LAW = settings(max_examples=25, deadline=None, derandomize=True)


@st.composite
def graphs(draw) -> Graph:
    """Up to seven nodes; parallel edges, self-loops, isolated nodes, no edges at all."""
    nodes = draw(st.integers(1, 7))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    src, dst = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    return Graph(src, dst, num_src=nodes)


@st.composite
def situations(draw) -> tuple[Graph, torch.Tensor, float, int]:
    """A graph, features (also coincident, at the origin, far out), a curvature, a seed for the weights."""
    graph = draw(graphs())
    seed = draw(st.integers(0, 1000))
    x = torch.randn(graph.num_src, IN_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    x = x * draw(st.sampled_from([0.0, 1e-6, 0.3, 1.0, 20.0]))
    if draw(st.booleans()):
        x = x[:1].expand_as(x).clone()
    return graph, x, draw(st.sampled_from([0.0, 1e-6, 0.5, 1.0, 4.0])), seed


def layer(c: float, seed: int, **options) -> HATConv:
    torch.manual_seed(seed)
    return HATConv(IN_DIM, DIM, hgeo.PoincareBall(c), **options).double()


def all_weights(conv: HATConv, graph: Graph, x: torch.Tensor) -> tuple[Graph, torch.Tensor]:
    """Weights of every edge of the looped graph, in its order."""
    looped = graph.with_self_loops()
    _, attention = conv(graph, x, return_attention=True)
    return looped, torch.cat([attention.edges, attention.loops])[looped.perm]


@LAW
@given(situations(), st.sampled_from([1, 3]), st.sampled_from(["zero", "mean"]), st.booleans())
def test_weights_lie_between_zero_and_one_and_sum_to_one(situation, heads: int, self_score: str, radius: bool) -> None:
    graph, x, c, seed = situation
    looped, w = all_weights(layer(c, seed, heads=heads, self_score=self_score, radius_norm=radius), graph, x)
    assert ((w >= 0) & (w <= 1)).all()
    sums = torch.zeros(graph.num_dst, heads).double().index_add(0, looped.row, w)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@LAW
@given(situations())
def test_no_neighbour_has_more_weight_than_the_node_itself(situation) -> None:
    graph, x, c, seed = situation
    looped, w = all_weights(layer(c, seed), graph, x)
    loop = looped.row == looped.col
    own = torch.zeros(graph.num_dst, 1).double()
    own[looped.row[loop]] = w[loop]  # parallel loops weigh the same
    assert (w <= own[looped.row] * (1 + 1e-12)).all()


@LAW
@given(situations(), st.sampled_from([0.1, 1.0, 5.0]))
def test_weight_never_rises_with_distance(situation, beta: float) -> None:
    graph, x, c, seed = situation
    conv = layer(c, seed, beta=beta)
    looped, w = all_weights(conv, graph, x)
    p = hgeo.exp0(conv.manifold, x @ conv.weight.t())
    d = hgeo.dist(conv.manifold, p[looped.row], p[looped.col])
    for i in range(graph.num_dst):
        mine = slice(int(looped.rowptr[i]), int(looped.rowptr[i + 1]))
        order = d[mine].argsort()
        sorted_weights = w[mine, 0][order]
        assert (sorted_weights.diff() <= 1e-12).all()


@LAW
@given(situations(), st.sampled_from(["tangent", "midpoint"]), st.randoms(use_true_random=False))
def test_relabelling_nodes_relabels_the_output(situation, aggregate: str, random) -> None:
    graph, x, c, seed = situation
    conv = layer(c, seed, aggregate=aggregate, heads=2, self_score="mean", degree_norm=True)
    names = list(range(graph.num_src))
    random.shuffle(names)
    new = torch.tensor(names)
    renamed = Graph(new[graph.col], new[graph.row], num_src=graph.num_src)
    moved = torch.empty_like(x).index_copy(0, new, x)
    torch.testing.assert_close(conv(renamed, moved)[new], conv(graph, x), rtol=1e-9, atol=1e-11)


@LAW
@given(situations(), st.sampled_from(["tangent", "mobius", "midpoint"]))
def test_a_rotation_of_the_hidden_space_rotates_the_output(situation, aggregate: str) -> None:
    graph, x, c, seed = situation
    conv = layer(c, seed, aggregate=aggregate, activation=None)
    before = conv(graph, x)
    rotation, _ = torch.linalg.qr(torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(seed)).double())
    with torch.no_grad():
        conv.weight.copy_(rotation @ conv.weight)
    torch.testing.assert_close(conv(graph, x), before @ rotation.t(), rtol=1e-9, atol=1e-10)


@LAW
@given(situations(), st.randoms(use_true_random=False))
def test_the_order_of_edges_does_not_matter(situation, random) -> None:
    graph, x, c, seed = situation
    order = list(range(graph.num_edges))
    random.shuffle(order)
    edge_index = torch.stack([graph.col, graph.row])
    for aggregate in ("tangent", "mobius", "midpoint"):  # mobius goes by source ids, whatever the caller's order
        conv = layer(c, seed, aggregate=aggregate)
        torch.testing.assert_close(conv(edge_index[:, order], x), conv(edge_index, x), rtol=1e-10, atol=1e-12)


@LAW
@given(situations(), st.data())
def test_a_node_depends_on_its_in_neighbours_only(situation, data) -> None:
    graph, x, c, seed = situation
    conv = layer(c, seed, self_score="mean", heads=2)
    speaker = data.draw(st.integers(0, graph.num_src - 1))
    louder = x.clone()
    louder[speaker] += 1.0
    hears = torch.zeros(graph.num_dst, dtype=torch.bool)
    hears[graph.row[graph.col == speaker]] = True
    hears[speaker] = True
    torch.testing.assert_close(conv(graph, louder)[~hears], conv(graph, x)[~hears], rtol=0, atol=0)


@LAW
@given(situations(), st.sampled_from(["tangent", "mobius", "midpoint"]), st.sampled_from(["concat", "mean", "product"]))
def test_the_output_lies_on_the_manifold_and_gradients_are_finite(situation, aggregate: str, merge: str) -> None:
    graph, x, c, seed = situation
    conv = layer(c, seed, aggregate=aggregate, merge=merge, heads=2, bias="point", radius_norm=True)
    x.requires_grad_()
    y = conv(graph, x)
    assert (
        c * y.detach().view(graph.num_dst, -1, DIM if merge == "product" else y.shape[1]).square().sum(-1) < 1
    ).all()
    for value in torch.autograd.grad(y.sum(), [x, conv.weight, conv.bias]):
        assert torch.isfinite(value).all()


@LAW
@given(situations())
def test_scaling_all_points_leaves_radius_normed_attention_alone(situation) -> None:
    graph, x, c, seed = situation
    conv = layer(c, seed, radius_norm=True)
    _, w = all_weights(conv, graph, x)
    _, scaled = all_weights(conv, graph, 3 * x)
    torch.testing.assert_close(scaled, w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("aggregate", ["tangent", "midpoint"])
def test_one_node_alone_keeps_its_point(aggregate: str) -> None:
    conv = layer(1.0, 0, aggregate=aggregate, activation=None)
    x = torch.randn(1, IN_DIM).double()
    alone = conv(torch.empty(2, 0, dtype=torch.long), x)
    torch.testing.assert_close(alone, hgeo.exp0(conv.manifold, x @ conv.weight.t()))
