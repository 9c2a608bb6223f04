"""The graph view: one order of edges, nothing lost, nothing edited."""

import copy
import pickle

import pytest
import torch

import hgeo
from hgeo.graph import Graph

SRC = torch.tensor([3, 0, 2, 0, 1, 2, 0])
DST = torch.tensor([1, 1, 2, 2, 0, 2, 1])  # parallel edges 0 → 1, parallel self-loops 2 → 2, node 3 has no in-edge


@pytest.fixture
def graph() -> Graph:
    return Graph(SRC, DST, num_src=5)


def test_edges_are_sorted_by_destination_and_source_and_perm_leads_back(graph: Graph) -> None:
    assert graph.row.tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert graph.col.tolist() == [1, 0, 0, 3, 0, 2, 2]
    assert graph.rowptr.tolist() == [0, 1, 4, 7, 7, 7]
    assert torch.equal(SRC[graph.perm], graph.col)
    assert torch.equal(DST[graph.perm], graph.row)
    assert graph.perm.tolist() == [4, 1, 6, 0, 3, 2, 5]  # parallel edges in the caller's order


def test_the_transpose_names_the_same_edges(graph: Graph) -> None:
    colptr, row, edge_pos = graph.csc
    assert torch.equal(graph.row[edge_pos], row)
    source = torch.repeat_interleave(torch.arange(graph.num_src), colptr.diff())
    assert torch.equal(graph.col[edge_pos], source)
    pairs = list(zip(source.tolist(), row.tolist(), strict=True))
    assert pairs == sorted(pairs)


def test_degrees_count_parallel_edges(graph: Graph) -> None:
    assert graph.in_degrees.tolist() == [1, 3, 3, 0, 0]
    assert graph.out_degrees.tolist() == [3, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("edges", "symmetric"),
    [
        ([(0, 1), (1, 0), (2, 2)], True),
        ([(0, 1), (1, 0), (0, 1)], False),  # as often there as back
        ([(0, 1), (1, 2), (2, 0)], False),
        ([], True),
    ],
)
def test_a_graph_is_symmetric_if_every_edge_has_its_reverse(edges: list[tuple[int, int]], symmetric: bool) -> None:
    src, dst = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    assert Graph(src, dst, num_src=3).is_symmetric is symmetric


def test_a_block_is_never_symmetric() -> None:
    assert not Graph(torch.tensor([0]), torch.tensor([0]), num_src=2, num_dst=1).is_symmetric


def test_self_loops_are_added_once_and_only_where_missing(graph: Graph) -> None:
    looped = graph.with_self_loops()
    loops = looped.row == looped.col
    assert looped.row[loops].tolist() == [0, 1, 2, 2, 3, 4]
    assert looped.num_edges == graph.num_edges + 4
    assert graph.with_self_loops() is looped
    assert looped.with_self_loops() is looped
    keys = (looped.row * 5 + looped.col).tolist()
    assert keys == sorted(keys)


def test_a_graph_with_all_its_loops_is_its_own_looped_graph() -> None:
    graph = Graph(torch.arange(3), torch.arange(3))
    assert graph.with_self_loops() is graph


def test_only_destinations_of_a_block_get_loops() -> None:
    block = Graph(torch.tensor([3, 4]), torch.tensor([0, 1]), num_src=5, num_dst=2)
    looped = block.with_self_loops()
    assert looped.row.tolist() == [0, 0, 1, 1]
    assert looped.col.tolist() == [0, 3, 1, 4]
    assert (looped.num_src, looped.num_dst) == (5, 2)


def test_numbers_of_edges_travel_to_the_graphs_order_and_back(graph: Graph) -> None:
    looped = graph.with_self_loops()
    numbers = torch.arange(7.0) + 1
    inside = looped.from_caller_order(numbers, added=-1.0)
    assert (inside == -1).sum() == 4
    edges, loops = looped.to_caller_order(inside)
    assert torch.equal(edges, numbers)
    assert loops.tolist() == [-1, -1, 0, -1, -1]  # node 2 brought its own


def test_int32_ids_are_read() -> None:
    graph = Graph(SRC.int(), DST.int(), num_src=5)
    assert graph.col.dtype == torch.int64
    assert torch.equal(graph.col, Graph(SRC, DST, num_src=5).col)


def test_the_number_of_nodes_is_found_when_it_is_not_given() -> None:
    assert Graph(SRC, DST).num_src == 4
    assert Graph(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long)).num_src == 0


@pytest.mark.parametrize("nodes", [0, 3])
def test_graphs_without_edges_behave(nodes: int) -> None:
    none = torch.empty(0, dtype=torch.long)
    graph = Graph(none, none, num_src=nodes)
    assert graph.rowptr.tolist() == [0] * (nodes + 1)
    assert graph.with_self_loops().num_edges == nodes
    assert graph.is_symmetric


