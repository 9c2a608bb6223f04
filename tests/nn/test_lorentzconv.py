"""Fully Lorentz convolution: HyboNet's layer, exact far out, one code with flat space."""

from __future__ import annotations

import mpmath
import pytest
import torch
from torch import Tensor

import hgeo
import hgeo.nn as hnn
from hgeo.nn._centroid import centroids

EDGES = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 3, 0, 1]])
NODES = 5  # the last is isolated
SPACE = hgeo.Lorentz(c=0.8)


def adjacency() -> Tensor:
    a = torch.eye(NODES)
    a[EDGES[1], EDGES[0]] = 1
    return a


def shares(weights: str) -> Tensor:
    a = adjacency()
    return a / torch.sqrt(a.sum(1, keepdim=True) * a.sum(0)) if weights == "sym" else a / a.sum(1, keepdim=True)


def points() -> Tensor:
    return hgeo.exp0(SPACE, 0.7 * torch.randn(NODES, 3, generator=torch.Generator().manual_seed(0)))


def centroid(a: Tensor, y: Tensor, c: float) -> Tensor:
    """As printed: Σ a y / (√c |Σ a y|), in Minkowski's norm."""
    total = a @ y
    return total / (c * (total[:, :1] ** 2 - total[:, 1:].square().sum(1, keepdim=True))).sqrt()


@pytest.mark.parametrize("weights", ["sym", "mean"])
def test_it_is_hybonets_linear_map_and_centroid(weights: str) -> None:
    conv = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights=weights, gate=True)
    expected = centroid(shares(weights), conv.linear(points()), 0.8)
    torch.testing.assert_close(conv(EDGES, points()), expected)


def test_its_attention_is_the_softmax_of_minus_the_squared_lorentzian_distance() -> None:
    conv = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights="attention", activation=torch.tanh)
    y = conv.linear(points())
    q, k = conv.query(y), conv.key(y)
    apart = (q[:, None, 1:] - k[None, :, 1:]).square().sum(-1) - (q[:, None, 0] - k[None, :, 0]).square()
    scores = torch.where(adjacency() > 0, -conv.log_beta.exp() * apart, -torch.inf)
    torch.testing.assert_close(conv(EDGES, points()), centroid(scores.softmax(1), y, 0.8))
    assert float(conv.log_beta.detach().exp()) == pytest.approx(2**-0.5)


