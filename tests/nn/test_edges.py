"""What every layer on a graph takes beside it: weights and attributes of edges, pairs of node sets, own rows."""

from __future__ import annotations

import copy
from typing import Any

import dgl
import pytest
import scipy.sparse
import torch
from torch import Tensor, nn

import hgeo
from hgeo.graph import Distance, Graph, Midpoint, MobiusSum, TangentSum, Uniform

NODES, IN_DIM, DIM = 6, 5, 3
EDGES = torch.tensor([[3, 0, 2, 0, 1, 4, 5, 4], [1, 1, 2, 2, 0, 1, 4, 3]])
TIMES = torch.tensor([2, 0, 1, 3, 1, 0, 2, 1])  # how often an edge is there


def hat(in_dim: Any = IN_DIM, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return hgeo.nn.HATConv(in_dim, DIM, hgeo.PoincareBall(0.7, learnable=True), **options).double()


def gcn(in_dim: Any = IN_DIM, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    return hgeo.nn.GCNConv(in_dim, DIM, hgeo.PoincareBall(0.7, learnable=True), **options).double()


def sage(in_dim: Any = IN_DIM, self_weight: bool = False, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    there = hgeo.PoincareBall(0.7, learnable=True)
    return hgeo.nn.SAGEConv(in_dim, DIM, there, self_weight=self_weight, **options).double()


def lorentz(in_dim: Any = IN_DIM, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    options = {"activation": torch.tanh, "bias": False} | options
    return hgeo.nn.LorentzConv(in_dim, DIM, hgeo.PoincareBall(0.7, learnable=True), **options).double()


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
    "SAGEConv": sage,
    "SAGEConv, tangent": lambda *a, **o: sage(*a, aggregate="tangent", **o),
    "LorentzConv": lorentz,
    "LorentzConv, mean": lambda *a, **o: lorentz(*a, weights="mean", **o),
    "LorentzConv, attention": lambda *a, **o: lorentz(*a, weights="attention", **o),
}
ONE_OF_EACH = ["HATConv", "GCNConv", "SAGEConv", "LorentzConv"]
# layers in which what a node keeps of its own is added to what it aggregates, and not combined with it as points
ADDING = [name for name in LAYERS if name.startswith(("HATConv", "GCNConv"))]
LOOPED = [name for name in LAYERS if not name.startswith("SAGEConv")]  # that add loops unless told otherwise
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
def test_a_node_whose_edges_all_have_weight_0_receives_nothing(name: str, backend: str) -> None:
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


@pytest.mark.parametrize("name", ONE_OF_EACH)
@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_no_weights_are_refused(name: str, wrong: float) -> None:
    weight = torch.ones(EDGES.shape[1])
    weight[3] = wrong
    with pytest.raises(ValueError, match=rf"edge_weight must be finite numbers of at least 0, got {wrong:g}".lower()):
        LAYERS[name]()(EDGES, features(), edge_weight=weight)


def test_a_weight_of_the_added_loops_stands_beside_those_of_the_edges() -> None:
    x, weight = features(), torch.rand(EDGES.shape[1]).double()
    missing = torch.tensor([0, 1, 3, 4, 5])
    looped = torch.cat([EDGES, missing.expand(2, -1)], 1)
    for name in ONE_OF_EACH:
        layer = LAYERS[name](fill_value=0.5, add_self_loops=True)
        with_loops = torch.cat([weight, torch.full((5,), 0.5).double()])
        agree([layer(EDGES, x, edge_weight=weight)], [layer(looped, x, edge_weight=with_loops)])
        with_loops[:8] = 1
        agree([layer(EDGES, x)], [layer(looped, x, edge_weight=with_loops)])
        assert "fill_value=0.5" in str(layer)


@pytest.mark.parametrize(("fill", "reduce"), [("mean", "mean"), ("add", "sum"), ("min", "amin"), ("max", "amax")])
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_added_loops_can_have_what_the_edges_of_their_node_have(name: str, fill: str, reduce: str) -> None:
    layer = LAYERS[name](edge_dim=2, fill_value=fill, add_self_loops=True)
    x, attr = features(), features(EDGES.shape[1], 2, seed=4)
    weight = torch.rand(EDGES.shape[1]).double()
    missing = torch.tensor([0, 1, 3, 4, 5])
    looped = torch.cat([EDGES, missing.expand(2, -1)], 1)

    def filled(values: Tensor) -> Tensor:
        index = EDGES[1].unsqueeze(-1).expand_as(values)
        zeros = values.new_zeros(NODES, values.shape[1])
        return torch.cat([values, zeros.scatter_reduce(0, index, values, reduce, include_self=False)[missing]])

    expected = layer(looped, x, edge_weight=filled(weight.unsqueeze(-1)), edge_attr=filled(attr))
    agree([layer(EDGES, x, edge_weight=weight, edge_attr=attr)], [expected])


# --- attributes and masks ---


def test_attributes_are_a_linear_term_of_the_score(backend: str) -> None:
    conv, attr = hat(edge_dim=2, heads=2, backend=backend, add_self_loops=False), features(EDGES.shape[1], 2, seed=4)
    found = value_and_gradients(conv, EDGES, x=features(), edge_attr=attr)
    assert found[1 + [name for name, _ in conv.named_parameters()].index("weight_edge")].abs().sum() > 0
    plain = hat(heads=2, backend=backend, add_self_loops=False)
    plain.load_state_dict({k: v for k, v in conv.state_dict().items() if k != "weight_edge"})
    agree(found[:1], [plain(EDGES, features(), edge_bias=attr @ conv.weight_edge.mT).detach()])


GATED = {
    "GCNConv": lambda **o: gcn(norm="sum", **o),
    "SAGEConv": sage,
    "LorentzConv": lambda **o: lorentz(weights="mean", **o),
}


@pytest.mark.parametrize("name", GATED)
def test_attributes_are_a_gate_of_the_messages(name: str, backend: str) -> None:
    make, attr = GATED[name], features(EDGES.shape[1], 2, seed=4)
    layer = make(edge_dim=2, backend=backend)
    with torch.no_grad():
        layer.weight_edge.zero_()
    agree([layer(EDGES, features(), edge_attr=attr)], [make(backend=backend)(EDGES, features())])
    with torch.no_grad():
        layer.weight_edge.copy_(features(1, 2, seed=5))
        layer.bias_edge.fill_(0.3)
    gate = 2 * torch.sigmoid(attr @ layer.weight_edge.mT + 0.3).detach()
    plain = make(add_self_loops=False, backend=backend)
    layer.add_self_loops = False
    agree([layer(EDGES, features(), edge_attr=attr)], [plain(EDGES, features(), edge_weight=gate)])


@pytest.mark.parametrize("name", LAYERS)
def test_a_mask_multiplies_the_messages(name: str, backend: str) -> None:
    layer, x = LAYERS[name](backend=backend), features()
    ones = torch.ones(EDGES.shape[1], dtype=torch.float64, requires_grad=True)
    agree([layer(EDGES, x, edge_mask=ones)], [layer(EDGES, x)])
    (slope,) = torch.autograd.grad(layer(EDGES, x, edge_mask=ones).square().sum(), ones)
    assert (slope != 0).any()
    with torch.no_grad():
        step = torch.zeros_like(ones).index_fill(0, torch.tensor([4]), 1e-5)
        ends = [layer(EDGES, x, edge_mask=ones + sign * step).square().sum() for sign in (1, -1)]
    torch.testing.assert_close(slope[4], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


def test_a_mask_acts_after_the_softmax_and_the_plan_says_so() -> None:
    conv, x = hat(backend="fused"), features()
    hidden = torch.ones(EDGES.shape[1]).double()
    hidden[0] = 0
    y, attention = conv(EDGES, x, return_attention=True, edge_mask=hidden)
    _, same = conv(EDGES, x, return_attention=True)
    agree(list(attention), list(same))
    assert (y - conv(EDGES, x))[1].abs().max() > 1e-3
    plan = conv.plan(EDGES, edge_mask=hidden)
    assert plan.why == "a mask of the edges multiplies the messages after the softmax"
    assert conv.plan(EDGES).why is None
    assert conv.plan(EDGES, edge_weight=hidden).why is None
    mean = hat(backend="fused", self_score="mean")
    assert mean.plan(EDGES, edge_weight=hidden).why == "the mean distance to the neighbours is one of weighted edges"
    assert mean.plan(EDGES).why is None


# --- loops, own rows ---


@pytest.mark.parametrize("name", LAYERS)
def test_without_loops_a_node_without_edges_is_the_origin(name: str, backend: str) -> None:
    layer = LAYERS[name](add_self_loops=False, backend=backend)
    found = value_and_gradients(layer, EDGES[:, EDGES[1] != 1], x=features())
    assert all(value.isfinite().all() for value in found)
    torch.testing.assert_close(found[0][1], torch.zeros_like(found[0][1]))
    looped = torch.cat([EDGES, torch.tensor([0, 1, 3, 4, 5]).expand(2, -1)], 1)
    agree([layer(looped, features())], [LAYERS[name](backend=backend, add_self_loops=True)(EDGES, features())])


@pytest.mark.parametrize("name", ADDING)
def test_own_rows_are_added_to_the_aggregate(name: str, backend: str) -> None:
    options = {"activation": None, "output": "tangent", "backend": backend}
    x, plain = features(), LAYERS[name](**options)
    for own in ({"self_weight": True}, {"residual": True}, {"self_weight": True, "residual": True}):
        layer = LAYERS[name](**options, **own)
        layer.load_state_dict(plain.state_dict(), strict=False)
        assert all(f"{word}=True" in str(layer) for word in own)
        rows = sum(x @ getattr(layer, f"weight_{'self' if word == 'self_weight' else word}").mT for word in own)
        agree([layer(EDGES, x)], [plain(EDGES, x) + rows])


@pytest.mark.parametrize("name", LAYERS)
def test_what_a_node_keeps_of_its_own_has_finite_gradients(name: str, backend: str) -> None:
    layer = LAYERS[name](residual=True, self_weight=True, backend=backend)
    for edges in (EDGES, EDGES[:, EDGES[1] != 1]):
        found = value_and_gradients(layer, edges, x=features())
        assert all(value.isfinite().all() for value in found)
        assert (found[0][1] != value_and_gradients(LAYERS[name](backend=backend), edges, x=features())[0][1]).any()


def test_a_residual_of_the_same_dimension_has_no_map() -> None:
    layer, x = gcn(DIM, residual=True, activation=None, output="tangent", bias="none"), features(numbers=DIM)
    assert layer.weight_residual is None
    plain = gcn(DIM, activation=None, output="tangent", bias="none")
    agree([layer(EDGES, x)], [plain(EDGES, x) + x])
    deeper = hat(DIM, in_manifold=hgeo.Lorentz(), residual=True, activation=None, output="tangent")
    points = hgeo.exp0(hgeo.Lorentz(), x)
    flat = hat(DIM, in_manifold=hgeo.Lorentz(), activation=None, output="tangent")
    # a coordinate of the hyperboloid is half as much on the ball, of the same length
    agree([deeper(EDGES, points)], [flat(EDGES, points) + x / 2])


def test_the_plan_knows_that_own_rows_come_between_the_sum_and_the_point() -> None:
    assert hat(backend="fused").plan(EDGES).one_call == ("score", "aggregate", "finish")
    assert hat(backend="fused", residual=True).plan(EDGES).one_call == ("score", "aggregate")


# --- two sets of nodes ---

ACROSS = torch.tensor([[0, 2, 1, 3, 3, 0], [0, 0, 1, 1, 4, 2]])  # from four sources to five destinations
BOTH = Graph(ACROSS[0] + 5, ACROSS[1], num_src=9, num_dst=5)  # the same, the destinations first


def across_forms() -> dict[str, Any]:
    dense = torch.zeros(5, 4).index_put((ACROSS[1], ACROSS[0]), torch.ones(6))
    return {
        "edge_index": ACROSS,
        "coo": dense.to_sparse_coo(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "scipy": scipy.sparse.csr_matrix(dense.numpy()),
        "dgl": dgl.heterograph({("user", "buys", "item"): tuple(ACROSS)}, {"user": 4, "item": 5}),
        "block": dgl.create_block(tuple(ACROSS), num_src_nodes=4, num_dst_nodes=5),
    }


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("form", across_forms())
@pytest.mark.parametrize("name", LAYERS)
def test_a_pair_is_a_graph_of_both_sets_in_every_format(name: str, form: str) -> None:
    layer, users, items = LAYERS[name](), features(4), features(5, seed=1)
    agree([layer(across_forms()[form], (users, items))], [layer(BOTH, torch.cat([items, users]))])


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_pair_goes_over_a_graph_of_hgeo_and_a_block(name: str) -> None:
    src, dst = torch.tensor([2, 3, 1, 0]), torch.tensor([0, 0, 1, 1])
    graph, layer = Graph(src, dst, num_src=4, num_dst=2), LAYERS[name]()
    users, items = features(4), features(2, seed=1)
    expected = layer(torch.stack([src, dst]), (users, items))
    agree([layer(graph, (users, items))], [expected])
    agree([layer(dgl.create_block((src, dst), num_src_nodes=4, num_dst_nodes=2), (users, items))], [expected])
    with pytest.raises(ValueError, match="leads from 4 sources to 2 destinations, but a pair of 3 and 2"):
        layer(graph, (users[:3], items))
    with pytest.raises(ValueError, match="self-loops were added"):
        layer(graph.with_self_loops(), (users, items))


@pytest.mark.parametrize("name", LAYERS)
def test_sources_and_destinations_can_have_maps_of_their_own(name: str, backend: str) -> None:
    layer = LAYERS[name]((2, 5), self_weight=True, residual=True, backend=backend)
    users, items = features(4, 2), features(5, seed=1)
    found = layer(ACROSS, (users, items))
    assert found.shape[0] == 5
    state = layer.state_dict()
    ours = ("linear.weight", "linear_dst.weight", "own.weight", "skip.weight")
    src, dst, *own = ours if "Lorentz" in name else ("weight", "weight_dst", "weight_self", "weight_residual")
    assert [state[word].shape[1] for word in (src, dst, *own)] == [2, 5, 5, 5]
    # side by side in one vector, with one map of both, it is the layer for one set
    both = LAYERS[name](7, self_weight=True, residual=True, backend=backend)
    state[src] = torch.cat([state[src], state.pop(dst)], 1)
    state |= {word: torch.cat([state[word].new_zeros(len(state[word]), 2), state[word]], 1) for word in own}
    both.load_state_dict({word: value for word, value in state.items() if not word.startswith("linear_dst")})
    x = torch.cat([torch.cat([torch.zeros(5, 2), items], 1), torch.cat([users, torch.zeros(4, 5)], 1)]).double()
    agree([found], [both(BOTH, x)])
    assert "(R:2, R:5) → " in str(layer)


def test_a_pair_of_points_is_read_on_its_manifold() -> None:
    there = hgeo.Lorentz(c=0.5)
    users, items = hgeo.exp0(there, features(4)), hgeo.exp0(there, features(5, seed=1))
    y = hat(in_manifold=there)(ACROSS, (users, items))
    agree([y], [hat()(ACROSS, (features(4) / 2, features(5, seed=1) / 2))])


def test_weights_attention_and_residual_of_a_pair_are_those_of_its_edges() -> None:
    conv, users, items = hat(heads=2), features(4), features(5, seed=1)
    y, attention = conv(ACROSS, (users, items), return_attention=True)
    assert attention.edges.shape == (6, 2)
    assert attention.loops.shape == (5, 2)
    total = attention.loops.index_add(0, ACROSS[1], attention.edges)
    torch.testing.assert_close(total, torch.ones(5, 2).double())
    with_weights = conv(ACROSS, (users, items), edge_weight=torch.tensor([1.0, 0, 1, 1, 0, 1]))
    agree([with_weights], [conv(ACROSS[:, [0, 2, 3, 5]], (users, items))])
    assert (with_weights != y).any()


# --- dimensions that the first call brings ---


@pytest.mark.parametrize("name", LAYERS)
def test_a_dimension_can_be_found_at_the_first_call(name: str) -> None:
    sized, lazy = (LAYERS[name](size, self_weight=True, residual=True, edge_dim=2) for size in (IN_DIM, -1))
    attr = features(EDGES.shape[1], 2)
    copied = copy.deepcopy(lazy)
    assert copied(EDGES, features(), edge_attr=attr).shape[0] == NODES
    assert copied.in_dim == IN_DIM
    lazy.reset_parameters()
    assert "R →" in str(lazy)
    assert set(lazy.state_dict()) == set(sized.state_dict())
    lazy.load_state_dict(sized.state_dict())
    agree([lazy(EDGES, features(), edge_attr=attr)], [sized(EDGES, features(), edge_attr=attr)])
    assert str(lazy) == str(sized)


def test_the_dimensions_of_a_pair_and_of_points_can_be_found_too() -> None:
    layer = gcn((-1, -1), residual=True)
    assert layer(ACROSS, (features(4, 2), features(5, DIM))).shape == (5, DIM)
    assert (layer.in_dim, layer.dst_dim, layer.weight_residual) == (2, DIM, None)
    layer = hat((2, -1))
    layer(ACROSS, (features(4, 2), features(5, 7)))
    assert (layer.in_dim, layer.dst_dim) == (2, 7)
    there = hgeo.Lorentz()
    layer = hat(-1, in_manifold=there)
    layer(EDGES, hgeo.exp0(there, features()))
    assert layer.in_dim == IN_DIM
    with pytest.raises(ValueError, match=r"5 numbers a node|6 numbers a node"):
        layer(EDGES, features(NODES, 4))


def test_one_set_of_nodes_goes_through_a_layer_with_two_maps() -> None:
    layer, x = hat((IN_DIM, IN_DIM)), features()
    agree([layer(EDGES, x)], [layer(EDGES, (x, x))])


# --- input that does not fit ---


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_input_that_does_not_fit_gets_one_clear_error(name: str) -> None:
    make, x, edges = LAYERS[name], features(), EDGES.shape[1]
    layer, pair = make(), (features(4), features(5))
    for call, kind, words in (
        (lambda: layer(x, EDGES), TypeError, "the arguments are swapped|x must be a tensor|features are floating"),
        (lambda: layer(EDGES, x, edge_weight=torch.ones(3)), ValueError, r"edge_weight must have shape \(8,\).*\(3,\)"),
        (lambda: layer(EDGES, x, edge_weight=torch.ones(8, 2)), ValueError, r"edge_weight must have shape.*\(8, 2\)"),
        (lambda: layer(EDGES, x, edge_weight=[1.0] * 8), TypeError, "edge_weight must be a tensor.*list"),
        (lambda: layer(EDGES, x, edge_mask=torch.ones(9)), ValueError, "edge_mask must have shape"),
        (lambda: layer(EDGES, x, edge_attr=torch.ones(edges, 2)), ValueError, "made without edge_dim"),
        (lambda: make(edge_dim=2)(EDGES, x), ValueError, "made with edge_dim=2; give it edge_attr"),
        (
            lambda: make(edge_dim=2)(EDGES, x, edge_attr=torch.ones(edges, 3).double()),
            ValueError,
            r"edge_attr must have shape \(8, 2\).*got \(8, 3\)",
        ),
        (lambda: layer(ACROSS, (x,)), TypeError, r"two tensors; got \(Tensor\)"),
        (
            lambda: layer(ACROSS, (x, None)),
            TypeError,
            r"two tensors; got \(Tensor, NoneType\)",
        ),
        (lambda: layer(ACROSS, (pair[0], pair[1].float())), ValueError, "of one dtype on one device.*float64.*float32"),
        (lambda: layer(ACROSS, (pair[0][:2], pair[1])), ValueError, r"source id 3.*shapes \(2, 5\) and \(5, 5\)"),
        (lambda: layer(ACROSS, (pair[0], pair[1][:3])), ValueError, r"destination id 4.*shapes \(4, 5\) and \(3, 5\)"),
        (lambda: make((2, 5))(ACROSS, pair), ValueError, r"must have 2 numbers a node, got shape \(4, 5\)"),
        (lambda: layer(EDGES, {"user": x}), TypeError, "got dict; put a layer an edge type into.*HeteroGraphConv"),
        (lambda: layer(dgl.heterograph({("a", "b", "c"): ([0], [1])}), x), ValueError, "give the layer a pair"),
        (lambda: make((1, 2, 3)), ValueError, r"in_dim is a number or a pair of numbers, got \(1, 2, 3\)"),
        (lambda: make((5, 0)), ValueError, "in_dim must be a whole number of at least 1, got 0"),
        (lambda: make(edge_dim=0), ValueError, "edge_dim must be a whole number of at least 1"),
        (lambda: make(fill_value="median"), ValueError, "fill_value must be one of 'mean', 'add', 'min', 'max'"),
    ):
        with pytest.raises(kind, match=words):
            call()


def one_set_forms(weight: Tensor) -> dict[str, tuple[Any, Tensor]]:
    """The graph in every format, and the weights in that format's order of edges."""
    weighed = torch.sparse_coo_tensor(EDGES.flip(0), weight, (NODES, NODES)).coalesce()
    csc = weighed.to_dense().to_sparse_csc()
    rows = scipy.sparse.coo_matrix((weight.numpy(), (EDGES[1].numpy(), EDGES[0].numpy())), (NODES, NODES))
    return {
        "edge_index": (EDGES, weight),
        "dgl": (dgl.graph(tuple(EDGES), num_nodes=NODES), weight),
        "block": (dgl.create_block(tuple(EDGES), num_src_nodes=NODES, num_dst_nodes=NODES), weight),
        "graph": (Graph(*EDGES, num_src=NODES), weight),
        "coo": (weighed, weighed.values()),
        "adj_t": (weighed.to_sparse_csr(), weighed.to_sparse_csr().values()),
        "csc": (csc, csc.values()),
        "scipy": (rows, weight),
    }


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("form", one_set_forms(torch.ones(EDGES.shape[1])))
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_weights_and_attributes_stand_in_the_order_of_the_edges_of_every_format(name: str, form: str) -> None:
    layer, weight = LAYERS[name](edge_dim=1), 0.5 + torch.arange(EDGES.shape[1]).double()
    graph, same = one_set_forms(weight)[form]
    expected = layer(EDGES, features(), edge_weight=weight, edge_attr=weight, edge_mask=weight)
    agree([layer(graph, features(), edge_weight=same, edge_attr=same, edge_mask=same)], [expected])


# --- lower precision, compilers ---

EVERYTHING = {"edge_dim": 2, "self_weight": True, "residual": True}
SOME = ["HATConv", "HATConv, mobius", "HATConv, self_score mean", "GCNConv", "GCNConv, gyrosum"]
SOME += ["SAGEConv", "SAGEConv, tangent", "LorentzConv", "LorentzConv, attention"]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("name", SOME)
def test_autocast_computes_the_same_in_less_precision(name: str, layout: torch.layout, low: torch.dtype) -> None:
    layer, x = LAYERS[name](**EVERYTHING).float(), features().relu().float()
    more = {"edge_weight": TIMES.float(), "edge_attr": features(EDGES.shape[1], 2).float()}
    expected = layer(EDGES, x, **more)
    x = x.to_sparse(layout=layout) if layout != torch.strided else x
    for rows in (x, x.to(low)):
        with torch.autocast("cpu", low):
            y = layer(EDGES, rows, **more)
            loss = y.square().sum()
        assert y.dtype == torch.float32
        torch.testing.assert_close(y, expected, rtol=0, atol=0.05)
        loss.backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_layer_can_be_of_half_precision(name: str, layout: torch.layout) -> None:
    layer, x = LAYERS[name](**EVERYTHING), features().relu()
    more = {"edge_weight": TIMES.float(), "edge_attr": features(EDGES.shape[1], 2)}
    expected = layer(EDGES, x, **more)
    low, more["edge_attr"] = x.bfloat16(), more["edge_attr"].bfloat16()
    low = low.to_sparse(layout=layout) if layout != torch.strided else low
    y = layer.bfloat16()(EDGES, low, **more)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=0.05)


@pytest.mark.parametrize("name", SOME)
def test_a_layer_with_everything_compiles_in_one_graph_for_graphs_of_every_size(name: str) -> None:
    layer = LAYERS[name](**EVERYTHING, backend="reference" if "mobius" in name else "torch")
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    for nodes in (6, 9):
        edges = torch.cat([EDGES, torch.randint(nodes, (2, nodes))], 1)
        more = {"edge_weight": torch.rand(edges.shape[1]).double(), "edge_attr": features(edges.shape[1], 2)}
        more["edge_mask"] = torch.rand(edges.shape[1]).double()
        agree([compiled(edges, features(nodes), **more)], [layer(edges, features(nodes), **more)])


class _Called(nn.Module):
    """A layer called with keywords, as a program to export calls it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, edges: Tensor, weight: Tensor, attr: Tensor) -> Tensor:
        return self.layer(edges, x, edge_weight=weight, edge_attr=attr)


@pytest.mark.parametrize("backend", ["reference", "torch", "fused"])
@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_layer_is_exported_for_graphs_of_every_size(name: str, backend: str) -> None:
    def example(nodes: int, more: int) -> tuple[Tensor, ...]:
        edges = torch.cat([EDGES, torch.randint(nodes, (2, more))], 1)
        return features(nodes), edges, torch.rand(edges.shape[1]).double(), features(edges.shape[1], 2)

    program = _Called(LAYERS[name](**EVERYTHING, backend=backend)).eval()
    nodes, edges = torch.export.Dim("nodes", min=2, max=10**9), torch.export.Dim("edges", min=2, max=10**9)
    shapes = ({0: nodes}, {1: edges}, {0: edges}, {0: edges})
    exported = torch.export.export(program, example(6, 3), dynamic_shapes=shapes).module()
    for given in (example(6, 3), example(11, 20)):
        agree([exported(*given)], [program(*given)])


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_layer_with_everything_compiles_for_one_size(name: str) -> None:
    layer = LAYERS[name]((2, IN_DIM), **EVERYTHING, backend="fused")
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=False, backend="aot_eager")
    users, items = features(4, 2), features(5, seed=1)
    more = {"edge_weight": torch.rand(6).double(), "edge_attr": features(6, 2)}
    agree([compiled(ACROSS, (users, items), **more)], [layer(ACROSS, (users, items), **more)])
