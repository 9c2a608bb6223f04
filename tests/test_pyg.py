"""The layers of ``hgeo.pyg`` where PyG's layers stand: PyG's own statements of GATConv and GCNConv, said of ours."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as tg
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_hetero_masks, set_masks
from torch_geometric.loader import DataLoader
from torch_geometric.utils import k_hop_subgraph, to_torch_csc_tensor, trim_to_layer

import hgeo
import hgeo.pyg

LAYERS = {
    "HATConv": lambda *dims, **options: hgeo.pyg.HATConv(*dims, hgeo.PoincareBall(), **options),
    "GCNConv": lambda *dims, **options: hgeo.pyg.GCNConv(*dims, hgeo.PoincareBall(), **options),
    "LorentzConv": lambda *dims, **options: hgeo.pyg.LorentzConv(*dims, hgeo.PoincareBall(), **options),
    "SAGEConv": lambda *dims, **options: hgeo.pyg.SAGEConv(*dims, hgeo.PoincareBall(), **options),
}
EDGES = torch.tensor([[0, 1, 2, 3, 3], [0, 0, 1, 1, 2]])  # the first is a self-loop


@pytest.fixture(autouse=True)
def quiet_and_seeded():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSC|CSR|invariant)")
        yield


def layer(name: str, *dims: int, **options: object):
    return LAYERS[name](*dims, **options)


def adjacencies(edge_index: Tensor, size: tuple[int, int]) -> dict[str, Tensor]:
    transposed = to_torch_csc_tensor(edge_index, size=size).t()
    return {
        "csr": transposed,
        "csc": transposed.to_dense().to_sparse_csc(),
        "coo": transposed.to_sparse_coo(),
        "EdgeIndex": EdgeIndex(edge_index, sparse_size=size),
    }


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_of_pyg_and_has_the_state_of_the_layer_of_hgeo_nn(name):
    conv, ours = layer(name, 8, 4), getattr(hgeo.nn, name)(8, 4, hgeo.PoincareBall())
    assert isinstance(conv, tg.MessagePassing)
    assert isinstance(conv, getattr(hgeo.nn, name))
    assert list(conv.state_dict()) == list(ours.state_dict())
    ours.load_state_dict(conv.state_dict())
    x = torch.randn(4, 8)
    assert torch.equal(conv(x, EDGES), ours(EDGES, x))
    assert str(conv) == f"{name}({ours.extra_repr()})"
    assert (conv.in_channels, conv.out_channels) == (8, 4)


def test_every_convolution_of_hgeo_nn_is_here():
    convolutions = {name for name in hgeo.nn.__all__ if name.endswith("Conv")}
    assert convolutions == set(hgeo.pyg.__all__) == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_every_form_of_a_graph_gives_the_same(name):
    x, conv = torch.randn(4, 8), layer(name, 8, 32)
    out = conv(x, EDGES)
    assert out.shape == (4, 32)
    assert torch.equal(conv(x, EDGES, size=(4, 4)), out)
    for form, same in adjacencies(EDGES, (4, 4)).items():
        assert torch.allclose(conv(x, same), out, atol=1e-6), form


@pytest.mark.parametrize("name", LAYERS)
def test_the_flow_from_target_to_source_reads_the_rows_the_other_way_round(name):
    x, conv = torch.randn(4, 8), layer(name, 8, 4)
    out = conv(x, EDGES)
    conv.flow = "target_to_source"
    assert torch.equal(conv(x, EDGES.flip(0)), out)
    assert torch.equal(layer(name, 8, 4, flow="target_to_source")(x, EDGES.flip(0)).isfinite(), out.isfinite())
    with pytest.raises(ValueError, match="hand in its transpose"):
        conv(x, adjacencies(EDGES, (4, 4))["csr"])
    with pytest.raises(ValueError, match="flow must be one of 'source_to_target', 'target_to_source', got 'up'"):
        layer(name, 8, 4, flow="up")


def test_attention_comes_with_its_edges_and_the_added_loops_behind_them():
    x, conv = torch.randn(4, 8), layer("HATConv", 8, 32, heads=2)
    out = conv(x, EDGES)
    y, (edges, alpha) = conv(x, EDGES, return_attention_weights=True)
    assert torch.allclose(y, out, atol=1e-6)
    assert edges.tolist() == [[0, 1, 2, 3, 3, 1, 2, 3], [0, 0, 1, 1, 2, 1, 2, 3]]
    assert alpha.shape == (8, 2)
    assert alpha.min() >= 0
    assert alpha.max() <= 1
    torch.testing.assert_close(torch.zeros(4, 2).index_add(0, edges[1], alpha), torch.ones(4, 2))
    _, attention = hgeo.nn.HATConv.forward(conv, EDGES, x, return_attention=True)
    assert torch.equal(alpha[:5], attention.edges)
    conv.flow = "target_to_source"
    _, (turned, same) = conv(x, EDGES.flip(0), return_attention_weights=True)
    assert torch.equal(turned.flip(0), edges)
    assert torch.equal(same, alpha)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "EdgeIndex"])
def test_attention_over_an_adjacency_is_an_adjacency(form):
    x, conv = torch.randn(4, 8), layer("HATConv", 8, 32, heads=2)
    given = adjacencies(EDGES, (4, 4))[form]
    _, (edges, alpha) = conv(x, EDGES, return_attention_weights=True)
    dense = torch.zeros(4, 4, 2).index_put((edges[1], edges[0]), alpha)
    out, (result, values) = conv(x, given, return_attention_weights=True)
    assert torch.allclose(out, conv(x, EDGES), atol=1e-6)
    if form == "EdgeIndex":
        assert torch.equal(result, edges)
        torch.testing.assert_close(values, alpha)
    else:
        assert result.layout == given.layout
        assert result.shape == (4, 4, 2)
        assert result._nnz() == 8
        places = result.indices() if form == "coo" else _places(result)
        torch.testing.assert_close(torch.zeros(4, 4, 2).index_put(tuple(places), values), dense)


def _places(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every entry of a compressed matrix."""
    by_row = matrix.layout == torch.sparse_csr
    pointer, ids = (
        (matrix.crow_indices(), matrix.col_indices()) if by_row else (matrix.ccol_indices(), matrix.row_indices())
    )
    runs = torch.repeat_interleave(torch.arange(pointer.shape[0] - 1), pointer.diff())
    return (runs, ids) if by_row else (ids, runs)


