"""hgeo's layers where DGL's convolutions stand: in HeteroGraphConv, over blocks, before DGL's explainer."""

from __future__ import annotations

import dgl
import dgl.nn
import pytest
import torch
from torch import Tensor, nn

import hgeo

BALL = hgeo.PoincareBall()
LAYERS = {
    "HATConv": lambda *dims, **options: hgeo.nn.HATConv(*dims, BALL, output="tangent", activation=None, **options),
    "GCNConv": lambda *dims, **options: hgeo.nn.GCNConv(*dims, BALL, output="tangent", activation=None, **options),
    "SAGEConv": lambda *dims, **options: hgeo.nn.SAGEConv(*dims, BALL, output="tangent", activation=None, **options),
    "LorentzConv": lambda *dims, **options: hgeo.nn.LorentzConv(*dims, BALL, output="spatial", **options),
}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    dgl.seed(0)


def shop() -> dgl.DGLGraph:
    return dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1, 2, 3], [1, 2, 3, 0]),
            ("user", "buys", "item"): ([0, 0, 1, 2, 3], [0, 1, 1, 2, 4]),
            ("item", "bought by", "user"): ([0, 1, 1, 2, 4], [0, 0, 1, 2, 3]),
        }
    )


@pytest.mark.parametrize("name", LAYERS)
def test_hetero_graph_conv_runs_one_layer_for_each_edge_type(name: str) -> None:
    graph, make = shop(), LAYERS[name]
    x = {"user": torch.randn(4, 6), "item": torch.randn(5, 3)}
    layers = {"follows": make(6, 4), "buys": make((6, 3), 4), "bought by": make((-1, -1), 4, add_self_loops=False)}
    out = dgl.nn.HeteroGraphConv(layers, aggregate="sum")(graph, x)
    follows = layers["follows"](torch.stack(graph.edges(etype="follows")), x["user"])  # one set of nodes is one set
    bought = layers["bought by"](torch.stack(graph.edges(etype="bought by")), (x["item"], x["user"]))
    torch.testing.assert_close(out["user"], follows + bought)
    weight = torch.rand(5)
    weighted = dgl.nn.HeteroGraphConv(layers)(graph, x, mod_kwargs={"buys": {"edge_weight": weight}})
    buys = layers["buys"](torch.stack(graph.edges(etype="buys")), (x["user"], x["item"]), edge_weight=weight)
    torch.testing.assert_close(weighted["item"], buys)
    with pytest.raises(ValueError, match="HeteroGraphConv"):
        layers["follows"](graph, x["user"])
    with pytest.raises(TypeError, match="HeteroGraphConv"):
        layers["follows"](graph, x)


@pytest.mark.parametrize("name", LAYERS)
def test_heterogeneous_blocks_of_a_sampler_go_through_two_rounds(name: str) -> None:
    graph, make = shop(), LAYERS[name]

    def round_of(width: int) -> nn.Module:
        return dgl.nn.HeteroGraphConv({kind: make((-1, -1), width, self_weight=True) for kind in graph.etypes})

    sampler, x = (
        dgl.dataloading.MultiLayerFullNeighborSampler(2),
        {"user": torch.randn(4, 6), "item": torch.randn(5, 3)},
    )
    loader = dgl.dataloading.DataLoader(graph, {"user": torch.arange(3)}, sampler, batch_size=3)
    for inputs, outputs, blocks in loader:
        h = {kind: x[kind][inputs[kind]] for kind in x}
        for conv, block in zip((round_of(5), round_of(2)), blocks, strict=True):
            h = conv(block, h)
        assert h["user"].shape == (len(outputs["user"]), 2)
        h["user"].sum().backward()


@pytest.mark.parametrize("name", LAYERS)
def test_a_block_with_weights_gives_what_the_graph_gives(name: str) -> None:
    graph = dgl.rand_graph(30, 120)
    graph.edata["w"] = torch.rand(120)
    x, seeds = torch.randn(30, 6), torch.tensor([4, 9, 20])
    (block,) = dgl.dataloading.MultiLayerFullNeighborSampler(1).sample_blocks(graph, seeds)[2]
    conv = LAYERS[name](6, 4, **{"GCNConv": {"norm": "mean"}, "LorentzConv": {"weights": "mean"}}.get(name, {}))
    there = conv(block, x[block.srcdata[dgl.NID]], edge_weight=block.edata["w"])
    torch.testing.assert_close(there, conv(graph, x, edge_weight=graph.edata["w"])[seeds])


@pytest.mark.parametrize("argument", ["edge_mask", "edge_weight"])
@pytest.mark.parametrize("name", LAYERS)
def test_dgls_explainer_finds_the_edge_that_decides(name: str, argument: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = LAYERS[name](4, 2, **({"beta": 0.1} if name == "HATConv" else {}))

        def forward(self, graph: dgl.DGLGraph, feat: Tensor, eweight: Tensor | None = None) -> Tensor:
            return self.conv(graph, feat, **({} if eweight is None else {argument: eweight}))

    model, graph = Model(), dgl.graph(([1, 2, 3, 4], [0, 0, 0, 0]))
    feat = torch.zeros(5, 4)
    feat[0, 0], feat[1, 1] = 0.3, 1.0  # node 1 alone makes node 0 of class 1
    with torch.no_grad():
        model.conv.weight.copy_(torch.tensor([[0.2, 0, 0, 0], [0, 3.0, 0, 0]]))
    assert model(graph, feat)[0].argmax() == 1
    explainer = dgl.nn.GNNExplainer(model, num_hops=1, num_epochs=100, lr=0.1, alpha2=0.0, beta2=0.0, log=False)
    _, part, _, mask = explainer.explain_node(0, graph, feat)
    deciding = part.edata[dgl.EID][mask.argmax()]
    assert graph.find_edges(deciding)[0].item() == 1
