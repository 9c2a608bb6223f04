"""The fused attention as two functional operators, the same for every device that has kernels.

``hgeo::fused_attention`` and ``hgeo::fused_attention_backward`` take and return plain tensors, have fake (shape-only)
versions and an autograd formula, so that ``torch.compile`` sees two opaque nodes and no graph break.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from hgeo.graph._checks import no_second_derivative
from hgeo.graph._fused._layout import padded_dim

__all__ = ["fused_attention"]


def _implementation(device: torch.device) -> Any:
    """The module with ``forward`` and ``backward`` for this device, loaded only where it is needed."""
    if device.type not in ("cpu", "cuda"):
        raise NotImplementedError(
            f"the fused backend has kernels for cpu and cuda, not for {device.type}; use backend='torch'"
        )
    return importlib.import_module(f"hgeo.graph._fused._{device.type}")


def _padded(dim: int, dtype: torch.dtype) -> int:
    return padded_dim(32 if dtype == torch.float32 else 64, dim)


def _operator(name: str) -> Callable[[Callable[..., Any]], Any]:
    """Make a torch operator of a function that changes none of its arguments.

    ``torch.library.custom_op`` would do the same, but its first call imports torch's compiler, which takes longer than
    everything else that happens there.
    """

    def register(function: Callable[..., Any]) -> Any:
        schema = torch.library.infer_schema(function, mutates_args=())
        torch.library.define(f"hgeo::{name}", schema)
        torch.library.impl(f"hgeo::{name}", ["cpu", "cuda"], function)
        return getattr(torch.ops.hgeo, name).default

    return register


@_operator("fused_attention")
def fused_attention(
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    value_scale: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    csc_row: Tensor,
    csc_pos: Tensor,
    info: Tensor,
    out_k: Tensor | None,
    num_edges: int,
    self_mean: bool,
    symmetric: bool,
    keep: bool,
    elu: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(result, tangent, table, q, e, 1/Z).

    The result is the weighted sums (num_dst, heads, d), or with ``out_k`` the points (num_dst, heads·d) that they are
    the tangent vectors of; then they come second, else nothing does. The last four are what the backward needs
    (q and e empty unless ``keep``).
    """
    implementation = _implementation(u.device)
    sums, *kept = implementation.forward(
        u.contiguous(),
        k,
        beta,
        scale,
        _contiguous(bias),
        _contiguous(factor),
        _contiguous(value_scale),
        rowptr,
        col,
        info,
        num_edges,
        self_mean,
        keep,
    )
    if out_k is None:
        return sums, sums.new_empty(0), *kept
    return implementation.points(sums, out_k, elu), sums, *kept