@pytest.mark.parametrize("name", LAYERS)
def test_a_graph_without_nodes_or_edges_is_fine(name):
    conv = layer(name, 8, 16)
    assert conv(torch.randn(0, 8), torch.empty(2, 0, dtype=torch.long)).shape == (0, 16)
    assert conv(torch.randn(3, 8), torch.empty(2, 0, dtype=torch.long)).shape == (3, 16)


@pytest.mark.parametrize("name", LAYERS)
def test_sparse_features_are_read(name):
    x, conv = torch.randn(4, 8).relu(), layer(name, 8, 16)
    torch.testing.assert_close(conv(x.to_sparse(), EDGES), conv(x, EDGES))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_copied_and_pickled(name):
    x, conv = torch.randn(4, 8), layer(name, 8, 4)
    for other in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert torch.equal(other(x, EDGES), conv(x, EDGES))


def test_a_layer_compiles_in_one_graph():
    x, conv = torch.randn(4, 8), layer("HATConv", 8, 4)
    compiled = torch.compile(conv, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, EDGES), conv(x, EDGES))


# --- standing where a PyG layer stood ---


def test_without_a_manifold_numbers_go_in_and_numbers_come_out():
    conv = hgeo.pyg.HATConv(8, 4, heads=2, concat=False, dropout=0.3)
    same = hgeo.nn.HATConv(
        8, 4, hgeo.PoincareBall(), heads=2, merge="mean", attn_drop=0.3, output="tangent", activation=None, beta=0.1
    )
    assert str(conv) == f"HATConv({same.extra_repr()})"
    assert conv.finish.activation is None
    assert hgeo.pyg.GCNConv(8, 4).output == "tangent"
    assert hgeo.pyg.HATConv(8, 4, beta=0.5).score == hgeo.graph.Distance(beta=0.5)
    assert hgeo.pyg.HATConv(8, 4, score=hgeo.graph.Distance()).score == hgeo.graph.Distance()
    with pytest.raises(TypeError, match="no option 'negative_slope'"):
        hgeo.pyg.HATConv(8, 4, negative_slope=0.2)


