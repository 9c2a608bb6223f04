"""Distances of all pairs of two sets of points, from |x - y| alone: what :func:`hgeo.cdist` computes a tile of.

|x - y| comes from differences, never from dot products, which know nothing of near-duplicates: the arcosh of a
Minkowski product is 17 % off in float32 at a distance of .0012.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import hgeo.math as hm

__all__ = ["chordal_pairs", "flat_pairs", "hyperbolic_pairs"]


def flat_pairs(x: Tensor, y: Tensor) -> Tensor:
    """|x_i - y_j| (..., N, M) of rows (..., N, n) and (..., M, n); the gradient of a coincident pair is 0."""
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def hyperbolic_pairs(x: Tensor, y: Tensor, *, f: Tensor, g: Tensor, c: Tensor) -> Tensor:
    """(2/√c) asinh(√c |x_i - y_j| √(f_i g_j)) of points of a ball, f = 1/(1 - c|x|²) (..., N, 1) and g = 1/(1 - c|y|²)
    (..., M, 1); 2|x_i - y_j| at c = 0."""
    return _HyperbolicLength.apply(flat_pairs(x, y), f, g.mT, c)


def chordal_pairs(x: Tensor, y: Tensor) -> Tensor:
    """Angles 2 atan2(|x_i - y_j|, |x_i + y_j|) of unit vectors: right for close points and for opposite ones."""
    chord, cochord = flat_pairs(x, y), flat_pairs(x, -y)
    # atan2 has no derivative at (0, 0), which no two points of a sphere give; points of a zero sphere do.
    nowhere = (chord == 0) & (cochord == 0)
    return 2 * torch.atan2(chord, torch.where(nowhere, 1.0, cochord))


class _HyperbolicLength(torch.autograd.Function):
    """The scalar part of a hyperbolic distance, 2 s R(c s²) with s = gap·√(f g) and R(z) = asinh(√z)/√z.

    Its derivatives are written out, since there are N × M of them: dd/ds = 2/√(1 + c s²), dd/dc = 2 s³ R'(c s²).
    """

    @staticmethod
    def forward(ctx: Any, gap: Tensor, f: Tensor, g: Tensor, c: Tensor) -> Tensor:
        ctx.save_for_backward(gap, f, g, c)
        s = gap * f.sqrt() * g.sqrt()
        t = s * c.sqrt()
        # torch's asinh takes half again as long as this form of it, which loses nothing near 0 either
        asinh = torch.log1p(t + t * (t / (1 + torch.sqrt(1 + t * t))))
        small = t < torch.finfo(t.dtype).tiny ** 0.5
        return 2 * s * torch.where(small, 1.0, asinh / torch.where(small, 1.0, t))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gap, f, g, c = ctx.saved_tensors
        root = f.sqrt() * g.sqrt()
        s = gap * root
        z = c * s * s
        by_gap = grad * 2 * torch.rsqrt(1 + z) * root
        by_log = by_gap * gap / 2  # gap · d/dgap is twice f · d/df
        by_f = by_log.sum(-1, keepdim=True) / f if ctx.needs_input_grad[1] else None
        by_g = by_log.sum(-2, keepdim=True) / g if ctx.needs_input_grad[2] else None
        by_c = None
        if ctx.needs_input_grad[3]:
            with torch.enable_grad():
                minus = (-z).requires_grad_()
                (slope,) = torch.autograd.grad(hm.arsin_ratio(minus).sum(), minus)
            by_c = (grad * -2 * s**3 * slope).sum().reshape(c.shape)
        return by_gap, by_f, by_g, by_c
