"""The three operations on the edges of a graph, over whichever backend does the work."""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.graph import _backends, _reference, _torch
from hgeo.graph._checks import check_device, check_edges, check_graph, check_rows, per_head
from hgeo.graph._graph import Graph
from hgeo.graph._points import limited

__all__ = ["edge_distance", "edge_dot", "edge_softmax", "weighted_sum"]


def edge_distance(graph: Graph, u: Tensor, *, k: float | Tensor, backend: str = "auto") -> Tensor:
    """(E, H) geodesic distances of exp0(u_i) and exp0(u_j) for the edges j → i, in the graph's edge order.

    Here as in the other operations half precision is computed in float32 and rounded once.

    Args:
        graph: the graph.
        u: (num_src, H, d) tangent coordinates at the origin of the stereographic model. Rows farther out than the
            points of their dtype can be count as if they ended there.
        k: signed curvature, a number or a tensor () or (H,).
        backend: a name of :func:`hgeo.graph.backends`, or "auto".
    """
    check_graph(graph)
    check_rows(graph, "u", u, graph.num_src)
    chosen = _backends.resolve(backend, u.device.type)
    rows = chosen.raised(u)
    curvature = per_head("k", k, rows)
    dtype = torch.promote_types(u.dtype, torch.float32)
    return chosen.edge_distance(graph, limited(rows, curvature, dtype), curvature).to(u.dtype)


def edge_dot(graph: Graph, left: Tensor, right: Tensor, *, backend: str = "auto") -> Tensor:
    """(E,) inner products ⟨left_i, right_j⟩ for the edges j → i, in the graph's edge order.

    All backends but "reference", which has second derivatives, do without a tensor of a row an edge.

    Args:
        graph: the graph.
        left: (num_dst, d) rows of the destinations.
        right: (num_src, d) rows of the sources.
        backend: a name of :func:`hgeo.graph.backends`, or "auto".

    >>> import torch, hgeo
    >>> graph = hgeo.Graph(torch.tensor([0, 1]), torch.tensor([1, 0]), num_src=2)
    >>> edge_dot(graph, torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([3., 2.])
    """
    check_graph(graph)
    for name, rows, count in (("left", left, graph.num_dst), ("right", right, graph.num_src)):
        check_rows(graph, name, rows.unsqueeze(1), count)
    if left.shape != (graph.num_dst, right.shape[1]) or left.dtype != right.dtype:
        raise ValueError(
            f"left and right must be rows of one size and dtype, got {left.dtype} {tuple(left.shape)} and "
            f"{right.dtype} {tuple(right.shape)}"
        )
    chosen = _backends.resolve(backend, left.device.type)
    compute = _reference.edge_dot if chosen.in_double else _torch.edge_dot
    return compute(graph, chosen.raised(left), chosen.raised(right)).to(left.dtype)


def edge_softmax(graph: Graph, scores: Tensor, *, backend: str = "auto") -> Tensor:
    """(E, H) scores as weights that sum to 1 over the edges into each destination. A score of -inf gives weight 0."""
    check_graph(graph)
    if scores.dim() != 2 or scores.shape[0] != graph.num_edges:
        raise ValueError(f"scores must have shape ({graph.num_edges}, heads), got {tuple(scores.shape)}")
    check_device(graph, "scores", scores)
    chosen = _backends.resolve(backend, scores.device.type)
    return chosen.edge_softmax(graph, graph.without_padding(chosen.raised(scores), -torch.inf)).to(scores.dtype)


def weighted_sum(
    graph: Graph,
    weights: Tensor | None,
    values: Tensor,
    *,
    source: Tensor | None = None,
    target: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """(num_dst, H, d): Σ_e weights[e] · values[source of e] over the edges into each destination, 0 where none is.

    ``weights`` is (E, H) or (E, 1), or None: all 1; ``values`` is (num_src, H, d). Columns ``source`` (num_src, 1) and
    ``target`` (num_dst, 1) are factors of the values and of the sums, such as powers of degrees.
    """
    check_graph(graph)
    check_rows(graph, "values", values, graph.num_src)
    chosen = _backends.resolve(backend, values.device.type)
    rows = chosen.raised(values)
    if weights is None and graph.padding is None and chosen.scaled_sum is not None:
        sums = chosen.scaled_sum(graph, rows, source, target)
        if sums is not None:
            return sums.to(values.dtype)
    if source is not None or target is not None:
        scaled = values if source is None else values * source.to(values.dtype).unsqueeze(-1)
        sums = weighted_sum(graph, weights, scaled, backend=backend)
        return sums if target is None else sums * target.to(values.dtype).unsqueeze(-1)
    if weights is None:
        # Edges that only fill up a shape carry nothing.
        ones = None if graph.padding is None else graph.padding.logical_not().to(rows.dtype).unsqueeze(-1)
        return chosen.weighted_sum(graph, ones, rows).to(values.dtype)
    check_edges(graph, "weights", weights, values.shape[1])
    if weights.dtype != values.dtype:
        raise TypeError(f"weights are {weights.dtype}, values {values.dtype}; convert one of them")
    return chosen.weighted_sum(graph, chosen.raised(weights), rows).to(values.dtype)