def test_pygs_words_of_a_layer_are_understood():
    ball, pyg = hgeo.PoincareBall(), hgeo.pyg
    mean = {"heads": 2, "merge": "mean", "bias": "tangent"}
    for theirs, ours in (
        (pyg.HATConv(8, 4, 2, dropout=0.5), pyg.HATConv(8, 4, heads=2, attn_drop=0.5)),
        (pyg.HATConv(8, 4, heads=2, concat=False, bias=True), pyg.HATConv(8, 4, **mean)),
        (pyg.GCNConv(8, 4, improved=True, cached=True), pyg.GCNConv(8, 4, fill_value=2.0)),
        (pyg.GCNConv(8, 4, ball, normalize=False, bias=False), pyg.GCNConv(8, 4, ball, norm="sum", bias="none")),
        (pyg.SAGEConv(8, 4, aggr="mean", root_weight=False, bias=True), pyg.SAGEConv(8, 4, self_weight=False)),
    ):
        assert str(theirs) == str(ours)
        assert [p.shape for p in theirs.parameters()] == [p.shape for p in ours.parameters()]
    with pytest.raises(ValueError, match="aggregate must be one of 'midpoint', 'tangent', got 'max'"):
        pyg.SAGEConv(8, 4, aggr="max")
    with pytest.raises(ValueError, match=r"several numbers an edge are attributes: .* edge_attr=….*edge_dim=3"):
        pyg.HATConv(8, 4)(torch.randn(4, 8), EDGES, torch.randn(5, 3))
    with pytest.raises(TypeError, match=r"got the number 2; all that is no dimension .* is given by name"):
        pyg.GCNConv(8, 4, 2)


def citation_graph(nodes: int = 120, classes: int = 3) -> Data:
    """Nodes of a class point to each other, and their features say a little of the class."""
    y = torch.arange(nodes) % classes
    src = torch.arange(nodes).repeat(4)
    dst = (src + classes * torch.randint(1, 6, src.shape)) % nodes
    x = 2 * F.one_hot(y, 12) + torch.randn(nodes, 12)
    edge_index = torch.cat([torch.stack([src, dst]), torch.stack([dst, src])], dim=1)
    return Data(x=x, edge_index=edge_index, y=y)


def network(convolution, classes: int = 3) -> tg.Sequential:
    return tg.Sequential(
        "x, edge_index",
        [
            (torch.nn.Dropout(0.2), "x -> x"),
            (convolution(12, 8, heads=2), "x, edge_index -> x"),
            torch.nn.ELU(),
            (convolution(16, classes, heads=2, concat=False), "x, edge_index -> x"),
        ],
    )


def test_a_network_of_pyg_learns_with_the_import_changed():
    data = citation_graph()
    for convolution in (tg.GATConv, hgeo.pyg.HATConv):
        torch.manual_seed(0)
        model = network(convolution)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(60):
            optimizer.zero_grad()
            F.cross_entropy(model(data.x, data.edge_index)[:60], data.y[:60]).backward()
            optimizer.step()
        right = model.eval()(data.x, data.edge_index).argmax(1) == data.y
        assert right[60:].float().mean() > 0.9, convolution


