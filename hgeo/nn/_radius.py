"""How far out tangent coordinates reach: their mean radius, and the limit that the points of a dtype set them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from hgeo import math as hm
from hgeo.graph._graph import values_unknown

__all__ = ["mean_radius", "within_radius"]


def _is_opaque(*tensors: Tensor) -> bool:
    """Whether no look at the numbers is possible, or not one that a transform of torch.func would allow."""
    return torch._C._are_functorch_transforms_active() or values_unknown(*tensors)


def mean_radius(u: Tensor) -> Tensor:
    """(heads,) mean of |u| over the nodes of (nodes, heads, d). A row that is NaN does not count."""
    if u.shape[0] and u.device.type == "cpu" and not _is_opaque(u):
        mean: Tensor = _MeanRadius.apply(u)
        if not math.isnan(float(mean.detach().sum())):
            return mean
    radius = torch.linalg.vector_norm(u, dim=-1)
    known = radius.isnan().logical_not()
    return torch.where(known, radius, 0.0).sum(0) / known.sum(0).clamp(min=1)


class _MeanRadius(torch.autograd.Function):
    """The mean of |u|, whose gradient u/(n|u|) takes half of the operator calls that autograd would make."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        radius = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        ctx.save_for_backward(u, radius)
        return radius.mean((0, 2))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        u, radius = ctx.saved_tensors
        if torch.is_grad_enabled():  # this derivative will be differentiated, too
            radius = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        share = (grads[0] / u.shape[0]).view(1, -1, 1) / radius.clamp(min=torch.finfo(u.dtype).tiny)
        return u * share


def within_radius(v: Tensor, k: Tensor) -> Tensor:
    """log0(project(exp0(v))) for k ≤ 0: v itself, or shortened to what :func:`hgeo.math.project` lets a point have."""
    margin = hm.boundary_margin(v.dtype)
    limit, rim = math.atanh(1 - margin), math.atanh(1 - 1.5 * margin)
    if not v.numel():
        return v
    if not _is_opaque(v, k) and float(v.detach().square().sum(-1).max()) * -float(k.detach()) <= limit**2:
        return v
    k = k.to(v)
    root = torch.where(k < 0, -k, 1.0).sqrt()
    outside = (torch.linalg.vector_norm(v.detach(), dim=-1, keepdim=True) * root > limit) & (k < 0)
    length = torch.linalg.vector_norm(torch.where(outside, v, 1.0), dim=-1, keepdim=True)
    return torch.where(outside, v * (rim / (root * length)), v)
