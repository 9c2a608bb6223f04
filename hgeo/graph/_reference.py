"""The backend that all others are compared with: plain torch, differentiable twice, traceable.

It computes in float64 whatever the dtype of the rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo import math as hm
from hgeo.graph._graph import Graph
from hgeo.graph._points import sine_and_cosine

__all__ = ["edge_distance", "edge_dot", "edge_softmax", "weighted_sum"]


def edge_distance(graph: Graph, u: Tensor, k: Tensor) -> Tensor:
    r"""2 arsin_k √q with q = |S_i C_j - S_j C_i|², where S/C is the point: on a sphere, kq and 1 - kq are sin² and cos²
    of half the angle.
    """
    s, c = sine_and_cosine(u, k)
    s_i, s_j = s.index_select(0, graph.row), s.index_select(0, graph.col)
    c_i, c_j = c.index_select(0, graph.row).unsqueeze(-1), c.index_select(0, graph.col).unsqueeze(-1)
    q = (s_i * c_j - s_j * c_i).square().sum(-1)
    z = k * q
    # From an eighth of a turn on atan2 keeps its digits, up to the antipode: 1 - kq is the square of one vector, which
    # has a derivative even where the nearer point is the origin.
    wide = z > 0.25
    squared_i, squared_j = s_i.square().sum(-1, keepdim=True), s_j.square().sum(-1, keepdim=True)
    swap = squared_i > squared_j
    far, near = torch.where(swap, s_i, s_j), torch.where(swap, s_j, s_i)
    length = torch.where(wide.unsqueeze(-1), torch.where(swap, squared_i, squared_j), 1.0).sqrt()
    across = c_i * c_j * far / length + k.unsqueeze(-1) * length * near
    cosine = hm.safe_sqrt(across.square().sum(-1))
    sine = torch.where(wide, z, 0.25).sqrt()
    ratio = torch.where(wide, torch.atan2(sine, cosine) / sine, hm.arsin_ratio(torch.where(wide, 0.0, z)))
    return 2 * hm.safe_sqrt(q) * ratio


def edge_dot(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    return (left.index_select(0, graph.row) * right.index_select(0, graph.col)).sum(-1)


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


def weighted_sum(graph: Graph, weights: Tensor | None, values: Tensor) -> Tensor:
    messages = values.index_select(0, graph.col)
    messages = messages if weights is None else weights.unsqueeze(-1) * messages
    return messages.new_zeros((graph.num_dst, *messages.shape[1:])).index_add(0, graph.row, messages)