@pytest.mark.parametrize("name", LAYERS)
def test_a_batch_of_graphs_is_the_graphs_one_by_one(name):
    graphs, conv = [citation_graph(n) for n in (30, 45, 60)], layer(name, 12, 4)
    pool = hgeo.nn.Pool(conv.manifold)
    (batch,) = DataLoader(graphs, batch_size=3)
    assert isinstance(batch, Batch)
    pooled = pool(batch.batch, conv(batch.x, batch.edge_index))
    alone = [pool(torch.zeros(g.num_nodes, dtype=torch.long), conv(g.x, g.edge_index)) for g in graphs]
    torch.testing.assert_close(pooled, torch.cat(alone))


@pytest.mark.parametrize(
    ("name", "options"),
    [("HATConv", {}), ("GCNConv", {"norm": "mean"}), ("SAGEConv", {}), ("LorentzConv", {"weights": "mean"})],
)
def test_what_trim_to_layer_leaves_is_enough(name, options):
    make = getattr(hgeo.pyg, name)
    first, second = make(12, 8, **options), make(8, 3, **options)
    # A tree: node 0 hears 1 and 2, these hear 3 … 6.
    x, edge_index = torch.randn(7, 12), torch.tensor([[1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2]])
    nodes, edges = [1, 2, 4], [2, 4]
    h = first(x, edge_index)
    expected = second(h, edge_index)[:1]
    trimmed, fewer, _ = trim_to_layer(1, nodes, edges, h, edge_index)
    assert (trimmed.shape[0], fewer.shape[1]) == (3, 2)
    torch.testing.assert_close(second(trimmed, fewer)[:1], expected)


def test_what_a_layer_does_not_know_is_said_before_anything_is_computed():
    conv, x = layer("HATConv", 8, 4), torch.randn(4, 8)
    for call, kind, words in (
        (lambda: conv(EDGES, x), TypeError, r"x is a torch.int64 tensor.*conv\(x, edge_index\)"),
        (lambda: conv(x, x), TypeError, r"edge_index must be integer node ids \(2, E\).*torch.float32 \(4, 8\)"),
        (lambda: conv(x, Data(x=x, edge_index=EDGES)), TypeError, "edge_index must be integer node ids"),
        (lambda: conv({"paper": x}, {("paper", "cites", "paper"): EDGES}), TypeError, "HeteroConv"),
        (lambda: conv(x, EDGES, size=(5, 5)), ValueError, "size says that there are 5 sources, x has 4 rows"),
        (lambda: layer("GCNConv", 8, 4)(x, EDGES, return_attention_weights=True), TypeError, "no attention weights"),
    ):
        with pytest.raises(kind, match=words):
            call()


# --- weights, attributes, pairs ---


@pytest.mark.parametrize("name", LAYERS)
def test_the_values_of_an_adjacency_are_the_weights_of_its_edges(name):
    x, value, conv = 0.3 * torch.randn(4, 16), torch.rand(6), layer(name, 16, 32)
    edge_index = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    transposed = to_torch_csc_tensor(edge_index, value, size=(4, 4)).t()
    out = conv(x, edge_index, value)
    assert out.shape == (4, 32)
    assert not torch.allclose(out, conv(x, edge_index))
    for adjacency in (transposed, transposed.to_sparse_coo(), transposed.to_dense().to_sparse_csc()):
        assert torch.allclose(conv(x, adjacency), out, atol=1e-6)
    learned = value.clone().requires_grad_()
    conv(x, edge_index, learned).square().sum().backward()
    assert (learned.grad != 0).any()


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_pair_of_node_sets_gives_the_same_over_every_form_of_a_graph(name, residual):
    x1, x2, edge_index = torch.randn(4, 8), torch.randn(2, 16), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    conv = layer(name, (8, 16), 32, residual=residual)
    assert conv.in_channels == (8, 16)
    out = conv((x1, x2), edge_index)
    assert out.shape == (2, 32)
    assert torch.allclose(conv((x1, x2), edge_index, size=(4, 2)), out)
    for form, same in adjacencies(edge_index, (4, 2)).items():
        assert torch.allclose(conv((x1, x2), same), out, atol=1e-6), form
    conv.flow = "target_to_source"
    assert torch.allclose(conv((x1, x2), edge_index.flip(0), size=(2, 4)), out)
    with pytest.raises(ValueError, match="size says that there are 4 targets, x has 2 rows"):
        conv((x1, x2), edge_index, size=(4, 4))
    with pytest.raises(TypeError, match=r"got \(Tensor, NoneType\).*no targets without features"):
        conv((x1, None), edge_index, size=(4, 2))


