"""The fused attention as two functional operators, the same for every device that has kernels.

``hgeo::fused_attention`` and ``hgeo::fused_attention_backward`` take and return plain tensors, have fake (shape-only)
versions and an autograd formula, so that ``torch.compile`` sees two opaque nodes and no graph break. Their arguments
are those of :class:`Inputs`, one by one, because a schema is flat; everything on this side of it hands on the record.
"""

from __future__ import annotations

import functools
import importlib
import typing
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hgeo.kernels.attention._arguments import EdgeLists, Inputs, Kept

__all__ = ["fused_attention", "neighbour_sum", "no_second_derivative"]

_KINDS = {Tensor: "Tensor", Tensor | None: "Tensor?", list[int]: "SymInt[]", int: "SymInt", bool: "bool"}
_TAKES = typing.get_type_hints(Inputs)
_TAKES_BACK = (
    {"grad": Tensor}
    | _TAKES
    | {"result": Tensor, "nodes": Tensor, "edges": Tensor, "needs_scalars": bool, "needs_bias": bool}
)
_COUNT = len(_TAKES)


def no_second_derivative(ctx: Any, *grads: Tensor | None) -> NoReturn:
    """The autograd formula of a kernel that computes a first derivative itself."""
    raise RuntimeError(
        "the fast backends have first derivatives only; for second derivatives (create_graph=True) "
        'choose backend="reference"'
    )


@functools.cache
def _implementation(device: torch.device) -> Any:
    """The module with ``forward`` and ``backward`` for this device, loaded only where it is needed."""
    if device.type not in ("cpu", "cuda"):
        raise NotImplementedError(
            f"the fused backend has kernels for cpu and cuda, not for {device.type}; use backend='torch'"
        )
    return importlib.import_module(f"hgeo.kernels.attention._{device.type}")


def _operator(name: str, function: Callable[..., Any], takes: Mapping[str, Any], returns: int) -> Any:
    """Make a torch operator of a function that changes none of its arguments.

    ``torch.library.custom_op`` would do the same, but its first call imports torch's compiler, which takes longer than
    everything else that happens there.
    """
    arguments = ", ".join(f"{_KINDS[kind]} {argument}" for argument, kind in takes.items())
    torch.library.define(f"hgeo::{name}", f"({arguments}) -> ({', '.join(['Tensor'] * returns)})")
    torch.library.impl(f"hgeo::{name}", ["cpu", "cuda"], function)
    return getattr(torch.ops.hgeo, name).default


def _contiguous(inputs: Inputs) -> Inputs:
    """The kernels read contiguous tensors only."""
    u, bias, factor, value_scale = inputs.u, inputs.bias, inputs.factor, inputs.value_scale
    if u.is_contiguous() and bias is None and factor is None and value_scale is None:
        return inputs
    return inputs._replace(
        u=u.contiguous(),
        bias=None if bias is None else bias.contiguous(),
        factor=None if factor is None else factor.contiguous(),
        value_scale=None if value_scale is None else value_scale.contiguous(),
    )


def _forward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(result, nodes, edges).

    The result is the weighted sums (num_dst, heads, d), or with ``out_k`` the points (num_dst, heads·d) that they are
    the tangent vectors of. The others are described by :class:`Kept`.
    """
    inputs = _contiguous(Inputs(*arguments))
    return _implementation(inputs.u.device).forward(inputs)


_fused_attention = _operator("fused_attention", _forward, _TAKES, 3)


@torch.library.register_fake("hgeo::fused_attention")
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    inputs = Inputs(*arguments)
    u, shape = inputs.u, inputs.shape
    _, num_dst, heads, dim, _, _ = shape
    result = u.new_empty(num_dst, heads, dim) if inputs.out_k is None else u.new_empty(num_dst, heads * dim)
    kept = Kept.of(inputs, shape)
    return result, u.new_empty(kept.nodes), u.new_empty(kept.edges)


def _backward(grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u, of the scalars and of the bias.

    The second, empty unless ``needs_scalars``, has those of k, beta and scale, and with ``out_k`` one for that. The
    last is (E, heads), or (0, heads) if not needed.
    """
    inputs = _contiguous(Inputs(*arguments[:_COUNT]))
    return _implementation(grad.device).backward(grad.contiguous(), inputs, *arguments[_COUNT:])


_fused_attention_backward = _operator("fused_attention_backward", _backward, _TAKES_BACK, 3)


