"""GCN, GAT and SAGE compute what DGL's layers compute, which are the yardstick here, and need no DGL."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hgeo
from hgeo.models import GATConv, GraphConv, SAGEConv

dgl = pytest.importorskip("dgl", reason="DGL's layers are what is compared with")

EXACT = {"rtol": 1e-12, "atol": 1e-12}
NODES, WIDTH = 40, 6


@pytest.fixture(params=["simple", "parallel edges and loops"])
def edges(request) -> torch.Tensor:
    """Directed edges; the last node has none."""
    found = torch.from_numpy(np.random.default_rng(0).integers(NODES - 1, size=(2, 200)))
    if request.param == "simple":
        found = torch.unique(found[:, found[0] != found[1]], dim=1)
        return found[:, torch.randperm(found.shape[1], generator=torch.Generator().manual_seed(1))]
    return found


def with_loops(edges: torch.Tensor):
    """DGL's graph with a self-loop on each node that has none, as hgeo adds them."""
    lonely = torch.tensor([node for node in range(NODES) if not bool((edges == node).all(dim=0).any())])
    return dgl.graph(tuple(torch.cat([edges, lonely.expand(2, -1)], dim=1)), num_nodes=NODES)


def features(seed: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(NODES, WIDTH, dtype=torch.float64, generator=generator)
    return x.requires_grad_()


def compare(ours, theirs, parameters: dict[str, str], x: torch.Tensor, run_ours, run_theirs) -> None:
    """Outputs and derivatives of all parameters and of the input are the same."""
    with torch.no_grad():
        for number, parameter in enumerate(theirs.parameters()):
            generator = torch.Generator().manual_seed(number)
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    ours.load_state_dict({own: theirs.state_dict()[its] for own, its in parameters.items()})
    a, b = run_ours(ours, x), run_theirs(theirs, x)
    torch.testing.assert_close(a, b, **EXACT)
    weights = torch.linspace(-1, 1, a.numel(), dtype=torch.float64).view_as(a)
    mine = torch.autograd.grad((a * weights).sum(), [x, *(dict(ours.named_parameters())[own] for own in parameters)])
    its = torch.autograd.grad(
        (b * weights).sum(), [x, *(dict(theirs.named_parameters())[name] for name in parameters.values())]
    )
    for left, right in zip(mine, its, strict=True):
        torch.testing.assert_close(left, right.view_as(left), **EXACT)


@pytest.mark.parametrize("bias", [True, False])
def test_graph_convolution_is_dgls(edges, backend, bias) -> None:
    ours = GraphConv(WIDTH, bias=bias, backend=backend).double()
    theirs = dgl.nn.GraphConv(WIDTH, WIDTH, weight=False, bias=bias).double()
    looped = with_loops(edges)
    graph = hgeo.Graph(*edges, num_src=NODES)
    names = {"bias": "bias"} if bias else {}
    compare(ours, theirs, names, features(), lambda m, x: m(graph, x), lambda m, x: m(looped, x))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("degree_norm", [False, True])
def test_graph_attention_is_dgls(edges, backend, heads, degree_norm) -> None:
    ours = GATConv(WIDTH, 4, heads, degree_norm=degree_norm, backend=backend).double()
    theirs = dgl.nn.GATConv(WIDTH, 4, heads).double()
    looped = with_loops(edges)
    graph = hgeo.Graph(*edges, num_src=NODES)
    degree = looped.in_degrees().double()
    source, destination = looped.edges()
    scale = (degree[destination] / degree[source]).sqrt() if degree_norm else None
    names = {name: name for name in ("fc.weight", "attn_l", "attn_r", "bias")}
    compare(
        ours, theirs, names, features(), lambda m, x: m(graph, x), lambda m, x: m(looped, x, edge_weight=scale)
    )  # fmt: skip


@pytest.mark.parametrize("width", [3, 9])
@pytest.mark.parametrize("bias", [True, False])
def test_sage_is_dgls(edges, backend, width, bias) -> None:
    ours = SAGEConv(WIDTH, width, bias=bias, backend=backend).double()
    theirs = dgl.nn.SAGEConv(WIDTH, width, "mean", bias=bias).double()
    plain = dgl.graph(tuple(edges), num_nodes=NODES)
    graph = hgeo.Graph(*edges, num_src=NODES)
    names = {name: name for name in ("fc_self.weight", "fc_neigh.weight", *(["fc_self.bias"] if bias else []))}
    compare(ours, theirs, names, features(), lambda m, x: m(graph, x), lambda m, x: m(plain, x))


def test_on_a_block_only_the_destinations_are_computed(edges) -> None:
    x = features().detach()
    into = edges[:, edges[1] < 5]
    block, whole = hgeo.Graph(*into, num_src=NODES, num_dst=5), hgeo.Graph(*edges, num_src=NODES)
    for layer in (GATConv(WIDTH, 4), SAGEConv(WIDTH, 4)):  # a GCN looks at the out-degrees of the sources, too
        torch.testing.assert_close(layer.double()(block, x), layer(whole, x)[:5], **EXACT)


def test_a_node_without_neighbours_keeps_its_own_part_of_sage() -> None:
    layer = SAGEConv(3, 2)
    x = torch.randn(2, 3)
    out = layer(torch.tensor([[0], [1]]), x)
    torch.testing.assert_close(out[0], x[0] @ layer.fc_self.weight.t() + layer.fc_self.bias)


@pytest.mark.parametrize("layer", [GraphConv(4), GATConv(4, 4, heads=2), SAGEConv(4, 4)])
def test_it_compiles_to_one_graph(layer) -> None:
    graph, x = hgeo.Graph(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])), torch.randn(3, 4)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(graph, x), layer(graph, x))
