"""Who talks to whom: one view of every graph format, and message passing with interchangeable backends.

>>> import torch, hgeo
>>> g = hgeo.graph.as_graph(torch.tensor([[0, 1, 2], [1, 2, 0]])).with_self_loops()
>>> out, _ = hgeo.graph.distance_attention(g, torch.randn(3, 1, 4), k=-1.0, beta=1.0)
>>> out.shape
torch.Size([3, 1, 4])
"""

from hgeo.graph._attention import distance_attention, edge_distance, edge_softmax, self_distance_as_mean, weighted_sum
from hgeo.graph._backends import BACKENDS, Backend, backends
from hgeo.graph._block import leading_block
from hgeo.graph._convert import as_graph
from hgeo.graph._graph import CSC, Graph
from hgeo.graph._mobius import mobius_sum

__all__ = [
    "BACKENDS",
    "CSC",
    "Backend",
    "Graph",
    "as_graph",
    "backends",
    "distance_attention",
    "edge_distance",
    "edge_softmax",
    "leading_block",
    "mobius_sum",
    "self_distance_as_mean",
    "weighted_sum",
]
