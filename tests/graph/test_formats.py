"""The same graph in every format is the same graph, and an edited one is never served stale."""

import gc
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
import torch

import hgeo
from hgeo.graph import Graph, _convert, as_graph

dgl = pytest.importorskip("dgl")

EDGE_INDEX = torch.tensor([[3, 0, 2, 0, 1, 2], [1, 1, 2, 2, 0, 3]])
NODES = 5


def _sparse() -> torch.Tensor:
    return torch.sparse_coo_tensor(EDGE_INDEX.flip(0), torch.ones(6), (NODES, NODES), check_invariants=False).coalesce()


FORMATS = {
    "edge_index": lambda: EDGE_INDEX.clone(),
    "edge_index, int32": lambda: EDGE_INDEX.int(),
    "dgl": lambda: dgl.graph((EDGE_INDEX[0], EDGE_INDEX[1]), num_nodes=NODES),
    "dgl, int32": lambda: dgl.graph((EDGE_INDEX[0], EDGE_INDEX[1]), num_nodes=NODES).int(),
    "dgl block": lambda: dgl.to_block(
        dgl.graph((EDGE_INDEX[0], EDGE_INDEX[1]), num_nodes=NODES), torch.arange(NODES), include_dst_in_src=True
    ),
    "torch coo": _sparse,
    "torch csr": lambda: _sparse().to_sparse_csr(),
    "torch csc": lambda: _sparse().to_sparse_csc(),
    "scipy coo": lambda: scipy.sparse.coo_matrix((np.ones(6), EDGE_INDEX.flip(0).numpy()), (NODES, NODES)),
    "scipy csr": lambda: scipy.sparse.csr_matrix((np.ones(6), EDGE_INDEX.flip(0).numpy()), (NODES, NODES)),
    "scipy csr array": lambda: scipy.sparse.csr_array((np.ones(6), EDGE_INDEX.flip(0).numpy()), (NODES, NODES)),
    "graph": lambda: Graph(EDGE_INDEX[0], EDGE_INDEX[1], num_src=NODES),
}


@pytest.fixture(params=FORMATS, ids=str)
def given(request):
    return FORMATS[request.param]()


def test_every_format_gives_the_same_edges(given) -> None:
    graph, expected = as_graph(given, NODES), Graph(EDGE_INDEX[0], EDGE_INDEX[1], num_src=NODES)
    assert (graph.num_src, graph.num_dst) == (NODES, NODES)
    assert torch.equal(graph.row, expected.row)
    assert torch.equal(graph.col, expected.col)


def test_a_graph_is_converted_once(given) -> None:
    assert as_graph(given, NODES) is as_graph(given, NODES)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "graph"])
def test_a_conversion_is_freed_with_the_object_that_it_was_made_from(name: str) -> None:
    gc.collect()
    before = len(_convert._conversions)
    obj = FORMATS[name]()
    as_graph(obj, NODES)
    assert len(_convert._conversions) == before + 1
    del obj
    gc.collect()
    assert len(_convert._conversions) == before


def test_caller_order_is_the_order_of_the_format() -> None:
    csr = FORMATS["torch csr"]()
    graph = as_graph(csr)
    rows = torch.repeat_interleave(torch.arange(NODES), csr.crow_indices().diff())
    assert torch.equal(rows[graph.perm], graph.row)
    assert torch.equal(csr.col_indices()[graph.perm], graph.col)
    g = FORMATS["dgl"]()
    assert torch.equal(g.edges(order="eid")[0][as_graph(g).perm], as_graph(g).col)


def test_a_block_from_a_sampler_keeps_its_destinations_first() -> None:
    g = dgl.rand_graph(30, 200)
    sampler = dgl.dataloading.NeighborSampler([4])
    loader = dgl.dataloading.DataLoader(g, torch.arange(7), sampler, batch_size=7)
    _, seeds, (block,) = next(iter(loader))
    graph = as_graph(block)
    assert (graph.num_src, graph.num_dst) == (block.num_src_nodes(), len(seeds))
    sources = block.srcdata[dgl.NID]
    assert torch.equal(sources[: graph.num_dst], seeds)
    pairs = set(zip(sources[graph.col].tolist(), sources[graph.row].tolist(), strict=True))
    assert pairs <= set(zip(*(ids.tolist() for ids in g.edges()), strict=True))


def test_an_edited_edge_index_is_read_again() -> None:
    edge_index = EDGE_INDEX.clone()
    as_graph(edge_index, NODES)
    edge_index[0, 0] = 4
    assert 4 in as_graph(edge_index, NODES).col


def test_a_storage_swapped_under_an_edge_index_is_noticed() -> None:
    edge_index = EDGE_INDEX.clone()
    as_graph(edge_index, NODES)
    edge_index.data = torch.tensor([[4], [4]])
    assert as_graph(edge_index, NODES).num_edges == 1


def test_another_number_of_nodes_is_another_graph() -> None:
    edge_index = EDGE_INDEX.clone()
    assert as_graph(edge_index, 5).num_src == 5
    assert as_graph(edge_index, 9).num_src == 9


