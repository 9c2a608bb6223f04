"""Lorentzian centroids of a node's neighbours, from spatial coordinates, without cancellation."""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.graph import Graph, weighted_sum
from hgeo.kernels import Number, Operation, Row, dot, maximum, sqrt, where
from hgeo.nn._spatial import excess, is_near, within_radius

__all__ = ["centroids"]


def centroids(
    graph: Graph, s: Tensor, c: Tensor, weights: Tensor | None, source: Tensor | None, *, backend: str
) -> Tensor:
    r"""(num_dst, d): the spatial coordinates of the centroids of neighbours.

    With a_ij = ``weights`` (E, 1) times ``source`` (num_src, 1) of j, where they are given, t = √(1 + c|s|²) and
    T = Σ a t, S = Σ a s, W = Σ a it is :math:`S / \sqrt{T^2 - c|S|^2}`, and S/W without curvature. Far out T² and c|S|²
    are huge and almost equal. With e = t - 1, E = Σ a e it is W² + (2WE + E² - c|S|²), never below W². Sums of float32
    rows within radius 2 keep six digits of that difference; farther out, and where nobody can look how far out rows
    are, the sums are made in float64, which leaves nine digits at radius 9 and three at 15, where float32 ends.
    """
    dtype = s.dtype
    near = is_near(s, c, 2.0)
    wide = s if near or s.device.type == "mps" else s.double()  # which has no float64
    c = c.to(wide)
    wide = wide if near else within_radius(wide, c, dtype)
    extra = excess(wide, c)
    weights = None if weights is None else weights.to(wide)
    source = torch.ones_like(extra) if source is None else source.to(wide)
    spatial, sums = (
        weighted_sum(graph, weights, rows.unsqueeze(1), backend=backend).squeeze(1)
        for rows in (wide * source, torch.cat([source, extra * source], dim=-1))
    )
    total, extra = sums.split(1, dim=1)
    if dtype != torch.float64:
        return _over_its_length(spatial, total, extra, c).to(dtype)
    square = (spatial * spatial).sum(-1, keepdim=True)
    more, time = 2 * total * extra + extra * extra - c * square, total + extra
    steep = 2 * c * square > time * time
    axis = spatial * torch.rsqrt(torch.where(square == 0, 1.0, square))
    root = torch.sqrt(torch.where(steep, c, 1.0))
    small = _along_the_cone(graph, wide, axis, c, weights, source)
    length = small * (time + root * torch.sqrt(torch.where(square == 0, 1.0, square)))
    more = torch.where(steep, length - total * total, more)
    squared = total * total + torch.where(more < 0, 0.0, more)
    return spatial * torch.rsqrt(torch.where(squared == 0, 1.0, squared))


@Operation
def _over_its_length(s: Row, total: Number, extra: Number, c: Number) -> Row:
    """S/√(W² + (2WE + E² - c|S|²)), 0 where that is 0."""
    squared = total * total + maximum(2 * total * extra + extra * extra - c * dot(s, s), 0.0)
    return s / sqrt(where(squared == 0, 1.0, squared))


def _along_the_cone(
    graph: Graph, s: Tensor, axis: Tensor, c: Tensor, weights: Tensor | None, source: Tensor | None
) -> Tensor:
    """(num_dst, 1): Σ a (t - √c⟨s, e⟩) = T - √c|S| with e = S/|S|, a sum of positive terms."""
    root = torch.sqrt(torch.where(c == 0, 1.0, c))
    neighbours, ahead = s.index_select(0, graph.col), axis.index_select(0, graph.row)
    along = (neighbours * ahead).sum(-1, keepdim=True)
    across = neighbours - along * ahead
    time = 1 + excess(neighbours, c)
    near = (1 + c * (across * across).sum(-1, keepdim=True)) / (time + root * torch.where(along > 0, along, 0.0))
    terms = torch.where(along > 0, near, time - root * along)
    terms = terms if source is None else terms * source.to(terms).index_select(0, graph.col)
    terms = terms if weights is None else terms * weights
    return terms.new_zeros(graph.num_dst, 1).index_add(0, graph.row, graph.without_padding(terms, 0.0))
