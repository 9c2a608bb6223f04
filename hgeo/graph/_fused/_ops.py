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


def _operator(name: str, function: Callable[..., Any]) -> Any:
    """Make a torch operator of a function that changes none of its arguments.

    ``torch.library.custom_op`` would do the same, but its first call imports torch's compiler, which takes longer than
    everything else that happens there.
    """
    schema = torch.library.infer_schema(function, mutates_args=())
    torch.library.define(f"hgeo::{name}", schema)
    torch.library.impl(f"hgeo::{name}", ["cpu", "cuda"], function)
    return getattr(torch.ops.hgeo, name).default


def _forward(
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
    return _implementation(u.device).forward(
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
        out_k,
        num_edges,
        self_mean,
        keep,
        elu,
    )


_fused_attention = _operator("fused_attention", _forward)


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


def _backward(
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
    return _implementation(u.device).backward(
        grad_out.contiguous(),
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
        out_k,
        result,
        tangent,
        table,
        q,
        e,
        zinv,
        num_edges,
        self_mean,
        symmetric,
        elu,
        needs_scalars,
        needs_bias,
    )


_fused_attention_backward = _operator("fused_attention_backward", _backward)


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
        output = _forward(*inputs) if keys is None else _below_autograd(keys, *inputs)
        *tensors, num_edges, self_mean, symmetric, keep, elu = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.static = (num_edges, self_mean, symmetric, elu)
        ctx.direct, ctx.keep = keys is None, keep
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
        # the operator has a derivative that says what to do about it
        derivative: Any = _backward if ctx.direct and not torch.is_grad_enabled() else _fused_attention_backward
        *found, grad_bias, grad_out_k = derivative(
            grad, u, k, beta, scale, bias, *rest, *ctx.static, bool(needs[1] or needs[2] or needs[3]), bool(needs[4])
        )
        if needs[4] and bias.shape[1] == 1:
            grad_bias = grad_bias.sum(1, keepdim=True)
        results = dict(enumerate((*found, grad_bias))) | {_OUT_K: grad_out_k}
        return None, *(results.get(place) if needs[place] else None for place in range(_INPUTS))


def _below_autograd(keys: Any, *inputs: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return _fused_attention.redispatch(keys & torch._C._after_autograd_keyset, *inputs)


def fused_attention(*inputs: Any) -> Any:
    """What the operator of this name computes; see ``_forward``.

    Plain tensors outside of any tracing or transformation do without torch's dispatcher, which takes as long as the
    kernels do on a small graph.
    """
    if torch.compiler.is_compiling() or _transformed() or any(type(t) not in _PLAIN for t in inputs):
        return _fused_attention(*inputs)
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        return _FusedAttention.apply(None, *inputs)
    return _forward(*inputs)


_PLAIN = frozenset((Tensor, torch.nn.Parameter, type(None), bool, int))


def _transformed() -> bool:
    """Whether operators mean more than to compute: a mode that watches them, or a function transformation."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None


def _autograd(keys: Any, *inputs: Any) -> Any:
    differentiable = torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs)
    return _FusedAttention.apply(keys, *inputs) if differentiable else _below_autograd(keys, *inputs)


# What torch.library.register_autograd does, without its look at every default value of the schema, which takes as long
# as the kernels do on a small graph.
_LIBRARY = torch.library.Library("hgeo", "FRAGMENT")
_LIBRARY.impl("fused_attention", _autograd, "Autograd", with_keyset=True)
torch.library.register_autograd("hgeo::fused_attention_backward", no_second_derivative)
