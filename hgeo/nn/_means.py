"""Means of points: in the tangent space, as gyromidpoints, as Fréchet means; of one set or of many segments at once."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo import math as hm

__all__ = ["How", "check_mean", "segment_mean"]

How = Literal["gyro", "tangent", "frechet"]


def check_mean(manifold: Any, how: How) -> None:
    """Refuse a manifold that has no mean of this kind, when a layer is made."""
    if how == "gyro":
        manifolds.geometry(manifold).lifted_dim(manifold, 2)  # says so if there is none


def segment_mean(
    manifold: Any, how: How, x: Tensor, weights: Tensor, index: Tensor, segments: int, *, iterations: int
) -> Tensor:
    """(segments, n) means of the rows of ``x`` (N, n) with ``weights`` (N,) ≥ 0 whose segment is ``index`` (N,).

    A segment without rows, or without weight, gets the origin.
    """
    if how == "gyro":
        return manifolds.lower(manifold, _sums(weights.unsqueeze(-1) * manifolds.lift(manifold, x), index, segments))
    share = _shares(weights, index, segments)
    if how == "tangent":
        return manifolds.exp0(manifold, _sums(share * manifolds.log0(manifold, x), index, segments))
    return _frechet(manifold, x, share, index, segments, iterations)


def _sums(values: Tensor, index: Tensor, segments: int) -> Tensor:
    return values.new_zeros((segments, *values.shape[1:])).index_add(0, index, values)


def _shares(weights: Tensor, index: Tensor, segments: int) -> Tensor:
    """(N, 1) weights that sum to 1 in each segment."""
    total = _sums(weights.unsqueeze(-1), index, segments)
    return weights.unsqueeze(-1) / torch.where(total == 0, 1.0, total)[index]


def _frechet(manifold: Any, x: Tensor, share: Tensor, index: Tensor, segments: int, iterations: int) -> Tensor:
    r"""The point that minimises Σ w d(x, μ)².

    Found without gradients by steps along the mean logarithm, μ ← exp_μ(η Σ w log_μ x) with η = 1/Σ w L(x), L an upper
    bound of the Hessian of d²/2 (√c d coth √c d on hyperbolic space, 1 on a sphere): there each step lowers the
    objective. Then one Newton step with gradients, δ = H⁻¹ Σ w log_μ x with H held fixed. At the minimum the sum is 0,
    so that its derivative is exactly that of the implicit function theorem, in x, in the weights and in the curvature.
    """
    if manifolds.geometry(manifold).is_plain(manifold):
        return _sums(share * x, index, segments)
    if x.dtype in (torch.float16, torch.bfloat16):  # which no matrix can be inverted in
        mean = _frechet(manifold, x.float(), share.float(), index, segments, iterations)
        return manifolds.project(manifold, mean.to(x.dtype))
    with torch.no_grad():
        middle = _start(manifold, x, share, index, segments)
        for _ in range(iterations):
            v = manifolds.log0(manifold, manifolds.translate_back(manifold, middle[index], x))
            bounds = []
            for part in _parts(manifold, v):
                _, across = _hessian(part, v)
                total = _sums(share * across.clamp(min=1.0), index, segments)
                bounds.append(total.expand(-1, part.coordinates.stop - part.coordinates.start))
            bound = torch.cat(bounds, dim=-1)
            step = _sums(share * v, index, segments) / torch.where(bound == 0, 1.0, bound)
            middle = manifolds.translate(manifold, middle, manifolds.exp0(manifold, step))
    # Numbers that follow from others (the time of a hyperboloid's point) follow the curvature again.
    middle = manifolds.project(manifold, middle)
    v = manifolds.log0(manifold, manifolds.translate_back(manifold, middle[index], x))
    gradient = _sums(share * v, index, segments)
    steps = []
    for part in _parts(manifold, v):
        inverse = _inverse_hessian(part, v, share, index, segments)
        steps.append((inverse * gradient[:, part.coordinates].unsqueeze(-2)).sum(-1))
    return manifolds.translate(manifold, middle, manifolds.exp0(manifold, torch.cat(steps, dim=-1)))


def _parts(manifold: Any, v: Tensor) -> list[manifolds.Part]:
    """The objective is a sum over factors. An unknown manifold is treated as flat: plain steps, and a derivative to
    first order in its curvature."""
    d = v.shape[-1]
    return manifolds.parts(manifold, d) or [manifolds.Part(slice(0, d), v.new_zeros(()), 1.0)]


def _start(manifold: Any, x: Tensor, share: Tensor, index: Tensor, segments: int) -> Tensor:
    try:
        return manifolds.lower(manifold, _sums(share * manifolds.lift(manifold, x), index, segments))
    except TypeError:  # a manifold without gyromidpoints: begin at the tangent mean
        return manifolds.exp0(manifold, _sums(share * manifolds.log0(manifold, x), index, segments))


def _hessian(part: manifolds.Part, v: Tensor) -> tuple[Tensor, Tensor]:
    """The Hessian of d²/2 at distance vector v: 1 along v/|v|, returned first, and √k d cot(√k d) across it."""
    v = v[:, part.coordinates]
    squared = (v * v).sum(-1, keepdim=True)
    z = part.curvature.to(v) * part.scale**2 * squared
    return v * torch.rsqrt(torch.where(squared == 0, 1.0, squared)), hm.cos_ratio(z) / hm.sin_ratio(z)


@torch.no_grad()
def _inverse_hessian(part: manifolds.Part, v: Tensor, share: Tensor, index: Tensor, segments: int) -> Tensor:
    """(segments, d, d) inverse of Σ w (the Hessian); 1 for a segment without weight."""
    unit, across = _hessian(part, v)
    outer = (share * (1 - across)).unsqueeze(-1) * unit.unsqueeze(-1) * unit.unsqueeze(-2)
    flat = _sums(share * across, index, segments).unsqueeze(-1)
    empty = _sums(share, index, segments).unsqueeze(-1) == 0
    eye = torch.eye(unit.shape[-1], dtype=unit.dtype, device=unit.device)
    return torch.linalg.inv(_sums(outer, index, segments) + torch.where(empty, 1.0, flat) * eye)