def test_targets_are_the_first_sources_where_size_says_so():
    x, conv, edge_index = torch.randn(4, 8), layer("HATConv", 8, 3), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
    assert torch.allclose(conv(x, edge_index, size=(4, 2)), conv(x, edge_index)[:2])


@pytest.mark.parametrize("form", ["edge_index", "csr", "csc", "coo"])
def test_attention_of_a_pair_stands_at_its_edges(form):
    x1, x2, edge_index = torch.randn(4, 8), torch.randn(5, 8), torch.tensor([[0, 3, 2, 3], [0, 4, 1, 1]])
    conv = layer("HATConv", 8, 3, heads=2)
    _, (edges, alpha) = conv((x1, x2), edge_index, return_attention_weights=True)
    assert edges.tolist() == [[0, 3, 2, 3, 0, 1, 2, 3, 4], [0, 4, 1, 1, 0, 1, 2, 3, 4]]
    torch.testing.assert_close(torch.zeros(5, 2).index_add(0, edges[1], alpha), torch.ones(5, 2))
    bare = layer("HATConv", 8, 3, heads=2, add_self_loops=False)
    _, (edges, alpha) = bare((x1, x2), edge_index, return_attention_weights=True)
    assert torch.equal(edges, edge_index)
    if form != "edge_index":
        given = adjacencies(edge_index, (4, 5))[form]
        _, (result, values) = bare((x1, x2), given, return_attention_weights=True)
        assert (result.layout, result.shape) == (given.layout, (5, 4, 2))
        places = result.indices() if form == "coo" else _places(result)
        dense = torch.zeros(5, 4, 2).index_put((edges[1], edges[0]), alpha)
        torch.testing.assert_close(torch.zeros(5, 4, 2).index_put(tuple(places), values), dense)
        with pytest.raises(ValueError, match="no place in an adjacency of two sets"):
            conv((x1, x2), given, return_attention_weights=True)