@pytest.mark.parametrize("layout", ["torch coo", "torch csr"])
def test_an_edited_sparse_tensor_is_read_again(layout: str) -> None:
    adjacency = FORMATS[layout]()
    before = as_graph(adjacency).col.clone()
    if layout == "torch coo":
        adjacency._indices()[1, 0] = 4
    else:
        adjacency.col_indices()[0] = 4
    assert not torch.equal(as_graph(adjacency).col, before)


@pytest.mark.parametrize("layout", ["scipy csr", "scipy coo"])
def test_an_edited_scipy_matrix_is_read_again(layout: str) -> None:
    adjacency = FORMATS[layout]()
    before = as_graph(adjacency).col.clone()
    (adjacency.indices if layout == "scipy csr" else adjacency.col)[0] = 4
    assert not torch.equal(as_graph(adjacency).col, before)


def _remove_first_add_other(g) -> None:
    g.remove_edges([0])
    g.add_edges([4], [4])


@pytest.mark.parametrize(
    "edit",
    [
        lambda g: g.add_edges([4], [4]),
        lambda g: g.remove_edges([0]),
        lambda g: g.add_nodes(1),
        lambda g: g.remove_nodes([0]),
        _remove_first_add_other,  # the same counts as before
    ],
    ids=["add edges", "remove edges", "add nodes", "remove nodes", "swap an edge"],
)
def test_an_edited_dgl_graph_is_read_again(edit) -> None:
    g = FORMATS["dgl"]()
    for _ in range(3):  # a new index object must never be taken for a freed one
        as_graph(g)
        edit(g)
        src, dst = g.edges(order="eid")
        graph = as_graph(g)
        assert graph.num_src == g.num_nodes()
        assert torch.equal(src[graph.perm], graph.col)
        assert torch.equal(dst[graph.perm], graph.row)


def test_features_on_a_dgl_graph_do_not_matter() -> None:
    g = FORMATS["dgl"]()
    graph = as_graph(g)
    g.ndata["x"] = torch.randn(NODES, 2)
    with g.local_scope():
        g.edata["w"] = torch.ones(6)
        assert as_graph(g) is graph


def test_an_inference_tensor_is_read_without_being_remembered() -> None:
    with torch.inference_mode():
        edge_index = EDGE_INDEX.clone()
        assert as_graph(edge_index, NODES).num_edges == 6
        edge_index[0, 0] = 4
        assert 4 in as_graph(edge_index, NODES).col


HETERO = {("a", "to", "b"): ([0], [0]), ("b", "to", "a"): ([0], [0])}


@pytest.mark.parametrize(
    ("obj", "error", "words"),
    [
        (torch.randn(3, 4), TypeError, r"swapped.*layer\(graph, x\)"),
        (torch.zeros(3, 4, dtype=torch.long), ValueError, r"shape \(2, E\).*\(3, 4\)"),
        ("cora", TypeError, "cannot read a graph from str"),
        ([[0, 1], [1, 0]], TypeError, "cannot read a graph from list"),
        (torch.ones(2, 3, 4).to_sparse(), ValueError, "must be a matrix"),
        (torch.ones(2, 1).to_sparse(), ValueError, "first sources"),
        (scipy.sparse.csr_matrix(np.ones((3, 2))), ValueError, "first sources"),
    ],
    ids=["features", "wrong shape", "string", "list", "3-d sparse", "tall torch", "tall scipy"],
)
def test_an_object_that_is_no_graph_is_refused(obj, error, words) -> None:
    with pytest.raises(error, match=words):
        as_graph(obj)


def test_a_heterogeneous_graph_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="to_homogeneous"):
        as_graph(dgl.heterograph(HETERO))
    with pytest.raises(ValueError, match=r"one kind of nodes to another.*pair.*HeteroGraphConv"):
        as_graph(dgl.heterograph({("user", "buys", "item"): ([0], [0])}))


def test_the_wrong_number_of_nodes_is_refused() -> None:
    with pytest.raises(ValueError, match="has 5 source nodes, but 7"):
        as_graph(FORMATS["graph"](), 7)


