"""A block computes what its destinations have in the whole graph."""

import copy
import pickle

import pytest
import torch

import hgeo
from hgeo.graph import Graph, leading_block
from hgeo.nn import HATConv


@pytest.fixture
def graph() -> Graph:
    generator = torch.Generator().manual_seed(0)
    src, dst = (torch.randint(0, 9, (30,), generator=generator) for _ in range(2))
    return Graph(src, dst, num_src=9)


def test_destinations_keep_their_edges_and_all_nodes_their_degrees(graph: Graph) -> None:
    block, looped = leading_block(graph, 4), graph.with_self_loops()
    assert (block.num_dst, block.num_src) == (4, 9)
    assert torch.equal(block.rowptr, graph.rowptr[:5])
    assert torch.equal(block.col, graph.col[: block.num_edges])
    for part in (block, block.with_self_loops()):
        assert torch.equal(part.in_degrees, looped.in_degrees[:4])
        assert torch.equal(part.out_degrees, looped.out_degrees)


def test_degrees_may_be_given_one_a_node(graph: Graph) -> None:
    into = torch.arange(9)
    given = Graph(graph.col, graph.row, 9, in_degrees=into)
    for part in (given, given.with_self_loops(), pickle.loads(pickle.dumps(given)).with_self_loops()):
        assert torch.equal(part.in_degrees, into)
    assert torch.equal(given.with_self_loops().out_degrees, graph.with_self_loops().out_degrees)
    with pytest.raises(ValueError, match=r"out_degrees must be a tensor of 9 numbers, one a node; got \(3,\)"):
        Graph(graph.col, graph.row, 9, out_degrees=torch.ones(3))


@pytest.mark.parametrize("backend", ["reference", "torch", "auto"])
def test_a_layer_that_normalises_by_degrees_and_radii_gives_the_same_rows(graph: Graph, backend: str) -> None:
    torch.manual_seed(0)
    conv = HATConv(5, 3, hgeo.PoincareBall(), radius_norm=True, degree_norm=True, self_score="mean", backend=backend)
    x = torch.randn(9, 5)
    torch.testing.assert_close(conv(leading_block(graph, 4), x), conv(graph, x)[:4])


def test_a_source_that_was_left_out_is_an_error(graph: Graph) -> None:
    with pytest.raises(ValueError, match="source id"):
        leading_block(graph, 4, 4)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_a_copied_block_keeps_the_degrees(graph: Graph, clone) -> None:
    block = leading_block(graph, 4)
    again = clone(block)
    for part, whole in ((again, block), (again.with_self_loops(), block.with_self_loops())):
        assert torch.equal(part.in_degrees, whole.in_degrees)
        assert torch.equal(part.out_degrees, whole.out_degrees)


def test_a_moved_block_keeps_degrees_and_padding(graph: Graph) -> None:
    block = leading_block(graph, 4)
    block._padding = torch.zeros(block.num_edges, dtype=torch.bool)
    moved = block.to("meta")
    assert moved.padding is not None
    assert {t.device.type for t in (moved.padding, moved.in_degrees, moved.out_degrees)} == {"meta"}
    assert moved.out_degrees.shape == (9,)
