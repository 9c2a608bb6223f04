"""Distance attention on a graph, by the fused kernels."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from hgeo.graph._fused import _compiler
from hgeo.graph._fused._arguments import Inputs, Kept, Plan
from hgeo.graph._fused._layout import ROW_PADDING
from hgeo.graph._fused._ops import fused_attention
from hgeo.graph._fused._sort import transposed
from hgeo.graph._graph import values_unknown

if TYPE_CHECKING:
    from hgeo.graph._graph import Graph

__all__ = ["available", "distance_attention"]


def available(device: str | torch.device = "cpu") -> tuple[bool, str]:
    """Whether the fused kernels can run on such a device, and if not, why.

    >>> available("cpu")
    (True, '')
    """
    kind = torch.device(device).type
    if kind == "cpu":
        return _compiler.available()
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


def _make_plan(graph: Graph, symmetric: bool) -> Plan:
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
        return Plan(rowptr, _ids(col), *transposed(graph.row, col, graph.num_src, ROW_PADDING), info)
    colptr, csc_row, csc_pos = graph.csc
    if symmetric:  # then the transpose is the graph itself, but for the order of edges
        return Plan(rowptr, _ids(col), rowptr[:0], col[:0].to(torch.int32), _ids(csc_pos), info)
    return Plan(rowptr, _ids(col), colptr, _ids(csc_row), _ids(csc_pos), info)


def _plan(graph: Graph, symmetric: bool) -> Plan:
    plan = graph.cache.get("fused")
    if plan is None:
        plan = _make_plan(graph, symmetric)
        if not torch.compiler.is_compiling():
            graph.cache["fused"] = plan
    return plan


def _edge_numbers(name: str, values: Tensor, num_edges: int, heads: int, dtype: torch.dtype) -> Tensor:
    if values.dim() == 1:
        values = values[:, None]
    if values.dim() != 2 or values.shape[0] != num_edges or values.shape[1] not in (1, heads):
        raise ValueError(
            f"{name} must have shape ({num_edges},), ({num_edges}, 1) or ({num_edges}, {heads}), "
            f"a number an edge or an edge and head; got {tuple(values.shape)}"
        )
    return values.to(dtype)


def _head_numbers(name: str, values: Tensor, heads: int) -> Tensor:
    if values.numel() not in (1, heads):
        raise ValueError(f"{name} must be one number or one a head ({heads}), got shape {tuple(values.shape)}")
    return (values if values.shape == (heads,) else values.reshape(-1).expand(heads)).contiguous()


def distance_attention(
    graph: Graph,
    u: Tensor,
    *,
    k: Tensor,
    beta: Tensor,
    score_scale: Tensor | None = None,
    edge_bias: Tensor | None = None,
    edge_factor: Tensor | None = None,
    value_scale: Tensor | None = None,
    self_score: Literal["zero", "mean"] = "zero",
    return_weights: bool = False,
    out_k: Tensor | None = None,
    out_elu: bool = False,
) -> tuple[Tensor, Tensor | None]:
    r"""Attention by distance in a space of constant curvature.

    .. math::
        p_i = \exp_0(s\,u_i), \qquad s_{ij} = -\beta\, d_k(p_i, p_j) + b_{ij}, \qquad
        \mathrm{out}_i = \sum_j \mathrm{softmax}_j(s_{ij})\, f_{ij}\, \nu_j\, u_j

    Args:
        graph: who listens to whom; edges sorted by (destination, source).
        u: (num_src, heads, d) tangent coordinates at the origin.
        k: (heads,) signed curvature; 0 included, differentiable there.
        beta: (heads,) inverse temperature.
        score_scale: (heads,) s, scales the tangent vectors for the scores only; 1 if not given.
        edge_bias: b, (E,), (E, 1) or (E, heads).
        edge_factor: f, of the same shapes, for attention dropout; has no gradient.
        value_scale: ν, (num_src,); has no gradient.
        self_score: "zero", a node's distance to itself, or "mean", its mean distance to the others in its row.
        return_weights: also return the softmax, (E, heads), without f; it has no gradient here.

        out_k: a curvature, one number. If given, the result is not the sums but exp0, at this curvature, of the heads'
            sums side by side, kept inside the rim as :func:`hgeo.math.project` does.
        out_elu: with ``out_k``, ELU of these points, coordinate by coordinate (they stay inside: |elu(x)| ≤ |x|).

    Returns:
        (num_dst, heads, d), or with ``out_k`` (num_dst, heads·d), and the weights or None. Half-precision input is
        computed in float32.
    """
    num_src, heads, _ = u.shape
    if num_src != graph.num_src:
        raise ValueError(f"u has {num_src} rows, the graph {graph.num_src} sources")
    if self_score not in ("zero", "mean"):
        raise ValueError(f"self_score must be 'zero' or 'mean', got {self_score!r}")
    dtype = u.dtype
    num_edges = graph.num_edges
    if num_src >= 2**31 or num_edges >= 2**31 - ROW_PADDING:
        raise ValueError(f"the fused backend takes up to 2³¹ nodes and edges, got {num_src} and {num_edges}")
    u = u if dtype in (torch.float32, torch.float64) else u.float()
    bias = None if edge_bias is None else _edge_numbers("edge_bias", edge_bias, num_edges, heads, u.dtype)
    padding = getattr(graph, "padding", None)
    if padding is not None:  # edges that only fill up a shape: they get weight 0
        bias = u.new_zeros(num_edges, 1) if bias is None else bias
        bias = torch.where(padding.unsqueeze(-1), -torch.inf, bias)
    factor = None
    if edge_factor is not None:
        if edge_factor.requires_grad:
            raise ValueError('the fused backend has no gradient for edge_factor; detach it or use backend="reference"')
        factor = _edge_numbers("edge_factor", edge_factor, num_edges, heads, u.dtype)
    if value_scale is not None:
        value_scale = value_scale.detach().to(u.dtype)
    k, beta = _head_numbers("k", k, heads), _head_numbers("beta", beta, heads)
    scale = None if score_scale is None else _head_numbers("score_scale", score_scale, heads)
    if out_k is not None:
        if out_k.numel() != 1:
            raise ValueError(f"out_k must be one number, got shape {tuple(out_k.shape)}")
        out_k = out_k.reshape(1)
    elif out_elu:
        raise ValueError("out_elu acts on points, so it needs out_k")
    learned = (u, k, beta, scale, bias, out_k)
    keep = return_weights or (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in learned))
    symmetric = graph.is_symmetric
    inputs = Inputs(
        u, k, beta, scale, bias, factor, value_scale, *_plan(graph, symmetric), out_k,
        num_edges, self_score == "mean", symmetric, keep, out_elu,
    )  # fmt: skip
    out, nodes, edges = fused_attention(inputs)
    weights = None
    if return_weights:
        parts = Kept.of(inputs, inputs.shape).views(nodes.detach(), edges.detach(), inputs)
        weights = (parts["e"] * parts["zinv"][:, graph.row]).t().to(dtype)
    return out.to(dtype), weights