@pytest.mark.parametrize("fill_value", [0.5, "mean"])
@pytest.mark.parametrize("name", LAYERS)
def test_edges_have_attributes(name, fill_value):
    x, edge_index = torch.randn(4, 8), torch.tensor([[0, 1, 2, 3], [1, 0, 1, 1]])
    for size in (1, 4):
        conv = layer(name, 8, 32, edge_dim=size, fill_value=fill_value)
        attr = torch.randn(4, size)
        out = conv(x, edge_index, edge_attr=attr)
        assert out.shape == (4, 32)
        if size == 1:
            assert torch.equal(conv(x, edge_index, edge_attr=attr[:, 0]), out)
            adjacency = to_torch_csc_tensor(edge_index, size=(4, 4)).t()
            order = torch.tensor([1, 0, 2, 3])  # by target, then by source
            assert torch.allclose(conv(x, adjacency, edge_attr=attr[order]), out, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_loops_can_be_left_out(name):
    x, conv = torch.randn(4, 8), layer(name, 8, 4, add_self_loops=False)
    same = layer(name, 8, 4, add_self_loops=True)
    same.load_state_dict(conv.state_dict())
    looped = torch.cat([EDGES, torch.tensor([[1, 2, 3], [1, 2, 3]])], 1)
    assert torch.allclose(conv(x, looped), same(x, EDGES), atol=1e-6)


# --- inside PyG's tools ---


def heterogeneous() -> HeteroData:
    data = HeteroData()
    data["author"].x, data["paper"].x = torch.randn(5, 6), torch.randn(4, 8)
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2, 3, 4, 4], [0, 0, 1, 2, 3, 1]])
    data["paper", "rev_writes", "author"].edge_index = torch.tensor([[0, 0, 1, 2, 3, 1], [0, 1, 2, 3, 4, 4]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    return data


@pytest.mark.parametrize("name", LAYERS)
def test_hetero_conv_runs_a_layer_an_edge_type(name):
    data, make = heterogeneous(), getattr(hgeo.pyg, name)
    convs = {
        ("paper", "cites", "paper"): make(-1, 4),
        ("author", "writes", "paper"): make((-1, -1), 4, add_self_loops=False),
        ("paper", "rev_writes", "author"): make((8, 6), 4, add_self_loops=False),
    }
    out = tg.HeteroConv(convs, aggr="sum")(data.x_dict, data.edge_index_dict)
    assert {kind: rows.shape for kind, rows in out.items()} == {"paper": (4, 4), "author": (5, 4)}
    x, edges = data.x_dict, data.edge_index_dict
    cited = convs["paper", "cites", "paper"](x["paper"], edges["paper", "cites", "paper"])
    written = convs["author", "writes", "paper"]((x["author"], x["paper"]), edges["author", "writes", "paper"])
    torch.testing.assert_close(out["paper"], cited + written)
    with pytest.raises(ValueError, match="add_self_loops"):  # says PyG of loops between two sets
        tg.HeteroConv({("author", "writes", "paper"): make((-1, -1), 4, add_self_loops=True)})


class TwoLayers(torch.nn.Module):
    def __init__(self, name: str, in_channels: object, classes: int = 3, **options: object) -> None:
        super().__init__()
        make = getattr(hgeo.pyg, name)
        self.first = make(in_channels, 8, **options)
        self.second = make((-1, -1) if isinstance(in_channels, tuple) else 8, classes, **options)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.mark.parametrize("name", LAYERS)
def test_to_hetero_makes_a_model_an_edge_type_of_a_model(name):
    data = heterogeneous()
    model = tg.to_hetero(TwoLayers(name, (-1, -1), add_self_loops=False, self_weight=True), data.metadata())
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict)  # finds the dimensions
    out = model(data.x_dict, data.edge_index_dict)
    assert {kind: rows.shape for kind, rows in out.items()} == {"paper": (4, 3), "author": (5, 3)}
    sum(rows.square().sum() for rows in out.values()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", LAYERS)
def test_an_explainer_finds_the_edge_that_decides(name):
    # the class of node 0 stands in the features of node 1 alone
    x, edge_index = torch.zeros(6, 4), torch.tensor([[1, 2, 3, 4, 5, 0, 3], [0, 0, 0, 5, 4, 2, 5]])
    x[1] = 4.0
    model = TwoLayers(name, 4)
    with torch.no_grad():
        for conv in (model.first, model.second):
            conv.weight.abs_()
    explainer = Explainer(
        model,
        algorithm=GNNExplainer(epochs=60, lr=0.1),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "node", "return_type": "raw"},
    )
    mask = explainer(x, edge_index, index=0).edge_mask
    assert mask.shape == (7,)
    assert ((mask >= 0) & (mask <= 1)).all()
    assert mask[0] > mask[[3, 4, 6]].max()  # edges that no message to node 0 takes
    assert model.first._edge_mask is None  # and afterwards the layers are as they were


def test_a_set_mask_multiplies_the_messages_of_every_layer():
    conv, x, mask = layer("HATConv", 8, 4), torch.randn(4, 8), torch.randn(5)
    set_masks(conv, torch.nn.Parameter(mask), EDGES)
    masked = conv(x, EDGES)
    clear_masks(conv)
    expected = hgeo.nn.HATConv.forward(conv, EDGES, x, edge_mask=mask.sigmoid())
    torch.testing.assert_close(masked, expected)


def test_heterogeneous_masks_reach_their_layers():
    data, ball = heterogeneous(), hgeo.PoincareBall()
    kind = ("author", "writes", "paper")
    model = tg.HeteroConv({kind: hgeo.pyg.GCNConv((6, 8), 4, ball, add_self_loops=False)})
    set_hetero_masks(model, {kind: torch.zeros(6)}, data.edge_index_dict, apply_sigmoid=False)
    silent = model(data.x_dict, data.edge_index_dict)["paper"]
    torch.testing.assert_close(silent, torch.zeros(4, 4))


@pytest.mark.parametrize("name", LAYERS)
def test_a_summary_lists_the_layers(name):
    pytest.importorskip("tabulate")
    text = tg.summary(TwoLayers(name, 12), torch.randn(4, 12), EDGES)
    assert name in text
    assert "[4, 12], [2, 5]" in text


def test_a_sampled_batch_gives_the_seed_nodes_what_the_graph_gives():
    data = citation_graph()
    model = TwoLayers("HATConv", 12).eval()
    subset, edge_index, seeds, _ = k_hop_subgraph(torch.tensor([3, 50]), 2, data.edge_index, relabel_nodes=True)
    torch.testing.assert_close(model(data.x[subset], edge_index)[seeds], model(data.x, data.edge_index)[[3, 50]])


@pytest.mark.parametrize("name", LAYERS)
def test_a_compiled_layer_takes_graphs_of_every_size(name):
    conv = layer(name, 8, 4)
    torch._dynamo.reset()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="eager")
    for nodes in (4, 7):
        x, edge_index = torch.randn(nodes, 8), torch.randint(nodes, (2, 3 * nodes))
        torch.testing.assert_close(compiled(x, edge_index), conv(x, edge_index))


