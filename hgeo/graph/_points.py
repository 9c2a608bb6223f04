"""Points of constant curvature, computed from tangent rows u at the origin: p = exp0(u), kept inside the rim."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hgeo import math as hm

__all__ = ["limited", "points_and_flatness", "sine_and_cosine"]


def limited(u: Tensor, k: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows (N, H, d) of the points that ``dtype`` has: rows farther out are shortened, as hgeo.math.project does.

    ``k`` is (H,). Only a negative curvature has such a limit.
    """
    margin = hm.boundary_margin(dtype)
    limit, rim = math.atanh(1 - margin), math.atanh(1 - 1.5 * margin)
    squared = -k * u.square().sum(-1)
    outside = squared > limit**2
    factor = rim * torch.rsqrt(torch.where(outside, squared, 1.0))
    return torch.where(outside.unsqueeze(-1), u * factor.unsqueeze(-1), u)


def points_and_flatness(u: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """p = exp0(u) (N, H, d), and 1 + k|p|² = 1/cos_k²|u| (N, H), which p itself knows badly near the rim."""
    z = k * u.square().sum(-1)
    return hm.tan_ratio(z).unsqueeze(-1) * u, hm.cos_ratio(z).square().reciprocal()


def sine_and_cosine(u: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """S = sin_k(|u|) u/|u| (N, H, d) and C = cos_k|u| (N, H), so that p = S/C."""
    z = k * u.square().sum(-1)
    return hm.sin_ratio(z).unsqueeze(-1) * u, hm.cos_ratio(z)
