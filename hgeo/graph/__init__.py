"""Who talks to whom: one view of every graph format, attention and message passing with interchangeable backends.

A layer describes what it wants (a score, an aggregate, a finish), ``attend`` computes it, and asks a backend in one
place whether it has one call for it. Knows manifolds and kernels, no layer.

>>> import torch, hgeo
>>> g = hgeo.graph.as_graph(torch.tensor([[0, 1, 2], [1, 2, 0]])).with_self_loops()
>>> out, _ = hgeo.graph.distance_attention(g, torch.randn(3, 1, 4), k=-1.0, beta=1.0)
>>> out.shape
torch.Size([3, 1, 4])
"""

from hgeo.graph._aggregate import Aggregate, Midpoint, MobiusSum, TangentSum, diffuse
from hgeo.graph._attend import Plan, attend, check_steps, described, distance_attention, plan
from hgeo.graph._backends import BACKENDS, Backend, backends
from hgeo.graph._block import leading_block
from hgeo.graph._checks import Description
from hgeo.graph._convert import GraphLike, as_graph
from hgeo.graph._finish import Finish
from hgeo.graph._graph import CSC, Graph, values_unknown
from hgeo.graph._mobius import mobius_sum
from hgeo.graph._operations import edge_distance, edge_dot, edge_softmax, weighted_sum
from hgeo.graph._score import Distance, Score, Uniform, self_distance_as_mean
from hgeo.graph._work import OneCall, Piece, Work

__all__ = [
    "BACKENDS",
    "CSC",
    "Aggregate",
    "Backend",
    "Description",
    "Distance",
    "Finish",
    "Graph",
    "GraphLike",
    "Midpoint",
    "MobiusSum",
    "OneCall",
    "Piece",
    "Plan",
    "Score",
    "TangentSum",
    "Uniform",
    "Work",
    "as_graph",
    "attend",
    "backends",
    "check_steps",
    "described",
    "diffuse",
    "distance_attention",
    "edge_distance",
    "edge_dot",
    "edge_softmax",
    "leading_block",
    "mobius_sum",
    "plan",
    "self_distance_as_mean",
    "values_unknown",
    "weighted_sum",
]
