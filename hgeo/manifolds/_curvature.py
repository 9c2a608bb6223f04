"""A stored number that trains through its lower bound."""

from __future__ import annotations

import math
import numbers
from typing import TypeAlias

import torch
from torch import Tensor, nn

__all__ = ["State", "bounded_below", "check_stored", "curvature_parameter", "put_back"]

State: TypeAlias = dict[str, Tensor]  # what torch saves of a module and loads into it


def put_back(stored: Tensor, minimum: float) -> None:
    """Move a number that a step has carried beyond its bound back onto it.

    Through ``.data``, which leaves the version counter alone: what earlier reads have saved for their gradients stays
    valid, for they have put the number back already.
    """
    stored.data.clamp_(min=minimum)


# In a namespace of the package it stands in: torch replaces an operator whose name is defined a second time and frees
# the first, so a renamed copy of this package would leave the original with an operator that is no more.
@torch.library.custom_op(f"{__name__.partition('.')[0]}::bounded_below", mutates_args=())
def _bounded_below(stored: Tensor, minimum: float) -> Tensor:
    """For compiled graphs: max(stored, minimum), a function of its arguments. That ``stored`` is put back on the way is
    not told to the compiler: a declared mutation would count up its version, and two graphs that share a curvature
    would refuse each other's gradients."""
    put_back(stored, minimum)
    return stored.clone()


@_bounded_below.register_fake
def _(stored: Tensor, minimum: float) -> Tensor:
    return torch.empty_like(stored)


def _whole_gradient(ctx: object, grad: Tensor) -> tuple[Tensor, None]:
    return grad, None


_bounded_below.register_autograd(_whole_gradient)


def bounded_below(stored: Tensor, minimum: float = 0.0) -> Tensor:
    """max(stored, minimum), whose gradient is that of ``stored`` itself, at the bound as elsewhere.

    A clamp is a trap: beyond the bound its gradient is 0 and the number never returns. To let only those gradients
    through that lead inside is another: a loss may read the number many times, and what counts is the sum. So every
    read passes all of its gradient, and a parameter that a step has carried beyond the bound is put back onto it by the
    next read that takes part in a gradient, so that nothing piles up behind it.

    >>> p = torch.zeros((), requires_grad=True)
    >>> (3 * bounded_below(p) - 5 * bounded_below(p)).backward(); p.grad
    tensor(-2.)
    """
    if not (stored.requires_grad and torch.is_grad_enabled()):
        return stored.clamp(min=minimum)
    if (
        not stored.is_leaf or torch._C._are_functorch_transforms_active()
    ):  # not a leaf: its value must not be changed in place
        return torch.where(stored < minimum, minimum + (stored - stored.detach()), stored)
    if torch.compiler.is_compiling():
        return _bounded_below(stored, minimum)
    put_back(stored, minimum)
    return stored.clone()


def curvature_parameter(
    value: float | Tensor, learnable: bool, *, name: str, minimum: float | None, hint: str
) -> nn.Parameter:
    """A scalar parameter that holds ``value`` itself, refused unless it is a finite number that is not below the bound.

    A number takes torch's default dtype, a tensor keeps its own.
    """
    if isinstance(value, Tensor):
        if value.dtype == torch.bool or value.dtype.is_complex:
            raise TypeError(f"{name} must be a real number, got a {value.dtype} tensor")
        tensor = value.detach().clone()
        if not tensor.dtype.is_floating_point:
            tensor = tensor.to(torch.get_default_dtype())
    else:
        # numbers.Real knows numpy's scalars, too, and not strings; that True is a number is Python's history
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name} must be a number or a scalar tensor, got {type(value).__name__}: {value!r}")
        tensor = torch.tensor(float(value), dtype=torch.get_default_dtype())
    if tensor.numel() != 1:
        raise ValueError(f"{name} must be one number, got a tensor of shape {tuple(tensor.shape)}")
    tensor = tensor.reshape(()) + 0.0  # -0 is 0
    number = float(tensor if isinstance(value, Tensor) else value)  # before rounding
    if not math.isfinite(number) or (minimum is not None and number < minimum):
        bound = "" if minimum is None else f" ≥ {minimum:g}"
        raise ValueError(f"{name} must be a finite number{bound}, got {number}; {hint}")
    if not bool(torch.isfinite(tensor)):
        raise ValueError(
            f"{name} = {number:g} is infinite in {tensor.dtype}; give a float64 tensor, or a smaller number"
        )
    return nn.Parameter(tensor, requires_grad=learnable)


def check_stored(
    state_dict: State, key: str, parameter: Tensor | None, minimum: float | None, errors: list[str]
) -> None:
    """Add to ``errors`` what is wrong with the curvature that is about to be loaded into ``parameter``."""
    value = state_dict.get(key)
    if not isinstance(value, Tensor) or parameter is None or value.device.type == "meta" or value.numel() != 1:
        return  # what is missing or has another shape is reported by torch
    lowest = -math.inf if minimum is None else float(torch.tensor(minimum, dtype=parameter.dtype))
    number = float(value.detach().to(parameter.dtype)) if not value.dtype.is_complex else math.nan
    if not (math.isfinite(number) and number >= lowest):
        bound = "" if minimum is None else f" ≥ {minimum:g}"
        errors.append(
            f"the curvature {key!r} must be a finite number{bound}, got {value.item()}; nothing was loaded into it"
        )
        state_dict[key] = parameter.detach()
