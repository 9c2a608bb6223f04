r"""Sequential Möbius accumulation over the edges of every destination, vectorised over destinations.

Step t adds the t-th message of every destination that has one. Destinations are sorted by degree, so the active ones
are always the first, and there are as many steps as the largest degree, not as many as there are edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hgeo import math as hm
from hgeo.graph._checks import check_edges, check_graph, check_rows, per_head
from hgeo.graph._graph import Graph, values_unknown
from hgeo.graph._torch import may_be_spherical

__all__ = ["mobius_sum"]


def mobius_sum(graph: Graph, weights: Tensor, u: Tensor, *, k: float | Tensor) -> Tensor:
    r"""(num_dst, H, d) points :math:`((v_1 \oplus v_2) \oplus v_3) \oplus \cdots`, where :math:`v_e = w_e \otimes h_j`.

    The messages of a destination are taken in the order of their source ids (parallel edges: in the caller's order).
    Möbius addition is neither commutative nor associative, so the order matters. A destination without edges gets the
    origin.

    Args:
        graph: the graph.
        weights: (E, H) or (E, 1) numbers w, in the graph's edge order.
        u: (num_src, H, d) tangent coordinates at the origin, h = exp0(u).
        k: signed curvature, a number or a tensor () or (H,).
    """
    check_graph(graph)
    check_rows(graph, "u", u, graph.num_src)
    check_edges(graph, "weights", weights, u.shape[1])
    weights, k = weights.expand(-1, u.shape[1]), per_head("k", k, u)
    if values_unknown(graph.row):  # the number of steps depends on the degrees, which tracing does not know
        return _traced(weights, u, k, graph.rowptr, graph.col)
    if "mobius_schedule" not in graph.cache:
        graph.cache["mobius_schedule"] = _schedule(graph.rowptr)
    order, active = graph.cache["mobius_schedule"]
    return _accumulate(weights, u, k, graph.rowptr, graph.col, order, active)


def _schedule(rowptr: Tensor) -> tuple[Tensor, list[int]]:
    """Destinations by falling degree, and how many of them are active at each step."""
    degrees, order = torch.sort(rowptr.diff(), descending=True, stable=True)
    steps = int(degrees[0]) if degrees.numel() else 0
    ascending = degrees.flip(0)
    finished = torch.searchsorted(ascending, torch.arange(steps, device=rowptr.device), right=True)
    return order, (degrees.numel() - finished).tolist()


def _accumulate(
    weights: Tensor, u: Tensor, k: Tensor, rowptr: Tensor, col: Tensor, order: Tensor, active: list[int]
) -> Tensor:
    column = k.unsqueeze(-1)
    start = rowptr.narrow(0, 0, order.shape[0]).index_select(0, order)
    messages = hm.project(hm.expmap0(weights.unsqueeze(-1) * u.index_select(0, col), k=column), k=column)
    add = hm.mobius_add if may_be_spherical(k) else _add_hyperbolic
    total = u.new_zeros((order.shape[0], *u.shape[1:]))
    finished: list[Tensor] = []
    for step, count in enumerate(active):
        if count < total.shape[0]:
            finished.append(total[count:])
            total = total[:count]
        message = messages.index_select(0, start[:count] + step)
        total = message if step == 0 else hm.project(add(total, message, k=column), k=column)
    by_degree = torch.cat([total, *reversed(finished)])
    return torch.zeros_like(by_degree).index_copy(0, order, by_degree)


def _add_hyperbolic(x: Tensor, y: Tensor, *, k: Tensor) -> Tensor:
    """x ⊕ y for k ≤ 0: :func:`hgeo.math.mobius_add` without its care for spheres, a third of the operations."""
    s = x + y
    bent = k * s.square().sum(-1, keepdim=True)
    a = 1 + k * x.square().sum(-1, keepdim=True)
    b = 1 + k * y.square().sum(-1, keepdim=True)
    return (a * s - bent * x) / (a * b - bent)


@torch.library.custom_op("hgeo::mobius_sum", mutates_args=())
def _traced(weights: Tensor, u: Tensor, k: Tensor, rowptr: Tensor, col: Tensor) -> Tensor:
    return _accumulate(weights, u, k, rowptr, col, *_schedule(rowptr))


@_traced.register_fake
def _(weights: Tensor, u: Tensor, k: Tensor, rowptr: Tensor, col: Tensor) -> Tensor:
    return u.new_empty(rowptr.shape[0] - 1, *u.shape[1:])


@torch.library.custom_op("hgeo::mobius_sum_backward", mutates_args=())
def _traced_backward(
    grad: Tensor, weights: Tensor, u: Tensor, k: Tensor, rowptr: Tensor, col: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    order, active = _schedule(rowptr)

    def accumulate(weights: Tensor, u: Tensor, k: Tensor) -> Tensor:
        return _accumulate(weights, u, k, rowptr, col, order, active)

    pull_back: Any = torch.func.vjp(accumulate, weights, u, k)[1]
    weights_grad, u_grad, k_grad = pull_back(grad)
    return weights_grad.contiguous(), u_grad.contiguous(), k_grad.contiguous()


@_traced_backward.register_fake
def _(
    grad: Tensor, weights: Tensor, u: Tensor, k: Tensor, rowptr: Tensor, col: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return weights.new_empty(weights.shape), u.new_empty(u.shape), k.new_empty(k.shape)


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _vjp(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return (*_traced_backward(grad, *ctx.saved_tensors), None, None)


_traced.register_autograd(_vjp, setup_context=_setup)
