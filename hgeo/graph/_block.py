"""The part of a graph that leads to its first nodes."""

from __future__ import annotations

from hgeo.graph._graph import Graph

__all__ = ["leading_block"]


def leading_block(graph: Graph, num_dst: int, num_src: int | None = None) -> Graph:
    """The edges into the first ``num_dst`` nodes, as a block whose sources are the first ``num_src`` nodes (all).

    A node keeps the degrees that it has in ``graph`` with self-loops, so that a layer that normalises by degrees gives
    it the same output as there. All sources of the edges must be among the first ``num_src`` nodes.

    >>> import torch
    >>> graph = Graph(torch.tensor([1, 2, 0, 3]), torch.tensor([0, 0, 2, 2]), num_src=4)
    >>> block = leading_block(graph, 1, 3)
    >>> block, block.in_degrees.tolist(), block.out_degrees.tolist()
    (Graph(3 sources, 1 destinations, 2 edges, cpu), [3], [2, 2, 2])
    """
    num_src = graph.num_src if num_src is None else num_src
    count, looped = int(graph.rowptr[num_dst]), graph.with_self_loops()
    degrees = {"in_degrees": looped.in_degrees[:num_dst], "out_degrees": looped.out_degrees[:num_src]}
    return Graph(graph.col[:count], graph.row[:count], num_src=num_src, num_dst=num_dst, **degrees)
