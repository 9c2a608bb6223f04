"""The yardstick: plain torch, differences of points, exact, any dtype, differentiable twice, traceable."""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo import math as hm
from hgeo.graph._graph import Graph

__all__ = ["edge_distance", "edge_softmax", "weighted_sum"]


def edge_distance(graph: Graph, p_src: Tensor, p_dst: Tensor | None, k: Tensor) -> Tensor:
    p_dst = p_src.narrow(0, 0, graph.num_dst) if p_dst is None else p_dst
    return hm.dist(p_dst.index_select(0, graph.row), p_src.index_select(0, graph.col), k=k.unsqueeze(-1))


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    index = graph.row.unsqueeze(-1).expand_as(scores)
    shape = (graph.num_dst, scores.shape[1])
    # The softmax does not depend on the shift, so no gradient flows through it. A row whose every score is -inf (or
    # which has no edge) is not shifted at all.
    top = scores.detach().new_full(shape, -torch.inf).scatter_reduce(0, index, scores.detach(), "amax")
    top = torch.where(torch.isfinite(top), top, 0.0)
    mass = torch.exp(scores - top.index_select(0, graph.row))
    total = mass.new_zeros(shape).index_add(0, graph.row, mass)
    return mass / torch.where(total == 0, 1.0, total).index_select(0, graph.row)


def weighted_sum(graph: Graph, weights: Tensor, values: Tensor) -> Tensor:
    messages = weights.unsqueeze(-1) * values.index_select(0, graph.col)
    return messages.new_zeros((graph.num_dst, *messages.shape[1:])).index_add(0, graph.row, messages)
