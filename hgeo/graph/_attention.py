"""Distance attention: the operation that layers call, over whichever backend does the work."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from hgeo import math as hm
from hgeo.graph import _backends
from hgeo.graph._checks import check_device, check_edges, check_graph, check_rows, per_head
from hgeo.graph._graph import Graph

__all__ = ["SelfScore", "distance_attention", "edge_distance", "edge_softmax", "self_distance_as_mean", "weighted_sum"]

SelfScore = Literal["zero", "mean"]
_HALF = (torch.float16, torch.bfloat16)


def edge_distance(
    graph: Graph, p_src: Tensor, p_dst: Tensor | None = None, *, k: float | Tensor, backend: str = "auto"
) -> Tensor:
    """(E, H) geodesic distances d_k(p_dst[i], p_src[j]) of the edges j → i, in the graph's edge order.

    Args:
        graph: the graph.
        p_src: (num_src, H, d) points of the sources.
        p_dst: (num_dst, H, d) points of the destinations; default: those of the first sources.
        k: signed curvature, a number or a tensor () or (H,).
        backend: a name of :func:`hgeo.graph.backends`, or "auto".
    """
    check_graph(graph)
    check_rows(graph, "p_src", p_src, graph.num_src)
    if p_dst is not None:
        check_rows(graph, "p_dst", p_dst, graph.num_dst)
    if p_src.dtype in _HALF:
        raised = None if p_dst is None else p_dst.float()
        return edge_distance(graph, p_src.float(), raised, k=k, backend=backend).to(p_src.dtype)
    chosen = _backends.resolve(backend, p_src.device.type)
    return chosen.edge_distance(graph, p_src, p_dst, per_head("k", k, p_src))


def edge_softmax(graph: Graph, scores: Tensor, *, backend: str = "auto") -> Tensor:
    """(E, H) scores as weights that sum to 1 over the edges into each destination. A score of -inf gives weight 0.

    Here as in the other operations half precision is computed in float32 and rounded once.
    """
    check_graph(graph)
    if scores.dim() != 2 or scores.shape[0] != graph.num_edges:
        raise ValueError(f"scores must have shape ({graph.num_edges}, heads), got {tuple(scores.shape)}")
    check_device(graph, "scores", scores)
    if scores.dtype in _HALF:
        return edge_softmax(graph, scores.float(), backend=backend).to(scores.dtype)
    return _backends.resolve(backend, scores.device.type).edge_softmax(graph, _without_padding(graph, scores))


def weighted_sum(graph: Graph, weights: Tensor, values: Tensor, *, backend: str = "auto") -> Tensor:
    """(num_dst, H, d): Σ_e weights[e] · values[source of e] over the edges into each destination, 0 where none is.

    ``weights`` is (E, H) or (E, 1), ``values`` (num_src, H, d).
    """
    check_graph(graph)
    check_rows(graph, "values", values, graph.num_src)
    check_edges(graph, "weights", weights, values.shape[1])
    if weights.dtype != values.dtype:
        raise TypeError(f"weights are {weights.dtype}, values {values.dtype}; convert one of them")
    if values.dtype in _HALF:
        return weighted_sum(graph, weights.float(), values.float(), backend=backend).to(values.dtype)
    return _backends.resolve(backend, values.device.type).weighted_sum(graph, weights, values)


def distance_attention(
    graph: Graph,
    u: Tensor,
    *,
    k: float | Tensor,
    beta: float | Tensor,
    score_scale: float | Tensor | None = None,
    edge_bias: Tensor | None = None,
    edge_factor: Tensor | None = None,
    value_scale: Tensor | None = None,
    self_score: SelfScore = "zero",
    return_weights: bool = False,
    points_k: Tensor | None = None,
    points_elu: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor | None]:
    r"""Attend by distance, sum in the tangent space at the origin.

    With :math:`p = \exp_0(s\,u)` (projected), for the edges :math:`e = (j \to i)`

    .. math:: \alpha_e = -\beta\, d_k(p_i, p_j) + b_e, \qquad w = \mathrm{softmax}_i(\alpha), \qquad
              o_i = \sum_{e = (j \to i)} w_e\, f_e\, v_j\, u_j .

    Everything an edge is in the graph's own order (``graph.from_caller_order`` brings it there). Differentiable in
    ``u``, ``k``, ``beta``, ``score_scale``, ``edge_bias`` and ``edge_factor``. A destination without edges gets 0.

    Args:
        graph: the graph; add self-loops first if they are wanted.
        u: (num_src, H, d) tangent coordinates at the origin.
        k: signed curvature, () or (H,).
        beta: sharpness β, () or (H,).
        score_scale: s, () or (H,); 1 if not given.
        edge_bias: b, (E, H) or (E, 1), added to the scores; -inf takes an edge out.
        edge_factor: f, (E, H) or (E, 1), multiplies the weights after the softmax (attention dropout).
        value_scale: v, (num_src,), without gradient.
        self_score: the distance of a self-loop: "zero", as it is, or "mean", the mean distance over the destination's
            other edges (0 if it has none).
        return_weights: also return w (E, H), before ``edge_factor``.
        points_k: a curvature, one number: go on to points, exp0 at this curvature of the heads' sums side by side.
        points_elu: with ``points_k``, ELU of the points' coordinates.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    Returns:
        (num_dst, H, d) sums, or with ``points_k`` (num_dst, H·d) points, and the weights or None.

    Example:
        >>> import torch, hgeo
        >>> g = hgeo.Graph(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), num_src=2)
        >>> u = torch.tensor([[[0.0, 0.0]], [[1.0, 0.0]]])
        >>> out, w = hgeo.graph.distance_attention(g, u, k=0.0, beta=1.0, return_weights=True)
        >>> w.squeeze(1)
        tensor([0.8808, 0.1192, 1.0000])
    """
    check_graph(graph)
    check_rows(graph, "u", u, graph.num_src)
    if self_score not in ("zero", "mean"):
        raise ValueError(f"self_score must be 'zero' or 'mean', got {self_score!r}")
    for name, value in (("edge_bias", edge_bias), ("edge_factor", edge_factor)):
        if value is not None:
            check_edges(graph, name, value, u.shape[1])
    if value_scale is not None:
        if tuple(value_scale.shape) != (graph.num_src,):
            raise ValueError(f"value_scale must have shape ({graph.num_src},), got {tuple(value_scale.shape)}")
        check_device(graph, "value_scale", value_scale)
    if u.dtype in _HALF:
        # kernels compute in float32; one rounding at the end
        raised = [None if value is None else value.float() for value in (edge_bias, edge_factor, value_scale)]
        out, weights = distance_attention(
            graph,
            u.float(),
            k=k,
            beta=beta,
            score_scale=score_scale,
            edge_bias=raised[0],
            edge_factor=raised[1],
            value_scale=raised[2],
            self_score=self_score,
            return_weights=return_weights,
            points_k=points_k,
            points_elu=points_elu,
            backend=backend,
        )
        return out.to(u.dtype), None if weights is None else weights.to(u.dtype)
    k, beta = per_head("k", k, u), per_head("beta", beta, u)
    scale = None if score_scale is None else per_head("score_scale", score_scale, u)
    edge_bias, edge_factor, value_scale = (
        None if value is None else value.to(u.dtype) for value in (edge_bias, edge_factor, value_scale)
    )
    chosen = _backends.resolve(backend, u.device.type)
    # A fused kernel gives no gradient through the weights that it returns, nor to the factors: composed, they have one.
    training = torch.is_grad_enabled() and any(
        value is not None and value.requires_grad for value in (u, k, beta, scale, edge_bias, edge_factor, points_k)
    )
    wants_more = training and (return_weights or (edge_factor is not None and edge_factor.requires_grad))
    if chosen.distance_attention is not None and not wants_more:
        whole = chosen.distance_attention(
            graph,
            u,
            k=k,
            beta=beta,
            score_scale=scale,
            edge_bias=edge_bias,
            edge_factor=edge_factor,
            value_scale=value_scale,
            self_score=self_score,
            return_weights=return_weights,
            out_k=None if points_k is None else points_k.to(u),
            out_elu=points_elu,
        )
        if whole is not None:
            return whole
    column = k.unsqueeze(-1)
    p = hm.project(hm.expmap0(u if scale is None else scale.unsqueeze(-1) * u, k=column), k=column)
    distance = chosen.edge_distance(graph, p, None, k)
    if self_score == "mean":
        distance = self_distance_as_mean(graph, distance)
    scores = -beta * distance
    if edge_bias is not None:
        scores = scores + edge_bias
    weights = chosen.edge_softmax(graph, _without_padding(graph, scores))
    values = u if value_scale is None else value_scale.view(-1, 1, 1) * u
    out = chosen.weighted_sum(graph, weights if edge_factor is None else weights * edge_factor, values)
    if points_k is not None:
        point_k = points_k.to(u)
        out = hm.project(hm.expmap0(out.flatten(1), k=point_k), k=point_k)
        out = F.elu(out) if points_elu else out
    return out, weights if return_weights else None


def self_distance_as_mean(graph: Graph, distance: Tensor) -> Tensor:
    """(E, H) distances in which a self-loop has the mean distance over its destination's other edges (0 if none)."""
    loop = torch.eq(graph.row, graph.col).unsqueeze(-1)
    others = torch.where(loop, 0.0, distance)
    total = others.new_zeros(graph.num_dst, others.shape[1]).index_add(0, graph.row, others)
    count = total.new_zeros(graph.num_dst, 1).index_add(0, graph.row, loop.logical_not().to(total.dtype))
    return torch.where(loop, (total / count.clamp(min=1)).index_select(0, graph.row), distance)


def _without_padding(graph: Graph, scores: Tensor) -> Tensor:
    """Scores in which edges that only fill up a shape have -inf, and hence no weight."""
    return scores if graph.padding is None else torch.where(graph.padding.unsqueeze(-1), -torch.inf, scores)
