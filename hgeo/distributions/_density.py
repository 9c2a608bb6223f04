"""Logarithms of densities of a normal vector that an exponential map has carried onto a curved space."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import hgeo.math as hm

__all__ = ["log_sin_ratio", "log_wrapped_normal"]

_TURNS = 3  # how often a normal vector is followed around a sphere, in both directions
# At the centre and opposite to it all geodesics meet that go around the sphere. The density is infinite there, on a set
# without mass. To keep it finite, the sine it is divided by is at least this.
_LEAST_SINE = 1e-3


def log_sin_ratio(z: Tensor) -> Tensor:
    """log of sin_k(r)/r at z = k r²: log(sinh(s)/s) with s = √-z for z < 0, 0 at 0, log(sin(√z)/√z) for z > 0.

    >>> log_sin_ratio(torch.tensor([-1e6, -1.0, 0.0, 1.0]))
    tensor([ 9.9240e+02,  1.6144e-01,  0.0000e+00, -1.7260e-01])
    """
    far = z < -1
    s = torch.sqrt(torch.where(far, -z, 1.0))
    long = s + torch.log1p(-torch.exp(-2 * s)) - math.log(2) - torch.log(s)
    # sin(√z)/√z of the nearer half: its series has all digits at 0, and so has the logarithm
    near = hm.sin_ratio(torch.where(far, 0.0, z)).clamp(min=_LEAST_SINE / math.pi)
    return torch.where(far, long, torch.log(near))


def log_wrapped_normal(v: Tensor, scale: Tensor, k: Tensor) -> Tensor:
    """Log density, against the Riemannian volume, of exp(v) for a normal vector v with standard deviations ``scale``.

    ``v`` (..., d) leads to the point by the shortest way, of length r. Where k > 0 other vectors lead there, too, once
    or more often around the sphere: of lengths r + 2πm/√k, negative ones in the opposite direction.
    """
    d = v.shape[-1]
    squared = (v * v).sum(-1, keepdim=True)
    constant = -torch.log(scale).sum(-1, keepdim=True) - d / 2 * math.log(2 * math.pi)
    straight = constant - (v / scale).square().sum(-1, keepdim=True) / 2 - (d - 1) * log_sin_ratio(k * squared)
    curved = k > 0
    root = torch.sqrt(torch.where(curved, k, 1.0))
    # The precision in the direction of v, which at v = 0 has none: there it is the mean one.
    precision = 1 / (scale * scale)
    small = 1e-6 / (root * root)
    along = (v * v * precision).sum(-1, keepdim=True) + small * precision.mean(-1, keepdim=True)
    along = along / (squared + small)
    turns = torch.tensor([m for m in range(-_TURNS, _TURNS + 1) if m], dtype=v.dtype, device=v.device)
    r = hm.safe_sqrt(squared)
    lengths = r + turns * (2 * math.pi / root)
    spread = torch.log(root * lengths.abs()) - torch.log(torch.sin(root * r).abs().clamp(min=_LEAST_SINE))
    around = constant - along * lengths * lengths / 2 + (d - 1) * spread
    return torch.logsumexp(torch.cat([straight, torch.where(curved, around, -math.inf)], dim=-1), dim=-1)