@pytest.mark.parametrize("name", LAYERS)
def test_lightning_trains_in_bfloat16(name):
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = TwoLayers(name, 12)

        def training_step(self, batch: Data, _: int) -> Tensor:
            return F.cross_entropy(self.model(batch.x.to_sparse_csr(), batch.edge_index), batch.y)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        max_epochs=2, precision="bf16-mixed", accelerator="cpu", logger=False, enable_checkpointing=False
    )
    trainer.fit(Module(), DataLoader([citation_graph(30), citation_graph(45)], batch_size=2))
    assert trainer.current_epoch == 2


@pytest.mark.parametrize("name", LAYERS)
def test_a_heterogeneous_graph_handed_to_a_layer_leads_to_hetero_conv(name):
    data, conv = heterogeneous(), getattr(hgeo.nn, name)(8, 4, hgeo.PoincareBall())
    for graph in (data, data.edge_index_dict):
        with pytest.raises(TypeError, match=r"heterogeneous (HeteroData|dict) \(.*HeteroConv\)"):
            conv(graph, data["paper"].x)
    with pytest.raises(TypeError, match="HeteroConv"):
        layer(name, 8, 4)(data.x_dict, data.edge_index_dict)


def test_swapped_arguments_of_a_layer_of_hgeo_nn_lead_to_hgeo_pyg():
    with pytest.raises(TypeError, match=r"swapped: call layer\(graph, x\), or take the layer from hgeo\.pyg"):
        hgeo.nn.HATConv(8, 4, hgeo.PoincareBall())(torch.randn(4, 8), EDGES)


def test_without_torch_geometric_one_sentence_says_what_to_do():
    program = """
import sys
sys.modules["torch_geometric"] = None
import hgeo
try:
    hgeo.pyg
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("hgeo.pyg needs PyTorch Geometric, but torch_geometric cannot be imported")
    assert "pip install torch-geometric" in done.stdout
