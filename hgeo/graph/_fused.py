"""Attention by distance in one pass over the edges, by the kernels of :mod:`hgeo.kernels.attention`."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hgeo.graph import _torch
from hgeo.graph._graph import values_unknown
from hgeo.graph._work import OneCall
from hgeo.kernels.attention import (
    ROW_PADDING,
    EdgeLists,
    Inputs,
    Kept,
    available_on_cpu,
    fused_attention,
    neighbour_sum,
    transposed,
)

if TYPE_CHECKING:
    from hgeo.graph._graph import Graph
    from hgeo.graph._work import Work

__all__ = ["available", "plan", "scaled_sum", "weighted_sum"]


def available(device: str | torch.device = "cpu") -> tuple[bool, str]:
    """Whether the fused kernels can run on such a device, and if not, why.

    >>> available("cpu")
    (True, '')
    """
    kind = torch.device(device).type
    if kind == "cpu":
        return available_on_cpu()
    if kind == "cuda":
        return _triton_available()
    return False, f"there are fused kernels for cpu and cuda, none for {kind}"


@functools.cache
def _triton_available() -> tuple[bool, str]:
    try:
        importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return False, "triton is not installed (pip install triton)"
    return (True, "") if torch.cuda.is_available() else (False, "torch sees no CUDA device")


def _ids(ids: Tensor) -> Tensor:
    return torch.cat([ids.to(torch.int32), ids.new_zeros(ROW_PADDING, dtype=torch.int32)])


def _make_lists(graph: Graph, symmetric: bool) -> EdgeLists:
    rowptr, col = graph.rowptr, graph.col
    if graph.is_looped:
        all_loops = rowptr.new_ones(())
    else:
        has_loop = torch.zeros(graph.num_dst + 1, dtype=torch.bool, device=col.device)
        has_loop[torch.where(graph.row == col, col, graph.num_dst)] = True
        all_loops = has_loop[:-1].all().long()
    degrees = torch.cat([rowptr[1:] - rowptr[:-1], rowptr.new_zeros(1)])
    info = torch.stack([all_loops, degrees.max()])
    if not symmetric and col.device.type == "cpu" and not values_unknown(col):  # at once in the kernels' own format
        return EdgeLists(rowptr, _ids(col), *transposed(graph.row, col, graph.num_src, ROW_PADDING), info)
    colptr, csc_row, csc_pos = graph.csc
    if symmetric:  # then the transpose is the graph itself, but for the order of edges
        return EdgeLists(rowptr, _ids(col), rowptr[:0], col[:0].to(torch.int32), _ids(csc_pos), info)
    return EdgeLists(rowptr, _ids(col), colptr, _ids(csc_row), _ids(csc_pos), info)


def _lists(graph: Graph, symmetric: bool) -> EdgeLists:
    lists: EdgeLists | None = graph.cache.get("fused")
    if lists is None:
        lists = _make_lists(graph, symmetric)
        if not torch.compiler.is_compiling():
            graph.cache["fused"] = lists
    return lists


def plan(work: Work) -> OneCall | str:
    """Scores, softmax and sum in one call, and points if nothing but exp0 and an ELU on the ball follow."""
    if work.u.device.type != "cpu" and work.several_parts:
        return f"the manifold has {len(work.parts or ())} parts, which only the kernels for a CPU know"
    if not _counts_in_32_bits(work.graph):
        return "the kernels count nodes and edges in 32 bits"
    finishes = work.ends_in_a_point
    return OneCall(functools.partial(_attend, finishes=finishes), finishes)


def weighted_sum(graph: Graph, weights: Tensor | None, values: Tensor) -> Tensor:
    """Of weights that are all 1 by one kernel where the numbers are at hand; else as torch's backend does it."""
    sums = None if weights is not None else scaled_sum(graph, values, None, None)
    return _torch.weighted_sum(graph, weights, values) if sums is None else sums


def scaled_sum(graph: Graph, values: Tensor, source: Tensor | None, target: Tensor | None) -> Tensor | None:
    """Sums times ``target`` of values times ``source``, columns without gradients, by one kernel; None if it cannot."""
    given = [values, graph.col, *(column for column in (source, target) if column is not None)]
    known = values.device.type == "cpu" and values.numel() and not values_unknown(*given)
    known = known and not any(column.requires_grad or column.dtype != values.dtype for column in given[2:])
    if not known or torch._C._are_functorch_transforms_active() or not _counts_in_32_bits(graph):
        return None
    symmetric = graph.is_symmetric
    source, target = (None if column is None else column.contiguous() for column in (source, target))
    lists = _lists(graph, symmetric)
    sums = neighbour_sum(values.flatten(1), lists, graph.num_edges, symmetric, source, target)
    return sums.view(-1, *values.shape[1:])


def _counts_in_32_bits(graph: Graph) -> bool:
    return graph.num_src < 2**31 and graph.num_edges < 2**31 - ROW_PADDING


def _attend(work: Work, *, finishes: bool) -> tuple[Tensor, Tensor | None]:
    """The sums (num_dst, heads, d), or points (num_dst, heads · d); and the weights, which have no gradient here."""
    assert work.parts is not None
    graph, u, k, bias = work.graph, work.u, work.part_curvatures, work.edge_bias
    if graph.padding is not None:
        bias = graph.without_padding(u.new_zeros(graph.num_edges, 1) if bias is None else bias, -torch.inf)
    scale, symmetric = work.part_scale, graph.is_symmetric
    inputs = Inputs(
        u,
        k,
        work.beta.contiguous(),
        None if scale is None else scale.contiguous(),
        bias,
        work.factors(),
        work.source_scale,
        *_lists(graph, symmetric),
        out_k=k[:1] if finishes else None,
        dims=work.part_dims,
        num_edges=graph.num_edges,
        self_mean=getattr(work.score, "self_score", "zero") == "mean",
        symmetric=symmetric,
        keep=work.return_weights or work.training,
        elu=finishes and work.finish is not None and work.finish.activation is not None,
    )
    out, nodes, edges = fused_attention(inputs)
    if work.target_scale is not None:
        out = out * work.target_scale
    if not work.return_weights:
        return out, None
    parts = Kept.of(inputs, inputs.shape).views(nodes.detach(), edges.detach(), inputs)
    return out, (parts["e"] * parts["zinv"][:, graph.row]).t()