def test_a_graph_cannot_be_changed_by_assignment(graph: Graph) -> None:
    for name in ("row", "col", "rowptr", "num_src", "perm", "csc", "is_symmetric"):
        with pytest.raises(AttributeError):
            setattr(graph, name, None)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_are_equal(graph: Graph, clone) -> None:
    again = clone(graph.with_self_loops())
    assert torch.equal(again.perm, graph.with_self_loops().perm)
    assert again.num_edges_given == 7
    assert again.with_self_loops() is again


def test_moving_to_where_it_is_makes_no_copy(graph: Graph) -> None:
    assert graph.to("cpu") is graph
    moved = graph.to("meta")
    assert moved.device.type == "meta"
    assert moved.num_edges == graph.num_edges


def test_its_repr_shows_sizes_and_device(graph: Graph) -> None:
    assert str(graph) == "Graph(5 nodes, 7 edges, cpu)"
    assert "5 sources, 3 destinations" in str(Graph(SRC, DST, num_src=5, num_dst=3))


@pytest.mark.parametrize(
    ("src", "dst", "sizes", "error", "words"),
    [
        (torch.tensor([0.0]), torch.tensor([0]), {}, TypeError, "src must be a tensor of integer node ids.*float32"),
        (torch.tensor([0]), torch.tensor([True]), {}, TypeError, "dst must be a tensor of integer node ids.*bool"),
        (torch.tensor([[0]]), torch.tensor([0]), {}, ValueError, r"shape \(E,\)"),
        (torch.tensor([0, 1]), torch.tensor([0]), {}, ValueError, "same edges"),
        (torch.tensor([5]), torch.tensor([0]), {"num_src": 3}, ValueError, r"source id 5 is out of range.*\[0, 3\)"),
        (torch.tensor([-1]), torch.tensor([0]), {"num_src": 3}, ValueError, "source id -1 is out of range"),
        (
            torch.tensor([2]),
            torch.tensor([2]),
            {"num_src": 3, "num_dst": 2},
            ValueError,
            "destination id 2 is out of range",
        ),
        (torch.tensor([0]), torch.tensor([0]), {"num_src": 2, "num_dst": 3}, ValueError, "first sources"),
    ],
)
def test_an_object_that_is_no_graph_is_refused(src, dst, sizes, error, words) -> None:
    with pytest.raises(error, match=words):
        hgeo.Graph(src, dst, **sizes)


@pytest.mark.parametrize(("num_src", "num_dst"), [(1, 2), (1, -1)])
def test_trusted_edges_need_destinations_among_the_sources_too(num_src: int, num_dst: int) -> None:
    with pytest.raises(ValueError, match="first sources"):
        Graph.unsorted(torch.tensor([0]), torch.tensor([0]), num_src, num_dst)


class _Overtaken(Graph):
    """Another thread has sorted the edges just before this one looks for them a second time."""

    looks = 0

    @property
    def _unsorted(self):
        self.looks += 1
        if self.looks > 1 and self._given is not None:
            given, self._given = self._given, None
            self._order = Graph(*given, num_src=5)._order
        return self._given

    @_unsorted.setter
    def _unsorted(self, given) -> None:
        self._given = given


@pytest.mark.parametrize("read", [lambda g: g.col, lambda g: g.device, lambda g: g.with_self_loops()])
def test_another_thread_may_sort_the_edges_first(graph: Graph, read) -> None:
    for looks in (0, 1):
        overtaken = _Overtaken.unsorted(SRC, DST, 5, 5)
        overtaken.looks = looks
        read(overtaken)
        assert torch.equal(overtaken.col, graph.col)


def test_a_pickled_graph_is_no_larger_than_its_edges() -> None:
    src, dst = torch.randint(1000, (2, 8000))
    looped = Graph.unsorted(src, dst, 1000, 1000).with_self_loops()
    assert len(pickle.dumps(looped)) < 1.1 * 3 * 8 * looped.num_edges + 4096


@pytest.mark.parametrize("edges", [7, 6000])
def test_a_graph_made_in_inference_mode_holds_no_inference_tensors(edges: int) -> None:
    src, dst = torch.randint(5, (2, edges))
    with torch.inference_mode():
        graphs = [Graph(src, dst, 6), Graph.unsorted(src, dst, 6, 6), Graph(src + 0, dst + 0, 6)]
        graphs += [graph.with_self_loops() for graph in graphs]
        for graph in graphs:
            graph.cache["a", 1] = (src + 1, {"not": "a tensor"}, graph.csc)
            kept = [graph.row, graph.col, graph.perm, graph.rowptr, *graph.csc, graph.in_degrees, graph.out_degrees]
            assert not any(tensor.is_inference() for tensor in [*kept, graph.cache["a", 1][0]])
            assert type(graph.cache["a", 1][2]) is type(graph.csc)
