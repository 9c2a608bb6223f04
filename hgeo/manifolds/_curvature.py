"""A stored number that trains through its lower bound."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["bounded_below", "curvature_parameter"]


class _BoundedBelow(torch.autograd.Function):
    """max(p, minimum), whose gradient at or below the bound passes when a descent step would raise p.

    A plain clamp is a trap: beyond the bound its gradient is 0 and the number never returns. Passing every gradient is
    another: the number would run away behind the bound while the loss asks for less, and need as long to come back.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(stored: Tensor, minimum: float) -> Tensor:
        return stored.clamp(min=minimum)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        stored, ctx.minimum = inputs
        ctx.save_for_backward(stored)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (stored,) = ctx.saved_tensors
        passes = (stored > ctx.minimum) | (grad < 0)
        return torch.where(passes, grad, torch.zeros_like(grad)), None


def bounded_below(stored: Tensor, minimum: float = 0.0) -> Tensor:
    """max(stored, minimum) with a gradient that can always lead back inside.

    >>> p = torch.zeros((), requires_grad=True)
    >>> (-bounded_below(p)).backward(); p.grad
    tensor(-1.)
    """
    if not (stored.requires_grad and torch.is_grad_enabled()):
        return stored.clamp(min=minimum)  # the custom function costs as much as a small layer: only where it matters
    return _BoundedBelow.apply(stored, minimum)


def curvature_parameter(
    value: float | Tensor, learnable: bool, *, name: str, minimum: float | None, hint: str
) -> nn.Parameter:
    """A scalar parameter that holds ``value`` itself, refused unless it is a finite number that is not below the bound.

    A number takes torch's default dtype, a tensor keeps its own.
    """
    if isinstance(value, Tensor):
        tensor = value.detach().clone()
        if not tensor.dtype.is_floating_point:
            tensor = tensor.to(torch.get_default_dtype())
    else:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} must be a number or a scalar tensor, got {type(value).__name__}: {value!r}")
        tensor = torch.tensor(float(value), dtype=torch.get_default_dtype())
    if tensor.numel() != 1:
        raise ValueError(f"{name} must be one number, got a tensor of shape {tuple(tensor.shape)}")
    tensor = tensor.reshape(()) + 0.0  # -0 is 0
    number = float(tensor if isinstance(value, Tensor) else value)  # before rounding
    if not math.isfinite(number) or (minimum is not None and number < minimum):
        bound = "" if minimum is None else f" ≥ {minimum:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {number}; {hint}")
    return nn.Parameter(tensor, requires_grad=learnable)