@pytest.mark.parametrize("radius", [1.6, 3.0, 9.0, 14.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_centroid_keeps_its_digits_far_from_the_origin(dtype: torch.dtype, radius: float) -> None:
    """Where the printed formula is .2 % off (radius 9) or has none (14); within 2 sums of float32 are made in it."""
    angle = torch.tensor([0.0, 1e-4, 3e-4], dtype=torch.float64)
    length = torch.sinh(radius + torch.tensor([0.0, 0.1, 0.3], dtype=torch.float64))
    s = torch.stack([length * angle.cos(), length * angle.sin()], 1).to(dtype)
    graph = hgeo.Graph(torch.tensor([0, 1, 2]), torch.zeros(3, dtype=torch.long), num_src=3, num_dst=1)
    found = centroids(graph, s, torch.tensor(1.0), None, None, backend="auto")
    with mpmath.workdps(60):
        rows = [[mpmath.mpf(float(value)) for value in row] for row in s]
        time = sum(mpmath.sqrt(1 + x * x + y * y) for x, y in rows)
        total = [sum(column) for column in zip(*rows, strict=True)]
        length = mpmath.sqrt(time**2 - total[0] ** 2 - total[1] ** 2)
        expected = torch.tensor([[float(value / length) for value in total]], dtype=torch.float64)
    tolerance = 1e-13 if dtype == torch.float64 else 1e-6 if radius < 10 else 1e-3
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=0.0)


@pytest.mark.parametrize("radius", [2.0, 9.0])
def test_the_gradient_of_a_single_points_centroid_is_the_gradient_of_the_point(radius: float) -> None:
    s = torch.tensor([[torch.tensor(radius).sinh(), 0.3]], requires_grad=True)
    graph = hgeo.Graph(torch.tensor([0]), torch.tensor([0]), num_src=1)
    middle = centroids(graph, s, torch.tensor(1.0), None, None, backend="auto")
    along = torch.tensor([[0.3, 0.7]])
    torch.testing.assert_close(torch.autograd.grad(middle, s, along)[0], along, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weights", ["sym", "mean", "attention"])
def test_flat_space_goes_through_the_same_code_and_is_its_limit(weights: str) -> None:
    answers, slopes = [], []
    for c in (1e-6, 0.0):
        torch.manual_seed(0)
        manifold = hgeo.PoincareBall(c=c, learnable=True).double()
        conv = hnn.LorentzConv(3, 2, manifold, in_manifold=manifold, weights=weights, activation=torch.tanh).double()
        x = torch.randn(NODES, 3, dtype=torch.float64)
        answers.append(conv(EDGES, hgeo.exp0(manifold, x)))
        slopes.append(torch.autograd.grad(answers[-1].square().sum(), [conv.linear.weight, *manifold.parameters()]))
    torch.testing.assert_close(answers[0], answers[1], rtol=1e-5, atol=1e-5)
    for near, flat in zip(*slopes, strict=True):
        torch.testing.assert_close(near, flat, rtol=1e-4, atol=1e-5)


def test_flat_space_gives_the_weighted_mean() -> None:
    plain = hgeo.space("euclidean:2").manifold
    conv = hnn.LorentzConv(3, 2, plain)
    x, a = torch.randn(NODES, 3), shares("sym")
    torch.testing.assert_close(conv(EDGES, x), a @ conv.linear(x) / a.sum(1, keepdim=True))


@pytest.mark.parametrize("weights", ["sym", "attention"])
def test_all_backends_formats_and_models_of_space_agree(weights: str) -> None:
    torch.manual_seed(0)
    conv = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights=weights)
    expected, adjacency = conv(EDGES, points()), torch.sparse_coo_tensor(EDGES.flip(0), torch.ones(5), (NODES, NODES))
    torch.testing.assert_close(conv(adjacency, points()), expected)
    for backend, reason in hgeo.graph.backends().items():
        if reason is None:
            conv.backend = backend
            torch.testing.assert_close(conv(EDGES, points()), expected)
    conv.backend = "auto"
    other = hnn.LorentzConv(3, 2, hgeo.PoincareBall(c=0.8), in_manifold=hgeo.PoincareBall(c=0.8), weights=weights)
    other.load_state_dict(conv.state_dict(), strict=False)
    move = hnn.Transfer(SPACE, other.manifold, how="isometry")
    torch.testing.assert_close(other(EDGES, move(points())), move(expected), rtol=1e-4, atol=1e-5)


def test_spatial_rows_pass_between_layers_as_points_would() -> None:
    ball = hgeo.PoincareBall()
    torch.manual_seed(0)
    by_points = hnn.Sequential(hnn.LorentzConv(3, 2, ball), hnn.LorentzConv(2, 2, ball, in_manifold=ball))
    torch.manual_seed(0)
    by_rows = hnn.Sequential(
        hnn.LorentzConv(3, 2, ball, output="spatial"), hnn.LorentzConv(2, 2, ball, in_manifold=ball, input="spatial")
    )
    x = torch.randn(NODES, 3)
    torch.testing.assert_close(by_rows(EDGES, x), by_points(EDGES, x))
    with pytest.raises(ValueError, match=r"takes points of .*, but layer 0 gives spatial"):
        hnn.Sequential(by_rows[0], by_points[1])


def test_sparse_features_and_blocks_are_read_like_dense_ones_and_whole_graphs() -> None:
    for weights in ("mean", "attention"):
        conv, x = hnn.LorentzConv(6, 2, SPACE, weights=weights), (torch.rand(NODES, 6) < 0.3).float()
        whole = conv(EDGES, x)
        torch.testing.assert_close(conv(EDGES, x.to_sparse_csr()), whole)
        block = hgeo.Graph(*EDGES[:, EDGES[1] < 2], num_src=NODES, num_dst=2)
        torch.testing.assert_close(conv(block, x), whole[:2])


def test_spheres_and_unknown_words_are_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match=r"LorentzConv: it works in spatial coordinates .* take another form or space"):
        hnn.LorentzConv(3, 2, hgeo.space("sphere:2").manifold)
    with pytest.raises(ValueError, match="weights must be one of 'sym', 'mean', 'attention'"):
        hnn.LorentzConv(3, 2, SPACE, weights="sum")  # type: ignore[arg-type]