def test_no_dgl_is_needed_for_graphs_that_are_not_dgls() -> None:
    code = """
import sys
sys.modules["dgl"] = None  # importing it fails, as where it is missing or broken
import torch, hgeo
import hgeo
from hgeo.graph import as_graph, backends
g = as_graph(torch.tensor([[0, 1], [1, 0]])).with_self_loops()
out, _ = hgeo.graph.distance_attention(g, torch.randn(2, 1, 3), k=-1.0, beta=1.0)
assert out.shape == (2, 1, 3)
assert "cannot be imported" in backends()["dgl"]
try:
    hgeo.graph.edge_softmax(g, torch.zeros(4, 1), backend="dgl")
except ValueError as error:
    assert "backend 'dgl' cannot run on cpu" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-W", "error::ImportWarning", "-c", code], check=True)


@pytest.mark.parametrize("loops", ["some", "all"])
def test_a_new_block_gets_its_self_loops_as_any_graph_does(loops: str) -> None:
    torch.manual_seed(0)
    num_src, num_dst, edges = 900, 400, 6000  # so many that they are sorted by counting
    src, dst = torch.randint(num_src, (edges,)), torch.randint(num_dst, (edges,))
    if loops == "all":
        src[:num_dst] = dst[:num_dst] = torch.arange(num_dst)
    plain = Graph(src, dst, num_src=num_src, num_dst=num_dst)
    for looked_at in (False, True):
        block = dgl.create_block((src, dst), num_src_nodes=num_src, num_dst_nodes=num_dst)
        given = as_graph(block)
        if looked_at:  # sorted already, without the loops
            assert torch.equal(given.perm, plain.perm)
        found, expected = given.with_self_loops(), plain.with_self_loops()
        assert (found is given) == (loops == "all")
        for name in ("row", "col", "perm", "rowptr"):
            assert torch.equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_a_dgl_graph_may_hold_one_sparse_format_only(form) -> None:
    g = FORMATS["dgl"]()
    read, expected = as_graph(g.formats([form])), as_graph(g)
    assert torch.equal(read.row, expected.row)
    assert torch.equal(read.col, expected.col)
    numbers = torch.arange(float(read.num_edges)).unsqueeze(1)
    assert torch.equal(read.to_caller_order(numbers)[0], expected.to_caller_order(numbers)[0])


def test_a_block_without_its_destinations_among_the_sources_is_refused() -> None:
    g = dgl.rand_graph(50, 300)
    seeds = torch.tensor([5, 7, 9])
    with pytest.raises(ValueError, match=r"not its first sources.*include_dst_in_src=True"):
        as_graph(dgl.to_block(dgl.in_subgraph(g, seeds), seeds, include_dst_in_src=False))


def test_an_object_that_is_almost_a_graph_gets_a_hint() -> None:
    with pytest.raises(TypeError, match=r"convert it with \.long\(\)"):
        as_graph(torch.tensor([[], []]))
    with pytest.raises(TypeError, match=r"pass its \.edge_index"):
        as_graph(type("Data", (), {"edge_index": EDGE_INDEX})())
    with pytest.raises(TypeError, match="num_src must be a whole number, got '6'"):
        hgeo.Graph(EDGE_INDEX[0], EDGE_INDEX[1], num_src="6")
    with pytest.raises(TypeError, match="edge_index must be a tensor"):
        hgeo.Graph.from_edge_index([[0], [1]])


def test_a_block_with_more_destinations_than_sources_is_refused() -> None:
    ids = torch.arange(5000)
    block = dgl.create_block((torch.zeros_like(ids), ids), num_src_nodes=1, num_dst_nodes=200_000)
    with pytest.raises(ValueError, match="first sources"):
        as_graph(block)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_writing_to_what_a_dgl_graph_was_made_of_does_not_change_its_conversion(dtype: torch.dtype) -> None:
    src, dst = EDGE_INDEX.to(dtype, copy=True).unbind(0)
    g = dgl.graph((src, dst), num_nodes=NODES)
    graph = as_graph(g)
    src.fill_(99)
    assert torch.equal(graph.col, Graph(EDGE_INDEX[0], EDGE_INDEX[1], num_src=NODES).col)


@pytest.mark.parametrize("backend", ["reference", "torch", "fused"])
@pytest.mark.parametrize("form", ["edge_index", "dgl", "torch csr", "scipy csr", "graph"])
def test_a_graph_first_met_in_inference_mode_can_be_trained_on(form: str, backend: str) -> None:
    if hgeo.graph.backends()[backend] is not None:
        pytest.skip(f"no backend {backend}")
    given = FORMATS[form]()
    x = torch.randn(NODES, 4)
    for options in ({}, {"self_score": "mean", "degree_norm": True}):
        conv = hgeo.nn.HATConv(4, 2, hgeo.PoincareBall(1.0), backend=backend, **options)
        with torch.inference_mode():
            conv(given, x)
        conv(given, x).sum().backward()
        assert conv.weight.grad.isfinite().all()


@pytest.mark.parametrize("edges", [3, 5000])
@pytest.mark.parametrize("kind", ["source", "destination"])
@pytest.mark.parametrize("wrong", [-1, 4])
def test_an_id_that_was_overwritten_inside_a_dgl_graph_is_refused(edges: int, kind: str, wrong: int) -> None:
    ids = {"source": torch.arange(edges) % 4, "destination": (torch.arange(edges) + 1) % 4}
    given = dgl.graph(tuple(ids.values()), num_nodes=4)
    ids[kind][1] = wrong
    conv = hgeo.nn.HATConv(3, 2, hgeo.PoincareBall(1.0))
    with pytest.raises(ValueError, match=f"{kind} id {wrong} is out of range"):
        conv(given, torch.randn(4, 3))