@torch.library.register_fake("hgeo::fused_attention")
def _(
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    value_scale: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    csc_row: Tensor,
    csc_pos: Tensor,
    info: Tensor,
    out_k: Tensor | None,
    num_edges: int,
    self_mean: bool,
    symmetric: bool,
    keep: bool,
    elu: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    num_src, heads, dim = u.shape
    num_dst = rowptr.shape[0] - 1
    kept = num_edges if keep else 0
    sums = u.new_empty(num_dst, heads, dim)
    return (
        sums if out_k is None else u.new_empty(num_dst, heads * dim),
        u.new_empty(0) if out_k is None else sums,
        u.new_empty(heads, num_src, _padded(dim, u.dtype) + 4),
        u.new_empty(heads, kept),
        u.new_empty(heads, kept),
        u.new_empty(heads, num_dst),
    )


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


@_operator("fused_attention_backward")
def fused_attention_backward(
    grad_out: Tensor,
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    value_scale: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    csc_row: Tensor,
    csc_pos: Tensor,
    info: Tensor,
    out_k: Tensor | None,
    result: Tensor,
    tangent: Tensor,
    table: Tensor,
    q: Tensor,
    e: Tensor,
    zinv: Tensor,
    num_edges: int,
    self_mean: bool,
    symmetric: bool,
    elu: bool,
    needs_scalars: bool,
    needs_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of (u, k, beta, score_scale, edge_bias, out_k).

    That of the bias is (E, heads), or (0, heads) if not needed; that of out_k is empty if there is none.
    """
    implementation = _implementation(u.device)
    grad_out = grad_out.contiguous()
    grad_out_k = u.new_empty(0)
    if out_k is None:
        tangent = result
    else:
        grad_out, grad_out_k = implementation.points_backward(grad_out, tangent, out_k, result, elu)
    grads = implementation.backward(
        grad_out,
        u.contiguous(),
        k,
        beta,
        scale,
        bias,
        _contiguous(factor),
        _contiguous(value_scale),
        rowptr,
        col,
        colptr,
        csc_row,
        csc_pos,
        info,
        tangent,
        table,
        q,
        e,
        zinv,
        num_edges,
        self_mean,
        symmetric,
        needs_scalars,
        needs_bias,
    )
    return *grads, grad_out_k


@torch.library.register_fake("hgeo::fused_attention_backward")
def _(
    grad_out: Tensor,
    u: Tensor,
    k: Tensor,
    beta: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    factor: Tensor | None,
    value_scale: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    colptr: Tensor,
    csc_row: Tensor,
    csc_pos: Tensor,
    info: Tensor,
    out_k: Tensor | None,
    result: Tensor,
    tangent: Tensor,
    table: Tensor,
    q: Tensor,
    e: Tensor,
    zinv: Tensor,
    num_edges: int,
    self_mean: bool,
    symmetric: bool,
    elu: bool,
    needs_scalars: bool,
    needs_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        u.new_empty(u.shape),
        torch.empty_like(k),
        torch.empty_like(beta),
        torch.empty_like(scale),
        u.new_empty(num_edges if needs_bias else 0, u.shape[1]),
        u.new_empty(0) if out_k is None else torch.empty_like(out_k),
    )


_INPUTS, _OUT_K = 19, 13  # of fused_attention: how many, and where out_k stands


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, keys: Any, *inputs: Any) -> Any:
        output = _below_autograd(keys, *inputs)
        *tensors, num_edges, self_mean, symmetric, keep, elu = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.static = (num_edges, self_mean, symmetric, elu)
        ctx.keep = keep
        ctx.set_materialize_grads(False)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad, needs = grads[0], ctx.needs_input_grad[1:]  # without that of ``keys``
        if grad is None:
            return (None,) * (1 + _INPUTS)
        if not ctx.keep:
            raise RuntimeError("fused_attention was called with keep=False; gradients need keep=True")
        u, k, beta, scale, bias, *rest = ctx.saved_tensors
        *found, grad_bias, grad_out_k = fused_attention_backward(
            grad, u, k, beta, scale, bias, *rest, *ctx.static, bool(needs[1] or needs[2] or needs[3]), bool(needs[4])
        )
        if needs[4] and bias.shape[1] == 1:
            grad_bias = grad_bias.sum(1, keepdim=True)
        results = dict(enumerate((*found, grad_bias))) | {_OUT_K: grad_out_k}
        return None, *(results.get(place) if needs[place] else None for place in range(_INPUTS))


def _below_autograd(keys: Any, *inputs: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return fused_attention.redispatch(keys & torch._C._after_autograd_keyset, *inputs)


def _autograd(keys: Any, *inputs: Any) -> Any:
    differentiable = torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs)
    return _FusedAttention.apply(keys, *inputs) if differentiable else _below_autograd(keys, *inputs)


# What torch.library.register_autograd does, without its look at every default value of the schema, which takes as long
# as the kernels do on a small graph.
_LIBRARY = torch.library.Library("hgeo", "FRAGMENT")
_LIBRARY.impl("fused_attention", _autograd, "Autograd", with_keyset=True)
torch.library.register_autograd("hgeo::fused_attention_backward", no_second_derivative)