@torch.library.register_fake("hgeo::fused_attention_backward")
def _(grad: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    inputs = Inputs(*arguments[:_COUNT])
    _, _, _, needs_scalars, needs_bias = arguments[_COUNT:]
    u, heads = inputs.u, inputs.u.shape[1]
    scalars = heads * (1 + 2 * len(inputs.dims)) + (inputs.out_k is not None) if needs_scalars else 0
    edges = inputs.num_edges if needs_bias else 0
    return u.new_empty(u.shape), u.new_empty(scalars), u.new_empty(edges, heads)


class _FusedAttention(torch.autograd.Function):
    """Takes what computes the result, all arguments as a record, and once more those that may need a gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        compute: Callable[..., tuple[Tensor, Tensor, Tensor]],
        inputs: Inputs,
        u: Tensor,
        k: Tensor,
        beta: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        out_k: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        result, nodes, edges = compute(*inputs)
        _, _, _, _, _, factor, value_scale, *lists, _, dims, num_edges, self_mean, symmetric, keep, elu = inputs
        ctx.save_for_backward(u, k, beta, scale, bias, factor, value_scale, *lists, out_k, result, nodes, edges)
        ctx.static = (dims, num_edges, self_mean, symmetric, keep, elu)
        ctx.direct = compute is _forward
        ctx.mark_non_differentiable(nodes, edges)
        ctx.set_materialize_grads(False)
        return result, nodes, edges

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        needs, nothing = ctx.needs_input_grad[2:], (None,) * 8
        if grads[0] is None:
            return nothing
        *tensors, result, nodes, edges = ctx.saved_tensors
        inputs = Inputs(*tensors, *ctx.static)
        if not inputs.keep:
            raise RuntimeError("fused_attention was called with keep=False; gradients need keep=True")
        _, needs_k, needs_beta, needs_scale, needs_bias, needs_out_k = needs
        needs_scalars = needs_k or needs_beta or needs_scale or needs_out_k
        # only the operator has the derivative that raises an error with advice
        derivative: Any = _backward if ctx.direct and not torch.is_grad_enabled() else _fused_attention_backward
        by_u, scalars, by_bias = derivative(grads[0], *inputs, result, nodes, edges, needs_scalars, needs_bias)
        by_k = by_beta = by_scale = by_out_k = None
        if needs_scalars:
            heads, spaces = inputs.u.shape[1], inputs.k.shape[0]
            by_k, by_beta, by_scale, by_out_k = scalars.split((spaces, heads, spaces, int(inputs.out_k is not None)))
        if inputs.bias is not None and needs_bias and inputs.bias.shape[1] == 1:
            by_bias = by_bias.sum(1, keepdim=True)
        found = zip(needs, (by_u, by_k, by_beta, by_scale, by_bias, by_out_k), strict=True)
        return None, None, *(value if needed else None for needed, value in found)


class _NeighbourSum(torch.autograd.Function):
    """Sums rows over neighbours. Its derivative is the same sum over the reversed edges, to any order."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        there: tuple[Tensor, Tensor],
        back: tuple[Tensor, Tensor],
        edges: int,
        source: Tensor | None,
        target: Tensor | None,
    ) -> Tensor:
        ctx.given = back, there, edges, target, source
        sums: Tensor = _implementation(rows.device).neighbour_sum(rows, *there, edges, source, target)
        return sums

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return _NeighbourSum.apply(grads[0], *ctx.given), *[None] * 5


def neighbour_sum(
    rows: Tensor,
    lists: EdgeLists,
    num_edges: int,
    symmetric: bool,
    source: Tensor | None = None,
    target: Tensor | None = None,
) -> Tensor:
    """(num_dst, d): the rows (num_src, d) of the sources of every destination's edges, added up; on a CPU only.

    A row is multiplied by its number of ``source``, a sum by that of ``target``: contiguous columns of the rows' dtype,
    without gradients. Not for tracing, nor for the transformations of torch.func.
    """
    there = lists.rowptr, lists.col
    back = there if symmetric else (lists.colptr, lists.csc_row)
    sums: Tensor = _NeighbourSum.apply(rows, there, back, num_edges, source, target)
    return sums


def _differentiable(compute: Callable[..., Any], inputs: Inputs) -> Any:
    """``compute(*inputs)`` with a derivative, if one is asked for."""
    learned = inputs.u, inputs.k, inputs.beta, inputs.scale, inputs.bias, inputs.out_k
    if forward_ad._current_level >= 0:
        refuse_forward_mode(*learned)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in learned):
        return _FusedAttention.apply(compute, inputs, *learned)
    return compute(*inputs)


def refuse_forward_mode(*tensors: Tensor | None) -> None:
    """Refuse forward-mode derivatives: the kernels do not compute them and would drop them silently."""
    if any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise RuntimeError(
            "the fused attention has no forward-mode derivative (torch.func.jvp, torch.autograd.forward_ad); "
            'use backend="reference"'
        )


def fused_attention(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """What the operator of this name computes; see ``_forward``.

    Plain tensors outside of any tracing or transformation do without torch's dispatcher, which takes as long as the
    kernels do on a small graph.
    """
    if torch.compiler.is_compiling() or _transformed() or not _PLAIN.issuperset(map(type, inputs)):
        return _fused_attention(*inputs)
    return _differentiable(_forward, inputs)


_PLAIN = frozenset((Tensor, torch.nn.Parameter, type(None), bool, int, list))


def _transformed() -> bool:
    """Whether torch must see the operators: while something watches them, or under a transformation of torch.func."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None


def _autograd(keys: Any, *arguments: Any) -> Any:
    def below(*arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return _fused_attention.redispatch(keys & torch._C._after_autograd_keyset, *arguments)

    return _differentiable(below, Inputs(*arguments))


# What torch.library.register_autograd does, without its look at every default value of the schema, which takes as long
# as the kernels do on a small graph.
_LIBRARY = torch.library.Library("hgeo", "FRAGMENT")
_LIBRARY.impl("fused_attention", _autograd, "Autograd", with_keyset=True)
torch.library.register_autograd("hgeo::fused_attention_backward", no_second_derivative)