def test_its_second_derivatives_are_right() -> None:
    conv = hnn.LorentzConv(2, 2, SPACE, activation=torch.tanh).double()
    graph = hgeo.Graph(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 2, 0, 1]), 3)
    x = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    torch.autograd.gradgradcheck(lambda x: conv(graph, x), x)


@pytest.mark.parametrize("weights", ["sym", "mean", "attention"])
def test_weights_of_edges_multiply_shares_and_count_in_degrees(weights: str) -> None:
    conv, x = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights=weights), points()
    none = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0])
    torch.testing.assert_close(conv(EDGES, x, edge_weight=none), conv(EDGES[:, 1:], x))
    doubled, twice = torch.cat([EDGES, EDGES[:, :1]], 1), torch.tensor([2.0, 1.0, 1.0, 1.0, 1.0])
    torch.testing.assert_close(conv(EDGES, x, edge_weight=twice), conv(doubled, x))
    assert torch.isfinite(conv(EDGES, x, edge_weight=torch.zeros(5))).all()
    with pytest.raises(ValueError, match="edge_weight must be finite numbers of at least 0, got -1"):
        conv(EDGES, x, edge_weight=-torch.ones(5))


def test_a_node_may_keep_a_map_of_its_own_and_its_input() -> None:
    conv = hnn.LorentzConv(3, 3, SPACE, in_manifold=SPACE, self_weight=True, residual=True)
    plain = hnn.LorentzConv(3, 3, SPACE, in_manifold=SPACE)
    plain.linear.load_state_dict(conv.linear.state_dict())
    x = points()
    mixed = conv.with_own(plain(EDGES, x), conv.own(x))
    torch.testing.assert_close(conv(EDGES, x), conv.with_input(x, mixed))
    with torch.no_grad():
        conv.with_own.theta.fill_(-torch.inf)
        conv.with_input.theta.fill_(-torch.inf)
    assert torch.equal(conv(EDGES, x), x)


def test_an_input_from_elsewhere_comes_into_a_residual_by_a_map() -> None:
    conv, x = hnn.LorentzConv(4, 3, SPACE, residual=True), torch.randn(NODES, 4)
    plain = hnn.LorentzConv(4, 3, SPACE)
    plain.linear.load_state_dict(conv.linear.state_dict())
    assert conv.skip.bias is None
    torch.testing.assert_close(conv(EDGES, x), conv.with_input(conv.skip(x), plain(EDGES, x)))
    spatial = hnn.LorentzConv(3, 3, SPACE, in_manifold=SPACE, residual=True, input="spatial")
    by_points = hnn.LorentzConv(3, 3, SPACE, in_manifold=SPACE, residual=True)
    by_points.load_state_dict(spatial.state_dict())
    torch.testing.assert_close(spatial(EDGES, points()[:, 1:]), by_points(EDGES, points()))


def test_attention_comes_in_the_callers_order_and_sums_to_one() -> None:
    conv, x = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights="attention"), points()
    weight = torch.tensor([0.0, 2.0, 1.0, 1.0, 0.5])
    y, (edges, loops) = conv(EDGES, x, return_attention=True, edge_weight=weight)
    torch.testing.assert_close(y, conv(EDGES, x, edge_weight=weight))
    assert (edges.shape, loops.shape) == ((5, 1), (NODES, 1))
    torch.testing.assert_close(loops.index_add(0, EDGES[1], edges), torch.ones(NODES, 1))
    assert edges[0] == 0
    with pytest.raises(ValueError, match="weights='sym' are no attention; make the layer with weights='attention'"):
        hnn.LorentzConv(3, 2, SPACE)(EDGES, torch.randn(NODES, 3), return_attention=True)


def test_attributes_are_a_term_of_the_attentions_score() -> None:
    conv, x = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights="attention", edge_dim=2), points()
    attr = torch.randn(5, 2)
    plain = hnn.LorentzConv(3, 2, SPACE, in_manifold=SPACE, weights="attention", add_self_loops=False)
    plain.load_state_dict({k: v for k, v in conv.state_dict().items() if k != "weight_edge"})
    conv.add_self_loops = False
    factor = (attr @ conv.weight_edge.mT).exp().squeeze(1).detach()  # what is added to a score multiplies its exp
    torch.testing.assert_close(conv(EDGES, x, edge_attr=attr), plain(EDGES, x, edge_weight=factor))
