r"""Isometries between the models of one curved space.

The hyperboloid of curvature -c is {X : -X₀² + |X'|² = -1/c, X₀ > 0}, time first; the sphere of curvature k is
{X : |X|² = 1/k} with its pole on the first axis; Klein's ball is the gnomonic picture of the hyperboloid.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hgeo.math._contract import Curvature, geometry

__all__ = [
    "ball_to_klein",
    "ball_to_lorentz",
    "klein_to_ball",
    "lorentz_to_ball",
    "sphere_to_stereo",
    "stereo_to_sphere",
]


def _squared(x: Tensor) -> Tensor:
    return (x * x).sum(-1, keepdim=True)


def _root(value: Curvature) -> Curvature:
    return torch.sqrt(value) if isinstance(value, Tensor) else value**0.5


@geometry
def ball_to_lorentz(x: Tensor, *, c: Curvature) -> Tensor:
    """Poincaré ball -> hyperboloid of curvature -c, c > 0: X' = λx, X₀ = (λ - 1)/√c.

    >>> ball_to_lorentz(torch.zeros(2), c=1.0)
    tensor([1., 0., 0.])
    """
    squared = _squared(x)
    lam = 2 / (1 - c * squared)
    time = (1 + c * squared) * lam / (2 * _root(c))
    return torch.cat([time, lam * x], dim=-1)


@geometry
def lorentz_to_ball(x: Tensor, *, c: Curvature) -> Tensor:
    """Hyperboloid -> Poincaré ball: X'/(1 + √c X₀)."""
    return x[..., 1:] / (1 + _root(c) * x[..., :1])


@geometry
def ball_to_klein(x: Tensor, *, c: Curvature) -> Tensor:
    """Poincaré ball -> Klein ball: 2x/(1 + c|x|²)."""
    return 2 * x / (1 + c * _squared(x))


@geometry
def klein_to_ball(x: Tensor, *, c: Curvature) -> Tensor:
    """Klein ball -> Poincaré ball: x/(1 + √(1 - c|x|²))."""
    return x / (1 + torch.sqrt(1 - c * _squared(x)))


@geometry
def stereo_to_sphere(x: Tensor, *, k: Curvature) -> Tensor:
    """Projected sphere -> embedded sphere of radius 1/√k, k > 0: X' = λx, X₀ = (λ - 1)/√k."""
    squared = _squared(x)
    lam = 2 / (1 + k * squared)
    pole = (1 - k * squared) * lam / (2 * _root(k))
    return torch.cat([pole, lam * x], dim=-1)


@geometry
def sphere_to_stereo(x: Tensor, *, k: Curvature) -> Tensor:
    """Embedded sphere -> projected sphere: X'/(1 + √k X₀). The pole opposite to the origin goes to infinity."""
    pole, rest = _root(k) * x[..., :1], x[..., 1:]
    # Near the opposite pole 1 + √k X₀ cancels; it equals k|X'|²/(1 - √k X₀) there.
    below = pole < 0
    height = torch.where(below, k * _squared(rest) / torch.where(below, 1 - pole, 1.0), 1 + pole)
    return rest / height
