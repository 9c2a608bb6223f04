"""Means of points: in the tangent space, as gyromidpoints, as Fréchet means; of one set or of many segments at once."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from hgeo import manifolds
from hgeo import math as hm
from hgeo._geoopt import geoopt
from hgeo.nn import _geometry

__all__ = ["How", "check_mean", "segment_mean"]

How = Literal["gyro", "tangent", "frechet"]


def check_mean(manifold: Any, how: How) -> None:
    """Refuse a manifold that has no mean of this kind, when a layer is made."""
    if how == "gyro":
        _geometry.check_midpoint(manifold)


def segment_mean(
    manifold: Any, how: How, x: Tensor, weights: Tensor, index: Tensor, segments: int, *, iterations: int
) -> Tensor:
    """(segments, n) means of the rows of ``x`` (N, n) with ``weights`` (N,) ≥ 0 whose segment is ``index`` (N,).

    A segment without rows, or without weight, gets the origin.
    """
    if how == "gyro":
        return _geometry.lower(manifold, _sums(weights.unsqueeze(-1) * _geometry.lift(manifold, x), index, segments))
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
    if isinstance(manifold, geoopt.ProductManifold):  # the objective is a sum over factors
        pieces = manifolds.frame_of(manifold).pieces(manifold, x)  # type: ignore[attr-defined]
        means = [_frechet(factor, part, share, index, segments, iterations) for factor, part in pieces]
        return torch.cat(means, dim=-1)
    if isinstance(manifold, geoopt.Scaled):  # another unit of length
        return _frechet(manifold.base, x, share, index, segments, iterations)
    if isinstance(manifold, geoopt.Euclidean):
        return _sums(share * x, index, segments)
    with torch.no_grad():
        middle = _start(manifold, x, share, index, segments)
        for _ in range(iterations):
            v = manifolds.log0(manifold, _geometry.translate_back(manifold, middle[index], x))
            _, across = _hessian(manifold, v)
            bound = _sums(share * across.clamp(min=1.0), index, segments)
            step = _sums(share * v, index, segments) / torch.where(bound == 0, 1.0, bound)
            middle = _geometry.translate(manifold, middle, manifolds.exp0(manifold, step))
    # Numbers that follow from others (the time of a hyperboloid's point) follow the curvature again.
    middle = _geometry.project(manifold, middle)
    v = manifolds.log0(manifold, _geometry.translate_back(manifold, middle[index], x))
    gradient = _sums(share * v, index, segments)
    with torch.no_grad():
        unit, across = _hessian(manifold, v)
        outer = (share * (1 - across)).unsqueeze(-1) * unit.unsqueeze(-1) * unit.unsqueeze(-2)
        flat = _sums(share * across, index, segments).unsqueeze(-1)
        eye = torch.eye(v.shape[-1], dtype=v.dtype, device=v.device)
        empty = _sums(share, index, segments).unsqueeze(-1) == 0
        hessian = _sums(outer, index, segments) + torch.where(empty, 1.0, flat) * eye
        inverse = torch.linalg.inv(hessian)
    step = (inverse * gradient.unsqueeze(-2)).sum(-1)
    return _geometry.translate(manifold, middle, manifolds.exp0(manifold, step))


def _start(manifold: Any, x: Tensor, share: Tensor, index: Tensor, segments: int) -> Tensor:
    try:
        return _geometry.lower(manifold, _sums(share * _geometry.lift(manifold, x), index, segments))
    except TypeError:  # a manifold without gyromidpoints: begin at the tangent mean
        return manifolds.exp0(manifold, _sums(share * manifolds.log0(manifold, x), index, segments))


def _hessian(manifold: Any, v: Tensor) -> tuple[Tensor, Tensor]:
    """The Hessian of d²/2 at distance vector v: 1 along v/|v|, returned first, and √k d cot(√k d) across it."""
    squared = (v * v).sum(-1, keepdim=True)
    unit = v * torch.rsqrt(torch.where(squared == 0, 1.0, squared))
    k = _geometry.curvature(manifold)
    # An unknown manifold is treated as flat here: plain steps, and a derivative to first order in its curvature.
    z = (0.0 if k is None else k.to(v.dtype)) * manifolds.frame_scale(manifold) ** 2 * squared
    return unit, hm.cos_ratio(z) / hm.sin_ratio(z)
