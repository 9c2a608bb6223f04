"""DGL's own kernels: SDDMM for per-edge numbers, its edge softmax, SpMM for the sum. Not traceable by torch.compile."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo import math as hm
from hgeo._dgl import import_dgl
from hgeo.graph import _reference
from hgeo.graph._graph import Graph
from hgeo.graph._points import points_and_flatness
from hgeo.kernels.attention import no_second_derivative

__all__ = ["edge_distance", "edge_softmax", "weighted_sum", "why_not"]


def why_not(device_type: str) -> str | None:
    try:
        dgl = import_dgl("this backend")
    except ImportError as error:
        return str(error)
    if device_type == "cpu":
        return None
    try:
        dgl.graph(([], []), num_nodes=1, device=device_type)
    except Exception as error:
        return f"the installed dgl {dgl.__version__} has no {device_type} kernels ({type(error).__name__})"
    return None


def _dgl_graph(graph: Graph) -> Any:
    """The same edges, in the same order, as a DGL block; kept with the graph."""
    if "dgl" not in graph.cache:
        dgl = import_dgl("the dgl backend")
        graph.cache["dgl"] = dgl.create_block(
            (graph.col, graph.row), num_src_nodes=graph.num_src, num_dst_nodes=graph.num_dst, device=graph.device
        )
    return graph.cache["dgl"]


def _ops() -> Any:
    return import_dgl("the dgl backend", "dgl.ops")


class _DifferentiableOnce(torch.autograd.Function):
    """Returns x, and refuses a second derivative: DGL's backward pass has none, and DGL does not say so."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        gradient: Tensor = _NotAgain.apply(grads[0])
        return gradient


class _NotAgain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    backward = staticmethod(no_second_derivative)


def _once(x: Tensor) -> Tensor:
    given: Tensor = _DifferentiableOnce.apply(x)
    return given


def edge_distance(graph: Graph, u: Tensor, k: Tensor) -> Tensor:
    if not graph.num_edges or bool((k > 0).any()):
        # near the antipodes of a sphere the distance needs more than the difference of the two points
        return _reference.edge_distance(graph, u, k)
    points, flatness = points_and_flatness(_once(u), k)
    # SDDMM subtracts without gathering both ends; all else are numbers a node or an edge
    difference = _ops().v_sub_u(_dgl_graph(graph), points.narrow(0, 0, graph.num_dst), points)
    root = torch.rsqrt(flatness)
    stretch = root.index_select(0, graph.row) * root.index_select(0, graph.col)
    return 2 * hm.arsin_k(torch.linalg.vector_norm(difference, dim=-1) * stretch, k=k)


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    if not graph.num_edges:
        return scores
    # where all edges of a row are taken out, DGL would subtract an infinite maximum
    out = torch.isneginf(scores)
    finite = torch.where(out, torch.finfo(scores.dtype).min, _once(scores))
    weights = _ops().edge_softmax(_dgl_graph(graph), finite.unsqueeze(-1)).squeeze(-1)
    return torch.where(out, 0.0, weights)


def weighted_sum(graph: Graph, weights: Tensor | None, values: Tensor) -> Tensor:
    if not graph.num_edges:
        return _reference.weighted_sum(graph, weights, values)
    if weights is None:
        found: Tensor = _ops().copy_u_sum(_dgl_graph(graph), _once(values))
        return found
    weights = _once(weights).unsqueeze(-1).expand(-1, values.shape[1], 1)
    return _ops().u_mul_e_sum(_dgl_graph(graph), _once(values), weights)
